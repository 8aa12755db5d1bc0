"""In which order waiting work is offered: the one seam of scheduling. Pure.

A `Strand` is a run of jobs that only age tells apart: a lane, or one user's share of a lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rushes.jobs import limiting
from rushes.jobs.trails import Mark


class Policy(StrEnum):
    """`AUTO`: users have turns as soon as two of them have work waiting."""

    AUTO = "auto"
    FIFO = "fifo"
    FAIR = "fair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    lane: str
    kind: str
    needs: tuple[str, ...]
    priority: int
    queued_at: int
    head_id: str
    user_id: str | None = None
    turn: int = 0
    limit_key: str | None = None
    # Of a lane: users who have jobs in it, two or three if there are more than one.
    users: tuple[str, ...] = ()
    # Where its jobs begin, if that is known; or, of those that came back, where they end.
    since: Mark | None = None
    before: Mark | None = None

    @property
    def limit_names(self) -> set[str]:
        """The limits that there may be on its jobs."""
        return limiting.names(limiting.keys(self.kind, self.user_id, self.limit_key))


@dataclass(frozen=True, slots=True)
class Manner:
    """How to look for work: by lane or by user, and whether there are limits to keep to."""

    by_user: bool = False
    limited: bool = False

    def covers(self, other: Manner) -> bool:
        return self.by_user >= other.by_user and self.limited >= other.limited


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found, and whether there are limits, also such of users."""

    strands: Sequence[Strand] = ()
    limited: bool = False
    limits_users: bool = False

    @property
    def is_crowded(self) -> bool:
        """More than one user has work in these strands."""
        return len({user for each in self.strands for user in each.users}) > 1


def manner(policy: Policy, look: Look) -> Manner:
    """How to look for work where this was found."""
    has_turns = policy is Policy.FAIR or (policy is Policy.AUTO and look.is_crowded)
    return Manner(by_user=has_turns or look.limits_users, limited=look.limited)


def chosen(policy: Policy, look: Look) -> Policy:
    """What `auto` means for these strands."""
    if policy is Policy.AUTO:
        return Policy.FAIR if look.is_crowded else Policy.FIFO
    return policy


def order(policy: Policy, strands: Sequence[Strand]) -> list[Strand]:
    """Oldest first, or the user who has waited longest for a turn first; both within priority."""
    if policy is Policy.FAIR:
        return sorted(strands, key=lambda s: (s.priority, s.turn, s.queued_at, s.head_id))
    return sorted(strands, key=lambda s: (s.priority, s.queued_at, s.head_id))


def share(policy: Policy, wanted: int, strands: int) -> int:
    """How many jobs to take of a strand before the next one has its turn."""
    if policy is Policy.FAIR:
        return max(1, math.ceil(wanted / max(1, strands)))
    return wanted
