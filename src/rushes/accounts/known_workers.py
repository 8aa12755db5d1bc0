"""What a server remembers of the workers that call it, so that those that only wait cost next to
nothing: whose key it is, and that a worker without work was alive, which is written down for all
of them together.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rushes.accounts import access, keys
from rushes.accounts.access import KeyHolder
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminWord
from rushes.jobs.queue import Queue
from rushes.jobs.request_store import Asking

# What changes about a worker is heard of with the next flush; this is for all else. All are read
# again at once: one by one, a thousand that only wait would cost seven transactions a second.
REREAD_SECONDS = 300.0
# A change may be committed so much later than it was made.
SLACK_MS = 5_000
# How old the last flush may be before all is asked of the database again.
TRUE_SECONDS = 3.0
# Whoever has not been seen for so long is written down at once when it comes back.
FORGET_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Seen:
    word: AdminWord
    written_at: float


class KnownWorkers:
    def __init__(
        self,
        db: Database,
        queue: Queue,
        *,
        heartbeat_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._queue = queue
        self._heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # By a digest: the keys themselves are kept nowhere.
        self._keys: dict[str, KeyHolder] = {}
        self._reread_at = self._clock() + REREAD_SECONDS
        self._seen: dict[str, _Seen] = {}
        # Signs of life that are not written yet, with the claim requests that were answered.
        self._signs: dict[str, list[str]] = {}
        self._changes_until: int | None = None
        self._flushed_at = -math.inf

    @property
    def _is_kept_true(self) -> bool:
        """Without regular flushes nothing is remembered: nobody would hear of changes."""
        return self._clock() - self._flushed_at < TRUE_SECONDS

    def remembered(self, key: str) -> KeyHolder | None:
        """Whose key it is, if that is known without asking the database."""
        return self._keys.get(keys.digest(key)) if self._is_kept_true else None

    def by_key(self, key: str) -> KeyHolder | None:
        """As the database says."""
        holder = access.by_worker_key(self._db, key)
        if holder is not None:
            with self._lock:
                self._keys[keys.digest(key)] = holder
        return holder

    def beat(self, worker_id: str, answered: Sequence[str]) -> AdminWord | None:
        """A worker that holds nothing is alive: written down soon. Returns what the admin has said;
        None when it was not heard of lately: then it has to be written now."""
        with self._lock:
            seen = self._seen.get(worker_id) if self._is_kept_true else None
            if seen is None or self._clock() - seen.written_at > 2 * self._heartbeat_seconds:
                return None
            self._signs.setdefault(worker_id, []).extend(answered)
            return seen.word

    def wait(self, worker_ids: Iterable[str]) -> None:
        """They wait here for work, so they are alive: written down as often as they would beat."""
        with self._lock:
            now = self._clock()
            for worker_id in worker_ids:
                seen = self._seen.get(worker_id)
                if seen is None or now - seen.written_at >= self._heartbeat_seconds:
                    self._signs.setdefault(worker_id, [])

    def written(self, worker_id: str, word: AdminWord) -> None:
        with self._lock:
            self._seen[worker_id] = _Seen(word, self._clock())

    def forget(self, worker_id: str) -> None:
        """Something about it has changed."""
        self._forget({worker_id})

    def flush(self) -> Mapping[str, AdminWord]:
        """Write down who was alive, and hear what others have changed; one transaction. Returns
        what the admin says now of the workers that have changed in the last moments."""
        with self._lock:
            signs, self._signs = self._signs, {}
            if not signs and not self._keys and not self._seen:
                self._changes_until, self._flushed_at = None, self._clock()
                return {}
        since, began = self._changes_until, self._clock()
        is_due = began >= self._reread_at

        def write(tx: Tx) -> tuple[dict[str, AdminWord], fleet.Changes, dict[str, KeyHolder]]:
            tx.is_silent = True
            words = fleet.seen_many(tx, signs) if signs else {}
            holders = access.key_holders(tx) if is_due else {}
            return words, fleet.changes(tx, since), holders

        words, changes, holders = self._db.run(write)
        if is_due:
            with self._lock:
                self._keys = {mark: holders[mark] for mark in self._keys if mark in holders}
            self._reread_at = began + REREAD_SECONDS
        self._forget(changes.words.keys() if since is not None else None)
        self._changes_until, self._flushed_at = changes.until - SLACK_MS, began
        with self._lock:
            now = self._clock()
            for worker_id, word in words.items():
                if worker_id not in changes.words:
                    self._seen[worker_id] = _Seen(word, now)
            gone = [id for id, each in self._seen.items() if now - each.written_at > FORGET_SECONDS]
            for worker_id in gone:
                del self._seen[worker_id]
        self._free_unheard_of(signs)
        return changes.words

    def _forget(self, worker_ids: Collection[str] | None) -> None:
        """None: all of them."""
        with self._lock:
            if worker_ids is None:
                self._keys.clear()
                return
            if not worker_ids:
                return
            for worker_id in worker_ids:
                self._seen.pop(worker_id, None)
            self._keys = {
                mark: holder for mark, holder in self._keys.items() if holder.id not in worker_ids
            }

    def _free_unheard_of(self, signs: dict[str, list[str]]) -> None:
        asked = [Asking(id, request) for id, requests in signs.items() for request in requests]
        if not asked:
            return
        with self._db.read() as tx:
            orphans = self._queue.unheard_of(tx, asked)
        for worker_id in orphans:
            free = partial(
                self._queue.free_unheard_of,
                worker_id=worker_id,
                requests=signs[worker_id],
                held=[],
            )
            self._db.run(free)
