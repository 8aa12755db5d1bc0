"""Objects in a bucket of an S3-compatible server.

Large objects go up in parts, a few at a time, so memory is bounded; a failed upload is aborted.
Credentials are those of the address, else those of the usual AWS_* variables.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import re
import urllib.parse
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, GenericError
from obstore.store import S3Store

from rushes import errors
from rushes.storage import storage

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

PART_BYTES = 8 * 2**20
# The server takes no more parts than this for one object.
MOST_PARTS = 10_000
# One at a time: an abort that overtakes a part on its way would leave that part behind for ever.
PARTS_AT_ONCE = 1
# The server copies nothing larger by itself.
LARGEST_COPY_BYTES = 5 * 2**30
KEYS_PER_REQUEST = 1_000
BLOCKS_AHEAD = PART_BYTES // storage.CHUNK_BYTES
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
ENDPOINT = re.compile(r"https?://[^/\s?#@]+/?")
# What the servers that have limits say when one is reached.
FULL = re.compile(r"507 Insufficient Storage|XMinioStorageFull|QuotaExceeded|InsufficientStorage")
# A read may last as long as somebody watches; what is bounded is the silence within it.
CLIENT: ClientConfig = {
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=120),
    "timeout": timedelta(days=1),
}
RETRY: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """What an address says; `None` leaves it to the environment."""

    bucket: str
    prefix: str
    access_key: str | None
    secret_key: str | None
    endpoint: str | None
    region: str | None


def from_url(url: str) -> S3Storage:
    return S3Storage(parse(url))


def parse(url: str) -> S3Address:
    """No message repeats the address: it may hold a secret."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        raise _bad("brackets do not belong there") from error
    credentials, _, bucket = parts.netloc.rpartition("@")
    access_key, _, secret_key = map(urllib.parse.unquote, credentials.partition(":"))
    options = _options(parts.query)
    prefix = urllib.parse.unquote(parts.path).strip("/")
    if not BUCKET.fullmatch(bucket) or parts.fragment:
        raise _bad("s3:// takes a bucket, as s3://bucket/prefix; write / in a secret as %2F")
    if credentials and not (access_key and secret_key):
        raise _bad("credentials are KEY:SECRET@ before the bucket")
    try:
        storage.check_prefix(prefix)
    except errors.Invalid as error:
        raise _bad("the prefix may have letters, digits, . _ - and / only") from error
    return S3Address(
        bucket=bucket,
        prefix=prefix,
        access_key=access_key or None,
        secret_key=secret_key or None,
        endpoint=options.get("endpoint"),
        region=options.get("region"),
    )


def _options(query: str) -> dict[str, str]:
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    if options.keys() - {"endpoint", "region"}:
        raise _bad("after the ? only endpoint and region may stand")
    if "endpoint" in options and not ENDPOINT.fullmatch(options["endpoint"]):
        raise _bad("endpoint must be http:// or https:// and a host")
    if options.get("region") == "":
        raise _bad("region is empty")
    return options


def _bad(problem: str) -> errors.BadSetting:
    return errors.BadSetting(f"STORAGE_URL: {problem}")


class S3Storage(storage.Storage):
    def __init__(self, address: S3Address) -> None:
        self._store = _connect(address)

    def size(self, key: str) -> int | None:
        storage.check_key(key)
        try:
            with _renamed(key):
                return obstore.head(self._store, key)["size"]
        except errors.NotFound:
            return None

    def etag(self, key: str) -> str | None:
        with _renamed(key):
            tag = obstore.head(self._store, storage.check_key(key))["e_tag"]
        return tag.strip('"') if tag else None

    async def aread(
        self, key: str, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        start, end = storage.check_range(start, end)
        with _renamed(key):
            # Once begun it needs no thread, so slow viewers cost none.
            found = await asyncio.to_thread(self._get, storage.check_key(key), start, end)
            if found:
                async for block in found.stream(storage.CHUNK_BYTES // 2):
                    for chunk in _sliced(block):
                        yield chunk

    def copy(self, source: str, target: str) -> None:
        size_bytes = self.size(source)
        if size_bytes is not None and size_bytes > LARGEST_COPY_BYTES:
            self.put(target, self.read(source), size_bytes=size_bytes)
        else:
            with _renamed(source):
                obstore.copy(self._store, source, storage.check_key(target))

    def delete(self, keys: Iterable[str]) -> None:
        rest = map(storage.check_key, keys)
        while batch := list(itertools.islice(rest, KEYS_PER_REQUEST)):
            with _renamed(batch[0], may_miss=False):
                obstore.delete(self._store, batch)

    def list(self, prefix: str = "") -> Iterator[storage.StoredObject]:
        return self._below(storage.check_prefix(prefix))

    def presign(self, method: storage.Method, key: str, expires_seconds: int) -> str | None:
        with _renamed(key):
            expires = timedelta(seconds=expires_seconds)
            return obstore.sign(self._store, method, storage.check_key(key), expires)

    def _put(self, key: str, feed: storage.Feed, size_bytes: int | None) -> None:
        first = _gather(feed, PART_BYTES)
        if len(first) < PART_BYTES:
            with _renamed(key, may_miss=False):
                obstore.put(self._store, key, first, use_multipart=False)
        else:
            part_bytes = max(PART_BYTES, -(-(size_bytes or 0) // MOST_PARTS))
            self._put_parts(key, first, feed, part_bytes)

    def _put_parts(self, key: str, first: bytes, feed: storage.Feed, part_bytes: int) -> None:
        """The source runs in this thread and the sending in another one: obstore cannot be called
        from within itself, and a source may read from this very storage."""
        handover = Handover()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(
                obstore.put,
                self._store,
                key,
                handover.taken(),
                chunk_size=part_bytes,
                max_concurrency=PARTS_AT_ONCE,
            )
            sending.add_done_callback(lambda _: handover.clear())
            try:
                block = first
                while block and not sending.done():
                    handover.give(block)
                    block = _gather(feed, storage.CHUNK_BYTES)
            except BaseException:
                handover.give(Abandoned())
                raise
            handover.give(None)
            with _renamed(key, may_miss=False):
                sending.result()

    def _stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        with _renamed(key):
            found = self._get(key, start, end)
            yield b""
            if found:
                for block in found.stream(storage.CHUNK_BYTES // 2):
                    yield from _sliced(block)

    def _get(self, key: str, start: int, end: int | None) -> GetResult | None:
        """None when the range holds nothing: the server calls that an error."""
        options: GetOptions = {}
        if end is not None:
            options = {"range": (start, end)}
        elif start:
            options = {"range": {"offset": start}}
        try:
            return obstore.get(self._store, key, options=options)
        except GenericError:
            size_bytes = obstore.head(self._store, key)["size"]
            if start < (size_bytes if end is None else min(size_bytes, end)):
                raise
            return None

    def _below(self, prefix: str) -> Iterator[storage.StoredObject]:
        with _renamed(prefix):
            for page in obstore.list(self._store, prefix or None, chunk_size=KEYS_PER_REQUEST):
                for found in page:
                    yield storage.StoredObject(
                        key=found["path"],
                        size_bytes=found["size"],
                        modified_at_ms=int(found["last_modified"].timestamp() * 1000),
                    )


class Abandoned(Exception):
    """The source failed; makes obstore abort the upload."""


class Handover:
    """From the thread that reads the source to the one that sends, some blocks ahead of it."""

    def __init__(self) -> None:
        # At least two: the last block and the end, when nobody takes anything any more.
        self._queue: queue.Queue[bytes | Abandoned | None] = queue.Queue(BLOCKS_AHEAD)

    def give(self, item: bytes | Abandoned | None) -> None:
        self._queue.put(item)

    def taken(self) -> Iterator[bytes]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Abandoned):
                # Before it takes this, obstore waits for the part that is on its way.
                yield b""
                raise item
            yield item

    def clear(self) -> None:
        """Frees a giver that waits, when the sending has ended before its time."""
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()


def _connect(address: S3Address) -> S3Store:
    config: S3Config = {}
    if address.region:
        config["region"] = address.region
    client = CLIENT
    if address.endpoint:
        # Both names, because a variable of the second would win over the first alone.
        config["endpoint"] = config["aws_endpoint_url_s3"] = address.endpoint
        client = {**CLIENT, "allow_http": address.endpoint.startswith("http://")}
    try:
        return S3Store(
            address.bucket,
            prefix=address.prefix or None,
            config=config,
            client_options=client,
            retry_config=RETRY,
            credential_provider=_credentials(address),
        )
    except (BaseError, ValueError) as error:
        raise errors.BadSetting("STORAGE_URL: not usable", detail=str(error)) from error


def _credentials(address: S3Address) -> Callable[[], S3Credential] | None:
    if not (address.access_key and address.secret_key):
        return None
    # All of them at once, or a session token of the environment would go with a key of ours.
    credential: S3Credential = {
        "access_key_id": address.access_key,
        "secret_access_key": address.secret_key,
        "token": None,
        "expires_at": None,
    }
    return lambda: credential


def _gather(feed: Iterator[bytes], enough_bytes: int) -> bytes:
    """All of a small object, which then takes one request, or the beginning of a large one."""
    gathered = bytearray()
    for chunk in feed:
        gathered += chunk
        if len(gathered) >= enough_bytes:
            break
    return bytes(gathered)


def _sliced(block: bytes) -> Iterator[bytes]:
    for start in range(0, len(block), storage.CHUNK_BYTES):
        yield block[start : start + storage.CHUNK_BYTES]


@contextmanager
def _renamed(key: str, *, may_miss: bool = True) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        raise _named(error, key, may_miss=may_miss) from error


def _named(error: Exception, key: str, *, may_miss: bool) -> errors.RushesError:
    text = str(error).partition("\n\nDebug source")[0]
    detail = f"{key}: {text}"
    if FULL.search(text):
        return errors.DiskFull(storage.FULL, detail=detail)
    if may_miss and isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
        return errors.NotFound(storage.MISSING, detail=detail)
    return errors.StorageDown(storage.DOWN, detail=detail)
