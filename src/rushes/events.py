"""One row per change, written by the changing transaction; read in commit order without gaps.

Writers never wait for each other: rows are inserted without a position, and `assign_positions`
numbers committed rows under one lock. So a reader that has seen position n has seen all before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushes import count_store, history_store, kinds
from rushes.db.database import Tx
from rushes.records import from_row

BATCH = 10_000
# How the events of a kind begin.
_RENAMED = [
    f"WHEN '{each.name}' THEN '{each.events}'" for each in kinds.TABLE.values() if each.events
]
FAMILY = f"CASE kind {' '.join(_RENAMED)} ELSE kind END"


# Of a job, what an event is made of.
COLUMNS = """jobs.id, jobs.kind, jobs.media_id, jobs.user_id, jobs.state, jobs.progress, jobs.stage,
    jobs.attempt, jobs.claim_epoch, jobs.processed_by_worker_id, jobs.error_code"""


def from_changed(verb: str, data: str = "NULL", *, was: str = "state") -> str:
    """The statement that tells of each row in `changed`; the arguments are SQL text of that row.
    `was`: its state before; NULL for a new job. Without, it has not changed."""
    return f"""
        INSERT INTO events (at, type, media_id, job_id, worker_id, user_id, state, attempt, epoch,
                            progress, stage, error_code, data, job_kind, job_was)
        SELECT {{now}},
               {FAMILY} || '.' || {verb},
               media_id, id, processed_by_worker_id, user_id, state, attempt, claim_epoch,
               progress, stage, error_code, {data}, kind, {was}
        FROM changed"""


def append(tx: Tx, type: str, **facts: Any) -> None:
    """Tell of a change that is not a job's: `media.deleted`, `worker.disabled`."""
    tx.all(
        """
        INSERT INTO events (at, type, media_id, worker_id, user_id, data)
        VALUES ({now}, :type, :media_id, :worker_id, :user_id, :data)""",
        type=type,
        **{"media_id": None, "worker_id": None, "user_id": None, "data": None} | facts,
    )


def first_waiting(tx: Tx, since: int) -> int:
    """The first that waits for its position, of those from `since` on; the last that has one if
    none does."""
    row = tx.one(
        """
        SELECT coalesce((SELECT min(seq) FROM events WHERE pos IS NULL AND seq >= :since),
            (SELECT seq FROM events WHERE pos = (SELECT pos FROM event_head)), 0) AS seq""",
        since=since,
    )
    return int(row["seq"]) if row else 0


def assign_positions(tx: Tx, since: int = 0) -> range:
    """Number what has committed since; returns the new positions. Any replica may run it at any
    time. `since`: those that were written before wait for another time."""
    # The lock comes first, in a statement of its own: on PostgreSQL a statement that waited for
    # it would still see the table as it was before the wait, and number rows twice.
    before = tx.one("UPDATE event_head SET pos = pos WHERE id = 1 RETURNING pos")
    tx.all(
        """
        UPDATE events SET pos = fresh.pos
        FROM (SELECT seq, (SELECT pos FROM event_head) + row_number() OVER (ORDER BY seq) AS pos
              FROM (SELECT seq FROM events WHERE pos IS NULL AND seq >= :since ORDER BY seq
                    LIMIT :batch) AS page
             ) AS fresh
        WHERE events.seq = fresh.seq AND events.pos IS NULL""",
        since=since,
        batch=BATCH,
    )
    after = tx.one(
        "UPDATE event_head SET pos ="
        " coalesce((SELECT max(pos) FROM events WHERE pos IS NOT NULL), pos)"
        " WHERE id = 1 RETURNING pos, counted_pos, live_pos, recount_due, history_pos, pruned_pos"
    )
    if before is None or after is None:
        return range(0)
    last = from_row(count_store.Head, after)
    count_store.add_up(tx, last)
    history_store.add_up(tx, last)
    return range(before["pos"] + 1, after["pos"] + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change that was told of. `data`: JSON; the rest is as it was when it happened."""

    pos: int
    at: int
    type: str
    media_id: str | None
    job_id: str | None
    worker_id: str | None
    user_id: str | None
    state: str | None
    attempt: int | None
    epoch: int | None
    progress: float | None
    stage: str | None
    error_code: str | None
    data: str | None


def read_since(tx: Tx, position: int, limit: int = 1_000) -> list[Event]:
    rows = tx.all(
        "SELECT * FROM events WHERE pos > :position ORDER BY pos LIMIT :limit",
        position=position,
        limit=limit,
    )
    return [from_row(Event, row) for row in rows]


def read_range(tx: Tx, after: int, until: int, **of: str | None) -> list[Event] | None:
    """Those behind position `after` up to `until`, of a `user_id`, `media_id` or `job_id` if
    given; None when some of that range are forgotten already."""
    given = {name: value for name, value in of.items() if value is not None}
    guards = "".join(f" AND {name} = :{name}" for name in given)
    rows = tx.all(
        f"SELECT * FROM events WHERE pos > :after AND pos <= :until{guards} ORDER BY pos",
        after=after,
        until=until,
        **given,
    )
    # Asked afterwards, so that what was forgotten in between is noticed.
    pruned = tx.one("SELECT pruned_pos FROM event_head WHERE pruned_pos > :after", after=after)
    return None if pruned else [from_row(Event, row) for row in rows]


def news(tx: Tx) -> tuple[int, bool]:
    """The head, and whether committed rows wait for their position. Takes no lock."""
    row = tx.one(
        "SELECT pos, EXISTS (SELECT 1 FROM events WHERE pos IS NULL) AS waiting FROM event_head"
    )
    return (int(row["pos"]), bool(row["waiting"])) if row else (0, False)


def head(tx: Tx) -> int:
    row = tx.one("SELECT pos FROM event_head")
    return int(row["pos"]) if row else 0


def prune(tx: Tx, *, keep_ms: int, limit: int = BATCH) -> int:
    """Forget the oldest positions, in order, so that what is left stays gapless; returns how many,
    at most `limit`."""
    tx.all("UPDATE event_head SET pos = pos WHERE id = 1")
    page = "pos IS NOT NULL AND pos <= (SELECT pruned_pos + :limit FROM event_head)"
    row = tx.one(
        f"SELECT max(pos) AS pos, {{now}} - :keep_ms AS before FROM events WHERE {page}"
        f" AND pos < coalesce((SELECT min(pos) FROM events WHERE {page}"
        "   AND at >= {now} - :keep_ms), 9000000000000000000)",
        keep_ms=keep_ms,
        limit=limit,
    )
    if row is None or row["pos"] is None:
        return 0
    gone = tx.all("DELETE FROM events WHERE pos <= :pos RETURNING pos", pos=row["pos"])
    tx.all("UPDATE event_head SET pruned_pos = :pos, pruned_before = :before WHERE id = 1", **row)
    return len(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """`was`: the state before, as the event tells it; None of a new job's, and of old events."""

    pos: int
    job_id: str
    type: str
    was: str | None = None
    state: str
    attempt: int
    epoch: int


def of_jobs(tx: Tx, *, after: int, limit: int) -> list[JobEvent]:
    """Behind this position, oldest first."""
    rows = tx.all(
        """
        SELECT pos, job_id, type, job_was AS was, state, attempt, epoch FROM events
        WHERE pos > :after AND job_id IS NOT NULL AND state IS NOT NULL
        ORDER BY pos LIMIT :limit""",
        after=after,
        limit=limit,
    )
    return [from_row(JobEvent, row) for row in rows]


def pruned_until(tx: Tx) -> int:
    """The last position that is not kept any more; 0 if all are."""
    row = tx.one("SELECT pruned_pos FROM event_head")
    return int(row["pruned_pos"]) if row else 0
