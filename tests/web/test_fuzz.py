"""Requests nobody would make by hand: whatever comes, the server answers as its document says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from running import Running
from web.callers import Callers

EXAMPLES = os.environ.get("RUSHES_TEST_FUZZ_EXAMPLES", "")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
# Endless answers have tests of their own.
ENDLESS = "/api/v1/(events|worker/claim)$|/logs$"


@pytest.mark.parametrize("role", ["admin", "writer", "worker"])
def test_whatever_is_asked_is_answered_as_documented(
    serve: Callable[..., Running], role: str, tmp_path: Path
) -> None:
    server = serve(transcode_workers=0, transcription_workers=0, transcription_wait=0.01)
    callers = Callers(server)
    key = callers.clients[role].headers["authorization"]
    paths = "^/api/v1/worker/" if role == "worker" else "^(?!/api/v1/worker/)"
    # With few examples the fuzzer still goes through the edges of every schema.
    more = ["--phases", "coverage,fuzzing,stateful", "--max-examples", EXAMPLES]
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/api/v1/openapi.json",
        *("-H", f"Authorization: {key}"),
        *("--checks", ",".join(CHECKS)),
        *("--include-path-regex", paths),
        *("--exclude-path-regex", ENDLESS),
        *(more if EXAMPLES else ["--phases", "fuzzing", "--max-examples", "2"]),
        *("--seed", "7"),
        *("--request-timeout", "20"),
        "--continue-on-failure",
        "--no-color",
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    known = {"RUSHES_TEST_FUZZ_IDS": json.dumps(ids(callers))}
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **hooks, **known},
        timeout=7200 if EXAMPLES else 200,
    )
    assert run.returncode == 0, run.stdout[-6000:].replace(key, "…") + run.stderr[-2000:]
    with server.client(base_url=server.url) as admin:
        assert admin.get("/readyz").json()["status"] == "ok"
    callers.close()


def ids(callers: Callers) -> dict[str, str]:
    """Something of Ada's for every parameter that names something."""
    job_id, _ = callers.resources.claim()
    return {
        "media_id": callers.resources.published("ada"),
        "job_id": job_id,
        "webhook_id": callers.resources.webhook("ada"),
        "upload_id": callers.resources.upload("ada"),
        "user_id": callers.ids["bob"],
        "worker_id": callers.ids["idle worker"],
        "token": callers.resources.share_token("ada"),
        "name": "720p/seg_1.m4s",
    }
