"""The worker of examples/worker, which knows nothing of Rushes but what the guide says."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from proxy import Proxy
from running import Running, clean_environment
from rushes.jobs.job import Job
from rushes.media.media import CONTENT_TYPES
from rushes.protocol import VERBS
from rushes.web.api import worker_models
from rushes.web.http import ranges
from shell import until
from web import library

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "examples" / "worker" / "worker.py"
GUIDE = (ROOT / "docs" / "worker-protocol.md").read_text()
EXAMPLES = re.findall(r"<!-- example: (\w+)( answer)? -->\n```json\n(.*?)\n```", GUIDE, re.DOTALL)
SOURCE = bytes(range(256)) * 20
MADE = {"sha256": hashlib.sha256(SOURCE).hexdigest(), "size_bytes": len(SOURCE)}

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A process of the one worker; without site-packages, so that nothing but Python is there."""
    with ExitStack() as stack:

        def run(server: str, *code: str, **environment: str) -> subprocess.Popen[bytes]:
            with (tmp_path / "worker.log").open("ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(WORKER), server, *code],
                    env={**clean_environment(), **environment},
                    stderr=output,
                    cwd=tmp_path,
                )
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
            return process

        yield run


class Gate:
    """Where the worker's first report of progress waits, so that it is in the middle of a job."""

    def __init__(self, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()
        dispatch = server.rushes.dispatch
        monkeypatch.setattr(dispatch, "progress", self._held(dispatch.progress))

    def _held(self, progress: Callable[..., Any]) -> Callable[..., Any]:
        def hold(reports: Any) -> Any:
            if not self._reached.is_set():
                self._reached.set()
                self._opened.wait(60)
            return progress(reports)

        return hold

    def wait_for_worker(self) -> None:
        assert self._reached.wait(60)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def gate(server: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(server, monkeypatch)
    yield made
    made.open()


def add_job(server: Running) -> str:
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin), content=SOURCE)
        until(lambda: any("digest" in each["kinds"] for each in workers(admin)))
        job = admin.post(f"/media/{media_id}/jobs", json={"kind": "digest"})
        assert job.status_code == 202, job.text
        return str(job.json()["id"])


def workers(admin: Any) -> list[dict[str, Any]]:
    return list(admin.get("/workers").json()["items"])


def ended(server: Running, job_id: str) -> Job:
    until(lambda: server.rushes.job(job_id).state in ("completed", "failed", "canceled"))
    return server.rushes.job(job_id)


def test_a_worker_joins_and_does_a_job(
    serve: Callable[..., Running], storage_url: str, start: Start
) -> None:
    server = serve(storage_url=storage_url)
    with server.client() as admin:
        invite = admin.post("/workers/invite", json={"kinds": ["digest"]}).json()
        start(server.url, invite["code"])
        job = ended(server, add_job(server))
        assert (job.state, job.result, job.attempt) == ("completed", MADE, 1)
        there = f"/media/{job.media_id}/outputs/digest/digest.json"
        assert admin.get(there).json() == MADE
        lines = admin.get(f"/jobs/{job.id}/logs").text
        assert f"the source has {len(SOURCE)} bytes" in lines


def test_what_came_of_a_source_is_not_fetched_again(
    server: Running, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    from_storage = ranges.from_storage

    def begun(request: Request, *given: Any, **named: Any) -> Any:
        asked.append(request.headers.get("range"))
        if len(asked) == 1:
            request = Request({**request.scope, "headers": [(b"range", b"bytes=0-999")]})
        return from_storage(request, *given, **named)

    monkeypatch.setattr(ranges, "from_storage", begun)
    start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    assert ended(server, add_job(server)).result == MADE
    assert asked == ["bytes=0-", "bytes=1000-"]


def test_who_is_killed_and_starts_again_goes_on_at_once(
    server: Running, start: Start, gate: Gate
) -> None:
    key = server.worker_key()
    killed = start(server.url, RUSHES_WORKER_KEY=key)
    job_id = add_job(server)
    gate.wait_for_worker()
    killed.kill()
    killed.wait(20)
    assert server.rushes.job(job_id).state == "processing"
    start(server.url, RUSHES_WORKER_KEY=key)
    job = ended(server, job_id)
    assert (job.state, job.attempt) == ("completed", 2)


def test_who_is_to_leave_gives_the_job_back(server: Running, start: Start, gate: Gate) -> None:
    worker = start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job_id = add_job(server)
    gate.wait_for_worker()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    job = server.rushes.job(job_id)
    assert (job.state, job.attempt) == ("queued", 0)


def test_heartbeats_renew_the_lease(
    serve: Callable[..., Running], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(claim_duration=5, heartbeat_interval=0.1)
    gate = Gate(server, monkeypatch)
    start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job_id = add_job(server)
    gate.wait_for_worker()
    until(lambda: held_for_ms(server.rushes.job(job_id)) > 5200)
    gate.open()
    job = ended(server, job_id)
    assert (job.state, job.attempt, job.claims) == ("completed", 1, 1)


def held_for_ms(job: Job) -> int:
    assert job.claimed_at is not None
    assert job.claim_expires_at is not None
    return job.claim_expires_at - job.claimed_at


def test_who_has_lost_the_job_stops_and_takes_the_next(
    server: Running, start: Start, gate: Gate, tmp_path: Path
) -> None:
    start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job_id = add_job(server)
    gate.wait_for_worker()
    # As if its lease were over.
    server.rushes.db.run(lambda tx: server.rushes.queue.fail_lost_of(tx, "wrk_"))
    gate.open()
    job = ended(server, job_id)
    assert (job.state, job.attempt) == ("completed", 2)
    assert f"job {job_id} is lost" in (tmp_path / "worker.log").read_text()


def test_a_canceled_job_is_given_up(server: Running, start: Start, gate: Gate) -> None:
    start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job_id = add_job(server)
    gate.wait_for_worker()
    with server.client() as admin:
        assert admin.post(f"/jobs/{job_id}/cancel").json()["state"] == "processing"
    gate.open()
    assert ended(server, job_id).state == "canceled"


def test_who_starts_before_the_server_asks_again(
    server: Running, start: Start, tmp_path: Path
) -> None:
    with Proxy(server.settings.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        worker = start(url, RUSHES_WORKER_KEY=server.worker_key())
        until(lambda: "asking again" in (tmp_path / "worker.log").read_text())
        proxy.open()
        assert ended(server, add_job(server)).state == "completed"
        worker.kill()
        worker.wait(20)


def test_a_job_without_a_source_fails_for_good(server: Running, start: Start) -> None:
    start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job = ended(server, library.enqueue(server, "", "digest"))
    assert (job.state, job.error_code, job.attempt) == ("failed", "not_found", 1)


def test_a_key_that_is_none_ends_the_worker(server: Running, start: Start, tmp_path: Path) -> None:
    worker = start(server.url, RUSHES_WORKER_KEY="rw_nobody")
    assert worker.wait(20) == 1
    assert (
        "unauthorized: this is no worker's key, or not any more"
        in (tmp_path / "worker.log").read_text()
    )


def test_a_key_that_is_revoked_ends_the_worker(server: Running, start: Start, gate: Gate) -> None:
    worker = start(server.url, RUSHES_WORKER_KEY=server.worker_key())
    job_id = add_job(server)
    gate.wait_for_worker()
    with server.client() as admin:
        [here] = [each for each in workers(admin) if "digest" in each["kinds"]]
        [key] = here["keys"]
        there = f"/workers/{here['id']}/keys/{key['prefix']}"
        assert admin.delete(there).status_code == 204
    gate.open()
    assert worker.wait(20) == 1
    assert server.rushes.job(job_id).state == "processing"


@pytest.mark.parametrize(("name", "answer", "text"), EXAMPLES)
def test_what_the_guide_shows_is_what_is_said(name: str, answer: str, text: str) -> None:
    shown = json.loads(text)
    if answer:
        model = worker_models.reply(VERBS[name])
        assert shown.keys() == model.model_fields.keys()
    else:
        model = worker_models.Join if name == "join" else worker_models.request(VERBS[name])
    model.model_validate(shown)


def test_the_guide_shows_something_and_tells_how_files_may_be_called() -> None:
    assert len(EXAMPLES) == GUIDE.count("<!-- example") > 10
    assert f"`{' '.join(sorted(CONTENT_TYPES))}`" in GUIDE
