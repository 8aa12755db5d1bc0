"""Where to begin to look for work while the dead are in the way. Pure.

PostgreSQL cannot remove a row that some transaction might still see, however long that one has been
open; whoever looks for the first job of a lane, or the first event without a position, steps over
all that have been there since. A trail remembers where the first one was.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

# More looks than there will ever be.
LEVELS = 40
# A look takes less than a millisecond, whatever the backlog. One that takes longer may have had to
# wait; so many in a row have not.
SLOW_SECONDS = 0.002
IN_A_ROW = 3
# So many times as long as a look at everything takes, trails are followed before the next one.
SELDOM = 50


P = TypeVar("P")


class Mark(NamedTuple):
    """Of a job in its lane."""

    queued_at: int
    id: str


class Trail(Generic[P]):
    """Of one lane, or of the events. Look number n begins where the first was 2·2ᵏ looks before,
    for the largest 2ᵏ that divides n. So a look steps over little on average, and what was
    committed late, before where most looks begin, is found after twice as many as it was late.
    """

    def __init__(self, head: P) -> None:
        self._looks = 0
        # Where it was at the last look whose number 2ᵏ divides, and at the one before that.
        self._last = [head] * LEVELS
        self._before = [head] * LEVELS

    def begin(self) -> P:
        self._looks += 1
        return self._before[_twos(self._looks)]

    def end(self, head: P) -> None:
        """Where the first one was, or where this look began if there was none."""
        for level in range(_twos(self._looks) + 1):
            self._before[level] = self._last[level]
            self._last[level] = head


def _twos(number: int) -> int:
    """How often it can be divided by two."""
    return (number & -number).bit_length() - 1


class Pace:
    """Whether looks at everything have become slow, and when the next one is due."""

    def __init__(self) -> None:
        self._slow = 0
        self._due_at = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._due_at

    def note(self, began: float, ended: float) -> bool:
        """That it took so long; returns whether trails are to be followed for a while."""
        took = ended - began
        self._slow = self._slow + 1 if took > SLOW_SECONDS else 0
        if self._slow >= IN_A_ROW:
            self._due_at = ended + SELDOM * took
        return self._slow >= IN_A_ROW
