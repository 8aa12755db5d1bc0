"""The queue for people: lists, counts, attempts, pauses, and the facts behind `why`."""

from __future__ import annotations

from typing import Any

from rushes.db.database import Tx
from rushes.jobs.job import Job


def list_jobs(
    tx: Tx,
    *,
    state: str | None = None,
    kind: str | None = None,
    user_id: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[Job]:
    """Newest first; `before` is the last id of the page before (ids sort by time)."""
    wanted = {"state": state, "kind": kind, "user_id": user_id}
    given = {name: value for name, value in wanted.items() if value is not None}
    guards = [f"{name} = :{name}" for name in given]
    if before is not None:
        guards.append("id < :before")
        given["before"] = before
    where = f"WHERE {' AND '.join(guards)}" if guards else ""
    rows = tx.all(
        f"SELECT * FROM jobs {where} ORDER BY id DESC LIMIT :limit",
        limit=limit,
        **given,
    )
    return [Job.from_row(row) for row in rows]


def attempts(tx: Tx, job_id: str) -> list[dict[str, Any]]:
    """Every try of a job, oldest first; the API calls them executions."""
    rows = tx.all("SELECT * FROM attempts WHERE job_id = :job_id ORDER BY epoch", job_id=job_id)
    return [{"id": "exe" + row["claim_id"][3:], **row} for row in rows]


def stats(tx: Tx) -> list[dict[str, Any]]:
    """How many jobs each user has of each kind in each state, and how long they waited and ran."""
    return tx.all(
        """
        SELECT kind, user_id, state, count(*) AS count, min(queued_at) AS oldest_queued_at,
            avg(started_at - queued_at) AS wait_ms,
            avg(completed_at - started_at) AS run_ms
        FROM jobs GROUP BY kind, user_id, state ORDER BY kind, user_id, state"""
    )


def pause(tx: Tx, kind: str) -> None:
    tx.all(
        "INSERT INTO pauses (kind, paused_at) VALUES (:kind, {now}) ON CONFLICT DO NOTHING",
        kind=kind,
    )


def resume(tx: Tx, kind: str) -> None:
    tx.all("DELETE FROM pauses WHERE kind = :kind", kind=kind)


def pauses(tx: Tx) -> list[str]:
    return [row["kind"] for row in tx.all("SELECT kind FROM pauses ORDER BY kind")]


def now(tx: Tx) -> int:
    row = tx.one("SELECT {now} AS now")
    assert row is not None
    return int(row["now"])


def position(tx: Tx, job: Job) -> int:
    """How many queued jobs stand before this one, whatever they need."""
    row = tx.one(
        """
        SELECT count(*) AS ahead FROM jobs WHERE state = 'queued'
        AND (priority, queued_at, id) < (:priority, :queued_at, :id)""",
        priority=int(job.priority),
        queued_at=job.queued_at,
        id=job.id,
    )
    assert row is not None
    return int(row["ahead"]) + 1
