"""Ends connections whose server has gone silent: nobody else would, if a proxy keeps them open."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

log = logging.getLogger("rushes.db")

LOOK_SECONDS = 0.5


class Deadlines:
    """One thread looks after all connections that are in use."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # By the number of the socket, which nobody else has while it is open.
        self._watched: dict[int, float] = {}
        self._lock = threading.Lock()
        self._watching = False

    @contextmanager
    def watch(self, descriptor: int, seconds: float | None = None) -> Iterator[None]:
        """If it takes longer than it may, whoever waits for this socket gets an error. `seconds`:
        for those who have less patience than others."""
        with self._lock:
            least = self.seconds if seconds is None else min(seconds, self.seconds)
            self._watched[descriptor] = time.monotonic() + least
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._look, name="deadlines", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(descriptor, None)

    def hurry(self, seconds: float) -> None:
        """Nobody waits longer than this any more, nor do those who wait already."""
        with self._lock:
            self.seconds = min(self.seconds, seconds)
            latest = time.monotonic() + seconds
            for descriptor, at in self._watched.items():
                self._watched[descriptor] = min(at, latest)

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                if not self._watched:
                    self._watching = False
                    return
                now = time.monotonic()
                for descriptor, at in list(self._watched.items()):
                    if now > at:
                        del self._watched[descriptor]
                        try:
                            _shut(descriptor)
                        except Exception:
                            # The others are still looked after.
                            log.exception("a silent connection cannot be given up")


def _shut(descriptor: int) -> None:
    """While it is watched it is not closed, so the number is still that of this socket."""
    log.warning("the database does not answer: a connection is given up")
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as handle:
        handle.shutdown(socket.SHUT_RDWR)
