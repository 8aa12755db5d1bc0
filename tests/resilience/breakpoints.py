"""Marked steps of a process, where a test may hold it, look around, and let it go on or kill it.

Signs are files, so that it works across processes: `X.armed` is laid out by the test, becomes
`X.reached` when a thread comes to step X, and the thread waits there for `X.go`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

VARIABLE = "BREAKPOINTS"
WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.01


class Breakpoints:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    # For the test

    def arm(self, step: str) -> None:
        """The next thread that comes to this step is held there."""
        self._sign(step, "armed").touch()

    def wait(self, step: str) -> None:
        """Until a thread is held there."""
        until(self._sign(step, "reached").exists)

    def release(self, step: str) -> None:
        self._sign(step, "go").touch()

    def disarm(self, step: str) -> None:
        """Fails if somebody has come there already."""
        self._sign(step, "armed").unlink()

    # For the process

    def reach(self, step: str, wait: Callable[[float], Any] = time.sleep) -> None:
        try:
            self._sign(step, "armed").rename(self._sign(step, "reached"))
        except FileNotFoundError:
            return
        until(self._sign(step, "go").exists, wait=wait)

    def _sign(self, step: str, kind: str) -> Path:
        return self.directory / f"{step}.{kind}"


def reach(step: str, wait: Callable[[float], Any] = time.sleep) -> None:
    """In a process that was given breakpoints; elsewhere nothing happens."""
    if directory := os.environ.get(VARIABLE):
        Breakpoints(Path(directory)).reach(step, wait)


def mark(
    owner: Any,
    name: str,
    *,
    before: str | None = None,
    after: str | None = None,
    when: Callable[..., bool] = lambda *args: True,
) -> None:
    """Make a shipped function a step. `when` gets the arguments, and what came back if `after`."""
    original = getattr(owner, name)

    @wraps(original)
    def marked(*args: Any, **named: Any) -> Any:
        if before is not None and when(*args):
            reach(before)
        found = original(*args, **named)
        if after is not None and when(*args, found):
            reach(after)
        return found

    setattr(owner, name, marked)


def until(true: Callable[[], Any], wait: Callable[[float], Any] = time.sleep) -> None:
    """For what other threads and processes do, whose pace nobody sets."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        wait(LOOK_SECONDS)
