"""Threads that have to live as long as their process: one that ends too soon is started again."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

log = logging.getLogger("rushes")

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# One that broke down counts as working again after so long.
TRUST_SECONDS = 10.0


class Supervised(threading.Thread):
    """Runs `work` until `stopping` is set. Loops catch what can be expected; this is for all else,
    such as a library that exits or panics, which is no `Exception`."""

    def __init__(self, work: Callable[[], None], name: str, stopping: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._stopping = stopping
        self._broken = False
        self._begun_at = math.inf

    @property
    def is_down(self) -> bool:
        """Whether it broke down, and has not worked for long since."""
        return self._broken and time.monotonic() - self._begun_at < TRUST_SECONDS

    def run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            self._begun_at = begun_at = time.monotonic()
            try:
                self._work()
                if not self._stopping.is_set():
                    log.error("%s has ended by itself, and is started again", self.name)
            except BaseException:
                log.exception("%s broke down, and is started again", self.name)
            self._broken, self._begun_at = True, math.inf
            if time.monotonic() - begun_at > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
