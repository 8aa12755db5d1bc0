"""`rushes worker` as a process: it joins, works, is told to leave, and outlives its server."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import otlp
from running import ADMIN_SECRET, Process, Running, free_port
from rushes import correlation
from shell import Command, Shell, until

KINDS = "worker_kinds"


@dataclass
class Job:
    """A job that tells when it runs, and runs until it is let go."""

    id: str
    started: Path
    go: Path

    def wait_until_started(self) -> None:
        until(self.started.exists)


@pytest.fixture
def enqueue(tmp_path: Path) -> Callable[..., Job]:
    def enqueue(server: Running, kind: str = "hold", number: int = 1) -> Job:
        started, go = tmp_path / f"started-{number}", tmp_path / f"go-{number}"
        args = {"started": started.name, "go": go.name}
        return Job(server.rushes.enqueue(kind, args).id, started, go)

    return enqueue


def start(command: Callable[..., Command], server: Running | Process, **given: Any) -> Command:
    """A worker with a key of its own."""
    if "worker_key" not in given:
        given["worker_key"] = server.worker_key()
    return command("worker", server=server.url, **{"handlers": KINDS, **given})


def ended(server: Running, job_id: str) -> bool:
    return server.rushes.job(job_id).state in ("completed", "failed", "canceled")


def remotes(server: Running) -> list[Any]:
    return [each for each in server.rushes.workers() if each.name == "remote"]


# Working


def test_it_does_the_work_without_any_database_code(
    server: Running, command: Callable[..., Command]
) -> None:
    job_id = server.rushes.enqueue("echo", {"say": "hello"}, needs=["cpu", "big-disk"]).id
    other_id = server.rushes.enqueue("hold").id
    command(
        *("worker", "--server", server.url, "--handlers", KINDS, "--kinds", "echo"),
        *("--capability", "big-disk"),
        worker_key=server.worker_key("lab"),
    )
    until(lambda: ended(server, job_id))
    assert server.rushes.job(job_id).result == {"said": "hello", "database": False}
    assert server.rushes.job(other_id).state == "queued"
    lab = next(each for each in server.rushes.workers() if each.name == "lab")
    assert (lab.kinds, lab.capabilities) == (["echo"], ["big-disk", "cpu"])
    assert lab.metadata["cores"] >= 1
    assert lab.metadata["memory_bytes"] > 2**20
    assert lab.metadata["version"] == "0.1.0"


def test_its_log_and_its_spans_tell_which_job_they_are_about(
    server: Running, command: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_id = "0123456789abcdef" * 2
    with otlp.receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        with correlation.bound(trace=f"00-{trace_id}-00000000000000aa-01"):
            # It has no file to tell by, and so it fails.
            job_id = server.rushes.enqueue("hold", {}, max_attempts=1).id
        worker = start(command, server)
        until(lambda: ended(server, job_id))
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    [run] = received.spans
    assert (run.service, run.name, run.failed) == ("rushes-worker", "run hold", True)
    assert (run.trace_id, run.parent_id) == (trace_id, "00000000000000aa")
    lines = [json.loads(line) for line in worker.err.splitlines()]
    [failed] = [each for each in lines if each["message"] == "a handler failed"]
    [me] = remotes(server)
    assert (failed["job_id"], failed["worker_id"]) == (job_id, me.id)
    assert failed["trace_id"] == trace_id


def test_without_a_speech_engine_it_leaves_transcribing_to_others(
    server: Running, command: Callable[..., Command], shell: Shell
) -> None:
    """A job that it took would fail for good, while another worker may have all it needs."""
    worker = start(command, server, worker_key=server.worker_key("deaf"), engine="openai")
    worker.wait_for("nothing is transcribed here: RUSHES_ENGINE_URL is not set")

    def kinds() -> list[str]:
        return next(each.kinds for each in server.rushes.workers() if each.name == "deaf")

    until(kinds)
    assert "transcode" in kinds()
    assert "transcribe" not in kinds()
    shell.set(engine="openai", worker_key="wk_1", server=server.url)
    assert shell.run("worker", "--kinds", "transcribe") == 2
    assert "nothing can be transcribed here: RUSHES_ENGINE_URL is not set" in shell.err


def test_it_beats_as_often_as_the_server_wants(
    serve: Callable[..., Running], command: Callable[..., Command], enqueue: Callable[..., Job]
) -> None:
    server = serve(claim_duration=3, heartbeat_interval=0.1)
    job = enqueue(server)
    start(command, server)
    job.wait_until_started()
    seen: set[int | None] = set()

    def renewed_often() -> bool:
        seen.add(server.rushes.job(job.id).claim_expires_at)
        return len(seen) > 4

    until(renewed_often)
    job.go.touch()
    until(lambda: ended(server, job.id))
    assert server.rushes.job(job.id).result == {"attempt": 1}


# Leaving


@pytest.mark.parametrize("kind", ["hold", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gentle_stop_gives_the_job_back_uncounted(
    kind: str,
    number: signal.Signals,
    server: Running,
    command: Callable[..., Command],
    enqueue: Callable[..., Job],
) -> None:
    job = enqueue(server, kind)
    worker = start(command, server)
    job.wait_until_started()
    worker.signal(number)
    assert worker.wait() == 0, worker.err
    given_back = server.rushes.job(job.id)
    assert (given_back.state, given_back.attempt, given_back.error_code) == ("queued", 0, None)
    [execution] = server.rushes.executions(job.id)
    assert execution.outcome == "released"


def test_an_idle_worker_leaves_at_once(server: Running, command: Callable[..., Command]) -> None:
    worker = start(command, server)
    until(lambda: any(each.last_seen_at for each in remotes(server)))
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.err


def test_a_second_signal_ends_it_now(
    process: Callable[..., Process], command: Callable[..., Command], tmp_path: Path
) -> None:
    """The server is away, so that giving the job back takes its time."""
    server = process(handlers="")
    started = tmp_path / "started"
    worker = start(command, server)
    add(server, "deaf", {"started": "started", "go": "go"})
    until(started.exists)
    server.kill()
    worker.signal(signal.SIGTERM)
    worker.wait_for("asked to leave")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == -signal.SIGTERM


# The server


def add(server: Process, kind: str, args: dict[str, str]) -> str:
    """As another process on the same database would."""
    from rushes import Rushes

    with Rushes(f"sqlite:///{server.data_dir}/rushes.db") as rushes:
        return rushes.enqueue(kind, args).id


def job_of(server: Process, job_id: str) -> Any:
    with server.client() as admin:
        return admin.get(f"/jobs/{job_id}").json()


def test_a_server_that_dies_under_a_job_gets_its_result_when_it_is_back(
    process: Callable[..., Process], command: Callable[..., Command], tmp_path: Path
) -> None:
    server = process(heartbeat_interval=0.5)
    started, go = tmp_path / "started", tmp_path / "go"
    worker = start(command, server)
    job_id = add(server, "hold", {"started": "started", "go": "go"})
    until(started.exists)
    server.kill()
    worker.wait_for("cannot reach the queue")
    go.touch()
    server.start()
    until(lambda: job_of(server, job_id)["state"] == "completed")
    job = job_of(server, job_id)
    assert (job["attempt"], job["claims"], job["result"]) == (1, 1, {"attempt": 1})
    assert worker.err.count("cannot reach the queue") == 1
    worker.wait_for("the queue answers again")


def test_a_server_that_is_not_there_yet_is_waited_for(
    process: Callable[..., Process], command: Callable[..., Command], tmp_path: Path
) -> None:
    port = free_port()
    server = process(port=port)
    key = server.worker_key()
    job_id = add(server, "echo", {"say": "hello"})
    server.kill()
    worker = start(command, server, worker_key=key)
    worker.wait_for("cannot reach the queue")
    server.start()
    until(lambda: job_of(server, job_id)["state"] == "completed")
    assert worker.err.count("cannot reach the queue") == 1


def test_a_revoked_key_ends_it_with_a_sentence(
    serve: Callable[..., Running], command: Callable[..., Command], enqueue: Callable[..., Job]
) -> None:
    server = serve(heartbeat_interval=0.1)
    job = enqueue(server)
    worker = start(command, server)
    job.wait_until_started()
    with server.client() as admin:
        [lab] = [each for each in admin.get("/workers").json()["items"] if each["keys"]]
        gone = admin.delete(f"/workers/{lab['id']}/keys/{lab['keys'][0]['prefix']}")
        assert gone.status_code == 204
    assert worker.wait() == 4
    said = worker.err.splitlines()[-1]
    assert said.startswith("rushes: the server does not accept this worker's key (any more)")
    assert "rushes_wrk_" not in worker.err


# Getting in


def test_a_join_code_works_once_and_the_key_is_kept(
    server: Running, command: Callable[..., Command], tmp_path: Path
) -> None:
    with server.client() as admin:
        code = admin.post("/workers/invite", json={"name": "gpu-box"}).json()["code"]
    asked = ("worker", "--server", server.url, "--join", code)
    first = command(*asked, handlers=KINDS, data_dir=tmp_path / "worker")
    job_id = server.rushes.enqueue("echo").id
    until(lambda: ended(server, job_id))
    assert server.rushes.job(job_id).processed_by_worker_name == "gpu-box"
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    kept = tmp_path / "worker" / "worker.key"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["key"] not in first.err
    again = command(*asked, handlers=KINDS, data_dir=tmp_path / "other")
    assert again.wait() == 4
    assert "this join code was used" in again.err
    command("worker", handlers=KINDS, data_dir=tmp_path / "worker")
    job_id = server.rushes.enqueue("echo").id
    until(lambda: ended(server, job_id))
    assert server.rushes.job(job_id).processed_by_worker_name == "gpu-box"
    assert [each.name for each in server.rushes.workers()].count("gpu-box") == 1


def test_the_admin_secret_gets_a_key_once_and_is_not_needed_to_work(
    server: Running, shell: Shell, command: Callable[..., Command]
) -> None:
    shell.set(server=server.url, data_dir=shell.directory / "pod")
    assert shell.run("worker", "--register", "--name", "pod-1") == 2
    assert "set RUSHES_ADMIN_SECRET" in shell.err
    shell.set(admin_secret="wrong")
    assert shell.run("worker", "--register", "--name", "pod-1") == 4
    assert not (shell.directory / "pod" / "worker.key").exists()
    shell.set(admin_secret=ADMIN_SECRET)
    for _ in "twice":
        assert shell.run("worker", "--register", "--name", "pod-1") == 0, shell.err
    assert [each.name for each in server.rushes.workers()].count("pod-1") == 1
    kept = shell.directory / "pod" / "worker.key"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert ADMIN_SECRET not in kept.read_text() + shell.out + shell.err
    command("worker", handlers=KINDS, data_dir=shell.directory / "pod")
    job_id = server.rushes.enqueue("echo").id
    until(lambda: ended(server, job_id))
    assert server.rushes.job(job_id).processed_by_worker_name == "pod-1"


def test_a_kept_key_is_not_told_to_another_server(shell: Shell, tmp_path: Path) -> None:
    (shell.directory / "data").mkdir()
    kept = '{"server": "http://one.example.org", "key": "canary-5e1f"}'
    (shell.directory / "data" / "worker.key").write_text(kept)
    shell.set(handlers=KINDS)
    assert shell.run("worker", "--server", "http://two.example.org") == 2
    assert "for http://one.example.org" in shell.err
    assert "canary" not in shell.err


def test_what_is_missing_is_said(shell: Shell) -> None:
    shell.set(handlers=KINDS)
    assert shell.run("worker") == 2
    assert shell.err.startswith("rushes: say which server to work for: ")
    shell.set(server="http://127.0.0.1:1")
    assert shell.run("worker") == 2
    assert shell.err.startswith("rushes: this worker has no key: ")
    assert shell.run("worker", "--kinds", "echo,dance") == 2
    assert shell.err == (
        "rushes: this worker has no handlers for dance; it has them for composite, deaf, echo,"
        " export, hold, prepare, span, transcode, transcribe, trim\n"
    )
    assert shell.run("worker", "--join", "4KQ7") == 3
    assert "cannot be reached" in shell.err
    assert shell.run("worker", "--handlers", "no_such_module") == 2
