"""Forgets what is old: jobs that have ended, with their attempts and logs, events, exports, and
workers that are gone.

A little at a time and with pauses, so that claims do not wait. Each step is
guarded SQL that may be repeated, so any number of servers may be at it, and whoever is killed has
lost nothing: the next pass begins at the first job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rushes import errors, events, history_store
from rushes.accounts import access
from rushes.db.database import Database, Tx
from rushes.jobs import prune_store
from rushes.jobs.prune_store import Keep
from rushes.media import export_store

log = logging.getLogger("rushes.retention")

# So many jobs are looked at at once.
PAGE = 500
PASS_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Pace:
    """So many rows are deleted at once; a pause is `rest` times as long as what it follows."""

    batch: int
    rest: float


# SQLite has one writer, whom claims wait for. On PostgreSQL only the numbering of events waits for
# a batch, about a tenth of a second (measured beside four workers).
PACES = {"sqlite": Pace(batch=50, rest=19), "postgresql": Pace(batch=500, rest=4)}


class Retention:
    """`event_ms`: how long events are kept. `worker_ms`: how long workers that are not heard of,
    `export_ms`: how long exports; None: for ever."""

    def __init__(
        self,
        db: Database,
        keep: Keep,
        *,
        event_ms: int,
        worker_ms: int | None = None,
        export_ms: int | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._db = db
        self.keep(keep, event_ms=event_ms, worker_ms=worker_ms, export_ms=export_ms)
        self._pace = pace or PACES[db.dialect.name]
        self._stopping = threading.Event()

    def keep(
        self, keep: Keep, *, event_ms: int, worker_ms: int | None, export_ms: int | None = None
    ) -> None:
        """From now on, also in a pass that is under way."""
        self._keep = keep
        self._event_ms = event_ms
        self._worker_ms = worker_ms
        self._export_ms = export_ms

    def run(self) -> None:
        """Pass after pass until `stop`, whatever fails; what takes long is done more seldom."""
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self.run_once()
            except errors.Unavailable as error:
                log.warning("retention: %s", error.message)
            except Exception:
                log.exception("retention failed")
            took = time.monotonic() - began
            self._stopping.wait(max(PASS_SECONDS, took))

    def run_once(self) -> int:
        """All that is due now; returns how many jobs are gone."""
        for step in self._steps():
            while self._paced(step):
                pass
        if self._keep == Keep():
            return 0
        batch = self._pace.batch
        gone, after = 0, ""
        while not self._stopping.is_set():
            page = self._look(after)
            for start in range(0, len(page.due), batch):
                gone += self._delete(page.due[start : start + batch])
            if page.last is None:
                break
            after = page.last
        if gone:
            log.info("%d jobs that had ended long ago were deleted", gone)
        return gone

    def _steps(self) -> Iterator[Callable[[Tx], int]]:
        """What is no job; each is repeated until there is nothing left."""
        batch = self._pace.batch
        yield lambda tx: events.prune(tx, keep_ms=self._event_ms, limit=batch)
        yield lambda tx: history_store.forget(tx, limit=batch)
        if (unheard_ms := self._worker_ms) is not None:
            yield lambda tx: access.forget_workers(tx, unheard_ms=unheard_ms, limit=batch)
        if (export_ms := self._export_ms) is not None:
            yield lambda tx: export_store.expire(tx, keep_ms=export_ms, limit=batch)

    def stop(self) -> None:
        self._stopping.set()

    def _look(self, after: str) -> prune_store.Page:
        began = time.monotonic()
        with self._db.read() as tx:
            page = prune_store.look(tx, self._keep, after=after, limit=PAGE)
        # Readers keep nobody waiting.
        self._stopping.wait(time.monotonic() - began)
        return page

    def _delete(self, ids: list[str]) -> int:
        return self._paced(lambda tx: prune_store.delete(tx, self._keep, ids))

    def _paced(self, step: Callable[[Tx], int]) -> int:
        if self._stopping.is_set():
            return 0
        began = 0.0

        def timed(tx: Tx) -> int:
            # Not before: waiting for others is no work.
            nonlocal began
            began = time.monotonic()
            return step(tx)

        done = self._db.run(timed)
        if done:
            self._stopping.wait(self._pace.rest * (time.monotonic() - began))
        return done
