"""A queue on a real database with a clock the test moves, and short names for what tests do."""

from __future__ import annotations

import os
import tempfile
import time
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
from rushes.jobs import beat_store, invariants, passage_store, replay, store
from rushes.jobs.job import ErrorClass, Job, NewJob, Priority, State
from rushes.jobs.queue import Queue
from rushes.jobs.terms import Claimant, QueueTerms
from rushes.media import library
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.protocol import Assignment, Beat, Claim, Part, Progress

T = TypeVar("T")
EPOCH = 1_800_000_000_000
# Databases to clone: with the schema, and with the tests' clock besides.
MIGRATED, TEMPLATE = "rushes_migrated", "rushes_template"
EMPTY_DATABASE = "template0"
FREE_SECONDS = 20
# In the tests' databases time stands still until a test moves it.
TEST_CLOCK = """
CREATE TABLE test_clock (now bigint NOT NULL);
INSERT INTO test_clock VALUES (%d);
CREATE OR REPLACE FUNCTION rushes_now() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT now FROM test_clock';
"""


# Only what holds anything: to truncate a table is to make its files anew, and those of its indexes.
EMPTY = """
DO $$
DECLARE
  filled text;
  counter regclass;
BEGIN
  SELECT string_agg(oid::regclass::text, ', ') INTO filled FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname NOT IN ('alembic_version', 'schema_compatibility', 'webhook_head', 'service_beat',
      'event_head', 'test_clock')
    AND (pg_relation_size(oid) > 0 OR reltuples > -1);
  IF filled IS NOT NULL THEN
    EXECUTE 'TRUNCATE ' || filled || ' CASCADE';
  END IF;
  FOR counter IN SELECT seqrelid FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) > 0 LOOP
    PERFORM setval(counter, 1, false);
  END LOOP;
END $$;
UPDATE webhook_head SET pos = 0;
UPDATE service_beat SET beat_at = 0, grace_until = 0, away_since = 0;
UPDATE event_head SET pos = 0, pruned_pos = 0, pruned_before = 0, counted_pos = 0,
  live_pos = 0, recount_due = 0, history_pos = 0,
  history_since = 9000000000000000000;
"""
SET_CLOCK = "UPDATE test_clock SET now = %d"
# Whatever a test might have changed besides rows.
SHAPE = """
SELECT md5(string_agg(what, ' ' ORDER BY what)) FROM (
  SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, attnotnull, atthasdef) AS what
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT proname || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'
  UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT setconfig::text FROM pg_db_role_setting
  UNION ALL SELECT version_num FROM alembic_version
) AS shapes
"""
# What jobs of these kinds make is watched, as what an encode makes.
kinds._declared |= {
    name: kinds.Kind(name=name, output=kinds.WATCH)
    for name in ("noop", "cut", "demo", "mix", "publish")
}
stack = ExitStack()
_kept: list[str] = []
# Databases with the schema that nobody uses now, and what one looks like that is new.
_idle: list[str] = []
_migrated_shape: list[str] = []


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
            self.run(lambda tx: beat_store.beat(tx, lease_ms=self.terms.lease_ms))
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
            impossible = list(replay.impossible(tx, replay.Replay()))
        assert violations == [], violations
        assert impossible == [], impossible

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
        connection.execute(EMPTY)
        connection.execute(SET_CLOCK % EPOCH)
    return World(db, clock, lambda: None)


@contextmanager
def postgres_database(template: str = MIGRATED) -> Iterator[str]:
    """A database of its own on the tests' server. To make one takes a third of a second of a
    processor: one with the schema is emptied and used again."""
    server = os.environ["RUSHES_TEST_POSTGRES"]
    with psycopg.connect(_conninfo(server, "postgres"), autocommit=True) as connection:
        if template == MIGRATED and _idle:
            name = _idle.pop()
        else:
            name = _new_name()
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            if template == MIGRATED and not _migrated_shape:
                with psycopg.connect(_conninfo(server, name), autocommit=True) as inside:
                    _migrated_shape.append(_shape(inside))
        try:
            yield f"{server}{name}"
        finally:
            if template == MIGRATED:
                name = _freed(connection, name)
            if template == MIGRATED and _emptied(server, name):
                _idle.append(name)
            else:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _new_name() -> str:
    return f"t_{uuid.uuid4().hex}"


def _freed(connection: psycopg.Connection, name: str) -> str:
    """By another name, and with nobody in it: who is left of a test does not find it."""
    ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    other, deadline = _new_name(), time.monotonic() + FREE_SECONDS
    while True:
        while connection.execute(ends, [name]).fetchall():
            time.sleep(0.002)
        try:
            connection.execute(f"ALTER DATABASE {name} RENAME TO {other}")
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
        else:
            return other


def _emptied(server: str, name: str) -> bool:
    """Whether it is as new now."""
    with psycopg.connect(_conninfo(server, name), autocommit=True) as connection:
        if _shape(connection) != _migrated_shape[0]:
            return False
        connection.execute(EMPTY)
    return True


def _shape(connection: psycopg.Connection) -> str:
    row = connection.execute(SHAPE).fetchone()
    assert row is not None
    return str(row[0])


def drop_idle() -> None:
    while _idle:
        server = os.environ["RUSHES_TEST_POSTGRES"]
        with psycopg.connect(_conninfo(server, "postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {_idle.pop()} WITH (FORCE)")


def make_template(postgres: services.Postgres) -> None:
    db = Database(postgres.create_database(MIGRATED))
    schema.migrate(db)
    db.close()
    postgres.create_database(TEMPLATE, MIGRATED)
    with psycopg.connect(_conninfo(postgres.url(""), TEMPLATE), autocommit=True) as connection:
        connection.execute(TEST_CLOCK % EPOCH)


def _conninfo(server: str, database: str) -> str:
    return f"{server}{database}".replace("postgresql+psycopg", "postgresql")
