"""A directory of backups: what is where in it, and whether it is what was written.

    DIR/objects/ab/ab12…            every object once, named by its SHA-256
    DIR/backups/<id>/tables/*.gz    rows of the database, one file for each table
    DIR/backups/<id>/objects.gz     which object of the storage has which content
    DIR/backups/<id>/manifest.json  what all this must be; written last
    DIR/backups/<id>/verified.json  what the last verification has found

A backup without a manifest was not completed. A manifest holds the checksum of itself and of the
files beside it, so whatever was changed afterwards is found.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from rushes import errors
from rushes.storage.storage import CHUNK_BYTES

FORMAT = 1
MANIFEST, VERIFIED, OBJECTS, TABLES = "manifest.json", "verified.json", "objects.gz", "tables"
ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
SHA256 = re.compile(r"[0-9a-f]{64}")

# What is not in a backup: `gone` was removed on purpose while it was made; `missing` and `differs`
# are faults of the storage that it was made of.
Absent = Literal["gone", "missing", "differs"]
State = Literal["complete", "incomplete", "damaged"]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of the storage. Without `sha256` its content is not in the backup: see `absent`."""

    key: str
    size_bytes: int
    sha256: str | None = None
    absent: Absent | None = None


class TableFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    columns: tuple[str, ...]
    rows: int
    size_bytes: int
    sha256: str


class ObjectList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file with all entries; `total_bytes` of the objects themselves."""

    count: int
    absent: int
    total_bytes: int
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    id: str
    rushes: str
    database: str
    revision: str
    started_at: int
    finished_at: int
    media: int
    tables: tuple[TableFile, ...]
    objects: ObjectList
    checksum: str = ""

    def table(self, name: str) -> TableFile | None:
        return next((each for each in self.tables if each.name == name), None)


class Verified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`checksum`: of the manifest that was verified."""

    at: int
    good: bool
    checksum: str
    problems: tuple[str, ...] = ()
    problem_count: int = 0


class Listed(msgspec.Struct, frozen=True):
    id: str
    state: State
    manifest: Manifest | None = None
    verified: Verified | None = None
    problem: str | None = None


class Damaged(errors.Conflict):
    """Something in a backup is not what was written."""

    code = "backup_damaged"


class BackupDir:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = root / "objects"
        self.backups = root / "backups"

    def create(self) -> None:
        with _written(self.root):
            for each in (self.root, self.objects, self.backups):
                # Everybody's recordings, and the hashes of their passwords.
                each.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check_exists(self) -> None:
        if not self.backups.is_dir():
            raise errors.NotFound(f"{self.root} holds no backups: 'rushes backup DIR' makes one")

    @contextmanager
    def locked(self, *, alone: bool) -> Iterator[None]:
        """One that writes, or several that read."""
        with _written(self.root):
            flags = os.O_RDWR | os.O_CREAT if alone else os.O_RDONLY
            try:
                file = os.open(self.root / "lock", flags | os.O_CLOEXEC, 0o600)
            except (FileNotFoundError, PermissionError):
                if alone:
                    raise
                # A copy on a disk that is read only: nobody writes there.
                file = -1
        try:
            if file >= 0:
                _lock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            if file >= 0:
                os.close(file)

    # Backups

    def ids(self) -> list[str]:
        """The oldest first."""
        if not self.backups.is_dir():
            return []
        return sorted(each.name for each in self.backups.iterdir() if ID.fullmatch(each.name))

    def folder(self, id: str) -> Path:
        if not ID.fullmatch(id):
            raise errors.NotFound(f"{id!r} is no name of a backup: see 'rushes backup list'")
        return self.backups / id

    def listed(self) -> list[Listed]:
        return [self._listed(id) for id in self.ids()]

    def chosen(self, id: str | None) -> str:
        """This one, or the newest that is complete."""
        if id is not None:
            if not self.folder(id).is_dir():
                raise errors.NotFound(f"there is no backup {id} in {self.root}")
            return id
        ready = [each.id for each in self.listed() if each.state != "incomplete"]
        if not ready:
            raise errors.NotFound(f"{self.root} holds no complete backup")
        return ready[-1]

    def manifest(self, id: str) -> Manifest:
        """Raises Damaged if it is not, to the byte, what was written for this backup."""
        try:
            content = (self.folder(id) / MANIFEST).read_bytes()
        except FileNotFoundError:
            raise Damaged(f"{id} is incomplete: it has no manifest") from None
        except OSError as error:
            raise Damaged(f"{id}: the manifest cannot be read: {error.strerror}") from error
        try:
            found = msgspec.json.decode(content, type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged(f"{id}: the manifest is damaged: {error}") from None
        if found.format != FORMAT:
            raise Damaged(f"{id}: the manifest has format {found.format}, not {FORMAT}")
        if encoded(found) != content or found.checksum != checksum(found):
            raise Damaged(f"{id}: the manifest is damaged: its checksum is wrong")
        if found.id != id:
            raise Damaged(f"{id}: the manifest is that of {found.id}")
        return found

    def write_manifest(self, manifest: Manifest) -> Manifest:
        """From here on the backup is complete."""
        signed = msgspec.structs.replace(manifest, checksum=checksum(manifest))
        write_whole(self.folder(manifest.id) / MANIFEST, encoded(signed))
        return signed

    def verified(self, id: str) -> Verified | None:
        try:
            content = (self.folder(id) / VERIFIED).read_bytes()
            return msgspec.json.decode(content, type=Verified)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def entries(self, manifest: Manifest) -> Iterator[Entry]:
        """Each key once. Raises Damaged at the first that is wrong, or at a wrong number."""
        decoder = msgspec.json.Decoder(Entry)
        path = self.folder(manifest.id) / OBJECTS
        seen: set[str] = set()
        try:
            with gzip.open(path, "rb") as lines:
                for line in lines:
                    entry = decoder.decode(line)
                    if entry.key in seen:
                        raise Damaged(f"{OBJECTS}: {entry.key} is there twice")
                    if (entry.sha256 is None) == (entry.absent is None):
                        raise Damaged(f"{OBJECTS}: {entry.key} is neither there nor absent")
                    if entry.sha256 is not None and not SHA256.fullmatch(entry.sha256):
                        raise Damaged(f"{OBJECTS}: {entry.key} has no real checksum")
                    seen.add(entry.key)
                    yield entry
        except (OSError, EOFError, msgspec.MsgspecError, ValueError) as error:
            raise Damaged(f"{OBJECTS} cannot be read: {error}") from error
        if len(seen) != manifest.objects.count:
            raise Damaged(f"{OBJECTS} names {len(seen)} objects, not {manifest.objects.count}")

    def table_rows(self, manifest: Manifest, table: TableFile) -> Iterator[list[object]]:
        decoder = msgspec.json.Decoder(list[object])
        count = 0
        try:
            with gzip.open(self.table_path(manifest.id, table.name), "rb") as lines:
                for line in lines:
                    row = decoder.decode(line)
                    if len(row) != len(table.columns):
                        raise Damaged(f"{table.name}: a row has {len(row)} values")
                    count += 1
                    yield row
        except (OSError, EOFError, msgspec.MsgspecError, ValueError) as error:
            raise Damaged(f"the table {table.name} cannot be read: {error}") from error
        if count != table.rows:
            raise Damaged(f"the table {table.name} has {count} rows, not {table.rows}")

    def table_path(self, id: str, table: str) -> Path:
        return self.folder(id) / TABLES / f"{table}.gz"

    # Objects

    def object_path(self, sha256: str) -> Path:
        return self.objects / sha256[:2] / sha256

    def has(self, sha256: str, size_bytes: int) -> bool:
        with suppress(FileNotFoundError):
            return self.object_path(sha256).stat().st_size == size_bytes
        return False

    def keep(self, chunks: Iterable[bytes]) -> tuple[str, int, bool]:
        """Store the bytes; returns their SHA-256, their size, and whether they are new here."""
        drafts = self.root / "drafts"
        draft = drafts / uuid.uuid4().hex
        digest, size = hashlib.sha256(), 0
        with _written(self.root):
            drafts.mkdir(mode=0o700, exist_ok=True)
            try:
                with draft.open("xb", buffering=0) as file:
                    for chunk in chunks:
                        digest.update(chunk)
                        size += len(chunk)
                        _write_all(file, chunk)
                    sha256 = digest.hexdigest()
                    if self.has(sha256, size):
                        return sha256, size, False
                    os.fsync(file.fileno())
                target = self.object_path(sha256)
                target.parent.mkdir(mode=0o700, exist_ok=True)
                draft.replace(target)
                return sha256, size, True
            finally:
                draft.unlink(missing_ok=True)

    def sync(self) -> None:
        """What was renamed is durable when its folder is."""
        for folder in (self.root, self.objects, self.backups, *self.objects.iterdir()):
            if folder.is_dir():
                _sync(folder)

    def drop_drafts(self) -> None:
        shutil.rmtree(self.root / "drafts", ignore_errors=True)

    def _listed(self, id: str) -> Listed:
        if not (self.folder(id) / MANIFEST).exists():
            return Listed(id, "incomplete", problem="it was not completed")
        try:
            manifest = self.manifest(id)
        except Damaged as error:
            return Listed(id, "damaged", problem=error.message)
        verified = self.verified(id)
        if verified is not None and verified.checksum != manifest.checksum:
            verified = None
        return Listed(id, "complete", manifest, verified)


def encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def checksum(manifest: Manifest) -> str:
    return hashlib.sha256(encoded(msgspec.structs.replace(manifest, checksum=""))).hexdigest()


def problem_of_file(path: Path, size_bytes: int, sha256: str) -> str | None:
    """What is wrong with a file of a backup; None if it is what was written."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if size != size_bytes:
        return f"has {size} bytes instead of {size_bytes}"
    if digest.hexdigest() != sha256:
        return "has other bytes than were written"
    return None


def write_whole(path: Path, content: bytes) -> None:
    """Atomically, and durable when it returns."""
    draft = path.with_name(f".{path.name}.new")
    with _written(path.parent):
        with draft.open("wb", buffering=0) as file:
            _write_all(file, content)
            os.fsync(file.fileno())
        draft.replace(path)
        _sync(path.parent)


class LinesFile:
    """JSON, a line each, compressed; hashed as it is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._encode = msgspec.json.Encoder().encode

    def write(self, lines: Iterable[object]) -> tuple[int, str]:
        """Size and SHA-256 of the file."""
        with _written(self.path.parent), self.path.open("xb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0) as file:
                for line in lines:
                    file.write(self._encode(line) + b"\n")
                    self.count += 1
            raw.flush()
            os.fsync(raw.fileno())
        digest = hashlib.sha256()
        with self.path.open("rb") as written:
            while chunk := written.read(CHUNK_BYTES):
                digest.update(chunk)
        return self.path.stat().st_size, digest.hexdigest()


def _write_all(file: IO[bytes], chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _lock(file: int, how: int) -> None:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        raise errors.Conflict(
            "another backup, restore or verification is at work in this directory"
        ) from None


@contextmanager
def _written(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.DiskFull(f"{where} is full: the backup was not completed") from error
        raise errors.ReadOnly(f"cannot write {where}: {error.strerror}") from error
