"""Facts about the queue put together for people: why a job waits, and how the queue is doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushes import clock, errors
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState, FleetWorker, WorkerStatus
from rushes.jobs import read_store, relation_store, store
from rushes.jobs import why as reasons
from rushes.jobs.job import Job, Priority, State
from rushes.jobs.queue import QueueTerms
from rushes.jobs.read_store import JobFilter

# How old the counts of all jobs may be.
TOTALS_SECONDS = 3.0
Rows = Sequence[Mapping[str, Any]]
MOST_BUCKETS = 60
# Up to a week of them; each divides a day.
BUCKET_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800)
LONGEST_HOURS = 168


class Totals:
    """The counts of all jobs, for whoever may ask without being known: taken again only after a
    while, and so seldom that it is a twentieth of the time at most, also while jobs have to be
    counted one by one. Whoever asks meanwhile, or while they are taken, gets those from before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._rows: Rows | None = None
        self._fresh_until = 0.0

    def get(self, db: Database) -> Rows:
        rows = self._rows
        if rows is not None and (self._clock() < self._fresh_until or self._turn.locked()):
            return rows
        with self._turn:
            began = self._clock()
            if self._rows is None or began >= self._fresh_until:
                with db.read() as tx:
                    self._rows = read_store.totals(tx)
                ended = self._clock()
                self._fresh_until = ended + max(TOTALS_SECONDS, 19 * (ended - began))
            return self._rows


def why(tx: Tx, job: Job, terms: QueueTerms, *, offline_after_ms: int) -> dict[str, Any]:
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
        preferred_idle=_preferred_idle(job, online),
        prefer_wait_ms=terms.prefer_wait_ms,
        parent=parent.state if parent else None,
        parts=parts["parts"] if parts else 0,
        parts_completed=parts["completed"] if parts else 0,
        is_user_disabled=read_store.is_user_disabled(tx, job.user_id),
    )
    return reasons.explain(job, facts)


def summary(rows: Rows, failures: Rows, paused: Sequence[str]) -> dict[str, Any]:
    """From the counts per kind, user and state."""
    states = dict.fromkeys((str(state) for state in State), 0)
    kinds: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, int]] = {}
    for row in rows:
        states[row["state"]] += row["count"]
        kind = kinds.setdefault(row["kind"], dict.fromkeys(states, 0))
        kind[row["state"]] += row["count"]
        user = users.setdefault(row["user_id"], dict.fromkeys(states, 0))
        user[row["state"]] += row["count"]
    return {
        "states": states,
        "kinds": kinds,
        "users": users,
        "oldest_queued_at": clock.rfc3339(
            min((r["oldest_queued_at"] for r in rows if r["state"] == "queued"), default=None)
        ),
        "wait_seconds": _mean(rows, "wait_ms"),
        "run_seconds": _mean(rows, "run_ms"),
        "failures": [
            {
                **row,
                "last_failed_at": clock.rfc3339(row["last_failed_at"]),
                "can_retry": row["error_code"] not in errors.OF_THE_SOURCE,
            }
            for row in failures
        ],
        "paused": list(paused),
    }


def history(tx: Tx, wanted: JobFilter, hours: int) -> dict[str, Any]:
    """How jobs ended of late, in buckets of time that are the same for everybody; oldest first."""
    width, count = _buckets(hours)
    now = read_store.now(tx)
    since = now - now % width - (count - 1) * width
    found = {row["number"]: row for row in read_store.ended(tx, wanted, since=since, width=width)}
    items = [_bucket(since + n * width, found.get(n, {})) for n in range(count)]
    return {"bucket_seconds": width // 1000, "items": items}


def _buckets(hours: int) -> tuple[int, int]:
    """How long each is, in milliseconds, and how many there are: as fine as is of use."""
    seconds = next(each for each in BUCKET_SECONDS if hours * 3600 <= each * MOST_BUCKETS)
    return seconds * 1000, -(-hours * 3600 // seconds)


def _bucket(at: int, row: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: row.get(name, 0) for name in ("completed", "failed", "canceled")}
    return {
        "at": clock.rfc3339(at),
        **counts,
        "wait_seconds": _seconds(row.get("wait_ms")),
        "run_seconds": _seconds(row.get("run_ms")),
    }


def _seconds(ms: Any) -> float | None:
    return None if ms is None else round(float(ms) / 1000, 3)


def _mean(rows: Rows, column: str) -> float | None:
    known = [row for row in rows if row[column] is not None]
    count = sum(row["count"] for row in known)
    total = sum(float(row[column]) * row["count"] for row in known)
    return round(total / count / 1000, 3) if count else None


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


def _preferred_idle(job: Job, online: Sequence[FleetWorker]) -> bool:
    preferred = {need.removesuffix("?") for need in job.needs if need.endswith("?")}
    urgent = job.priority is Priority.HIGH
    return bool(preferred) and any(
        worker.holds == 0
        and preferred <= set(worker.capabilities)
        and (urgent or not worker.is_for_urgent)
        for worker in online
    )
