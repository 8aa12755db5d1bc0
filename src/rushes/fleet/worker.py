"""A worker as people see it. Liveness, activity and the admin's word are separate facts. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from rushes import clock, errors, kinds, protocol, worker_settings
from rushes.records import JsonObject, Row, from_row
from rushes.worker_settings import InEffect, WorkerSettings

LIMIT_BYTES = 10 * 1024


class AdminState(StrEnum):
    ENABLED = "enabled"
    DRAINING = "draining"
    DISABLED = "disabled"


class WorkerStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    BUSY = "busy"
    OFFLINE = "offline"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWord:
    """What an admin has said of a worker: whether it may work, and how. `upgrade`: why it may not,
    whatever the admin says, since its protocol is not spoken here."""

    state: AdminState
    settings: WorkerSettings
    upgrade: str | None = None

    @classmethod
    def from_row(cls, row: Row) -> AdminWord:
        return cls(
            state=AdminState(row["state"]),
            settings=settings_of(row["settings"]),
            upgrade=protocol.why_not_spoken(row["protocol"]),
        )

    @property
    def may_work(self) -> bool:
        return self.state is AdminState.ENABLED and self.upgrade is None

    @property
    def etag(self) -> str:
        """Of all of it, for whoever has heard it."""
        told = [self.state, worker_settings.plain(self.settings), self.upgrade]
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]


def settings_of(text: str | None) -> WorkerSettings:
    """As kept. What a newer server has kept, and nobody knows here, is left out."""
    return worker_settings.believed(msgspec.json.decode(text)) if text else WorkerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """All that the status of a worker follows from."""

    id: str
    state: AdminState
    registered_at: int
    last_seen_at: int | None
    # When it last lost a job by its silence.
    lost_at: int | None
    # The status that was told last.
    announced: str | None
    holds: int

    def status(self, now: int, offline_after_ms: int) -> WorkerStatus:
        if self.state is AdminState.DISABLED:
            return WorkerStatus.DISABLED
        heard_at = self.registered_at if self.last_seen_at is None else self.last_seen_at
        if now - heard_at > offline_after_ms or (self.lost_at or 0) > heard_at:
            return WorkerStatus.OFFLINE
        if self.last_seen_at is None:
            return WorkerStatus.ACTIVE
        return WorkerStatus.BUSY if self.holds else WorkerStatus.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWorker(Presence):
    name: str
    kinds: list[str]
    capabilities: list[str]
    metadata: JsonObject
    # Which of its processes has said hello last.
    boot_id: str | None
    # It takes only what comes before all else.
    is_for_urgent: bool
    # What an admin says of how it is to work, and what it has brought itself.
    settings: WorkerSettings
    own_settings: WorkerSettings
    # The version that it speaks; none: the first.
    protocol: str | None
    # One word for each job that it may run at once; none: one job.
    slots: list[str] | None
    resting_until: int | None
    # By kind why it takes none of it now, and what else it tells.
    declined: Mapping[str, str]
    notes: Sequence[str]

    @classmethod
    def from_row(cls, row: Row) -> FleetWorker:
        said = {
            name: msgspec.json.decode(row[name]) for name in ("kinds", "capabilities", "metadata")
        }
        standing = msgspec.json.decode(row["standing"]) if row["standing"] else {}
        return from_row(
            cls,
            row,
            state=AdminState(row["state"]),
            is_for_urgent=bool(row["for_urgent"]),
            settings=settings_of(row["settings"]),
            own_settings=settings_of(row["own_settings"]),
            slots=msgspec.json.decode(row["slots"]) if row["slots"] else None,
            declined=standing.get("declined", {}),
            notes=standing.get("notes", []),
            **said,
        )

    @property
    def word(self) -> AdminWord:
        return AdminWord(state=self.state, settings=self.settings, upgrade=self.upgrade)

    @property
    def upgrade(self) -> str | None:
        """Why it gets no work, if its protocol is not spoken here."""
        return protocol.why_not_spoken(self.protocol)

    @property
    def in_effect(self) -> list[InEffect]:
        return worker_settings.in_effect(self.own_settings, self.settings)

    def check_settable(self, names: Collection[str]) -> None:
        """Raises BadField for what cannot be said of this worker."""
        if self.metadata.get("place") != "server":
            return
        if self.kinds and not any(kinds.is_remote(kind) for kind in self.kinds):
            raise errors.Invalid("a worker that keeps the server in order has no settings")
        for name in sorted({"nice", "idle_unload"} & set(names)):
            raise errors.BadField(
                name,
                "is the same for all workers inside a server, which share its process: set"
                f" RUSHES_WORKER_{name.upper()} there",
            )

    def not_now(self, kind: str, now: int) -> str | None:
        """Why it takes no job of this kind at the moment, though it could."""
        if self.resting_until is not None and self.resting_until > now:
            return f"rests until {clock.rfc3339(self.resting_until)}"
        return self.declined.get(kind)

    @property
    def has_room(self) -> bool:
        """Whether it could run another job beside those that it holds."""
        return self.holds < (1 if self.slots is None else len(self.slots))

    @property
    def unable(self) -> Collection[str]:
        """Kinds of which it has said that they can only fail there. It takes them all the same,
        when nobody else is there, so that people hear why."""
        return unable_in(self.metadata)

    def could_take(self, kind: str, needs: list[str], *, urgent: bool) -> bool:
        hard = {need for need in needs if not need.endswith("?")}
        is_able = kind in self.kinds and hard <= set(self.capabilities)
        return is_able and (urgent or not self.is_for_urgent)


def unable_in(metadata: JsonObject) -> list[str]:
    said = metadata.get("unable")
    return sorted(said) if isinstance(said, dict) else []


def encode_limited(field: str, value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    if len(text) > LIMIT_BYTES:
        raise errors.BadField(field, "must be at most 10 KB of JSON")
    return text
