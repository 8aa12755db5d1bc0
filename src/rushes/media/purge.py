"""Removing bytes that nobody needs any more: of replaced versions, of what has been in the trash
for long enough, of no one.

`plan` finds what is due and enqueues a job for each; `Purge` is that job's handler, in the server.
Objects go before their rows, so that a crash in between leaves a row that is found again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from rushes.db.database import Database, Tx
from rushes.jobs import read_store
from rushes.jobs.queue import Queue
from rushes.media import label_store, pipeline, position_store, purge_store, trash
from rushes.records import JsonObject
from rushes.storage.storage import CHECKS, Storage, StoredObject
from rushes.transcripts import archive

log = logging.getLogger("rushes.purge")

PAGE = 100
SCAN_PAGE = 500
ORPHANS = "orphans"
FOLDERS = ("media", "sources", "staging", CHECKS)
# The row of a file that was just written may still be on its way, however soon others are purged.
YOUNG_MS = 3_600_000
SCAN_EVERY_MS = 86_400_000
# Whoever does not say must not purge what somebody may still want back.
TRASH_MS = 30 * 86_400_000


def plan(
    tx: Tx, queue: Queue, *, grace_ms: int, cleanup_partial: bool, trash_ms: int = TRASH_MS
) -> int:
    """Enqueue what is due: versions after `grace_ms`, what is in the trash after `trash_ms`.
    Returns how many. Asking again changes nothing."""
    purge_store.abandon_versions(tx)
    versions = purge_store.due_versions(
        tx, grace_ms=grace_ms, abandoned=cleanup_partial, limit=PAGE
    )
    files = purge_store.due_files(tx, grace_ms=grace_ms, limit=PAGE)
    items = purge_store.due_media(tx, trash_ms=trash_ms, limit=PAGE)
    jobs = [pipeline.purge("version_id", id) for id in versions]
    jobs += [pipeline.purge("files_of", id) for id in files if id not in versions]
    jobs += [pipeline.purge("media_id", id) for id in items]
    return len(queue.enqueue_many(tx, jobs)) if jobs else 0


def plan_scan_if_due(tx: Tx, queue: Queue) -> None:
    """Once a day, however often servers are started."""
    if not purge_store.was_planned(tx, f"{pipeline.PURGE}:all", within_ms=SCAN_EVERY_MS):
        plan_scan(tx, queue)


def plan_scan(tx: Tx, queue: Queue) -> None:
    queue.enqueue(tx, pipeline.purge(ORPHANS, "all"))


class PurgeContext(Protocol):
    """What it needs of the job's context."""

    @property
    def args(self) -> JsonObject: ...

    def alive(self) -> None: ...

    def raise_if_stopped(self) -> None: ...


class Purge:
    def __init__(
        self, db: Database, storage: Storage, *, grace_ms: int, trash_ms: int = TRASH_MS
    ) -> None:
        self._db = db
        self._storage = storage
        self._grace_ms = grace_ms
        self._trash_ms = trash_ms

    def __call__(self, job: PurgeContext) -> dict[str, int]:
        if version_id := job.args.get("version_id"):
            return {"objects": self._version(str(version_id))}
        if version_id := job.args.get("files_of"):
            return {"objects": self._files(str(version_id))}
        if media_id := job.args.get("media_id"):
            return {"objects": self.media(str(media_id))}
        return {"objects": self._orphans(job)}

    def _version(self, id: str) -> int:
        keys = self._db.run(lambda tx: purge_store.keys_of_version(tx, id))
        if keys is None:
            return 0
        self._storage.delete(keys)
        self._db.run(lambda tx: purge_store.mark_version_purged(tx, id))
        return len(keys)

    def _files(self, version_id: str) -> int:
        """What is no part of it any more; the version itself stays."""
        with self._db.read() as tx:
            keys = purge_store.retired_files(tx, version_id)
        self._storage.delete(keys)
        self._db.run(lambda tx: purge_store.forget_retired_files(tx, version_id))
        return len(keys)

    def media(self, id: str) -> int:
        """Nothing, when it must not be purged yet."""
        found = self._db.run(lambda tx: self._start(tx, id))
        if found is None:
            return 0
        versions, source = found
        gone = sum(self._version(version) for version in versions)
        if source is not None:
            self._storage.delete([source])
            gone += 1
        self._db.run(lambda tx: _forget(tx, id))
        return gone

    def _start(self, tx: Tx, id: str) -> tuple[list[str], str | None] | None:
        found = purge_store.start_media(tx, id, trash_ms=self._trash_ms)
        if found is not None:
            label_store.forget(tx, [id])
        return found

    def _orphans(self, job: PurgeContext) -> int:
        """Objects that no row refers to. Young ones are left alone: their row may be on its way."""
        gone = 0
        for folder in FOLDERS:
            for page in _pages(self._storage.list(folder)):
                job.alive()
                job.raise_if_stopped()
                gone += self._remove_orphans(page)
        if gone:
            log.info("removed %d files that nothing refers to", gone)
        return gone

    def _remove_orphans(self, page: list[StoredObject]) -> int:
        with self._db.read() as tx:
            now = read_store.now(tx)
            known = purge_store.known_keys(tx, [_owner(entry.key) for entry in page])
        old = [entry for entry in page if entry.modified_at_ms < now - self._grace_ms]
        orphans = [entry.key for entry in old if _owner(entry.key) not in known]
        self._storage.delete(orphans)
        return len(orphans)


def forget(db: Database, queue: Queue, storage: Storage, media_id: str) -> None:
    """What was only taken in to answer a request goes at once. While a worker is still at it, its
    bytes are left to the chore, and nobody sees them."""
    db.run(lambda tx: trash.forget(tx, queue, [media_id]))
    Purge(db, storage, grace_ms=YOUNG_MS).media(media_id)


def _forget(tx: Tx, media_id: str) -> None:
    """Its words go only together with the mark, which is for a media whose purge has begun."""
    row = purge_store.mark_media_purged(tx, media_id)
    if row is not None:
        archive.purge(tx, media_id)
        position_store.forget(tx, media_id)
        if row.forget_at is not None:
            purge_store.scrub(tx, media_id)


def _owner(key: str) -> str:
    """A part of an upload belongs to the upload's key."""
    return key.split(".parts/")[0]


def _pages(entries: Iterator[StoredObject]) -> Iterator[list[StoredObject]]:
    while page := list(islice(entries, SCAN_PAGE)):
        yield page
