"""The SQL of workers: registering, being seen, being told to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from rushes import errors, events
from rushes.db.database import Tx
from rushes.fleet.worker import AdminState, FleetWorker, encode_limited
from rushes.records import JsonObject

HOLDS = """(SELECT count(*) FROM jobs
    WHERE state = 'processing' AND claimed_by = workers.id) AS holds"""


def register(
    tx: Tx,
    id: str,
    name: str,
    *,
    capabilities: Sequence[str] = (),
    metadata: JsonObject | None = None,
    for_urgent: bool = False,
) -> None:
    """A worker that exists but has never been seen, and what is told of it beforehand.
    `for_urgent`: it takes only what comes before all else."""
    tx.all(
        """
        INSERT INTO workers (id, name, kinds, capabilities, metadata, for_urgent, registered_at)
        VALUES (:id, :name, '[]', :capabilities, :metadata, :for_urgent, {now})
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, for_urgent = excluded.for_urgent""",
        id=id,
        name=name,
        capabilities=encode_limited("capabilities", sorted(set(capabilities))),
        metadata=encode_limited("metadata", metadata or {}),
        for_urgent=int(for_urgent),
    )


def hello(
    tx: Tx,
    id: str,
    *,
    kinds: Sequence[str],
    capabilities: Sequence[str],
    metadata: JsonObject,
    boot_id: str | None = None,
) -> None:
    """What the worker says it can do, each time it starts. What it says nothing of stays as it was
    told when it was registered."""
    row = tx.one(
        """
        UPDATE workers SET kinds = :kinds,
            capabilities = coalesce(nullif(CAST(:capabilities AS text), '[]'), capabilities),
            metadata = coalesce(nullif(CAST(:metadata AS text), '{{}}'), metadata),
            last_seen_at = {now}, boot_id = CAST(:boot_id AS text),
            boot_at = CASE WHEN boot_id = CAST(:boot_id AS text) THEN boot_at ELSE {now} END,
            changed_at = {now}
        WHERE id = :id RETURNING id""",
        boot_id=boot_id,
        id=id,
        kinds=encode_limited("kinds", sorted(set(kinds))),
        capabilities=encode_limited("capabilities", sorted(set(capabilities))),
        metadata=encode_limited("metadata", metadata),
    )
    if row is None:
        raise errors.NotFound(f"no worker {id}")
    events.append(tx, "worker.online", worker_id=id)


def seen(tx: Tx, id: str) -> AdminState:
    """Note a sign of life; returns what the admin has said."""
    row = tx.one("UPDATE workers SET last_seen_at = {now} WHERE id = :id RETURNING state", id=id)
    if row is None:
        raise errors.NotFound(f"no worker {id}")
    return AdminState(row["state"])


def seen_many(tx: Tx, ids: Iterable[str]) -> dict[str, AdminState]:
    """The same for many at once; those that are unknown are left out."""
    rows = tx.all(
        "UPDATE workers SET last_seen_at = {now}"
        " WHERE id IN (SELECT value FROM {each:CAST(:ids AS text)}) RETURNING id, state",
        ids=msgspec.json.encode(sorted(ids)).decode(),
    )
    return {row["id"]: AdminState(row["state"]) for row in rows}


def note_change(tx: Tx, id: str) -> None:
    """Whoever remembers this worker is to look again."""
    tx.all("UPDATE workers SET changed_at = {now} WHERE id = :id", id=id)


@dataclass(frozen=True, slots=True)
class Changes:
    """Which workers are not as they were, as far as was committed by `until`."""

    worker_ids: frozenset[str]
    until: int


def changes(tx: Tx, since: int | None) -> Changes:
    """Of kinds, capabilities, keys and the admin's word; none when `since` is not known."""
    row = tx.one("SELECT {now} AS now")
    assert row is not None
    rows = (
        []
        if since is None
        else tx.all("SELECT id FROM workers WHERE changed_at >= :since", since=since)
    )
    return Changes(frozenset(each["id"] for each in rows), int(row["now"]))


def announce(tx: Tx, id: str, status: str) -> None:
    """Tell of a status that is not the one told last."""
    row = tx.one(
        "UPDATE workers SET announced = :status WHERE id = :id"
        " AND (announced IS NULL OR announced <> :status) RETURNING id",
        id=id,
        status=status,
    )
    if row is not None:
        events.append(tx, f"worker.{status}", worker_id=id)


def set_state(tx: Tx, id: str, state: AdminState) -> None:
    row = tx.one(
        """
        UPDATE workers SET state = :state, state_changed_at = {now}, changed_at = {now}
        WHERE id = :id RETURNING id""",
        id=id,
        state=state,
    )
    if row is None:
        raise errors.NotFound(f"no worker {id}")
    events.append(tx, f"worker.{state}", worker_id=id)


def get(tx: Tx, id: str) -> FleetWorker | None:
    row = tx.one(f"SELECT workers.*, {HOLDS} FROM workers WHERE id = :id", id=id)
    return FleetWorker.from_row(row) if row else None


def all_workers(tx: Tx) -> list[FleetWorker]:
    rows = tx.all(f"SELECT workers.*, {HOLDS} FROM workers ORDER BY registered_at, id")
    return [FleetWorker.from_row(row) for row in rows]
