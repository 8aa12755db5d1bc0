"""Wake-ups for coroutines: one thread listens to the bell for all connections that wait."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from rushes.threads import Supervised
from rushes.wakeup import Wakeup

# How long closing may have to wait for the listener.
LISTEN_SECONDS = 0.5


class Doorbell:
    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._somebody_waits = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    async def wait(self, mark: int, seconds: float) -> None:
        """Until somebody rang after `mark`, or the time is over."""
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._start()
            self._waiting[rung] = loop
            self._somebody_waits.set()
        try:
            if self._bell.mark() == mark and not self._closing.is_set():
                await asyncio.wait([rung], timeout=seconds)
        finally:
            with self._lock:
                self._waiting.pop(rung, None)
                if not self._waiting:
                    self._somebody_waits.clear()

    def close(self) -> None:
        """Ends every wait."""
        self._closing.set()
        self._somebody_waits.set()
        self._wake()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Supervised(self._listen, "doorbell", self._closing)
            self._thread.start()

    def _listen(self) -> None:
        """Waits for the bell only while somebody waits here: one that tells of jobs must know."""
        mark = self._bell.mark()
        while not self._closing.is_set():
            self._somebody_waits.wait()
            # By the mark of the last time: what was rung since is for those who came meanwhile.
            if self._bell.wait(mark, LISTEN_SECONDS):
                mark = self._bell.mark()
                self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting = dict(self._waiting)
        for rung, loop in waiting.items():
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, rung)


def _set(rung: asyncio.Future[None]) -> None:
    if not rung.done():
        rung.set_result(None)
