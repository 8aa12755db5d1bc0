"""Claim requests whose answers may have been lost: what they were answered, and what of it nobody
holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rushes.db.database import Tx
from rushes.jobs.job import encode
from rushes.jobs.lifecycle import Lost
from rushes.jobs.store import (
    ASSIGNMENT,
    HELD_FACTS,
    LEASE_ALIVE,
    assignments_from_rows,
    lost,
)
from rushes.protocol import Assignment, Claim


class Asking(NamedTuple):
    """A claim request of a worker."""

    worker_id: str
    request_id: str


def renew_requests(
    tx: Tx, asked: Iterable[Asking], lease_ms: int
) -> dict[Asking, list[Assignment]]:
    """What is held by the answers to requests, in the order of the queue."""
    rows = tx.all(
        "WITH given AS ({given:worker_id text, request_id text})"
        " UPDATE jobs SET claim_expires_at = {now} + :lease_ms FROM given"
        " WHERE jobs.state = 'processing' AND jobs.claimed_by = given.worker_id"
        " AND jobs.claim_request = given.request_id AND "
        + LEASE_ALIVE
        + f" RETURNING claimed_by, claim_request, {ASSIGNMENT}",
        given=_requests(asked),
        lease_ms=lease_ms,
    )
    askings = {row["id"]: Asking(row["claimed_by"], row["claim_request"]) for row in rows}
    held: dict[Asking, list[Assignment]] = {}
    for each in assignments_from_rows(rows, lease_ms):
        held.setdefault(askings[each.job_id], []).append(each)
    return held


def holders(tx: Tx, asked: Iterable[Asking]) -> set[str]:
    """Of these workers those that hold something by the answers to these requests."""
    rows = tx.all(
        "WITH given AS ({given:worker_id text, request_id text})"
        " SELECT DISTINCT claimed_by FROM jobs JOIN given"
        " ON jobs.claimed_by = given.worker_id AND jobs.claim_request = given.request_id"
        " WHERE jobs.state = 'processing'",
        given=_requests(asked),
    )
    return {row["claimed_by"] for row in rows}


def lock_unheard_of(
    tx: Tx, worker_id: str, requests: Sequence[str], held: Sequence[Claim], limit: int
) -> list[Lost]:
    return lost(
        tx,
        f"SELECT id, {HELD_FACTS}, 0 AS got_on, 0 AS survived, 0 AS silent, 1 AS unheard_of,"
        " 0 AS outage, 0 AS stalled FROM jobs WHERE state = 'processing'"
        " AND claimed_by = :worker_id AND claim_request IN (SELECT value FROM {each::requests})"
        " AND claim_id NOT IN (SELECT value FROM {each::held})"
        " ORDER BY id LIMIT :limit {skip_locked}",
        worker_id=worker_id,
        requests=encode(list(requests)),
        held=encode([claim.claim_id for claim in held]),
        limit=limit,
    )


def _requests(asked: Iterable[Asking]) -> list[dict[str, str]]:
    return [each._asdict() for each in asked]
