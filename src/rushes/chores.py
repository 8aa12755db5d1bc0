"""What keeps the queue healthy by itself: sweep, heal, number events.

Every chore is idempotent guarded SQL, so any number of servers may run them; there is no leader.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from rushes import count_store, errors, events
from rushes.db.database import Database, Tx
from rushes.jobs import store
from rushes.jobs.job import State
from rushes.jobs.queue import SWEEP_PAGE, Queue

log = logging.getLogger("rushes.chores")

# Longer than a silent database is waited for.
LATE_SECONDS = 90.0


class Chores:
    def __init__(
        self,
        db: Database,
        queue: Queue,
        *,
        sweep_seconds: float = 10.0,
    ) -> None:
        self._db = db
        self._queue = queue
        self._sweep_seconds = sweep_seconds
        self._stopping = threading.Event()
        # What a server adds; each gets the number of the tick and may fail by itself.
        self.also: list[Callable[[int], None]] = []
        # Called with the positions that were given here; they must not block.
        self.on_numbered: list[Callable[[range], None]] = []
        self._ticks = 0
        # When all of them were last done, by the monotonic clock.
        self.done_at = time.monotonic()

    def tick(self) -> dict[str, State]:
        """All chores once; returns the jobs the sweep moved and where they went."""
        moved = self._sweep()
        self._db.run(self._queue.heal)
        self.number_events()
        self.attempt(self._recount)
        for chore in self.also:
            self.attempt(chore)
        self._ticks += 1
        self.done_at = time.monotonic()
        return moved

    def number_events(self) -> int:
        numbered = 0
        while True:
            batch = self._db.run(events.assign_positions)
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

    def _sweep(self) -> dict[str, State]:
        # Each statement by itself: a server that freezes here must not keep the others from it.
        if not self._db.run_step(self._beat):
            return {}
        moved: dict[str, State] = {}
        while True:
            page = self._db.run(self._queue.sweep)
            moved |= page
            if len(page) < SWEEP_PAGE:
                return moved

    def _beat(self, tx: Tx) -> bool:
        lease_ms = self._queue.terms.lease_ms
        store.shorten_leases(tx, lease_ms=lease_ms)
        return store.beat(tx, lease_ms=lease_ms)
