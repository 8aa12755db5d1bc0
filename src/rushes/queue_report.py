"""Facts about the queue put together for people: why a job waits, and how the queue is doing."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rushes import history_store
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState, FleetWorker, WorkerStatus
from rushes.history_store import EndedCount, HistoryFilter
from rushes.jobs import limit_store, read_store, relation_store, store
from rushes.jobs import why as reasons
from rushes.jobs.job import Job, Priority, State
from rushes.jobs.limiting import Limit
from rushes.jobs.read_store import FailureGroup, JobCount, Ready
from rushes.jobs.terms import QueueTerms
from rushes.jobs.why import Explanation

T = TypeVar("T")

# How old the counts of all jobs may be.
TOTALS_SECONDS = 3.0
# So many jobs of a lane are counted: more make no difference to whoever starts workers for them.
MOST_READY = 1_000
MOST_BUCKETS = 60
# Up to a week of them; each divides a day.
BUCKET_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800)
LONGEST_HOURS = 168


class _Kept(ABC, Generic[T]):
    """Figures of all jobs, for whoever may ask without being known: taken again only after a
    while, and so seldom that it is a twentieth of the time at most, also while jobs have to be
    counted one by one. Whoever asks meanwhile, or while they are taken, gets those from before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._rows: Sequence[T] | None = None
        self._fresh_until = 0.0

    def get(self, db: Database) -> Sequence[T]:
        rows = self._rows
        if rows is not None and (self._clock() < self._fresh_until or self._turn.locked()):
            return rows
        with self._turn:
            began = self._clock()
            if self._rows is None or began >= self._fresh_until:
                with db.read() as tx:
                    self._rows = self._look(tx)
                ended = self._clock()
                self._fresh_until = ended + max(TOTALS_SECONDS, 19 * (ended - began))
            return self._rows

    @abstractmethod
    def _look(self, tx: Tx) -> Sequence[T]: ...


class Totals(_Kept[JobCount]):
    """How many jobs there are."""

    def _look(self, tx: Tx) -> Sequence[JobCount]:
        return read_store.totals(tx)


class ReadyJobs(_Kept[Ready]):
    """How many could be claimed now, and what that takes."""

    def _look(self, tx: Tx) -> Sequence[Ready]:
        return read_store.ready(tx, MOST_READY)


def why(tx: Tx, job: Job, terms: QueueTerms, *, offline_after_ms: int) -> Explanation:
    """What a waiting job waits for, in plain words."""
    parent = store.get(tx, job.parent_id) if job.parent_id else None
    parts = relation_store.counts(tx, job.id) if job.divided_at is not None else None
    now = read_store.now(tx)
    online = [each for each in fleet.all_workers(tx) if is_online(each, now, offline_after_ms)]
    facts = reasons.Situation(
        now=now,
        position=read_store.position(tx, job) if job.state is State.QUEUED else None,
        ahead=read_store.ahead(tx, job, job.kind) if job.state is State.QUEUED else 0,
        paused=read_store.pauses(tx),
        online=online,
        preferred_idle=_preferred_idle(job, online, now),
        prefer_wait_ms=terms.prefer_wait_ms,
        parent=parent.state if parent else None,
        parts=parts.parts if parts else 0,
        parts_completed=parts.completed if parts else 0,
        is_user_disabled=read_store.is_user_disabled(tx, job.user_id),
        limits_reached=_limits_reached(tx, job, online) if job.state is State.QUEUED else (),
    )
    return reasons.explain(job, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How many jobs there are by state, by kind and state, and by user and state."""

    states: dict[str, int]
    kinds: dict[str, dict[str, int]]
    users: dict[str, dict[str, int]]
    oldest_queued_at: int | None
    wait_seconds: float | None
    run_seconds: float | None
    failures: Sequence[FailureGroup]
    paused: Sequence[str]


def summary(
    counts: Sequence[JobCount], failures: Sequence[FailureGroup], paused: Sequence[str]
) -> Summary:
    """From the counts per kind, user and state."""
    states = dict.fromkeys((str(state) for state in State), 0)
    kinds: dict[str, dict[str, int]] = {}
    users: dict[str, dict[str, int]] = {}
    for each in counts:
        kind = kinds.setdefault(each.kind, dict.fromkeys(states, 0))
        user = users.setdefault(each.user_id or "", dict.fromkeys(states, 0))
        for counted in (states, kind, user):
            counted[each.state] += each.count
    queued = (each.oldest_queued_at for each in counts if each.state is State.QUEUED)
    return Summary(
        states=states,
        kinds=kinds,
        users=users,
        oldest_queued_at=min((at for at in queued if at is not None), default=None),
        wait_seconds=_mean([(each.wait_ms, each.count) for each in counts]),
        run_seconds=_mean([(each.run_ms, each.count) for each in counts]),
        failures=failures,
        paused=paused,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The jobs that ended in a period of time, which begins `at`."""

    at: int
    completed: int
    failed: int
    canceled: int
    wait_seconds: float | None
    run_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    bucket_seconds: int
    items: list[Bucket]


def history(tx: Tx, wanted: HistoryFilter, hours: int) -> History:
    """How jobs ended of late, in buckets of time that are the same for everybody; oldest first."""
    width, count = _buckets(hours)
    now = read_store.now(tx)
    since = now - now % width - (count - 1) * width
    rows = history_store.ended(tx, wanted, since=since, width=width)
    found = {each.number: each for each in rows}
    items = [_bucket(since + n * width, found.get(n, EndedCount(number=n))) for n in range(count)]
    return History(bucket_seconds=width // 1000, items=items)


def _buckets(hours: int) -> tuple[int, int]:
    """How long each is, in milliseconds, and how many there are: as fine as is of use."""
    seconds = next(each for each in BUCKET_SECONDS if hours * 3600 <= each * MOST_BUCKETS)
    return seconds * 1000, -(-hours * 3600 // seconds)


def _bucket(at: int, ended: EndedCount) -> Bucket:
    return Bucket(
        at=at,
        completed=ended.completed,
        failed=ended.failed,
        canceled=ended.canceled,
        wait_seconds=_seconds(ended.wait_ms / ended.waited) if ended.waited else None,
        run_seconds=_seconds(ended.run_ms / ended.ran) if ended.ran else None,
    )


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 3)


def _mean(averages: Sequence[tuple[float | None, int]]) -> float | None:
    """Of averages in milliseconds, each of so many jobs."""
    known = [(ms, count) for ms, count in averages if ms is not None]
    count = sum(count for _, count in known)
    return _seconds(sum(ms * count for ms, count in known) / count) if count else None


def somebody_can(tx: Tx, kind: str, *, besides: str, offline_after_ms: int) -> bool:
    """Whether a worker is there for jobs of this kind, besides those whose ids begin so."""
    now = read_store.now(tx)
    return any(
        kind in each.kinds
        and kind not in each.unable
        and not each.id.startswith(besides)
        and is_online(each, now, offline_after_ms)
        for each in fleet.all_workers(tx)
    )


def is_online(worker: FleetWorker, now: int, offline_after_ms: int) -> bool:
    """Whether it counts as able to take a job."""
    status = worker.status(now, offline_after_ms)
    return worker.state is AdminState.ENABLED and status in (WorkerStatus.IDLE, WorkerStatus.BUSY)


def _limits_reached(tx: Tx, job: Job, online: Sequence[FleetWorker]) -> list[Limit]:
    """Those of the job, and, when no worker that could do it may, those of the workers."""
    reached = limit_store.reached(tx, job)
    urgent = job.priority is Priority.HIGH
    able = {each.name for each in online if each.could_take(job.kind, job.needs, urgent=urgent)}
    of_workers = [limit_store.reached_by(tx, name) for name in sorted(able)]
    if all(of_workers):
        reached += [limit for limits in of_workers for limit in limits]
    return list(dict.fromkeys(reached))


def _preferred_idle(job: Job, online: Sequence[FleetWorker], now: int) -> bool:
    """As the claim sees it (`read_store.idle_worker_exists`)."""
    preferred = {need.removesuffix("?") for need in job.needs if need.endswith("?")}
    urgent = job.priority is Priority.HIGH
    return bool(preferred) and any(
        worker.has_room
        and preferred <= set(worker.capabilities)
        and worker.could_take(job.kind, job.needs, urgent=urgent)
        and worker.not_now(job.kind, now) is None
        and job.kind not in worker.unable
        for worker in online
    )
