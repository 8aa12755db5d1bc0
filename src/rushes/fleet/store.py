"""The SQL of workers: registering, being seen, being told to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rushes import errors, events, worker_settings
from rushes.db.database import Tx
from rushes.fleet.worker import (
    AdminState,
    AdminWord,
    FleetWorker,
    Presence,
    encode_limited,
    unable_in,
)
from rushes.protocol import Standing
from rushes.records import JsonObject, from_row
from rushes.worker_settings import WorkerSettings

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
        INSERT INTO workers (id, name, kinds, capabilities, metadata, own_settings, for_urgent,
            registered_at)
        VALUES (:id, :name, '[]', :capabilities, :metadata, :own_settings, :for_urgent, {now})
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, for_urgent = excluded.for_urgent""",
        id=id,
        name=name,
        capabilities=encode_limited("capabilities", sorted(set(capabilities))),
        metadata=encode_limited("metadata", metadata or {}),
        own_settings=_encoded(_plain_tags(capabilities)),
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
    own_settings: WorkerSettings | None = None,
    protocol: str | None = None,
) -> AdminWord:
    """What the worker says it can do, each time it starts. What it says nothing of stays as it was
    told when it was registered. Returns what the admin has said."""
    before = _locked(tx, id)
    own = own_settings or WorkerSettings()
    if own.tags is None:
        said = _own_tags(capabilities) if capabilities else before.own_settings.tags
        own = replace(own, tags=said)
    told = capabilities or before.capabilities
    row = tx.one(
        """
        UPDATE workers SET kinds = :kinds, capabilities = :capabilities,
            metadata = coalesce(nullif(CAST(:metadata AS text), '{{}}'), metadata),
            last_seen_at = {now}, boot_id = CAST(:boot_id AS text),
            boot_at = CASE WHEN boot_id = CAST(:boot_id AS text) THEN boot_at ELSE {now} END,
            own_settings = :own_settings, protocol = CAST(:protocol AS text), slots = :slots,
            resting_until = NULL, standing = NULL, declines = :declines, changed_at = {now}
        WHERE id = :id RETURNING state, settings, protocol""",
        boot_id=boot_id,
        id=id,
        kinds=encode_limited("kinds", sorted(set(kinds))),
        metadata=encode_limited("metadata", metadata),
        own_settings=_encoded(worker_settings.plain(own)),
        protocol=protocol,
        declines=_encoded(unable_in(metadata)),
        **_derived(own, before.settings, kinds, told),
    )
    assert row is not None
    events.append(tx, "worker.online", worker_id=id)
    return AdminWord.from_row(row)


def set_settings(tx: Tx, id: str, settings: WorkerSettings) -> None:
    """What an admin says of how it is to work."""
    before = _locked(tx, id)
    tx.all(
        """
        UPDATE workers SET settings = :settings, capabilities = :capabilities, slots = :slots,
            changed_at = {now} WHERE id = :id""",
        id=id,
        settings=_encoded(worker_settings.plain(settings)),
        **_derived(before.own_settings, settings, before.kinds, before.capabilities),
    )
    events.append(tx, "worker.changed", worker_id=id)


def stand(tx: Tx, id: str, standing: Standing) -> None:
    """What a worker tells of itself, in place of what it told before."""
    before = _locked(tx, id)
    rests = standing.resting_seconds
    tx.all(
        """
        UPDATE workers SET standing = :standing, declines = :declines,
            resting_until = CASE WHEN :rest_ms < 0 THEN NULL ELSE {now} + :rest_ms END
        WHERE id = :id""",
        id=id,
        rest_ms=-1 if rests is None else int(rests * 1000),
        standing=_encoded({"declined": dict(standing.declined), "notes": list(standing.notes)}),
        declines=_encoded(sorted({*standing.declined, *before.unable})),
    )
    told = (before.resting_until is None, before.declined, list(before.notes))
    if told != (rests is None, dict(standing.declined), list(standing.notes)):
        events.append(tx, "worker.changed", worker_id=id)


def _locked(tx: Tx, id: str) -> FleetWorker:
    row = tx.one("SELECT workers.*, 0 AS holds FROM workers WHERE id = :id {for_update}", id=id)
    if row is None:
        raise errors.NotFound(f"no worker {id}")
    return FleetWorker.from_row(row)


def _derived(
    own: WorkerSettings, told: WorkerSettings, kinds: Sequence[str], capabilities: Sequence[str]
) -> dict[str, str | None]:
    """What the claim goes by, as it follows from the settings in effect."""
    now = worker_settings.merged(own, told)
    words = worker_settings.with_tags(capabilities, now.tags or ())
    slots = worker_settings.slots(now, kinds)
    return {
        "capabilities": encode_limited("capabilities", sorted(set(words))),
        "slots": None if slots is None else _encoded(slots),
    }


def _own_tags(capabilities: Sequence[str]) -> list[str] | None:
    return worker_settings.own_tags(capabilities) or None


def _plain_tags(capabilities: Sequence[str]) -> dict[str, Any]:
    return dict(worker_settings.plain(WorkerSettings(tags=_own_tags(capabilities))))


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def seen(tx: Tx, id: str) -> AdminWord:
    """Note a sign of life; returns what the admin has said."""
    row = tx.one(
        "UPDATE workers SET last_seen_at = {now} WHERE id = :id"
        " RETURNING state, settings, protocol",
        id=id,
    )
    if row is None:
        raise errors.NotFound(f"no worker {id}")
    return AdminWord.from_row(row)


def seen_many(tx: Tx, ids: Iterable[str]) -> dict[str, AdminWord]:
    """The same for many at once; those that are unknown are left out."""
    rows = tx.all(
        "UPDATE workers SET last_seen_at = {now}"
        " WHERE id IN (SELECT value FROM {each:CAST(:ids AS text)})"
        " RETURNING id, state, settings, protocol",
        ids=msgspec.json.encode(sorted(ids)).decode(),
    )
    return {row["id"]: AdminWord.from_row(row) for row in rows}


def note_change(tx: Tx, id: str) -> None:
    """Whoever remembers this worker is to look again."""
    tx.all("UPDATE workers SET changed_at = {now} WHERE id = :id", id=id)


@dataclass(frozen=True, slots=True)
class Changes:
    """Which workers are not as they were, as far as was committed by `until`, and what the admin
    says of them."""

    words: Mapping[str, AdminWord]
    until: int


def changes(tx: Tx, since: int | None) -> Changes:
    """Of kinds, capabilities, keys and the admin's word; none when `since` is not known."""
    row = tx.one("SELECT {now} AS now")
    assert row is not None
    rows = (
        []
        if since is None
        else tx.all(
            "SELECT id, state, settings, protocol FROM workers WHERE changed_at >= :since",
            since=since,
        )
    )
    return Changes({each["id"]: AdminWord.from_row(each) for each in rows}, int(row["now"]))


def presences(tx: Tx) -> list[Presence]:
    """Of all workers, without what takes long to read."""
    rows = tx.all(
        f"SELECT id, state, registered_at, last_seen_at, lost_at, announced, {HOLDS} FROM workers"
    )
    return [from_row(Presence, row, state=AdminState(row["state"])) for row in rows]


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


# Workers that could not reach any server are not gone: after an outage, and when a clock has
# jumped, they get so long to be heard of.
REACHABLE_MS = 3_600_000
GONE = """state <> 'disabled' AND coalesce(last_seen_at, registered_at) < {now} - :unheard_ms
    AND EXISTS (SELECT 1 FROM service_beat WHERE beat_at > {now} - :reachable_ms
        AND grace_until < {now} - :reachable_ms)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'processing' AND claimed_by = workers.id)"""


def gone(tx: Tx, *, unheard_ms: int, limit: int) -> dict[str, str]:
    """The names, by id, of workers that were not heard of for so long, hold nothing and are not
    disabled; locked, so that they cannot come back meanwhile."""
    rows = tx.all(
        f"SELECT id, name FROM workers WHERE {GONE} ORDER BY id LIMIT :limit {{skip_locked}}",
        unheard_ms=unheard_ms,
        reachable_ms=REACHABLE_MS,
        limit=limit,
    )
    return {row["id"]: row["name"] for row in rows}


def remove(tx: Tx, id: str) -> None:
    tx.all("DELETE FROM workers WHERE id = :id", id=id)
    events.append(tx, "worker.forgotten", worker_id=id)


def get(tx: Tx, id: str) -> FleetWorker | None:
    row = tx.one(f"SELECT workers.*, {HOLDS} FROM workers WHERE id = :id", id=id)
    return FleetWorker.from_row(row) if row else None


def all_workers(tx: Tx) -> list[FleetWorker]:
    rows = tx.all(f"SELECT workers.*, {HOLDS} FROM workers ORDER BY registered_at, id")
    return [FleetWorker.from_row(row) for row in rows]
