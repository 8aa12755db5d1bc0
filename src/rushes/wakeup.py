"""Wake-ups: "look again". A hint, never the truth: who waits also polls.

`InProcessWakeup` wakes threads of this process; `PostgresWakeup` also other processes, by NOTIFY.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("rushes.wakeup")

# NOTIFY makes commits wait for each other (measured: half the throughput with 16 writers), so in a
# rush it is sent by a thread of its own, after the commit, for all that came within this time.
COALESCE_SECONDS = 0.005
RECONNECT_SECONDS = 1.0
# How long closing may have to wait for the listener.
LISTEN_SECONDS = 0.5
# How often the listener asks whether its connection still leads anywhere: it hears nothing either
# way, and polls alone would find the work.
CHECK_SECONDS = 15.0
CLOSE_SECONDS = 2.0


class Wakeup(Protocol):
    def ring(self) -> None:
        """There may be work. Never blocks, never raises."""
        ...

    def ring_here(self) -> None:
        """The same for this process only; others have been told with the commit."""
        ...

    def is_quiet(self) -> bool:
        """Nothing was enqueued just now: then it is quickest to tell others with the commit."""
        ...

    def mark(self) -> int:
        """Remember this before looking for work, so that no ring is missed while looking."""
        ...

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        """Until somebody rang after `mark`, or the time is over. True: somebody rang."""
        ...

    def close(self) -> None: ...


class InProcessWakeup:
    def __init__(self) -> None:
        self._rings = 0
        self._changed = threading.Condition()

    def ring(self) -> None:
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def ring_here(self) -> None:
        self.ring()

    def is_quiet(self) -> bool:
        return False

    def mark(self) -> int:
        return self._rings

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._rings != mark, timeout_seconds)

    def close(self) -> None:
        self.ring()


class PostgresWakeup:
    """Two threads, each started when first needed: one tells, one listens."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection],
        channel: str,
        *,
        watch: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        """`connect` returns a connection in autocommit. `watch` gets the number of its socket, and
        ends it when the server stays silent meanwhile."""
        self._connect = connect
        self._channel = channel
        self._watch = watch
        self._local = InProcessWakeup()
        self._closing = threading.Event()
        self._rung = threading.Event()
        self._asked_at = 0.0
        self._threads: dict[Callable[[], None], threading.Thread] = {}
        self._starting = threading.Lock()

    def ring(self) -> None:
        self._local.ring()
        self._rung.set()
        self._start(self._tell)

    def ring_here(self) -> None:
        self._local.ring()

    def is_quiet(self) -> bool:
        now = time.monotonic()
        quiet, self._asked_at = now - self._asked_at > COALESCE_SECONDS, now
        return quiet

    def mark(self) -> int:
        self._start(self._listen)
        return self._local.mark()

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        return self._local.wait(mark, timeout_seconds)

    def close(self) -> None:
        """What was rung before is still told."""
        self._closing.set()
        self._rung.set()
        latest = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads.values():
            thread.join(max(0, latest - time.monotonic()))
        atexit.unregister(self.close)
        self._local.close()

    def _start(self, work: Callable[[], None]) -> None:
        if work in self._threads:
            return
        with self._starting:
            if work not in self._threads and not self._closing.is_set():
                atexit.register(self.close)
                thread = threading.Thread(target=self._keep, args=(work,), daemon=True)
                self._threads[work] = thread
                thread.start()

    def _keep(self, work: Callable[[], None]) -> None:
        """Run `work` until closing, again after every lost connection."""
        import psycopg

        while True:
            try:
                work()
            except psycopg.Error:
                self._closing.wait(RECONNECT_SECONDS)
            except Exception:
                # Without it every waiting worker would be left to its polls, and nobody told.
                log.exception("wake-ups failed")
                self._closing.wait(RECONNECT_SECONDS)
            if self._closing.is_set():
                return

    def _tell(self) -> None:
        with self._connect() as connection:
            while True:
                self._rung.wait()
                self._rung.clear()
                self._say(connection, f"NOTIFY {self._channel}")
                if self._closing.wait(COALESCE_SECONDS):
                    return

    def _listen(self) -> None:
        with self._connect() as connection:
            self._say(connection, f"LISTEN {self._channel}")
            # Whatever was told while nobody listened.
            self._local.ring()
            answered_at = time.monotonic()
            while not self._closing.is_set():
                for _ in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                    self._local.ring()
                    answered_at = time.monotonic()
                if time.monotonic() - answered_at > CHECK_SECONDS:
                    self._say(connection, "SELECT 1")
                    answered_at = time.monotonic()

    def _say(self, connection: psycopg.Connection, statement: str) -> None:
        with self._watch(connection.fileno()):
            connection.execute(statement)
