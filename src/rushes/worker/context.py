"""What a handler may touch: its arguments, its progress, its checkpoint, and whether to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from rushes import errors
from rushes.protocol import Assignment, Progress


class Stop(StrEnum):
    """Why a handler must stop; each leads to another report."""

    CANCELED = "canceled"
    SHUTDOWN = "shutdown"
    CLAIM_LOST = "claim_lost"


_stopping = threading.Lock()


class JobContext:
    """The one argument of a handler."""

    def __init__(
        self,
        assignment: Assignment,
        report: Callable[[Progress], None],
        *,
        stall_seconds: float | None = None,
    ) -> None:
        self.job_id = assignment.job_id
        self.kind = assignment.kind
        self.args = assignment.args
        self.media_id = assignment.media_id
        self.user_id = assignment.user_id
        self.attempt = assignment.attempt
        self.max_attempts = assignment.max_attempts
        self.checkpoint = assignment.checkpoint
        self.claim = assignment.claim
        self._report = report
        self._stall_seconds = stall_seconds
        self._alive_at = time.monotonic()
        self._stop: Stop | None = None
        # Made when somebody waits: tiny jobs never do, and it would be a tenth of their cost.
        self._stopped: threading.Event | None = None

    def progress(
        self, progress: float, stage: str | None = None, *, checkpoint: Any = None
    ) -> None:
        """Tell how far the job is (0 to 1), and what the next attempt may start from. Raises when
        the handler has to stop."""
        self.raise_if_stopped()
        self.alive()
        if checkpoint is not None:
            self.checkpoint = checkpoint
        self._report(
            Progress(claim=self.claim, progress=progress, stage=stage, checkpoint=checkpoint)
        )
        self.raise_if_stopped()

    def alive(self) -> None:
        """The tool or engine has moved on. Without it for `stall_seconds` the lease is let go."""
        self._alive_at = time.monotonic()

    @property
    def stalled(self) -> bool:
        limit = self._stall_seconds
        return limit is not None and time.monotonic() - self._alive_at > limit

    @property
    def stopping(self) -> bool:
        return self._stop is not None

    @property
    def stop_reason(self) -> Stop | None:
        return self._stop

    def wait(self, seconds: float) -> None:
        """Sleep, but not a moment longer than the handler may run."""
        with _stopping:
            self._stopped = self._stopped or threading.Event()
            if self._stop is not None:
                self._stopped.set()
        self._stopped.wait(seconds)
        self.raise_if_stopped()

    def raise_if_stopped(self) -> None:
        if self._stop is Stop.CANCELED:
            raise errors.Canceled("the job was canceled")
        if self._stop is not None:
            raise errors.Stopped(self._stop)

    def stop(self, reason: Stop) -> None:
        """Asked by the worker, from another thread. A lost claim overrules the other reasons."""
        with _stopping:
            if self._stop is None or reason is Stop.CLAIM_LOST:
                self._stop = reason
            if self._stopped is not None:
                self._stopped.set()
