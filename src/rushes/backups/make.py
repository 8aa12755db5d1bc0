"""Make a backup: first the database as of one moment, then the objects that it names.

Objects never change once a row names them, so those that are copied later are still those of the
moment. One that was removed on purpose meanwhile is called gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from itertools import islice
from pathlib import Path

from rushes import errors
from rushes.backups import backup_dir, store
from rushes.backups.backup_dir import BackupDir, Entry, LinesFile, Manifest, ObjectList, TableFile
from rushes.backups.store import BackupRecord, Named
from rushes.db import schema, snapshot
from rushes.db.database import Database
from rushes.storage.storage import Storage

# What is done, how far it is, and how far it goes. It may raise, to end everything.
Progress = Callable[[str, int, int], None]
# Objects that are on their way at once: a bucket takes its time for each.
AT_ONCE = 6
WINDOW = 240


@dataclass(frozen=True, slots=True)
class Copied:
    entry: Entry
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    manifest: Manifest
    new_objects: int
    new_bytes: int
    kept_objects: int
    gone: int
    faults: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.faults


def make(db: Database, storage: Storage, directory: Path, progress: Progress) -> Made:
    """Nothing here is in the way of servers. What fails leaves a backup without a manifest."""
    schema.check(db)
    place = BackupDir(directory)
    place.create()
    with place.locked(alone=True):
        place.drop_drafts()
        return _Making(db, storage, place, progress).run()


class _Making:
    def __init__(
        self, db: Database, storage: Storage, place: BackupDir, progress: Progress
    ) -> None:
        self._db = db
        self._storage = storage
        self._place = place
        self._progress = progress
        self._started_at = db.clock.now()
        moment = datetime.fromtimestamp(self._started_at / 1000, UTC)
        self._id = f"{moment:%Y%m%dT%H%M%SZ}-{os.urandom(3).hex()}"

    def run(self) -> Made:
        record = BackupRecord(
            id=self._id, directory=str(self._place.root), started_at=self._started_at
        )
        folder = self._place.folder(self._id)
        (folder / backup_dir.TABLES).mkdir(mode=0o700, parents=True)
        with snapshot.read(self._db) as moment:
            revision = moment.revision
            tables = self._tables(moment)
            names = list(store.named(moment.tx))
            media = store.count_media(moment.tx)
        copied = self._copy(names)
        listed = LinesFile(folder / backup_dir.OBJECTS)
        size_bytes, sha256 = listed.write(each.entry for each in copied)
        self._place.sync()
        there = [each for each in copied if each.entry.sha256]
        manifest = self._place.write_manifest(
            Manifest(
                format=backup_dir.FORMAT,
                id=self._id,
                rushes=metadata.version("rushes"),
                database=self._db.dialect.name,
                revision=revision,
                started_at=self._started_at,
                finished_at=self._db.clock.now(),
                media=media,
                tables=tuple(tables),
                objects=ObjectList(
                    count=len(copied),
                    absent=len(copied) - len(there),
                    total_bytes=sum(each.entry.size_bytes for each in there),
                    size_bytes=size_bytes,
                    sha256=sha256,
                ),
            )
        )
        made = _made(manifest, copied)
        self._db.run(lambda tx: store.write(tx, _recorded(record, made)))
        return made

    def _tables(self, moment: snapshot.Snapshot) -> list[TableFile]:
        tables = moment.tables()
        made = []
        for number, table in enumerate(tables):
            self._progress("database", number, len(tables))
            file = LinesFile(self._place.table_path(self._id, table.name))
            size_bytes, sha256 = file.write(moment.rows(table))
            made.append(TableFile(table.name, table.columns, file.count, size_bytes, sha256))
        return made

    def _copy(self, names: Sequence[Named]) -> list[Copied]:
        total, done = sum(each.size_bytes for each in names), 0
        copied: list[Copied] = []
        with ThreadPoolExecutor(AT_ONCE, "backup") as threads:
            rest = iter(names)
            while window := list(islice(rest, WINDOW)):
                for each in threads.map(self._copy_one, window):
                    copied.append(each)
                    done += each.entry.size_bytes
                    self._progress("objects", done, total)
        return copied

    def _copy_one(self, named: Named) -> Copied:
        known = named.sha256
        if known is not None and self._place.has(known, named.size_bytes):
            return Copied(Entry(named.key, named.size_bytes, known))
        try:
            sha256, size, is_new = self._place.keep(
                self._storage.read(named.key, 0, named.size_bytes)
            )
        except errors.NotFound:
            return Copied(self._absent(named, "missing"))
        if size != named.size_bytes or sha256 != (known or sha256):
            return Copied(self._absent(named, "differs"))
        return Copied(Entry(named.key, size, sha256), is_new)

    def _absent(self, named: Named, why: backup_dir.Absent) -> Entry:
        """Its row may be gone by now, too, or about to be."""
        with self._db.read() as tx:
            is_needed = bool(store.needed(tx, [named.key]))
        return Entry(named.key, named.size_bytes, absent=why if is_needed else "gone")


def _made(manifest: Manifest, copied: Sequence[Copied]) -> Made:
    new = [each for each in copied if each.is_new]
    return Made(
        manifest=manifest,
        new_objects=len(new),
        new_bytes=sum(each.entry.size_bytes for each in new),
        kept_objects=sum(each.entry.sha256 is not None and not each.is_new for each in copied),
        gone=sum(each.entry.absent == "gone" for each in copied),
        faults=tuple(faults(each.entry for each in copied)),
    )


def faults(entries: Iterator[Entry]) -> Iterator[str]:
    """What was wrong with the storage that a backup was made of."""
    for each in entries:
        if each.absent == "missing":
            yield f"{each.key} was missing in the storage when the backup was made"
        elif each.absent == "differs":
            yield f"{each.key} had other bytes in the storage than its row says"


def _recorded(begun: BackupRecord, made: Made) -> BackupRecord:
    manifest = made.manifest
    return BackupRecord(
        id=begun.id,
        directory=begun.directory,
        started_at=begun.started_at,
        finished_at=manifest.finished_at,
        media=manifest.media,
        objects=manifest.objects.count,
        size_bytes=manifest.objects.total_bytes,
        new_objects=made.new_objects,
        new_bytes=made.new_bytes,
        problem_count=len(made.faults),
        problems=made.faults,
    )
