"""Restore a backup into a database and a storage that are empty, and only there.

Every byte of the backup is looked at before anything is changed. Objects come first and rows last,
in one transaction: a server that is started too early shows nothing rather than half. What was
begun and killed goes on when it is asked for again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

from rushes import errors
from rushes.backups import backup_dir
from rushes.backups.backup_dir import BackupDir, Damaged, Entry, Manifest
from rushes.backups.make import Progress
from rushes.db import schema, snapshot
from rushes.db.database import Database
from rushes.storage.storage import CHECKS, Storage
from rushes.transcripts import search

# So many are told one by one.
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    manifest: Manifest
    revision: str
    objects: int
    already_there: int


def restore(
    place: BackupDir, id: str | None, db: Database, storage: Storage, progress: Progress
) -> Restored:
    place.check_exists()
    with place.locked(alone=False):
        manifest = place.manifest(place.chosen(id))
        check_revision(manifest)
        if found := list(problems(place, manifest, progress)):
            more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            raise Damaged(
                f"{manifest.id} is damaged, nothing was changed: {'; '.join(found[:SHOWN])}{more}"
            )
        return _Restoring(place, manifest, db, storage, progress).run()


def problems(place: BackupDir, manifest: Manifest, progress: Progress) -> Iterator[str]:
    """Each file of the backup that is not, to the byte, what was written."""
    folder = place.folder(manifest.id)
    for table in manifest.tables:
        path = place.table_path(manifest.id, table.name)
        if wrong := backup_dir.problem_of_file(path, table.size_bytes, table.sha256):
            yield f"the table {table.name} {wrong}"
    listed = manifest.objects
    path = folder / backup_dir.OBJECTS
    if wrong := backup_dir.problem_of_file(path, listed.size_bytes, listed.sha256):
        yield f"the list of objects {wrong}"
        return
    done = 0
    looked: set[str] = set()
    for entry in place.entries(manifest):
        if entry.sha256 is None or entry.sha256 in looked:
            continue
        looked.add(entry.sha256)
        path = place.object_path(entry.sha256)
        if wrong := backup_dir.problem_of_file(path, entry.size_bytes, entry.sha256):
            yield f"the object {entry.sha256[:16]}… ({entry.key}) {wrong}"
        done += entry.size_bytes
        progress("checking", done, listed.total_bytes)


def check_revision(manifest: Manifest) -> None:
    if manifest.revision > schema.HEAD:
        raise errors.SchemaTooNew(
            f"{manifest.id} has schema {manifest.revision}, newer than {schema.HEAD} of this"
            " version of Rushes: upgrade Rushes, nothing was changed"
        )


def load(place: BackupDir, manifest: Manifest, db: Database) -> None:
    """The rows, into tables as they were then; all or none."""
    known = {table.name: table for table in snapshot.prepare(db, manifest.revision)}
    for each in manifest.tables:
        table = known.get(each.name)
        if table is None or set(table.columns) != set(each.columns):
            raise Damaged(f"the table {each.name} is not as schema {manifest.revision} has it")
    if missing := set(known) - {each.name for each in manifest.tables}:
        raise Damaged(f"the table {min(missing)} is missing in the backup")
    snapshot.load(
        db,
        (
            snapshot.Rows(
                snapshot.Table(each.name, each.columns),
                cast("Iterator[list[snapshot.Value]]", place.table_rows(manifest, each)),
            )
            for each in manifest.tables
        ),
    )


class _Restoring:
    def __init__(
        self,
        place: BackupDir,
        manifest: Manifest,
        db: Database,
        storage: Storage,
        progress: Progress,
    ) -> None:
        self._place = place
        self._manifest = manifest
        self._db = db
        self._storage = storage
        self._progress = progress

    def run(self) -> Restored:
        there = self._check_storage()
        self._begin()
        copied = self._copy(there)
        if not snapshot.is_loaded(self._db):
            load(self._place, self._manifest, self._db)
        _, revision = schema.migrate(self._db)
        self._index()
        snapshot.unmark(self._db)
        return Restored(
            manifest=self._manifest,
            revision=revision,
            objects=copied,
            already_there=len(there),
        )

    def _index(self) -> None:
        last: int | None = 0
        while last is not None:
            page = partial(search.index_again, after=last)
            last = self._db.run(page)

    def _begin(self) -> None:
        begun = snapshot.marked(self._db)
        if begun is None:
            snapshot.mark(self._db, self._manifest.id)
        elif begun != self._manifest.id:
            raise errors.Conflict(
                f"a restore of {begun} was begun here: complete it with --backup {begun}, or begin"
                " with a new database and an empty storage"
            )

    def _check_storage(self) -> set[str]:
        """The keys that are there already, of a restore that was killed."""
        wanted = {
            each.key: each
            for each in self._place.entries(self._manifest)
            if each.sha256 is not None
        }
        there: set[str] = set()
        for found in self._storage.list():
            if found.key.startswith(f"{CHECKS}/"):
                continue
            entry = wanted.get(found.key)
            if entry is None or not self._is_same(entry, found.size_bytes):
                raise errors.Conflict(
                    "the storage is not empty: a backup is restored into an empty storage only."
                    " Name one in RUSHES_STORAGE_URL; nothing was changed",
                    detail=found.key,
                )
            there.add(found.key)
        room = self._storage.free_bytes()
        need = sum(each.size_bytes for key, each in wanted.items() if key not in there)
        if room is not None and room < need:
            raise errors.DiskFull(
                f"the storage has room for {room / 1e9:.1f} GB, the backup needs"
                f" {need / 1e9:.1f} GB; nothing was changed"
            )
        return there

    def _is_same(self, entry: Entry, size_bytes: int) -> bool:
        if size_bytes != entry.size_bytes:
            return False
        digest = hashlib.sha256()
        for chunk in self._storage.read(entry.key):
            digest.update(chunk)
        return digest.hexdigest() == entry.sha256

    def _copy(self, there: set[str]) -> int:
        done = copied = 0
        for entry in self._place.entries(self._manifest):
            if entry.sha256 is None:
                continue
            if entry.key not in there:
                path = self._place.object_path(entry.sha256)
                stored = self._storage.put(entry.key, path, size_bytes=entry.size_bytes)
                if stored.sha256 != entry.sha256:
                    raise Damaged(f"the object of {entry.key} was changed meanwhile")
                copied += 1
            done += entry.size_bytes
            self._progress("objects", done, self._manifest.objects.total_bytes)
        return copied
