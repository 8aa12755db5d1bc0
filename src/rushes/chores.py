"""What keeps the queue healthy by itself: sweep, heal, number events.

Every chore is idempotent guarded SQL, so any number of servers may run them; there is no leader.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from rushes import count_store, errors, events, history_store
from rushes.db.database import Database, Tx
from rushes.jobs import beat_store
from rushes.jobs.job import State
from rushes.jobs.queue import SWEEP_PAGE, Queue
from rushes.jobs.trails import Pace, Trail
from rushes.metrics import Metrics

log = logging.getLogger("rushes.chores")

# Longer than a silent database is waited for.
LATE_SECONDS = 90.0
# The sweep looks at all that is being worked on, and, while dead rows are in the way, at all that
# was: what takes long is done more seldom, so much longer than it takes.
SELDOM = 20
# But who has lost a job waits for the sweep.
MOST_SWEEPS_LEFT_OUT = 3
# After an upgrade a week of history is filled in, half an hour at a time.
FILLS_AT_ONCE = 4


class Chores:
    def __init__(
        self,
        db: Database,
        queue: Queue,
        *,
        sweep_seconds: float = 10.0,
        metrics: Metrics | None = None,
    ) -> None:
        self._db = db
        self._queue = queue
        self._sweep_seconds = sweep_seconds
        self._metrics = metrics or Metrics()
        self._stopping = threading.Event()
        # What a server adds; each gets the number of the tick and may fail by itself.
        self.also: list[Callable[[int], None]] = []
        # Called with the positions that were given here; they must not block.
        self.on_numbered: list[Callable[[range], None]] = []
        self._ticks = 0
        self._sweep_at = 0.0
        self._unnumbered = Unnumbered()
        # When all of them were last done, by the monotonic clock.
        self.done_at = time.monotonic()

    def tick(self) -> dict[str, State]:
        """All chores once; returns the jobs the sweep moved and where they went."""
        began = time.monotonic()
        try:
            moved = self._sweep()
        except Exception:
            self._metrics.swept(began, "failed")
            raise
        self._metrics.swept(began, "found" if moved else "clean")
        self._db.run(self._queue.heal)
        self.number_events()
        self.attempt(self._recount)
        self.attempt(self._fill_history)
        for chore in self.also:
            self.attempt(chore)
        self._ticks += 1
        self.done_at = time.monotonic()
        return moved

    def number_events(self) -> int:
        numbered = 0
        while True:
            since = self._unnumbered.begin(self._db)
            batch = self._db.run(lambda tx: events.assign_positions(tx, since))  # noqa: B023
            numbered += len(batch)
            for call in self.on_numbered if batch else ():
                call(batch)
            if len(batch) < events.BATCH:
                return numbered

    def run(self) -> None:
        """Until `stop`, every sweep interval with some jitter, whatever fails."""
        while not self._stopping.is_set():
            try:
                self.tick()
            except errors.Unavailable as error:
                log.warning("chores: %s", error.message)
            except Exception:
                log.exception("chores failed")
            self._stopping.wait(self._sweep_seconds * random.uniform(0.8, 1.2))

    def attempt(self, chore: Callable[[int], None]) -> None:
        """Whatever goes wrong, the others go on."""
        try:
            chore(self._ticks)
        except errors.Unavailable as error:
            log.warning("chores: %s", error.message)
        except Exception:
            log.exception("a chore failed")

    @property
    def late(self) -> bool:
        """Whether sweep and numbering have not run for so long that they will not."""
        return time.monotonic() - self.done_at > max(LATE_SECONDS, 5 * self._sweep_seconds)

    def stop(self) -> None:
        self._stopping.set()

    def _recount(self, tick: int) -> None:
        """It may take longer than a statement is given: the others must not wait for it."""
        count_store.recount_if_due(self._db)

    def _fill_history(self, tick: int) -> None:
        for _ in range(FILLS_AT_ONCE):
            if not history_store.fill(self._db):
                break

    def _sweep(self) -> dict[str, State]:
        began = time.monotonic()
        is_due = began >= self._sweep_at
        # Each statement by itself: a server that freezes here must not keep the others from it.
        may_judge = self._db.run_step(lambda tx: self._beat(tx, shorten=is_due))
        moved: dict[str, State] = {}
        if not is_due:
            return moved
        while may_judge:
            page = self._db.run(self._queue.sweep)
            moved |= page
            if len(page) < SWEEP_PAGE:
                break
        now = time.monotonic()
        pause = min(SELDOM * (now - began), MOST_SWEEPS_LEFT_OUT * self._sweep_seconds)
        self._sweep_at = now + pause if pause > self._sweep_seconds else 0.0
        return moved

    def _beat(self, tx: Tx, *, shorten: bool) -> bool:
        tx.is_silent = True
        lease_ms = self._queue.terms.lease_ms
        if shorten:
            beat_store.shorten_leases(tx, lease_ms=lease_ms)
        return beat_store.beat(tx, lease_ms=lease_ms)


class Unnumbered:
    """Where the events begin that wait for a position; see `Looks`, which does that for jobs."""

    def __init__(self) -> None:
        self._trail: Trail[int] | None = None
        self._pace = Pace()
        self._lock = threading.Lock()

    def begin(self, db: Database) -> int:
        if not db.dialect.keeps_the_dead:
            return 0
        with self._lock:
            began = time.monotonic()
            trail = None if self._pace.is_due(began) else self._trail
            with db.read() as tx:
                first = events.first_waiting(tx, trail.begin() if trail else 0)
            if trail is not None:
                trail.end(first)
            elif self._pace.note(began, time.monotonic()):
                self._trail = trail = Trail(first)
            return first if trail is not None else 0
