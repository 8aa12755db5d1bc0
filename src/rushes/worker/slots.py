"""A job in this worker's hands, and the room for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from rushes import correlation, tracing
from rushes.protocol import Assignment
from rushes.worker.context import JobContext, Stop
from rushes.worker_settings import Group

# Of the lease; the rest is for the handler to come to a halt before anybody else may start.
FENCE_AT = 0.75


@dataclass(eq=False, slots=True)
class Slot:
    """Room for one job at a time, or one batch: the `number`th of a group of kinds."""

    group: str
    number: int
    # The claim request to be repeated.
    asking: str | None = None
    results: list[tuple[Held, Any]] = field(default_factory=list)
    results_since: float = 0.0
    reporting: Future[None] | None = None
    # Its worker has broken down: what it does is of no use any more.
    dismissed: bool = False

    def take_results(self) -> list[tuple[Held, Any]]:
        results, self.results = self.results, []
        return results


class Held:
    """A job in this worker's hands."""

    def __init__(
        self, assignment: Assignment, context: JobContext, asked_at: float, slot: Slot
    ) -> None:
        self.slot = slot
        self.assignment = assignment
        self.context = context
        self.renewed_at = asked_at
        # Of the attempt, while it runs and when it is reported.
        self.trace = assignment.trace

    @property
    def late(self) -> bool:
        """It may be another's by now; only the server knows."""
        return time.monotonic() - self.renewed_at > FENCE_AT * self.assignment.lease_seconds

    @property
    def lost(self) -> bool:
        return self.context.stop_reason is Stop.CLAIM_LOST

    def bound(self, worker_id: str | None) -> AbstractContextManager[None]:
        """What is done inside is done for this job."""
        job = self.assignment
        return correlation.bound(
            worker_id=worker_id, job_id=job.job_id, media_id=job.media_id, trace=self.trace
        )

    def traced(self, handle: Callable[[], Any], worker_id: str | None) -> Any:
        """What is made of it, as a span of its trace."""
        if not tracing.is_on():
            return handle()
        job = self.assignment
        with tracing.span(
            f"run {job.kind}",
            job_id=job.job_id,
            attempt=job.attempt,
            kind=job.kind,
            worker_id=worker_id,
        ):
            self.trace = self.context.trace = correlation.trace()
            try:
                return handle()
            finally:
                self.context.end_stages()


def bound_to(held: Sequence[Held], worker_id: str | None) -> AbstractContextManager[None]:
    """What is reported for one job is part of its trace; for a batch it is nobody's."""
    return held[0].bound(worker_id) if len(held) == 1 else nullcontext()


class Crew:
    """The threads of all slots but the first, which is the worker's own thread."""

    def __init__(self, work: Callable[[Slot], None]) -> None:
        self._work = work
        self._threads: list[tuple[Slot, threading.Thread]] = []
        self._lock = threading.Lock()

    def arrange(self, groups: Mapping[str, Group], besides: Slot) -> None:
        """Start those that are missing. Those that are too many end by themselves."""
        with self._lock:
            self._threads = [each for each in self._threads if each[1].is_alive()]
            there = {(slot.group, slot.number) for slot, _ in self._threads if not slot.dismissed}
            there.add((besides.group, besides.number))
            for name, group in groups.items():
                for number in range(group.count):
                    if (name, number) not in there:
                        self._start(Slot(name, number))

    def _start(self, slot: Slot) -> None:
        name = f"{slot.group}-{slot.number}"
        thread = threading.Thread(target=self._work, args=[slot], name=name, daemon=True)
        self._threads.append((slot, thread))
        thread.start()

    def dismiss(self, held: Iterable[Held]) -> None:
        """They give back what they hold, and end."""
        for slot, _ in self._threads:
            slot.dismissed = True
        for each in list(held):
            each.context.stop(Stop.SHUTDOWN)

    def join(self) -> None:
        for _, thread in self._threads:
            thread.join()
