"""Hints: a waiting claim is answered when a job comes, not when the poll does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

import world as worlds
from proxy import Proxy
from running import Running
from rushes import Rushes, config, inotify, wakeup
from rushes.db.database import Database
from rushes.protocol import Hello
from rushes.worker.loop import Handler

FOREVER = 3_600.0


@pytest.fixture
def settings(tmp_path: Path) -> config.Settings:
    """A poll so slow that only a hint can explain an answer."""
    return config.load({"RUSHES_POLL_INTERVAL": "60", "RUSHES_DATA_DIR": str(tmp_path)})


@pytest.fixture
def rushes(database_url: str, settings: config.Settings) -> Iterator[Rushes]:
    with Rushes(database_url, settings=settings) as opened:
        opened.handler("noop")(lambda job: None)
        yield opened


def bell_of(db: Database) -> wakeup.PostgresWakeup:
    return wakeup.PostgresWakeup(db.connect, "rushes_jobs", watch=db.deadlines.watch)


def waiting_claim(rushes: Rushes) -> tuple[threading.Thread, list[str]]:
    """A claim that has looked once, found nothing, and waits."""
    looked = threading.Event()
    found: list[str] = []
    bell = rushes.bell
    real_wait = bell.wait

    def wait(mark: int, timeout_seconds: float) -> bool:
        looked.set()
        return real_wait(mark, timeout_seconds)

    bell.wait = wait  # type: ignore[method-assign]
    coordinator = rushes.worker().coordinator
    coordinator.hello(Hello(kinds=["noop"]))
    thread = threading.Thread(
        target=lambda: found.extend(each.job_id for each in coordinator.claim(1, 30))
    )
    thread.start()
    assert looked.wait(10)
    return thread, found


def test_a_job_of_the_same_process_wakes_a_waiting_claim(rushes: Rushes) -> None:
    thread, found = waiting_claim(rushes)
    job = rushes.enqueue("noop")
    thread.join(20)
    assert found == [job.id]


def test_a_job_inside_a_callers_transaction_wakes_with_its_commit(rushes: Rushes) -> None:
    thread, found = waiting_claim(rushes)
    with rushes.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE mine (id integer)"))
        job = rushes.enqueue("noop", connection=connection)
        assert found == []
    thread.join(20)
    assert found == [job.id]


def test_a_job_of_another_process_wakes_by_notify(settings: config.Settings) -> None:
    with (
        worlds.postgres_database() as url,
        Rushes(url, settings=settings) as here,
        Rushes(url, settings=settings) as there,
    ):
        here.handler("noop")(lambda job: None)
        thread, found = waiting_claim(here)
        job = there.enqueue("noop")
        thread.join(20)
        assert found == [job.id]


# A program that has nothing to do with the one that works, but for the database.
SENDER = """
import sys
from rushes import Rushes
with Rushes(sys.argv[1]) as rushes:
    print(rushes.enqueue("noop").id)
"""


def sent_by_another_process(database_url: str) -> str:
    command = [sys.executable, "-c", SENDER, database_url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def sqlite_in(directory: Path) -> str:
    return f"sqlite:///{directory / 'rushes.db'}"


@pytest.mark.parametrize("tells", ["inotify", "nothing"])
def test_a_job_of_another_process_wakes_on_sqlite(
    tmp_path: Path, settings: config.Settings, monkeypatch: pytest.MonkeyPatch, tells: str
) -> None:
    """Also where no system tells of changes in files."""
    if tells == "nothing":
        monkeypatch.setattr(inotify, "open_watch", lambda: None)
    with Rushes(sqlite_in(tmp_path), settings=settings) as rushes:
        rushes.handler("noop")(lambda job: None)
        thread, found = waiting_claim(rushes)
        job_id = sent_by_another_process(sqlite_in(tmp_path))
        thread.join(20)
        assert found == [job_id]


def test_a_server_runs_at_once_what_another_process_puts_into_its_sqlite_file(
    tmp_path: Path,
) -> None:
    ran = threading.Event()
    table = {"noop": Handler(lambda job: ran.set())}
    with Running(table, data_dir=tmp_path, poll_interval=FOREVER) as server:
        sent_by_another_process(server.settings.database_url)
        assert ran.wait(20)


def test_the_bell_is_heard_again_after_its_file_was_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "rushes.db-bell"
    here, there = wakeup.FileWakeup(file), wakeup.FileWakeup(file)
    # It rings once by itself, as soon as it listens, which may be before we look.
    here.mark()
    assert here.wait(0, 20)
    mark = here.mark()
    file.unlink()
    assert here.wait(mark, 20), "it has not noticed"
    mark = here.mark()
    there.ring()
    assert here.wait(mark, 20)
    assert file.stat().st_mode & 0o077 == 0
    here.close()
    there.close()


def test_a_bell_that_cannot_be_written_rings_here_all_the_same(tmp_path: Path) -> None:
    bell = wakeup.FileWakeup(tmp_path / "nowhere" / "rushes.db-bell")
    mark = bell.mark()
    bell.ring()
    assert bell.wait(mark, FOREVER)
    bell.close()


def test_resuming_a_paused_queue_wakes(rushes: Rushes) -> None:
    rushes.pause()
    job = rushes.enqueue("noop")
    thread, found = waiting_claim(rushes)
    rushes.resume()
    thread.join(20)
    assert found == [job.id]


def test_a_ring_between_looking_and_waiting_is_not_missed() -> None:
    bell = wakeup.InProcessWakeup()
    mark = bell.mark()
    bell.ring()
    assert bell.wait(mark, FOREVER)
    assert not bell.wait(bell.mark(), 0)


def test_the_listener_comes_back_after_its_connection_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wakeup, "RECONNECT_SECONDS", 0.01)
    with worlds.postgres_database() as url:
        bell = bell_of(Database(url))
        mark = bell.mark()
        assert bell.wait(mark, 20)
        mark = bell.mark()
        with psycopg.connect(Database(url).conninfo, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
        assert bell.wait(mark, 20)
        bell.close()


def test_the_listener_comes_back_when_its_connection_has_gone_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wakeup, "RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(wakeup, "LISTEN_SECONDS", 0.05)
    monkeypatch.setattr(wakeup, "CHECK_SECONDS", 0.1)
    with worlds.postgres_database() as url:
        real = sa.make_url(url)
        assert real.port is not None
        with Proxy(real.port) as proxy:
            proxy.open()
            db = Database(real.set(port=proxy.port).render_as_string(hide_password=False))
            db.deadlines.seconds = 0.5
            bell = bell_of(db)
            assert bell.wait(bell.mark(), 20)
            mark = bell.mark()
            proxy.silence()
            # Connections that are made from now on work, and those that were made do not.
            proxy.speak()
            assert bell.wait(mark, 20), "nothing has told it that nobody is there"
            mark = bell.mark()
            with psycopg.connect(Database(url).conninfo, autocommit=True) as another:
                another.execute("NOTIFY rushes_jobs")
            assert bell.wait(mark, 20)
            bell.close()


@pytest.mark.parametrize("trouble", [ValueError("never expected"), OSError(24, "too many files")])
def test_the_listener_goes_on_after_what_nobody_expected(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(wakeup, "RECONNECT_SECONDS", 0.01)
    with worlds.postgres_database() as url:
        db = Database(url)
        troubles = iter([trouble])

        def connect() -> psycopg.Connection:
            for each in troubles:
                raise each
            return db.connect()

        bell = wakeup.PostgresWakeup(connect, "rushes_jobs", watch=db.deadlines.watch)
        assert bell.wait(bell.mark(), 20)
        bell.close()


def test_what_was_rung_is_told_before_closing(settings: config.Settings) -> None:
    with worlds.postgres_database() as url:
        db = Database(url)
        with psycopg.connect(db.conninfo, autocommit=True) as listener:
            listener.execute("LISTEN rushes_jobs")
            bell = bell_of(db)
            bell.ring()
            bell.close()
            assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1


def test_waiting_ends_with_the_time() -> None:
    started = time.monotonic()
    assert not wakeup.InProcessWakeup().wait(0, 0.01)
    assert time.monotonic() - started < FOREVER
