"""The SQL of forgetting jobs: what has ended long ago, and nothing that is shown is made of.

Jobs are looked at in the order of their ids, a page at a time, and deleted a few at a time: each
statement has its index, and no transaction is long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rushes import kinds
from rushes.count_store import ENDED, LIVE, UNCOUNTED, UNMOVED
from rushes.db.database import Tx
from rushes.history_store import ENDED_AT, UNADDED
from rushes.records import Row, from_row

FOR_EVER_MS = 10**15
HOUSEKEEPING = ", ".join(f"'{each.name}'" for each in kinds.TABLE.values() if each.housekeeping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """For how long jobs are kept when they have ended. None: for ever."""

    jobs_ms: int | None = None
    housekeeping_ms: int | None = None

    def params(self) -> dict[str, int]:
        return {
            "jobs_ms": FOR_EVER_MS if self.jobs_ms is None else self.jobs_ms,
            "housekeeping_ms": FOR_EVER_MS
            if self.housekeeping_ms is None
            else self.housekeeping_ms,
        }


DUE = f"""jobs.state IN ({ENDED}) AND {ENDED_AT} < {{now}} - CASE WHEN jobs.kind IN ({HOUSEKEEPING})
    THEN CAST(:housekeeping_ms AS bigint) ELSE CAST(:jobs_ms AS bigint) END"""
# The newest job of each kind and state tells the status of a media, why it failed and what can be
# tried again; the job that made a version or a transcript tells of these. What is in the trash may
# come back, with the work on it.
SUPERSEDED = """EXISTS (SELECT 1 FROM jobs AS newer WHERE newer.media_id = jobs.media_id
    AND newer.kind = jobs.kind AND newer.state = jobs.state AND newer.division IS NULL
    AND newer.id > jobs.id)"""
UNNEEDED = f"""NOT EXISTS (SELECT 1 FROM jobs AS child WHERE child.parent_id = jobs.id)
    AND NOT EXISTS (SELECT 1 FROM jobs AS again WHERE again.retry_of = jobs.id)
    AND NOT EXISTS (SELECT 1 FROM jobs AS whole WHERE whole.id = jobs.parent_id
        AND whole.state IN ({LIVE}))
    AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id
        AND versions.state <> 'purged')
    AND NOT EXISTS (SELECT 1 FROM transcripts WHERE transcripts.job_id = jobs.id)
    AND (jobs.media_id IS NULL OR jobs.kind IN ({HOUSEKEEPING}) OR jobs.division IS NOT NULL
        OR EXISTS (SELECT 1 FROM media WHERE media.id = jobs.media_id
            AND (purged_at IS NOT NULL OR (deleted_at IS NULL AND {SUPERSEDED}))))"""
# The end of each was counted: it is not among what is yet to be.
_WAITING = sorted({*UNCOUNTED, *UNMOVED, *UNADDED})
ADDED_UP = " AND ".join(
    f"jobs.id NOT IN (SELECT job_id FROM events WHERE {each} AND job_id IS NOT NULL)"
    for each in _WAITING
)


@dataclass(frozen=True, slots=True)
class Page:
    """`due`: the jobs that may go. `last`: where the next page begins; None behind the last."""

    due: list[str]
    last: str | None


def look(tx: Tx, keep: Keep, *, after: str, limit: int) -> Page:
    rows = tx.all(
        f"""
        SELECT id, CASE WHEN created_at >= {{now}} - (CASE WHEN :jobs_ms < :housekeeping_ms
                THEN CAST(:jobs_ms AS bigint) ELSE CAST(:housekeeping_ms AS bigint) END)
            THEN 1 ELSE 0 END AS young,
            CASE WHEN {DUE} AND {UNNEEDED} THEN 1 ELSE 0 END AS due
        FROM jobs WHERE id > :after ORDER BY id LIMIT :limit""",
        after=after,
        limit=limit,
        **keep.params(),
    )
    # Ids are in the order in which jobs were made: what follows has not ended before.
    more = len(rows) == limit and not rows[-1]["young"]
    return Page([row["id"] for row in rows if row["due"]], rows[-1]["id"] if more else None)


def delete(tx: Tx, keep: Keep, ids: Sequence[str]) -> int:
    """Those of these jobs that may go, with their attempts and logs; returns how many."""
    # As whoever adds up does; and a recount that has begun must not count what goes here.
    lock = "UPDATE event_head SET pos = pos WHERE id = 1 AND recount_due = 0 RETURNING id"
    if tx.one(lock) is None:
        return 0
    # Locked first, then looked at again: whoever refers to one meanwhile either waits for this,
    # or is seen.
    locked = tx.all(
        "SELECT id FROM jobs WHERE id IN ({given:id text}) ORDER BY id {skip_locked}",
        given=[{"id": id} for id in ids],
    )
    gone = tx.all(
        f"DELETE FROM jobs WHERE id IN ({{given:id text}}) AND {DUE} AND {UNNEEDED}"
        f" AND {ADDED_UP} RETURNING id, kind, user_id, state, error_code",
        given=locked,
        **keep.params(),
    )
    if not gone:
        return 0
    given = [{"id": row["id"]} for row in gone]
    for table in ("attempts", "job_logs", "passages"):
        tx.all(f"DELETE FROM {table} WHERE job_id IN ({{given:id text}})", given=given)
    _note(tx, gone)
    return len(gone)


def _note(tx: Tx, gone: Sequence[Row]) -> None:
    ended = Counter((row["kind"], row["user_id"], row["state"]) for row in gone)
    tx.all(
        """
        WITH given AS ({given:kind text, user_id text, state text, number bigint})
        UPDATE job_counts SET pruned = pruned + given.number FROM given
        WHERE job_counts.kind = given.kind AND job_counts.user_id = given.user_id
        AND job_counts.state = given.state""",
        given=[
            {"kind": kind, "user_id": user_id, "state": state, "number": number}
            for (kind, user_id, state), number in ended.items()
        ],
    )
    failed = Counter(
        (row["kind"], row["user_id"], row["error_code"] or "")
        for row in gone
        if row["state"] == "failed"
    )
    tx.all(
        """
        WITH given AS ({given:kind text, user_id text, error_code text, number bigint})
        UPDATE failure_counts SET count = count - given.number FROM given
        WHERE failure_counts.kind = given.kind AND failure_counts.user_id = given.user_id
        AND failure_counts.error_code = given.error_code""",
        given=[
            {"kind": kind, "user_id": user_id, "error_code": code, "number": number}
            for (kind, user_id, code), number in failed.items()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedCount:
    """How many jobs of a kind were deleted, ever."""

    kind: str
    count: int


def pruned(tx: Tx) -> list[PrunedCount]:
    rows = tx.all(
        "SELECT kind, CAST(sum(pruned) AS bigint) AS count FROM job_counts"
        " GROUP BY kind HAVING sum(pruned) > 0 ORDER BY kind"
    )
    return [from_row(PrunedCount, row) for row in rows]
