"""What a webhook and a delivery are, and which events a webhook is told of. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from rushes import errors, kinds
from rushes.records import Row, from_row

# The webhook that stands for the setting ALERT_WEBHOOK_URL; its row holds only the secret.
ALERTS_ID = "whk_alerts"
KIND = kinds.WEBHOOK.name
TEST = "webhook.test"
TYPES_LIMIT = 50
# Told when a receiver begins to be left alone; an alert is made of it.
FAILING = f"{KIND}.failing"
RESTS_AFTER = 5
FIRST_REST_MS, LONGEST_REST_MS = 60_000, 15 * 60_000
PATTERN = re.compile(r"\*|[a-z0-9][a-z0-9_:-]*(\.[a-z0-9_:-]+)*(\.\*)?")
# Telling of a delivery would make another one, without end; purging is nobody's business outside.
SILENT = (f"{KIND}.", "purge.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """`secret` is there only in the answers that show it, once: of create and of rotate."""

    id: str
    user_id: str
    url: str
    types: list[str]
    created_at: int
    disabled_at: int | None
    # Tries that failed in a row, since when, and until when nothing is sent because of them.
    failures: int = 0
    failing_since: int | None = None
    rest_until: int | None = None
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def from_row(cls, row: Row, secret: str | None = None) -> Webhook:
        return from_row(cls, row, types=msgspec.json.decode(row["types"]), secret=secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message to one webhook. `answer` is the status of the last try, if there was one."""

    id: str
    webhook_id: str
    type: str
    body: str
    job_id: str | None
    job_state: str | None
    created_at: int
    tried_at: int | None
    tries: int
    answer: int | None
    error_code: str | None
    delivered_at: int | None

    @classmethod
    def from_row(cls, row: Row) -> Delivery:
        return from_row(cls, row)

    @property
    def status(self) -> str:
        if self.delivered_at is not None:
            return "delivered"
        return "pending" if self.job_state in ("blocked", "queued", "processing") else "failed"


class Told(Protocol):
    """What of an event decides who is told of it."""

    @property
    def type(self) -> str: ...

    @property
    def at(self) -> int: ...

    @property
    def user_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A webhook that is told of events."""

    id: str
    user_id: str
    types: frozenset[str]
    created_at: int
    is_admin: bool

    def gets(self, event: Told) -> bool:
        allowed = self.is_admin or event.user_id == self.user_id
        return allowed and event.at >= self.created_at and wants(self.types, event.type)


def rest_ms(failures: int) -> int:
    """How long a receiver is left alone after so many failures in a row."""
    if failures < RESTS_AFTER:
        return 0
    return min(FIRST_REST_MS << min(failures - RESTS_AFTER, 10), LONGEST_REST_MS)


def wants(types: Collection[str], type: str) -> bool:
    """What comes many times a minute, only a webhook that names it gets."""
    if type.startswith(SILENT):
        return False
    if type.endswith((".progress", ".passage")):
        return type in types
    return any(_covers(pattern, type) for pattern in types)


def _covers(pattern: str, type: str) -> bool:
    return pattern in ("*", type) or (pattern.endswith(".*") and type.startswith(pattern[:-1]))


def check_types(types: Sequence[str]) -> list[str]:
    """The patterns without repetitions; BadField when they cannot be used."""
    if isinstance(types, str) or not 1 <= len(types) <= TYPES_LIMIT:
        raise errors.BadField("types", f"must be a list of 1 to {TYPES_LIMIT} event types")
    for each in types:
        if len(each) > 128 or not PATTERN.fullmatch(each):
            raise errors.BadField("types", "must be types such as media.ready, transcode.* or *")
    return sorted(set(types))
