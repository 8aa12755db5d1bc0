"""Where the bytes are: objects under keys, in a directory or in a bucket, behind one contract.

A package adds a backend by an entry point in `rushes.storage`: its name is the scheme of the
setting STORAGE_URL, and it is called with the whole URL. Rushes' own two are found the same way.

Keys are made by us; what is not plainly one is refused, so nothing from outside becomes a path.
A reader sees a whole object or none. Errors of files and servers get their names here and nowhere
else, and their messages tell no path, key or address.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import ClassVar, Literal

from rushes import errors

CHUNK_BYTES = 2**20
# The folder of objects that are written to see whether that works.
CHECKS = "check"
ALIVE = f"{CHECKS}/alive"
# S3 allows 1,024 bytes in all, a directory 255 in a name; both keep room for what goes around it.
LONGEST_KEY = 800
PART = re.compile(r"[A-Za-z0-9._-]{1,200}")

Source = bytes | Path | Iterable[bytes]
Method = Literal["GET", "HEAD", "PUT"]


ENTRY_POINTS = "rushes.storage"
# Loaded when asked for: most commands never need the client library of a bucket.
BUILT_IN = (
    metadata.EntryPoint("file", "rushes.storage.local:from_url", ENTRY_POINTS),
    metadata.EntryPoint("s3", "rushes.storage.s3:from_url", ENTRY_POINTS),
)


def open(url: str) -> Storage:
    """The storage that the setting STORAGE_URL names. Looks at no server yet; `check` does."""
    scheme, separator, _ = url.partition("://")
    known = _backends()
    if not separator or scheme not in known:
        raise errors.BadSetting(
            "STORAGE_URL: must begin with " + " or ".join(f"{each}://" for each in sorted(known))
        )
    try:
        from_url = known[scheme].load()
    except (ImportError, AttributeError) as error:
        raise errors.BadSetting(
            f"STORAGE_URL: the package for {scheme}:// cannot be imported", detail=str(error)
        ) from error
    opened: Storage = from_url(url)
    return opened


def _backends() -> dict[str, metadata.EntryPoint]:
    """By scheme. One that is claimed twice stops the start."""
    found: dict[str, metadata.EntryPoint] = {}
    for entry in (*BUILT_IN, *metadata.entry_points(group=ENTRY_POINTS)):
        if found.setdefault(entry.name, entry).value != entry.value:
            raise errors.BadSetting(
                f"STORAGE_URL: {entry.value} and {found[entry.name].value} both claim"
                f" {entry.name}://"
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    size_bytes: int
    modified_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An address that lets anybody read one object until it ends."""

    url: str
    seconds_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """How an answer is to be labelled, whatever the object itself says."""

    content_type: str
    cache_control: str
    disposition: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    key: str
    size_bytes: int


class Storage(ABC):
    """Many threads may call it at once. What is not abstract may stay as it is."""

    # A server of its own, which a start waits for when it is not up yet.
    on_network: ClassVar[bool] = True

    def put(self, key: str, source: Source, *, size_bytes: int | None = None) -> Stored:
        """Durable when it returns; nothing is left of it when it fails, or when `source` does.

        A `size_bytes` known beforehand is needed for objects above some 75 GiB only."""
        feed = Feed(source)
        if isinstance(source, Path):
            size_bytes = source.stat().st_size
        self._put(check_key(key), feed, size_bytes)
        return feed.stored()

    def exists(self, key: str) -> bool:
        return self.size(key) is not None

    @abstractmethod
    def size(self, key: str) -> int | None:
        """In bytes; None when there is no such object."""

    def etag(self, key: str) -> str | None:
        """The storage's own mark of an object's content, often its MD5; None when it has none."""
        return None

    def read(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Chunks of at most 1 MiB, up to `end` or the object's. A missing object is known at once,
        before the first chunk is asked for."""
        chunks = self._stream(check_key(key), *check_range(start, end))
        next(chunks)
        return chunks

    async def aread(
        self, key: str, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """As `read`, but a missing object is known with the first chunk."""
        chunks = await asyncio.to_thread(self.read, key, start, end)
        # Nothing closes `chunks` on purpose: when canceled, a thread may still be inside.
        while chunk := await asyncio.to_thread(next, chunks, b""):
            yield chunk

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.read(source), size_bytes=self.size(source))

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Those that are missing are fine."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Everything below the folder `prefix`, a page at a time, in an order of its own."""

    def local_path(self, key: str) -> Path | None:
        """The object's own file, to be read only; None when objects are not files here."""
        check_key(key)
        return None

    def upload_path(self, key: str) -> Path | None:
        """The object's own file, for an upload to append to; None when uploads are to be put in
        parts and joined."""
        check_key(key)
        return None

    def presign(self, method: Method, key: str, expires_seconds: int) -> str | None:
        """An address that lets anybody do just this for a while; None when there are no such."""
        check_key(key)
        return None

    def link(self, key: str, life_seconds: int, labels: Labels) -> Link | None:
        """For browsers and players: the same for a while, so that what it leads to can be cached.
        None when there are no such; `link_origin` is None, too, then."""
        check_key(key)
        return None

    @property
    def link_origin(self) -> str | None:
        """Where links lead to, as content security policies name it; looks at no server."""
        return None

    def join(self, parts: Sequence[Part], target: str, tick: Callable[[], None]) -> bool:
        """Makes one object of others without their bytes coming here. False when it cannot, and
        nothing has happened. `tick` is called now and then."""
        return False

    def free_bytes(self) -> int | None:
        """None when nobody can know."""
        return None

    def total_bytes(self) -> int | None:
        """Of all that it could hold, with what is there; None when nobody can know."""
        return None

    def check(self) -> None:
        """Writes, reads and removes a small object. Raises Unavailable if that does not work."""
        key = f"{CHECKS}/{uuid.uuid4().hex}"
        self.put(key, key.encode())
        try:
            found = b"".join(self.read(key))
        except errors.NotFound as error:
            raise errors.StorageDown(DOWN, detail=error.detail) from error
        finally:
            # What a crash leaves here, the purge finds.
            self.delete([key])
        if found != key.encode():
            raise errors.StorageDown(DOWN, detail="other bytes came back than were written")

    def check_quickly(self) -> None:
        """As `check`, as far as it can be told by asking for an object that was left for this."""
        if self.size(ALIVE) is None:
            # Which may mean that all else is gone, too.
            self.put(ALIVE, ALIVE.encode())

    def close(self) -> None:  # noqa: B027 - neither kind holds anything open between calls
        pass

    @abstractmethod
    def _put(self, key: str, feed: Feed, size_bytes: int | None) -> None: ...

    @abstractmethod
    def _stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        """Opens the object and yields one empty chunk, then its bytes. What is open is closed when
        the iterator is dropped, since it has begun."""


class Feed(Iterator[bytes]):
    """A source on its way into the storage: counted, hashed, and its own error kept apart."""

    def __init__(self, source: Source) -> None:
        self._chunks = iter(_chunks_of(source))
        self._digest = hashlib.sha256()
        self._size_bytes = 0
        self.error: BaseException | None = None

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise
        self._digest.update(chunk)
        self._size_bytes += len(chunk)
        return chunk

    def stored(self) -> Stored:
        return Stored(size_bytes=self._size_bytes, sha256=self._digest.hexdigest())


def _chunks_of(source: Source) -> Iterable[bytes]:
    if isinstance(source, bytes):
        return [source]
    if isinstance(source, Path):
        return _chunks_of_file(source)
    return source


def _chunks_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def check_key(key: str) -> str:
    """The key itself, if it is one."""
    if len(key) > LONGEST_KEY or not all(is_part(part) for part in key.split("/")):
        raise errors.Invalid(REFUSED, detail=repr(key[:LONGEST_KEY]))
    return key


def check_prefix(prefix: str) -> str:
    """A key that names a folder, or nothing for everything."""
    return check_key(prefix) if prefix else prefix


def is_part(part: str) -> bool:
    return PART.fullmatch(part) is not None and part not in {".", ".."}


def check_range(start: int, end: int | None) -> tuple[int, int | None]:
    if start < 0 or (end is not None and end < start):
        raise errors.Invalid("the range of bytes is wrong", detail=f"{start}-{end}")
    return start, end


DOWN = "the storage is not available"
FULL = "the storage is full"
MISSING = "there is no such file"
REFUSED = "the storage does not accept this name"
