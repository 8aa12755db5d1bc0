"""A migration of a table with a million rows, while jobs are claimed from it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

import services
import world as worlds
from resilience.breakpoints import until
from rushes import errors, ids
from rushes.db import revisions, schema
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.jobs.job import NewJob
from rushes.jobs.queue import Queue
from rushes.jobs.terms import Claimant
from rushes.media import library
from rushes.protocol import Claim
from upgrades import releases

JOBS = 1_000_000
MANY_MORE = """
INSERT INTO jobs (id, kind, user_id, state, priority, lane, args, needs, created_at, queued_at,
  run_at, max_attempts)
SELECT 'job_1' || (10000000 + n), kind, user_id, state, priority, lane, args, needs, created_at,
  queued_at + n / 100, run_at, max_attempts
FROM jobs AS original, generate_series(1, :jobs) AS numbers(n) WHERE original.id = :id"""


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[services.Postgres]:
    """Of the test's own, to be crashed; what it has committed is there afterwards."""
    with ExitStack() as stack:
        server = services.Postgres.start(tmp_path, durable=True)
        stack.callback(server.stop)
        yield server


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Our migrations with two more: columns, and an index on one of them."""
    return releases.migrations(tmp_path / "migrations")[0]


class Claimer(threading.Thread):
    """Claims and completes one job after the other."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self._db, self._queue = Database(url), Queue()
        self._worker = Claimant(id=ids.new("wrk"), name="w", kinds=("demo",))
        self._leave = threading.Event()

    def run(self) -> None:
        with closing(self._db) as db:
            db.run(lambda tx: fleet.register(tx, self._worker.id, "w"))
            while not self._leave.is_set():
                before = time.monotonic()
                [held] = db.run_step(lambda tx: self._queue.claim(tx, self._worker))
                db.run(partial(self._complete, held.claim))
                self.seconds.append(time.monotonic() - before)

    def _complete(self, claim: Claim, tx: Tx) -> None:
        library.complete(tx, self._queue, claim)

    def leave(self) -> None:
        assert self.is_alive()
        self._leave.set()
        self.join(60)


def fill(db: Database) -> None:
    schema.migrate(db)
    made = db.run(lambda tx: Queue().enqueue(tx, NewJob(kind="demo")))
    with db.begin() as tx:
        tx.all("SET LOCAL statement_timeout = 0")
        tx.all(MANY_MORE, jobs=JOBS, id=made.id)


@pytest.mark.thorough
def test_an_index_on_a_million_jobs_holds_up_no_claim(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worlds.postgres_database() as url, closing(Database(url)) as db:
        fill(db)
        claimer = Claimer(url)
        claimer.start()
        until(lambda: len(claimer.seconds) > 20)
        before = len(claimer.seconds)
        began = time.monotonic()
        with monkeypatch.context() as then:
            then.setattr(schema, "HEAD", "9001")
            schema.migrate(db, directory)
        took = time.monotonic() - began
        claimer.leave()
        meanwhile = claimer.seconds[before:]
        sys.stderr.write(
            f"migrated {JOBS} jobs in {took:.1f} s; {len(meanwhile)} claims meanwhile,"
            f" the slowest took {max(meanwhile) * 1000:.0f} ms\n"
        )
        assert max(meanwhile) < 1
        assert len(meanwhile) > 10


@pytest.mark.thorough
def test_a_database_that_restarts_in_the_middle_is_migrated_by_the_next_start(
    postgres: services.Postgres, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database("restarted")
    monkeypatch.setattr(schema, "HEAD", "9001")
    failed: list[Exception] = []

    def migrate() -> None:
        try:
            with closing(Database(url)) as db:
                schema.migrate(db, directory)
        except Exception as error:  # noqa: BLE001  the test looks at it
            failed.append(error)

    with closing(Database(url)) as db:
        with monkeypatch.context() as before:
            before.setattr(schema, "HEAD", revisions.HEAD)
            fill(db)
        migrating = threading.Thread(target=migrate)
        migrating.start()
        with db.read() as tx:
            until(lambda: tx.all("SELECT 1 AS x FROM pg_index WHERE NOT indisvalid"))
    postgres.restart()
    migrating.join(60)
    assert [type(each) for each in failed] == [errors.DatabaseDown]
    with closing(Database(url)) as db:
        assert schema.current(db) == "9000"
        assert schema.migrate(db, directory) == ("9000", "9001")
        with db.read() as tx:
            assert not tx.all("SELECT 1 AS x FROM pg_index WHERE NOT indisvalid")
