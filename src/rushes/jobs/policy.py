"""In which order waiting work is offered: the one seam of scheduling. Pure.

A `Strand` is a run of jobs that only age tells apart: a lane, or one user's share of a lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
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
