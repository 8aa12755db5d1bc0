"""Wake-ups: "look again". A hint, never the truth: who waits also polls.

`InProcessWakeup` wakes threads of this process. Other processes are told, too: by NOTIFY with
`PostgresWakeup`, by a file beside the database with `FileWakeup`, by Redis with `redis_wakeup`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rushes import inotify

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("rushes.wakeup")

# NOTIFY makes commits wait for each other (measured: half the throughput with 16 writers), so in a
# rush it is sent by a thread of its own, after the commit, for all that came within this time.
COALESCE_SECONDS = 0.005
# No rush: nothing was enqueued here for so long.
QUIET_SECONDS = 0.025
RECONNECT_SECONDS = 1.0
# How long closing may have to wait for the listener.
LISTEN_SECONDS = 0.5
# How often the listener asks whether its connection still leads anywhere: it hears nothing either
# way, and polls alone would find the work.
CHECK_SECONDS = 15.0
CLOSE_SECONDS = 2.0
# How often the file is read where nothing tells of its changes: 0.6 % of a core (measured).
LOOK_SECONDS = 0.02
# A ring replaces the one before whole.
LINE_BYTES = 48


@dataclass(frozen=True, slots=True)
class Hint:
    """Jobs of one kind and priority (`high`, `normal` or `low`) that became ready together: the
    first of them, and how many there are."""

    priority: str
    kind: str
    job_id: str
    jobs: int = 1


class Wakeup(Protocol):
    def ring(self, hints: Sequence[Hint] = ()) -> None:
        """There may be work; `hints` tell which, if that is known. Never blocks, never raises."""
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

    def looked(self, mark: int, found: int) -> None:
        """Whoever has remembered `mark` has looked for work since, and found so many jobs. Never
        blocks, never raises."""
        ...

    def close(self) -> None: ...


class InProcessWakeup:
    def __init__(self) -> None:
        self._rings = 0
        self._changed = threading.Condition()

    def ring(self, hints: Sequence[Hint] = ()) -> None:
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

    def looked(self, mark: int, found: int) -> None:
        """Nobody here waits for that."""

    def close(self) -> None:
        self.ring()


class FileWakeup:
    """For processes on one machine: who rings writes into a file that the others watch. Not the
    database's own log: that changes with every heartbeat, and is made anew now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = InProcessWakeup()
        self._me = os.urandom(8).hex()
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self._watch: inotify.Watch | None = None

    def ring(self, hints: Sequence[Hint] = ()) -> None:
        """First the others: when our own writing is the last thing in the file, whoever wrote
        before it has been heard with this ring."""
        with suppress(OSError):
            self._write(f"{self._me} {next(self._numbers)}\n".encode())
        self._local.ring()

    def ring_here(self) -> None:
        self._local.ring()

    def is_quiet(self) -> bool:
        return False

    def mark(self) -> int:
        if self._thread is None:
            self._start()
        return self._local.mark()

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        return self._local.wait(mark, timeout_seconds)

    def looked(self, mark: int, found: int) -> None:
        """Nobody here waits for that."""

    def close(self) -> None:
        self._closing.set()
        if (watch := self._watch) is not None:
            watch.wake()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._local.close()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._keep, name="wake-ups", daemon=True)
                self._thread.start()

    def _keep(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except OSError:
                # No room for the file, or it was taken away at this very moment.
                self._closing.wait(RECONNECT_SECONDS)
            except Exception:
                log.exception("wake-ups failed")
                self._closing.wait(RECONNECT_SECONDS)

    def _listen(self) -> None:
        self._watch = watch = inotify.open_watch()
        try:
            if watch is None:
                self._look()
            else:
                self._hear(watch)
        finally:
            self._watch = None
            if watch is not None:
                watch.close()

    def _hear(self, watch: inotify.Watch) -> None:
        """Until the file is taken away: then another is watched."""
        self._write(b"")
        # One that is removed while somebody has it open only loses a name, which is an attribute.
        gone = inotify.ATTRIB | inotify.DELETE_SELF | inotify.MOVE_SELF
        watch.add(self._path, inotify.MODIFY | gone)
        # Whatever was rung while nobody listened.
        self._local.ring()
        while not self._closing.is_set():
            changes = watch.read(CHECK_SECONDS)
            if any(each.mask & (gone | inotify.IGNORED) for each in changes):
                return
            if changes and not self._path.read_bytes().startswith(self._me.encode()):
                self._local.ring()
                # What else comes in a rush is heard together.
                self._closing.wait(COALESCE_SECONDS)

    def _look(self) -> None:
        """The same where nothing tells of changes."""
        self._write(b"")
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._local.ring()
            seen = os.pread(file, LINE_BYTES, 0)
            while not self._closing.wait(LOOK_SECONDS) and os.fstat(file).st_nlink:
                if (now := os.pread(file, LINE_BYTES, 0)) != seen:
                    seen = now
                    if not now.startswith(self._me.encode()):
                        self._local.ring()
        finally:
            os.close(file)

    def _write(self, text: bytes) -> None:
        """By its name each time: the file may have been taken away."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if text:
                os.pwrite(file, text.ljust(LINE_BYTES), 0)
        finally:
            os.close(file)


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

    def ring(self, hints: Sequence[Hint] = ()) -> None:
        self._local.ring()
        self._rung.set()
        self._start(self._tell)

    def ring_here(self) -> None:
        self._local.ring()

    def is_quiet(self) -> bool:
        now = time.monotonic()
        quiet, self._asked_at = now - self._asked_at > QUIET_SECONDS, now
        return quiet

    def mark(self) -> int:
        self._start(self._listen)
        return self._local.mark()

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        return self._local.wait(mark, timeout_seconds)

    def looked(self, mark: int, found: int) -> None:
        """Nobody here waits for that."""

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
            # There is nothing in it to be kept, and those who commit need not wait for its sync.
            self._say(connection, "SET synchronous_commit = off")
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
