"""The server starts, answers, refuses, and stops."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from running import Process, Running, clean_environment
from rushes import config, queue_report, settings
from shell import everything_below
from web import library


def test_probes_answer_without_signing_in(either_server: Running) -> None:
    with either_server.client(None, base_url=either_server.url) as nobody:
        assert nobody.get("/livez").json() == {"status": "ok"}
        assert nobody.get("/readyz").json()["database"] is True
        assert nobody.get("/health").json()["pending_jobs"] == 0
        assert "rushes_workers" in nobody.get("/metrics").text
        assert nobody.get("/api/health").status_code == 401


def test_recovered_and_given_up_jobs_are_counted(either_server: Running) -> None:
    rushes = either_server.rushes

    def lose(job_id: str) -> None:
        """As if its worker had been gone for long."""
        held = library.claim(either_server, "demo")
        assert held.job_id == job_id
        rushes.db.run(lambda tx: rushes.queue.fail_lost_of(tx, ""))

    def settled() -> tuple[int, ...]:
        rushes.chores.number_events()
        # Nobody waits until the figures of before are old enough.
        either_server.services.totals = queue_report.Totals()
        answer = nobody.get("/health").json()
        names = ("stale_jobs_recovered", "retries_exceeded", "failed_jobs")
        return tuple(answer[name] for name in names)

    with either_server.client(None, base_url=either_server.url) as nobody:
        assert settled() == (0, 0, 0)
        job_id = library.enqueue(either_server, "ada", max_attempts=2)
        rushes.dispatch.release(library.claim(either_server, "demo"))
        assert settled() == (0, 0, 0)
        lose(job_id)
        assert settled() == (1, 0, 0)
        lose(job_id)
        assert settled() == (1, 1, 1)
        # It could not have worked: nobody would have tried it again.
        library.enqueue(either_server, "ada", max_attempts=2)
        held = library.claim(either_server, "demo")
        rushes.dispatch.fail(held, "permanent", "damaged", "the file is damaged")
        assert settled() == (1, 1, 2)
        metrics = nobody.get("/metrics").text
        assert 'rushes_stale_jobs_recovered_total{kind="demo"} 1.0' in metrics
        assert 'rushes_job_retries_exceeded_total{kind="demo"} 1.0' in metrics
        assert 'rushes_jobs_finished_total{kind="demo",outcome="failed"} 2.0' in metrics


def test_the_storage_tells_how_large_it_is(server: Running) -> None:
    with server.client(base_url=server.url) as admin:
        storage = admin.get("/api/health").json()["storage"]
        assert 0 < storage["free_bytes"] < storage["total_bytes"]
        assert storage["total_bytes"] == shutil.disk_usage(server.settings.data_dir).total


def test_the_api_is_the_same_under_its_short_name(server: Running) -> None:
    with server.client(base_url=server.url) as admin:
        assert admin.get("/api/media").json() == {"items": [], "next_cursor": None}
        assert admin.get("/api/v1/media").json() == {"items": [], "next_cursor": None}
        assert admin.get("/api/health").json()["status"] == "ok"


def test_errors_are_problems_with_a_code(server: Running) -> None:
    with server.client() as admin, server.client(None) as nobody:
        missing = admin.get("/media/med_00000000000000000000000000000000")
        assert missing.status_code == 404
        assert missing.headers["content-type"] == "application/problem+json"
        assert missing.json()["code"] == "not_found"
        assert missing.json()["request_id"] == missing.headers["x-request-id"]
        assert admin.get("/media?limit=0").json()["errors"][0]["field"] == "limit"
        assert nobody.get("/media").status_code == 401
        assert admin.get("/nothing").json()["code"] == "not_found"
        assert admin.put("/media").json()["code"] == "method_not_allowed"
        assert admin.post("/tokens", json={"name": "x", "color": "red"}).status_code == 422


def test_a_second_server_on_the_same_data_is_refused_with_a_sentence(
    process: Callable[..., Process],
) -> None:
    first = process()
    second = subprocess.run(
        [sys.executable, "-m", "rushes", "serve"],
        env={**clean_environment(), **first.environment, "RUSHES_PORT": "0"},
        cwd=first.data_dir,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 4
    assert "another server is using this data directory" in second.stderr
    assert "Traceback" not in second.stderr


def test_it_logs_its_engine_and_the_old_names_it_does_not_read(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {
        "VLOG_MAX_RETRY_ATTEMPTS": "5",
        "VLOG_WORKER_ADMIN_SECRET": "an-old-secret-of-theirs",
        "VLOG_THEME": "dark",
        "SPEECH_ENGINE_PROVIDER": "cpu",
        "TRANSCRIPTION_WORKERS": "3",
        "TRANSCRIPTION_OF_SOMEBODY_ELSE": "1",
    }
    for name, value in old.items():
        monkeypatch.setenv(name, value)
    server = process(engine_threads=3, engine_device="cpu", transcription_workers=0)
    log = server.log.read_text()
    [warning] = [line for line in log.splitlines() if "VLOG_MAX_RETRY_ATTEMPTS" in line]
    assert "VLOG_MAX_RETRY_ATTEMPTS (set RUSHES_MAX_ATTEMPTS)" in warning
    assert "SPEECH_ENGINE_PROVIDER (set RUSHES_ENGINE_DEVICE)" in warning
    assert "TRANSCRIPTION_WORKERS (set RUSHES_TRANSCRIPTION_WORKERS)" in warning
    assert "VLOG_THEME (no such)" in warning
    assert "SOMEBODY_ELSE" not in log
    assert "an-old-secret-of-theirs" not in log
    [engine] = [line for line in log.splitlines() if "speech engine local" in line]
    for fact in ("device cpu (cpu)", "threads 3", "max loaded 2", "auto download off"):
        assert fact in engine, fact
    assert "models in " in engine


def test_every_old_name_has_a_setting_that_means_the_same() -> None:
    assert set(config.OLD_NAMES.values()) <= set(settings.FIELDS)
    assert config.about_old_names({"RUSHES_TRANSCRIPTION_WORKERS": "1", "PATH": "/bin"}) is None


def test_it_prints_its_address_and_a_link_that_signs_in_once(
    process: Callable[..., Process],
) -> None:
    server = process()
    printed = server.log.read_text()
    assert f"Rushes is running at {server.url}" in printed
    link = next(word for word in printed.split() if "/sign-in?token=" in word)
    with server.client(None, base_url=server.url) as browser:
        secret = {"token": link.partition("token=")[2]}
        # Whoever only looks, such as a program that previews links, does not use it up.
        for _ in range(2):
            seen = browser.get(link, headers={"Sec-Fetch-Site": "cross-site"})
            assert (seen.status_code, "set-cookie" in seen.headers) == (200, False)
        answer = browser.post("/api/v1/session/link", json=secret)
        assert answer.status_code == 201
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert browser.get("/api/v1/session").json()["name"] == "admin"
        assert '<div id="app">' in browser.get("/").text
    with server.client(None, base_url=server.url) as thief:
        assert thief.post("/api/v1/session/link", json=secret).status_code == 401
        assert thief.get("/api/v1/session").status_code == 401
    server.stop()
    server.start()
    # Somebody has signed in: what is printed at every start ends up in logs.
    again = server.log.read_text().removeprefix(printed)
    assert "/sign-in?token=" not in again
    assert "Sign in as admin. " in again
    assert "rushes users link admin" in again


def test_it_stops_when_it_is_asked_to(process: Callable[..., Process]) -> None:
    server = process()
    assert server.stop() == 0
    assert not (server.data_dir / "server.json").exists()
    server.start()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20) == 0


def test_a_taken_port_is_a_sentence(process: Callable[..., Process]) -> None:
    first = process()
    other = first.data_dir.parent / "other"
    second = subprocess.run(
        [sys.executable, "-m", "rushes", "serve"],
        env={**clean_environment(), **first.environment, "RUSHES_DATA_DIR": str(other)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 2
    assert "cannot listen" in second.stderr
    assert f"RUSHES_PORT={first.port + 1}" in second.stderr


def test_what_it_keeps_is_nobody_elses_to_read(process: Callable[..., Process]) -> None:
    """Though its directory was there before, for everybody to look into."""
    server = process()
    server.data_dir.chmod(0o755)
    server.stop()
    server.start()
    with server.client() as admin:
        sent = admin.post(
            "/media", files={"file": ("a.wav", b"RIFF\0\0\0\0WAVEfmt " + bytes(5_000))}
        )
        assert sent.status_code == 201, sent.text
    ours = everything_below(server.data_dir)
    open_to_others = [each for each, known in ours.items() if known.st_mode & 0o077]
    assert open_to_others in ([], [server.log])
    assert "chmod 700" in server.log.read_text()
