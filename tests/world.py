"""A queue on a real database with a clock the test moves, and short names for what tests do."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg

import services
from rushes import events, ids, kinds, wakeup
from rushes.chores import Chores
from rushes.db import schema
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.jobs import invariants, passage_store, store
from rushes.jobs.job import ErrorClass, Job, NewJob, Priority, State
from rushes.jobs.queue import Claimant, Queue, QueueTerms
from rushes.media import library
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.protocol import Assignment, Beat, Claim, Part, Progress

T = TypeVar("T")
EPOCH = 1_800_000_000_000
# Databases to clone: with the schema, and with the tests' clock besides.
MIGRATED, TEMPLATE = "rushes_migrated", "rushes_template"
EMPTY_DATABASE = "template0"
# In the tests' databases time stands still until a test moves it.
TEST_CLOCK = """
CREATE TABLE test_clock (now bigint NOT NULL);
INSERT INTO test_clock VALUES (%d);
CREATE OR REPLACE FUNCTION rushes_now() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT now FROM test_clock';
"""


EMPTY = """
TRUNCATE media, versions, artifacts, profiles, uploads, upload_parts, jobs, job_counts, job_logs,
  transcription_profiles, live_counts, failure_counts,
  incident_counts, attempts, workers, worker_keys, invites, turns, pauses, events, users, sessions,
  tokens, signin_links, signin_failures, idempotency_keys, webhooks, deliveries, alerts, passages,
  transcripts, transcript_revisions,
  moments, moment_index, spellings, doubtful_words, known_addresses, security_log RESTART IDENTITY;
UPDATE webhook_head SET pos = 0;
UPDATE service_beat SET beat_at = 0, grace_until = 0, away_since = 0;
UPDATE event_head SET pos = 0, pruned_pos = 0, pruned_before = 0, counted_pos = 0,
  live_pos = 0, recount_due = 0;
UPDATE test_clock SET now = %d;
"""
# What jobs of these kinds make is watched, as what an encode makes.
kinds._declared |= {
    name: kinds.Kind(name=name, output=kinds.WATCH)
    for name in ("noop", "cut", "demo", "mix", "publish")
}
stack = ExitStack()
_kept: list[str] = []


def current_version(tx: Tx, media_id: str) -> str | None:
    """What is published of a media on which jobs of only one kind have run."""
    row = tx.one("SELECT id FROM versions WHERE media_id = :id AND state = 'current'", id=media_id)
    return row["id"] if row else None


class ManualClock:
    def __init__(self) -> None:
        self.at = EPOCH

    def now(self) -> int:
        return self.at


class World:
    def __init__(self, db: Database, clock: ManualClock, drop: Callable[[], None]) -> None:
        self.db = db
        self.clock = clock
        self._drop = drop
        self.terms = QueueTerms()
        self.bell = wakeup.InProcessWakeup()
        self.queue = Queue(self.terms, bell=self.bell)
        self.chores = Chores(db, self.queue)
        with db.begin() as tx:
            # As if a server had been up all the time.
            tx.all("UPDATE service_beat SET beat_at = {now}, grace_until = 0")

    def set_terms(self, terms: QueueTerms) -> None:
        self.terms = terms
        self.queue = Queue(terms, bell=self.bell)
        self.chores = Chores(self.db, self.queue)

    # Time

    def advance(self, seconds: float) -> None:
        """Move the clock without anybody noticing, as when no server runs."""
        self.clock.at += int(seconds * 1000)
        if self.db.dialect.name == "postgresql":
            with self.db.begin() as tx:
                tx.all("UPDATE test_clock SET now = :now", now=self.clock.at)

    def pass_time(self, seconds: float) -> None:
        """Let time pass with a server up, though its sweep has not come round to anything yet."""
        while seconds > 0:
            step = min(10.0, seconds)
            self.advance(step)
            self.run(lambda tx: store.beat(tx, lease_ms=self.terms.lease_ms))
            seconds -= step

    def live(self, seconds: float) -> dict[str, State]:
        """Let time pass with the chores running; returns the jobs the sweep moved."""
        moved: dict[str, State] = {}
        while seconds > 0:
            step = min(10.0, seconds)
            self.advance(step)
            moved |= self.chores.tick()
            seconds -= step
        return moved

    # Verbs, each in its own transaction

    def run(self, verb: Callable[[Tx], T]) -> T:
        return self.db.run(verb)

    def enqueue(self, kind: str = "noop", **options: Any) -> str:
        return self.run(lambda tx: self.queue.enqueue(tx, NewJob(kind=kind, **options))).id

    def add_media(self, title: str = "rushes", user_id: str = "") -> str:
        """A media without any jobs."""
        media_id = ids.new("med")
        new = NewMedia(user_id=user_id, title=title)
        self.run(lambda tx: media_store.insert(tx, media_id, new, media_id))
        return media_id

    def worker(
        self,
        *,
        kinds: Sequence[str] = ("noop",),
        capabilities: Sequence[str] = (),
        name: str = "w",
        lowest_priority: Priority = Priority.LOW,
    ) -> Claimant:
        claimant = Claimant(
            id=ids.new("wrk"),
            name=name,
            kinds=tuple(kinds),
            capabilities=tuple(capabilities),
            lowest_priority=lowest_priority,
        )
        urgent = lowest_priority is Priority.HIGH

        def join(tx: Tx) -> None:
            fleet.register(tx, claimant.id, name, for_urgent=urgent)
            fleet.hello(tx, claimant.id, kinds=kinds, capabilities=capabilities, metadata={})

        self.run(join)
        return claimant

    def claim_all(self, worker: Claimant | None = None, limit: int = 1) -> list[Assignment]:
        claimant = worker or self.worker()
        return self.db.run_step(lambda tx: self.queue.claim(tx, claimant, limit))

    def claim(self, worker: Claimant | None = None) -> Claim:
        """Claim one job; the test is wrong if there is none."""
        return self.claim_all(worker)[0].claim

    def heartbeat(self, claim: Claim) -> Beat:
        return self.run(lambda tx: self.queue.heartbeat(tx, [claim]))[claim.claim_id]

    def progress(self, claim: Claim, progress: float = 0.5, **facts: Any) -> Beat:
        report = Progress(claim=claim, progress=progress, **facts)
        return self.run(lambda tx: self.queue.progress(tx, [report]))[claim.claim_id]

    def put_passage(self, claim: Claim, number: int = 0) -> bool:
        return self.run(lambda tx: passage_store.put(tx, claim, number, {}))

    def hear(self, worker: Claimant) -> None:
        """A sign of life, of nothing in particular."""
        self.run(lambda tx: fleet.seen(tx, worker.id))

    def complete(self, claim: Claim, result: Any = None) -> State:
        return self.run(lambda tx: library.complete(tx, self.queue, claim, result)).state

    def fail(
        self, claim: Claim, error: ErrorClass = ErrorClass.TRANSIENT, code: str = "boom"
    ) -> State:
        return self.run(lambda tx: self.queue.fail(tx, claim, error, code=code, message="boom"))

    def release(self, claim: Claim) -> State:
        return self.run(lambda tx: self.queue.release(tx, claim))

    def divide(self, claim: Claim, parts: int = 2, kind: str = "noop", **named: Any) -> State:
        made = [Part(kind=kind, args={"part": n}) for n in range(parts)]
        return self.run(lambda tx: self.queue.divide(tx, claim, made, **named))

    def parts(self, job_id: str) -> list[Job]:
        """Of a divided job, in order."""
        rows = self.rows(
            "SELECT id FROM jobs WHERE parent_id = :id AND division IS NOT NULL ORDER BY id",
            id=job_id,
        )
        return [self.job(row["id"]) for row in rows]

    def cancel(self, job_id: str) -> State:
        return self.run(lambda tx: self.queue.cancel(tx, job_id))

    def retry(self, job_id: str) -> str:
        return self.run(lambda tx: self.queue.retry(tx, job_id)).id

    # Looking

    def job(self, job_id: str) -> Job:
        with self.db.read() as tx:
            job = store.get(tx, job_id)
        assert job is not None
        return job

    def state(self, job_id: str) -> State:
        return self.job(job_id).state

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        with self.db.read() as tx:
            return tx.all(sql, **params)

    def snapshot(self) -> dict[str, list[dict[str, Any]]]:
        """Everything a verb could have changed, to show that it changed nothing."""
        tables = ("jobs", "attempts", "media", "versions", "turns")
        found = {name: self.rows(f"SELECT * FROM {name} ORDER BY 1, 2") for name in tables}
        found["events"] = self.rows("SELECT seq, type, job_id FROM events ORDER BY seq")
        return found

    def event_types(self, job_id: str) -> list[str]:
        rows = self.rows("SELECT type FROM events WHERE job_id = :id ORDER BY seq", id=job_id)
        return [row["type"] for row in rows]

    def check(self) -> None:
        """Every invariant holds."""
        with self.db.begin() as tx:
            events.assign_positions(tx)
            violations = invariants.check(tx, lease_ms=self.terms.lease_ms, sweep_ms=10_000)
        assert violations == [], violations

    def close(self) -> None:
        self.db.close()
        self._drop()

    @property
    def rings(self) -> int:
        return self.bell.mark()


def open_sqlite(directory: Path) -> World:
    clock = ManualClock()
    copy_migrated(directory / "rushes.db")
    db = Database(f"sqlite:///{directory}/rushes.db", clock)
    return World(db, clock, lambda: None)


def copy_migrated(path: Path) -> None:
    """An SQLite database with the schema; what is there already stays."""
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(_migrated_sqlite())


@cache
def _migrated_sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rushes.db"
        db = Database(f"sqlite:///{path}")
        schema.migrate(db)
        db.close()
        return path.read_bytes()


def open_postgres() -> World:
    """One database per test process, emptied for each test."""
    clock = ManualClock()
    if not _kept:
        _kept.append(stack.enter_context(postgres_database(TEMPLATE)))
    db = Database(_kept[0], clock)
    with psycopg.connect(db.conninfo, autocommit=True) as connection:
        connection.execute(EMPTY % EPOCH)
    return World(db, clock, lambda: None)


@contextmanager
def postgres_database(template: str = MIGRATED) -> Iterator[str]:
    """A database of its own on the tests' server."""
    name = f"t_{uuid.uuid4().hex}"
    server = os.environ["RUSHES_TEST_POSTGRES"]
    with psycopg.connect(_conninfo(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield f"{server}{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def make_template(postgres: services.Postgres) -> None:
    db = Database(postgres.create_database(MIGRATED))
    schema.migrate(db)
    db.close()
    postgres.create_database(TEMPLATE, MIGRATED)
    with psycopg.connect(_conninfo(postgres.url(""), TEMPLATE), autocommit=True) as connection:
        connection.execute(TEST_CLOCK % EPOCH)


def _conninfo(server: str, database: str) -> str:
    return f"{server}{database}".replace("postgresql+psycopg", "postgresql")
