"""How many jobs with a key in common may run at once: the limits, and who has reached them.

A claim counts what runs in its own statement. On PostgreSQL two of them would both count before
either has claimed, so each first locks the limits that may be on what it is offered.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushes import events, kinds
from rushes.db.database import Tx
from rushes.jobs import limiting
from rushes.jobs.job import Job, encode
from rushes.jobs.limiting import KIND, USER, WORKER, Limit
from rushes.records import from_row

# What the server does for itself is nobody's share.
_OWN_KINDS = ", ".join(f"'{each}'" for each in sorted(kinds.servers_own()))
_OF_WORKERS = f"kind NOT IN ({_OWN_KINDS})"
_OF_USERS = f"{_OF_WORKERS} AND user_id <> ''"
# The limit of a key, or else that of its family.
_APPLIES = """(limits.key = held.key
    OR (limits.key = substr(held.key, 1, length(limits.key) - 1) || '*'
        AND NOT EXISTS (SELECT 1 FROM limits AS own WHERE own.key = held.key)))"""


def _held(key: str, which: str) -> str:
    # Counted by an expression: by the column, PostgreSQL would walk over all jobs in its order.
    return f"""SELECT key, count(*) AS running FROM (
        SELECT {key} AS key FROM jobs WHERE state = 'processing' AND {which}) AS one GROUP BY key"""


_HELD = (
    _held(f"'{USER}:' || user_id", _OF_USERS),
    _held(f"'{KIND}:' || kind", "1 = 1"),
    _held("limit_key || ''", "limit_key IS NOT NULL"),
    _held(f"'{WORKER}:' || lower(processed_by_worker_name)", _OF_WORKERS),
)
_FULL = [
    f"(SELECT key FROM ({each}) AS held WHERE EXISTS"
    f" (SELECT 1 FROM limits WHERE {_APPLIES} AND held.running >= limits.most))"
    for each in _HELD
]
_ALL_HELD = " UNION ALL ".join(_HELD)
# A job with none of its keys at a limit, for this worker.
HAS_PLACE = f""" AND (jobs.kind IN ({_OWN_KINDS}) OR ('{USER}:' || jobs.user_id NOT IN {_FULL[0]}
        AND :worker_key NOT IN {_FULL[3]}))
    AND '{KIND}:' || jobs.kind NOT IN {_FULL[1]}
    AND coalesce(jobs.limit_key, '') NOT IN {_FULL[2]}"""
# 0: there are no limits; 2: there are some on users.
LIMITED = f"""(SELECT coalesce(max(CASE WHEN substr(key, 1, 5) = '{USER}:' THEN 2 ELSE 1 END), 0)
    FROM limits)"""


def lock(tx: Tx, names: Iterable[str]) -> set[str]:
    """Those of these limits that there are. Whoever else is about to keep to one of them waits."""
    rows = tx.all(
        "SELECT key FROM limits WHERE key IN (SELECT value FROM {each:CAST(:names AS text)})"
        " ORDER BY key {for_update}",
        names=encode(sorted(names)),
    )
    return {row["key"] for row in rows}


def set_limit(tx: Tx, key: str, most: int) -> None:
    tx.all(
        """
        INSERT INTO limits (key, most, changed_at) VALUES (:key, :most, {now})
        ON CONFLICT (key) DO UPDATE SET most = excluded.most, changed_at = excluded.changed_at""",
        key=key,
        most=most,
    )
    events.append(tx, "queue.limited", data=encode({"key": key, "most": most}))


def remove(tx: Tx, key: str) -> bool:
    """False: there is none."""
    gone = tx.all("DELETE FROM limits WHERE key = :key RETURNING key", key=key)
    if gone:
        events.append(tx, "queue.limited", data=encode({"key": key, "most": None}))
    return bool(gone)


def all_limits(tx: Tx) -> list[Limit]:
    rows = tx.all(
        f"""
        SELECT limits.key, limits.most, coalesce((
            SELECT max(running) FROM ({_ALL_HELD}) AS held WHERE {_APPLIES}), 0) AS running
        FROM limits ORDER BY limits.key"""
    )
    return [from_row(Limit, row) for row in rows]


def reached(tx: Tx, job: Job) -> list[Limit]:
    """The limits that keep this job from running now, on any worker."""
    return _reached(tx, limiting.keys(job.kind, job.user_id, job.limit_key))


def reached_by(tx: Tx, worker_name: str) -> list[Limit]:
    return _reached(tx, [limiting.worker_key(worker_name)])


def _reached(tx: Tx, keys: Iterable[str]) -> list[Limit]:
    rows = tx.all(
        f"""
        SELECT limits.key, limits.most, held.running FROM ({_ALL_HELD}) AS held
        JOIN limits ON {_APPLIES} AND held.running >= limits.most
        WHERE held.key IN (SELECT value FROM {{each:CAST(:keys AS text)}}) ORDER BY limits.key""",
        keys=encode(list(keys)),
    )
    return [from_row(Limit, row) for row in rows]
