"""A circuit breaker: what fails again and again is left alone for a while, then tried once.

It only counts and decides; who asks does the work and says how it went.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

log = logging.getLogger("rushes.breaker")

# So many failures of one part in a row open it.
FAILURES = 3
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
# One that opens again sooner has never been well: its pauses go on growing, and nothing is logged.
STABLE_SECONDS = 60.0


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    """Failures are counted for each part by itself: one that works must not hide another that
    never does. Its methods may be called by any thread."""

    def __init__(
        self,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._name = name
        self._clock = clock
        self._jitter = jitter
        self._lock = threading.Lock()
        self._in_a_row: Counter[str] = Counter()
        self._state = BreakerState.CLOSED
        self._openings_in_a_row = 0
        self._closed_at = clock()
        self._try_at = 0.0
        # The reasons that were logged in this outage; it may come and go.
        self._logged: set[str] = set()
        self._is_told = False
        self.failures = 0
        self.openings = 0
        # Of the last failure; a sentence for people.
        self.reason = ""

    @property
    def state(self) -> BreakerState:
        return self._state

    @property
    def is_closed(self) -> bool:
        return self._state is BreakerState.CLOSED

    @property
    def pause_seconds(self) -> float:
        """Until it may be tried again."""
        return 0.0 if self.is_closed else max(0.0, self._try_at - self._clock())

    def may_try(self) -> bool:
        """True for one caller when its pause is over: that one has to say how it went."""
        with self._lock:
            if self._state is not BreakerState.OPEN or self._clock() < self._try_at:
                return False
            self._state = BreakerState.HALF_OPEN
            return True

    def close(self) -> None:
        """The try went well."""
        with self._lock:
            if self._state is BreakerState.CLOSED:
                return
            self._state = BreakerState.CLOSED
            self._closed_at = self._clock()
            self._in_a_row.clear()
            was_told, self._is_told = self._is_told, False
        if was_told:
            log.info("%s is used again", self._name)

    def open(self, reason: str) -> None:
        """At once: the try went wrong, or it is known not to work."""
        with self._lock:
            self.failures += 1
            self._open(reason)

    def succeeded(self, part: str) -> None:
        if self._in_a_row[part]:
            with self._lock:
                self._in_a_row[part] = 0

    def failed(self, part: str, reason: str, *, enough: bool = False) -> None:
        """`enough`: it takes no more than this one."""
        with self._lock:
            self.failures += 1
            self.reason = reason
            self._in_a_row[part] += 1
            often = enough or self._in_a_row[part] >= FAILURES
            if often and self._state is BreakerState.CLOSED:
                self._open(reason)

    def _open(self, reason: str) -> None:
        if self._state is BreakerState.CLOSED:
            self.openings += 1
            if self._clock() - self._closed_at >= STABLE_SECONDS or not self._openings_in_a_row:
                self._openings_in_a_row = 0
                self._logged.clear()
        self._tell(reason)
        pause = min(FIRST_PAUSE_SECONDS * 2**self._openings_in_a_row, LONGEST_PAUSE_SECONDS)
        self._openings_in_a_row = min(self._openings_in_a_row + 1, 16)
        # Jittered, so that servers that failed together do not come back together.
        self._try_at = self._clock() + self._jitter(0.5 * pause, pause)
        self._state = BreakerState.OPEN
        self.reason = reason

    def _tell(self, reason: str) -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            self._is_told = True
            log.warning("%s is not used for now: %s", self._name, reason)
