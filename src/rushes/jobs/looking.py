"""What there is to claim. While dead rows make that slow, a lane is looked at from where its trail
begins, and whole only so seldom that it does not matter how long it takes.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from rushes.db.database import Tx
from rushes.jobs import store
from rushes.jobs.policy import Look, Strand
from rushes.jobs.store import Wanted
from rushes.jobs.trails import Mark, Pace, Trail


class Looks:
    """Of one process; its threads may share it."""

    def __init__(self) -> None:
        self._trails: dict[str, Trail[Mark]] = {}
        self._pace = Pace()
        self._lock = threading.Lock()

    def look(self, tx: Tx, wanted: Wanted) -> Look:
        """What this worker could take of, with the oldest due job of each."""
        if wanted.manner.by_user or not tx.dialect.keeps_the_dead:
            return store.waiting(tx, wanted)
        began = time.monotonic()
        if not self._pace.is_due(began):
            return self._follow(tx, wanted)
        found = store.waiting(tx, wanted)
        with self._lock:
            is_slow = self._pace.note(began, time.monotonic())
            fresh = {each.lane: Trail(_head(each)) for each in found.strands}
            self._trails = self._trails | fresh if is_slow else {}
        return found

    def _follow(self, tx: Tx, wanted: Wanted) -> Look:
        with self._lock:
            begun = {lane: trail.begin() for lane, trail in self._trails.items()}
        look = store.waiting(tx, wanted, begun)
        found = [_placed(each, begun) for each in look.strands]
        heads = begun | {each.lane: _head(each) for each in found if each.before is None}
        with self._lock:
            for lane, head in heads.items():
                if lane in self._trails:
                    self._trails[lane].end(head)
                else:
                    self._trails[lane] = Trail(head)
        return replace(look, strands=found)


def _head(strand: Strand) -> Mark:
    return Mark(strand.queued_at, strand.head_id)


def _placed(strand: Strand, begun: dict[str, Mark]) -> Strand:
    """With where its claims begin, or end: those that came back are before all others."""
    place = begun.get(strand.lane)
    if place is not None and _head(strand) < place:
        return replace(strand, before=place)
    return replace(strand, since=_head(strand))
