"""New jobs, and what they refer to.

A row that does not come back was not written: a live job has its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import structs

from rushes import events
from rushes.db.database import Tx
from rushes.db.dialects import NOTIFY
from rushes.jobs.job import Entry, State

# Whatever `alike` says is a parameter: a row says it only where it is not as in the first one.
INSERT = """
    WITH given AS ({given:id text, kind text, media_id text, user_id text, state text,
        priority bigint, lane text, args text, needs text, dedupe_key text, parent_id text,
        retry_of text, queued_at bigint, run_at bigint, delay_ms bigint, max_attempts bigint,
        timeout_ms bigint, division bigint, limit_key text, trace text})
    INSERT INTO jobs (id, kind, media_id, user_id, state, priority, lane, args, needs,
        dedupe_key, parent_id, retry_of, created_at, queued_at, run_at, max_attempts,
        timeout_ms, division, limit_key, trace)
    SELECT id, coalesce(kind, :kind), media_id, coalesce(user_id, :user_id),
        coalesce(state, 'queued'), coalesce(priority, :priority), coalesce(lane, :lane), args,
        coalesce(needs, :needs), dedupe_key, parent_id, retry_of, {now},
        CASE coalesce(state, 'queued') WHEN 'queued' THEN coalesce(queued_at, {now}) END,
        CASE WHEN run_at > {now} THEN run_at ELSE {now} + coalesce(delay_ms, 0) END,
        coalesce(max_attempts, :max_attempts), timeout_ms, division, limit_key,
        coalesce(trace, (SELECT trace FROM jobs WHERE jobs.id = given.parent_id))
    FROM given"""
# What makes room for the other, looked for in every unique index: it costs a tenth of the whole.
UNLESS_THERE = " WHERE true ON CONFLICT DO NOTHING"


def insert(tx: Tx, entries: Sequence[Entry], *, notify: bool = False) -> set[str]:
    """Insert jobs; returns the ids that were new. The others have a live twin. `notify`: also
    tell waiting workers, which PostgreSQL does with the commit."""
    usual = entries[0].alike
    has_key = any(row.dedupe_key is not None or row.retry_of is not None for _, row in entries)
    changed = tx.change(
        INSERT + UNLESS_THERE if has_key else INSERT,
        events.from_changed("state", was="NULL"),
        returning=f"id, {NOTIFY}" if notify else "id",
        of=events.COLUMNS,
        given=[each.row if each.alike is usual else _whole(each) for each in entries],
        **structs.asdict(usual),
    )
    return {row["id"] for row in changed}


def _whole(entry: Entry) -> dict[str, Any]:
    return structs.asdict(entry.row) | structs.asdict(entry.alike)


def live_twin(tx: Tx, dedupe_key: str | None, retry_of: str | None) -> str | None:
    row = tx.one(
        """
        SELECT id FROM jobs WHERE state IN ('blocked', 'queued', 'processing')
        AND (dedupe_key = :dedupe_key OR retry_of = :retry_of)
        ORDER BY created_at, id LIMIT 1""",
        dedupe_key=dedupe_key,
        retry_of=retry_of,
    )
    return row["id"] if row else None


def states(tx: Tx, ids: Iterable[str]) -> dict[str, State]:
    rows = tx.all(
        "WITH given AS ({given:id text}) SELECT jobs.id, state FROM jobs JOIN given"
        " ON given.id = jobs.id",
        given=[{"id": id} for id in ids],
    )
    return {row["id"]: State(row["state"]) for row in rows}


def missing_media(tx: Tx, ids: set[str]) -> list[str]:
    """The others are not deleted before this transaction ends: who deletes cancels what it sees."""
    rows = tx.all(
        "SELECT id FROM media WHERE id IN ({given:id text}) AND deleted_at IS NULL {for_share}",
        given=[{"id": id} for id in ids],
    )
    return sorted(ids - {row["id"] for row in rows})
