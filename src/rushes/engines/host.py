"""The process that computes, seen from outside: one question at a time, stopped at any moment.

Native code that crashes, or is killed for want of memory, takes only that process along; the next
question starts a fresh one. `child` is what runs in it.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Literal

from rushes import errors, sanitize
from rushes.engines.engine import EngineFailed, EngineUnavailable, ModelUnavailable, Watch
from rushes.tools import process

POLL_SECONDS = 0.1
# Who has waited so long goes to the back of the queue, before its work seems to stand still.
BUSY_SECONDS = 600.0
KINDS: dict[str, type[errors.JobOutcome]] = {
    each.__name__: each
    for each in (EngineFailed, EngineUnavailable, ModelUnavailable, errors.PermanentFailure)
}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`request` is a type of `engine`, or sound as bytes for "speech"; `directory` has the model
    that it runs with."""

    what: Literal["transcribe", "diarize", "speech"]
    request: Any
    directory: Path | None
    device: Literal["auto", "cpu", "cuda"]
    threads: int
    max_loaded: int


class Turns:
    """A lock that goes to whoever has waited for it longest: with a plain one, a long recording
    could take the next window before anybody else is awake."""

    def __init__(self) -> None:
        self._line: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def mine(self, watch: Callable[[], None] = lambda: None) -> Iterator[None]:
        """What `watch` raises ends the waiting."""
        called = threading.Event()
        with self._lock:
            self._line.append(called)
            if self._line[0] is called:
                called.set()
        try:
            while not called.wait(POLL_SECONDS):
                watch()
            yield
        finally:
            self._leave(called)

    @contextmanager
    def mine_if_free(self) -> Iterator[bool]:
        """False, and nothing is locked, if somebody has it or waits for it."""
        called = threading.Event()
        with self._lock:
            is_free = not self._line
            if is_free:
                called.set()
                self._line.append(called)
        try:
            yield is_free
        finally:
            if is_free:
                self._leave(called)

    def _leave(self, called: threading.Event) -> None:
        with self._lock:
            self._line.remove(called)
            if self._line:
                self._line[0].set()


class Host:
    def __init__(self) -> None:
        self._turns = Turns()
        self._child: _Child | None = None
        self._used_at = time.monotonic()

    @property
    def pid(self) -> int | None:
        """Of the process that computes, while there is one."""
        child = self._child
        return child.pid if child else None

    def ask(
        self, call: Call, watch: Watch, progress: Callable[[float], None] = lambda share: None
    ) -> Any:
        """What `watch` raises ends the process, and with it the computing."""
        with self._my_turn(watch):
            if self._child is not None and not self._child.is_alive():
                self._end()
            if self._child is None:
                self._child = _Child()
            try:
                answer = self._child.ask(call, watch, progress)
            except (EOFError, OSError) as error:
                raise _breakdown(self._end()) from error
            except BaseException:
                self._end()
                raise
            finally:
                self._used_at = time.monotonic()
        if isinstance(answer, _Failure):
            raise answer.outcome()
        return answer

    def unload_idle(self, seconds: float) -> None:
        """End the process, and with it what it holds in memory, if nobody has asked it for so long.
        The next question starts another."""
        with self._turns.mine_if_free() as mine:
            if mine and self._child and time.monotonic() - self._used_at >= seconds:
                log.info("the speech engine's memory is freed: it was idle")
                self._end()

    def close(self) -> None:
        """Whoever is asking gets EngineFailed."""
        child = self._child
        if child is not None:
            child.stop()
        with self._turns.mine():
            if self._child is not None:
                self._end()

    @contextmanager
    def _my_turn(self, watch: Watch) -> Iterator[None]:
        until = time.monotonic() + BUSY_SECONDS

        def be_patient() -> None:
            watch()
            if time.monotonic() > until:
                raise errors.RetryLater(
                    "the speech engine is busy with another recording", code="engine_busy"
                )

        with self._turns.mine(be_patient):
            yield

    def _end(self) -> int:
        child, self._child = self._child, None
        assert child is not None
        return child.kill()


@dataclass(frozen=True, slots=True)
class _Failure:
    kind: str
    message: str

    def outcome(self) -> errors.JobOutcome:
        return KINDS[self.kind](self.message)


class _Child:
    def __init__(self) -> None:
        ours, theirs = Pipe()
        try:
            with theirs:
                self._helper = process.Helper("rushes.engines.child", [theirs.fileno()], _overheard)
        except BaseException:
            ours.close()
            raise
        self._connection: Connection[Any, Any] = ours
        self._is_up = False
        self.pid = self._helper.pid

    def is_alive(self) -> bool:
        return self._helper.is_alive()

    def ask(self, call: Call, watch: Watch, progress: Callable[[float], None]) -> Any:
        if not self._is_up:
            # Much that is sent before it listens would keep us from watching.
            self._hear(watch)
            self._is_up = True
        self._connection.send(call)
        while True:
            kind, value = self._hear(watch)
            if kind == "progress":
                progress(value)
                watch()
            else:
                return _Failure(*value) if kind == "failed" else value

    def _hear(self, watch: Watch) -> tuple[str, Any]:
        while not self._connection.poll(POLL_SECONDS):
            watch()
        said: tuple[str, Any] = self._connection.recv()
        return said

    def stop(self) -> None:
        """From any thread: whoever listens hears that it has ended."""
        self._helper.kill()

    def kill(self) -> int:
        status = self._helper.kill()
        self._connection.close()
        return status


def _overheard(line: str) -> None:
    log.debug("the speech engine says: %s", sanitize.line(line))


def _breakdown(status: int) -> EngineFailed:
    log.warning("the process of the speech engine ended with status %d", status)
    if status == -signal.SIGKILL:
        return EngineFailed(
            "the speech engine was killed while it worked; most often that means that memory ran"
            " out: use a smaller model, or a machine with more memory"
        )
    return EngineFailed("the speech engine crashed while it worked")
