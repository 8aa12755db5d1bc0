"""Where the bytes of one upload go while it is written: a file that grows, or parts in a bucket.

Both are made so that a writer who was fenced off cannot harm its successor: the file by a lock that
only one of them can hold, the parts by names of their own that count only once the row says so.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rushes import errors
from rushes.storage import storage as storages
from rushes.storage.storage import Storage
from rushes.uploads.upload import Durable, Upload, UploadPart

if TYPE_CHECKING:
    from hashlib import _Hash

# One object each; as much memory is taken by an upload, twice while one is on its way.
PART_BYTES = 8 * 2**20
# Of very long uploads they are larger, so that they are few enough to be joined by the storage.
LARGEST_PART_BYTES = 64 * 2**20
MOST_PARTS = 9_000
# A slow sender's bytes become a part after so long.
PART_SECONDS = 5.0


class Sink(Protocol):
    """`write` and `sync` may run at the same time, each in one thread; all else runs alone.

    `digest`: of all bytes so far, or None when nobody has followed them. `in_parts`: the bytes are
    objects of their own until somebody joins them."""

    in_parts: bool
    digest: _Hash | None

    def write(self, data: bytes) -> None: ...

    def sync(self) -> Durable:
        """What is durable now, though more may have been written."""
        ...

    def settle(self) -> None:
        """Nothing comes for now: the next `sync` returns all that was written."""
        ...

    def pause(self) -> None:
        """Let somebody else go on if they want to."""
        ...

    def resume(self) -> None:
        """Raises UploadBusy if somebody did."""
        ...

    def cut(self, offset_bytes: int) -> None: ...

    def close(self) -> None: ...


def open(storage: Storage, upload: Upload, writer: str, digest: _Hash | None) -> Sink:
    """At the upload's stored offset; what may lie behind that was never promised to anybody."""
    path = _path(storage, upload)
    if path is None:
        return PartSink(storage, upload, writer, digest)
    return FileSink(path, upload.offset_bytes, digest)


def _path(storage: Storage, upload: Upload) -> Path | None:
    try:
        return storage.upload_path(upload.key)
    except errors.NotFound:
        if upload.offset_bytes:
            raise errors.StorageDown(storages.DOWN, detail=f"{upload.key} has vanished") from None
    # The first bytes: the storage makes the file, safely and durably, and we write into it.
    storage.put(upload.key, b"")
    return storage.upload_path(upload.key)


class FileSink:
    in_parts = False

    def __init__(self, path: Path, offset_bytes: int, digest: _Hash | None) -> None:
        self.offset_bytes = offset_bytes
        self.digest: _Hash | None = hashlib.sha256() if offset_bytes == 0 else digest
        with _renamed():
            self._file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self.resume()
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with _renamed():
            while rest:
                rest = rest[os.write(self._open_file, rest) :]
        if self.digest is not None:
            self.digest.update(data)
        self.offset_bytes += len(data)

    def sync(self) -> Durable:
        offset_bytes = self.offset_bytes
        with _renamed():
            os.fdatasync(self._open_file)
        return Durable(offset_bytes)

    def settle(self) -> None:
        pass

    def pause(self) -> None:
        with _renamed():
            fcntl.flock(self._open_file, fcntl.LOCK_UN)

    def resume(self) -> None:
        with _renamed():
            try:
                fcntl.flock(self._open_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.UploadBusy("another connection is writing to this upload") from None
            if os.fstat(self._open_file).st_size < self.offset_bytes:
                raise errors.StorageDown(storages.DOWN, detail="a source has lost its end")
            self.cut(self.offset_bytes)

    def cut(self, offset_bytes: int) -> None:
        with _renamed():
            os.ftruncate(self._open_file, offset_bytes)
            os.lseek(self._open_file, offset_bytes, os.SEEK_SET)
        if offset_bytes != self.offset_bytes:
            self.offset_bytes, self.digest = offset_bytes, None

    @property
    def _open_file(self) -> int:
        if self._file < 0:
            raise OSError(errno.EBADF, "closed already")
        return self._file

    def close(self) -> None:
        """Again is harmless, though the number may be another file's by then."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


class PartSink:
    in_parts = True

    def __init__(self, storage: Storage, upload: Upload, writer: str, digest: _Hash | None) -> None:
        self.digest: _Hash | None = hashlib.sha256() if upload.offset_bytes == 0 else digest
        self._storage = storage
        self._part_bytes = part_bytes(upload.length_bytes)
        self._folder = f"{upload.key}.parts"
        self._writer = writer
        self._offset_bytes = upload.offset_bytes
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._since = 0.0
        self._lock = threading.Lock()
        self._new: list[UploadPart] = []

    def write(self, data: bytes) -> None:
        if not self._gathered:
            self._since = time.monotonic()
        if self.digest is not None:
            self.digest.update(data)
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        old = time.monotonic() - self._since > PART_SECONDS
        if self._gathered_bytes >= self._part_bytes or old:
            self.settle()

    def settle(self) -> None:
        if not self._gathered_bytes:
            return
        # The writer's name in it: a late one of somebody else's cannot take its place.
        key = f"{self._folder}/{self._offset_bytes:020d}-{self._writer}"
        stored = self._storage.put(key, b"".join(self._gathered))
        part = UploadPart(self._offset_bytes, stored.size_bytes, key)
        self._gathered, self._gathered_bytes = [], 0
        with self._lock:
            self._offset_bytes += stored.size_bytes
            self._new.append(part)

    def sync(self) -> Durable:
        with self._lock:
            new, self._new = tuple(self._new), []
            return Durable(self._offset_bytes, new)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def cut(self, offset_bytes: int) -> None:
        """The objects go with the upload's other leftovers."""
        self._gathered, self._gathered_bytes, self._new = [], 0, []
        self._offset_bytes, self.digest = offset_bytes, None

    def close(self) -> None:
        self._gathered, self._new = [], []


def part_bytes(length_bytes: int | None) -> int:
    wanted = -(-(length_bytes or 0) // MOST_PARTS)
    return min(max(PART_BYTES, wanted), max(PART_BYTES, LARGEST_PART_BYTES))


def chunks(
    storage: Storage, parts: Iterable[UploadPart], tick: Callable[[], None]
) -> Iterator[bytes]:
    """The bytes of all parts in order; `tick` is called now and then."""
    for part in parts:
        for chunk in storage.read(part.key, 0, part.size_bytes):
            tick()
            yield chunk


@contextmanager
def _renamed() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.DiskFull(storages.FULL, detail=str(error)) from error
        raise errors.StorageDown(storages.DOWN, detail=str(error)) from error
