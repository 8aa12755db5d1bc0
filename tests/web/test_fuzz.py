"""Requests nobody would make by hand: whatever comes, the server answers and stays up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from running import ADMIN_TOKEN, Running

EXAMPLES = os.environ.get("RUSHES_TEST_FUZZ_EXAMPLES", "2")
# Endless answers have tests of their own.
ENDLESS = "/api/v1/(events|worker/claim)$|/logs$"
# Bodies of plain bytes, which the fuzzer cannot make; tus has tests of its own.
BYTES = "/api/v1/(uploads|worker/artifacts/.*/.name.)"


@pytest.mark.parametrize("role", ["admin", "worker"])
def test_no_request_makes_the_server_fail(server: Running, role: str, tmp_path: Path) -> None:
    key = ADMIN_TOKEN if role == "admin" else server.worker_key()
    include = ["--include-path-regex", "^/api/v1/worker/"] if role == "worker" else []
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/api/v1/openapi.json",
        "-H",
        f"Authorization: Bearer {key}",
        "--max-examples",
        EXAMPLES,
        "--phases",
        "fuzzing",
        "--checks",
        "not_a_server_error",
        "--exclude-path-regex",
        f"{ENDLESS}|{BYTES}",
        "--seed",
        "7",
        "--request-timeout",
        "20",
        "--no-color",
        *include,
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert run.returncode == 0, run.stdout[-6000:].replace(key, "…") + run.stderr[-2000:]
    with server.client(base_url=server.url) as admin:
        assert admin.get("/readyz").json()["status"] == "ok"
