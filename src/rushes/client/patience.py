"""Trying again while a server or a network is away: ever more slowly, and not for ever."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from rushes import errors

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 5.0


class Patience:
    """How long trouble may last, counted from the last thing that worked."""

    def __init__(
        self, seconds: float, sleep: Callable[[float], None], say: Callable[[str], None]
    ) -> None:
        self._seconds = seconds
        self._sleep = sleep
        self._say = say
        self._best = -1
        self._tries = 0
        self._since = 0.0

    def got_to(self, offset: int) -> None:
        if offset > self._best:
            self._best = offset
            self.worked()

    def worked(self) -> None:
        """What comes now is another trouble."""
        self._tries = 0

    def wait(self, error: errors.RushesError) -> None:
        """Raises the error when it has gone on for too long, or waiting cannot help."""
        now = time.monotonic()
        self._since = self._since if self._tries else now
        if isinstance(error, errors.DiskFull) or now - self._since > self._seconds:
            raise error
        if self._tries == 0:
            self._say(f"{error.message}; trying again")
        longest = min(FIRST_WAIT_SECONDS * 2 ** min(self._tries, 10), LONGEST_WAIT_SECONDS)
        self._sleep(longest * random.uniform(0.75, 1))
        self._tries += 1
