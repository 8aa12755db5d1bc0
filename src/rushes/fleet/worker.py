"""A worker as people see it. Liveness, activity and the admin's word are separate facts. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from rushes import errors
from rushes.records import JsonObject, Row, from_row

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
class FleetWorker:
    id: str
    name: str
    state: AdminState
    kinds: list[str]
    capabilities: list[str]
    metadata: JsonObject
    registered_at: int
    last_seen_at: int | None
    # When it last lost a job by its silence.
    lost_at: int | None
    # Which of its processes has said hello last.
    boot_id: str | None
    # The status that was told last.
    announced: str | None
    # It takes only what comes before all else.
    is_for_urgent: bool
    holds: int

    @classmethod
    def from_row(cls, row: Row) -> FleetWorker:
        said = {
            name: msgspec.json.decode(row[name]) for name in ("kinds", "capabilities", "metadata")
        }
        is_for_urgent = bool(row["for_urgent"])
        return from_row(
            cls, row, state=AdminState(row["state"]), is_for_urgent=is_for_urgent, **said
        )

    def status(self, now: int, offline_after_ms: int) -> WorkerStatus:
        if self.state is AdminState.DISABLED:
            return WorkerStatus.DISABLED
        heard_at = self.registered_at if self.last_seen_at is None else self.last_seen_at
        if now - heard_at > offline_after_ms or (self.lost_at or 0) > heard_at:
            return WorkerStatus.OFFLINE
        if self.last_seen_at is None:
            return WorkerStatus.ACTIVE
        return WorkerStatus.BUSY if self.holds else WorkerStatus.IDLE

    @property
    def unable(self) -> Collection[str]:
        """Kinds of which it has said that they can only fail there. It takes them all the same,
        when nobody else is there, so that people hear why."""
        said = self.metadata.get("unable")
        return said if isinstance(said, dict) else ()

    def could_take(self, kind: str, needs: list[str], *, urgent: bool) -> bool:
        hard = {need for need in needs if not need.endswith("?")}
        is_able = kind in self.kinds and hard <= set(self.capabilities)
        return is_able and (urgent or not self.is_for_urgent)


def encode_limited(field: str, value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    if len(text) > LIMIT_BYTES:
        raise errors.BadField(field, "must be at most 10 KB of JSON")
    return text
