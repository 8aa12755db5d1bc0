"""The composition root, and Rushes as a library: one object owns database, queue and workers."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rushes import (
    chores,
    config,
    errors,
    ids,
    kinds,
    protocol,
    queue_report,
    redis_link,
    retention,
    wakeup,
)
from rushes import clock as clocks
from rushes.db import dialects, schema
from rushes.db.database import Database, Tx
from rushes.dispatch import Dispatch
from rushes.fleet import store as fleet
from rushes.fleet.worker import FleetWorker
from rushes.in_process import Local
from rushes.jobs import read_store, store
from rushes.jobs.job import Job, NewJob, State
from rushes.jobs.policy import Policy
from rushes.jobs.prune_store import Keep
from rushes.jobs.queue import Enqueued, Queue
from rushes.jobs.read_store import Attempt, JobCount, JobFilter
from rushes.jobs.terms import QueueTerms
from rushes.jobs.why import Explanation
from rushes.live_settings import LiveSettings
from rushes.metrics import Metrics
from rushes.records import JsonObject
from rushes.redis_link import RedisLink
from rushes.redis_wakeup import RedisWakeup
from rushes.storage import storage
from rushes.storage.observed import observed
from rushes.storage.storage import Storage
from rushes.threads import Supervised
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker

if TYPE_CHECKING:
    import sqlalchemy as sa
    import sqlalchemy.orm

log = logging.getLogger("rushes")

# How long a handler has to end after a gentle stop before its job is given back over its head.
STOP_SECONDS = 0.7


class Rushes:
    """The queue on one database. Close it, or use it in a `with` block.

    Several processes may open the same PostgreSQL database. A second process on an SQLite file
    works, too, but it must be on the same machine, and its writes wait for the other's.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: config.Settings | None = None,
        clock: clocks.Clock | None = None,
        migrate: bool = True,
    ) -> None:
        given = settings or config.load()
        self.metrics = Metrics()
        # None where Redis is not used.
        self.redis = redis_link.open_link(given)
        self.db = Database(database_url or given.database_url, clock)
        self._handlers: dict[str, Handler] = {}
        self._one_shots: dict[tuple[str, ...], Worker] = {}
        try:
            if migrate and given.migrate == "auto":
                schema.migrate(self.db)
            schema.check(self.db)
            self.live = LiveSettings(self.db, given)
        except BaseException:
            self.db.close()
            raise
        self.bell = _bell(self.db, self.redis, falls_back=self.settings.queue_mode == "hybrid")
        self.queue = Queue(
            terms(self.settings), bell=self.bell, kinds=self._known_kinds, metrics=self.metrics
        )
        self.dispatch = Dispatch(
            self.db,
            self.queue,
            lambda: self.storage,
            heartbeat_seconds=self.settings.heartbeat_interval,
            keep_completed_qualities=self.settings.keep_completed_qualities,
            metrics=self.metrics,
        )
        self.chores = chores.Chores(
            self.db,
            self.queue,
            sweep_seconds=self.settings.sweep_interval,
            metrics=self.metrics,
        )
        self.retention = retention.Retention(
            self.db,
            **_kept(self.settings),
        )
        self.live.on_change.append(self._use)

    @property
    def settings(self) -> config.Settings:
        """Of this moment: admins may change some while it runs."""
        return self.live.now

    def _use(self, settings: config.Settings) -> None:
        self.queue.terms = terms(settings)
        self.retention.keep(**_kept(settings))

    @cached_property
    def storage(self) -> Storage:
        """Opened when the first file needs it."""
        return observed(storage.open(self.settings.storage_url), self.metrics)

    @property
    def engine(self) -> sa.Engine:
        """For your own transactions on the same database; pass the connection to `enqueue`."""
        return self.db.engine

    def check_redis(self) -> None:
        """Raises RedisDown where the settings insist on it, and it does not work."""
        if self.redis is None:
            return
        try:
            self.redis.check()
            self.redis.breaker.close()
        except errors.RedisDown as error:
            self.redis.breaker.open(error.message)
            if self.settings.queue_mode == "redis":
                raise errors.RedisDown(
                    f"{error.message}: see to RUSHES_REDIS_URL, or start with"
                    " RUSHES_QUEUE_MODE=hybrid"
                ) from None

    # Handlers and work

    def handler(
        self, kind: str, *, stall_seconds: float | None = None
    ) -> Callable[[Callable[[JobContext], Any]], Callable[[JobContext], Any]]:
        """Register the function that runs jobs of a kind."""

        def register(run: Callable[[JobContext], Any]) -> Callable[[JobContext], Any]:
            if kind in self._handlers:
                raise errors.BadField("kind", f"{kind!r} has a handler already")
            self._handlers[kind] = Handler(run, stall_seconds)
            # They have told their kinds, and would not be given this one.
            self._one_shots.clear()
            return run

        return register

    def worker(
        self,
        name: str | None = None,
        *,
        capabilities: Sequence[str] = (),
        batch: int = 1,
        worker_id: str | None = None,
    ) -> Worker:
        """A worker of this process, for the kinds that have handlers here."""
        name = name or f"{socket.gethostname()}-{os.getpid()}"
        transport = Local(
            self.dispatch,
            self.db,
            self.bell,
            worker_id=worker_id or ids.new("wrk"),
            worker_name=name,
            poll_seconds=self.settings.poll_interval,
        )
        hello = protocol.Hello(
            kinds=sorted(self._handlers),
            capabilities=sorted(capabilities),
            metadata={"host": socket.gethostname(), "pid": os.getpid()},
        )
        return Worker(
            transport,
            self._handlers,
            hello=hello,
            batch=batch,
            heartbeat_seconds=self.settings.heartbeat_interval,
            keep_completed_qualities=self.settings.keep_completed_qualities,
        )

    def run_once(self, *, capabilities: Sequence[str] = ()) -> bool:
        """Run one waiting job here and now, if there is one. For tests and scripts."""
        key = tuple(sorted(capabilities))
        if key not in self._one_shots:
            self._one_shots[key] = self.worker(
                "run_once", capabilities=key, worker_id=f"wrk_run_once_{'_'.join(key)}"
            )
        return self._one_shots[key].step() > 0

    def work(self, *, workers: int = 1, batch: int = 1, capabilities: Sequence[str] = ()) -> None:
        """Work until SIGTERM or Ctrl-C; jobs in hand are then given back within a second."""
        self.check_redis()
        crew = [self.worker(batch=batch, capabilities=capabilities) for _ in range(workers)]
        # First of all: a signal that comes while they start must not end the process.
        asked = _asked_to_leave()
        threads = [Supervised(each.run, f"worker {n}", asked) for n, each in enumerate(crew, 1)]
        tidying = Supervised(self.chores.run, "chores", asked)
        forgetting = Supervised(self.retention.run, "retention", asked)
        rereading = Supervised(self.live.run, "settings", asked)
        for thread in (*threads, tidying, forgetting, rereading):
            thread.start()
        asked.wait()
        for each in crew:
            each.stop()
        for thread in threads:
            thread.join(STOP_SECONDS)
        for each in crew:
            each.abandon()
        self.chores.stop()
        self.retention.stop()
        self.live.stop()
        for thread in (tidying, forgetting, rereading):
            thread.join(STOP_SECONDS)

    # Jobs

    def enqueue(
        self,
        kind: str,
        args: JsonObject | None = None,
        *,
        connection: sa.Connection | sa.orm.Session | None = None,
        **options: Any,
    ) -> Enqueued:
        """Add a job; with `connection`, inside the transaction that you have open there."""
        return self.enqueue_many([_new(kind, args, options)], connection=connection)[0]

    def enqueue_many(
        self, news: Sequence[NewJob], *, connection: sa.Connection | sa.orm.Session | None = None
    ) -> list[Enqueued]:
        if connection is None:
            # A single statement is all or nothing by itself; looking for others takes several.
            run = self.db.run if any(_looks_around(new) for new in news) else self.db.run_step
            return run(lambda tx: self.queue.enqueue_many(tx, news))
        with self.db.renamed():
            tx = self.db.join(_connection_of(connection))
            return self.queue.enqueue_many(tx, news)

    def job(self, job_id: str) -> Job:
        with self.db.read() as tx:
            return _found(store.get(tx, job_id), job_id)

    def jobs(self, *, before: str | None = None, limit: int = 50, **wanted: Any) -> list[Job]:
        with self.db.read() as tx:
            return read_store.list_jobs(tx, JobFilter(**wanted), before=before, limit=limit)

    def executions(self, job_id: str) -> list[Attempt]:
        with self.db.read() as tx:
            return read_store.attempts(tx, job_id)

    def cancel(self, job_id: str) -> State:
        return self.db.run(lambda tx: self.queue.cancel(tx, job_id))

    def retry(self, job_id: str) -> Enqueued:
        return self.db.run(lambda tx: self.queue.retry(tx, job_id))

    def stats(self) -> list[JobCount]:
        with self.db.read() as tx:
            return read_store.stats(tx)

    def pause(self, kind: str = "*") -> None:
        self.db.run(lambda tx: read_store.pause(tx, kind))

    def resume(self, kind: str = "*") -> None:
        def resume(tx: Tx) -> None:
            read_store.resume(tx, kind)
            tx.wake_after_commit(self.bell.ring)

        self.db.run(resume)

    def why(self, job_id: str) -> Explanation:
        """What a waiting job waits for, in plain words."""
        offline_ms = int(self.settings.offline_threshold * 1000)
        with self.db.read() as tx:
            job = _found(store.get(tx, job_id), job_id)
            return queue_report.why(tx, job, self.queue.terms, offline_after_ms=offline_ms)

    def workers(self) -> list[FleetWorker]:
        with self.db.read() as tx:
            return fleet.all_workers(tx)

    def close(self) -> None:
        self.chores.stop()
        self.retention.stop()
        self.live.stop()
        self.bell.close()
        self.db.close()

    def __enter__(self) -> Rushes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _known_kinds(self) -> list[str] | None:
        """A process without handlers, such as one that only submits, cannot judge kinds."""
        return list(self._handlers) or None


def open(settings: config.Settings) -> Rushes:
    """The queue of these settings, as the command line uses it: without changing the schema."""
    return Rushes(settings=settings, migrate=False)


def terms(settings: config.Settings) -> QueueTerms:
    return QueueTerms(
        lease_ms=int(settings.claim_duration * 1000),
        heartbeat_ms=int(settings.heartbeat_interval * 1000),
        attempt_timeout_ms=int(settings.attempt_timeout * 1000),
        max_attempts=settings.max_attempts,
        policy=Policy(settings.policy),
        prefer_wait_ms=int(settings.prefer_wait * 1000),
        limit_keys={kinds.TRANSCRIBE.name: f"engine:{settings.engine}"},
    )


def _bell(db: Database, redis: RedisLink | None, *, falls_back: bool) -> wakeup.Wakeup:
    below: wakeup.Wakeup
    if db.dialect.name == "sqlite":
        below = wakeup.FileWakeup(Path(f"{db.url.database}-bell"))
    else:
        below = wakeup.PostgresWakeup(db.connect, dialects.CHANNEL, watch=db.deadlines.watch)
    return below if redis is None else RedisWakeup(below, redis, falls_back=falls_back)


def _new(kind: str, args: JsonObject | None, options: JsonObject) -> NewJob:
    known = set(NewJob.__dataclass_fields__) - {"kind", "args"}
    for name in options:
        if name not in known:
            raise errors.BadField(name, f"unknown; known are {', '.join(sorted(known))}")
    return NewJob(kind=kind, args=args or {}, **options)


def _looks_around(new: NewJob) -> bool:
    """For a twin, for the media, for the parent: nothing may change in between."""
    return not (
        new.dedupe_key is None
        and new.retry_of is None
        and new.media_id is None
        and new.parent_id is None
    )


def _connection_of(connection: sa.Connection | sa.orm.Session) -> sa.Connection:
    import sqlalchemy as sa

    return connection if isinstance(connection, sa.Connection) else connection.connection()


def _kept(settings: config.Settings) -> dict[str, Any]:
    """For `Retention`."""
    return {
        "keep": Keep(
            jobs_ms=_kept_ms(settings.job_retention),
            housekeeping_ms=_kept_ms(settings.housekeeping_retention),
        ),
        "event_ms": int(settings.event_retention * 1000),
        "worker_ms": _kept_ms(settings.worker_retention),
        "export_ms": _kept_ms(settings.export_retention),
    }


def _kept_ms(seconds: float) -> int | None:
    return int(seconds * 1000) or None


def _found(job: Job | None, job_id: str) -> Job:
    if job is None:
        raise errors.NotFound(f"no job {job_id}")
    return job


def _asked_to_leave() -> threading.Event:
    """Set by SIGTERM or SIGINT; a second signal ends the process."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        asked.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, ask)
    return asked
