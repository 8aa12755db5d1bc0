"""Objects in a bucket of an S3-compatible server.

Large objects go up in parts, a few at a time, so memory is bounded; a failed upload is aborted.
Credentials are those of the address, else those of the usual AWS_* variables, else what obstore
finds on the machine; links and `join` need them to be known here.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import time
import urllib.parse
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, GenericError
from obstore.store import S3Store

from rushes import errors
from rushes.storage import joining, s3_errors, storage
from rushes.storage.s3_calls import S3Calls
from rushes.storage.sigv4 import Signer

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
    # Where others reach the same server: workers elsewhere, and browsers.
    public_endpoint: str | None = None


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
        public_endpoint=options.get("public_endpoint"),
    )


def _options(query: str) -> dict[str, str]:
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    if options.keys() - {"endpoint", "public_endpoint", "region"}:
        raise _bad("after the ? only endpoint, public_endpoint and region may stand")
    for name in ("endpoint", "public_endpoint"):
        if name in options and not ENDPOINT.fullmatch(options[name]):
            raise _bad(f"{name} must be http:// or https:// and a host")
        if name in options:
            options[name] = options[name].rstrip("/")
    if options.get("region") == "":
        raise _bad("region is empty")
    return options


def _bad(problem: str) -> errors.BadSetting:
    return errors.BadSetting(f"STORAGE_URL: {problem}")


class S3Storage(storage.Storage):
    def __init__(self, address: S3Address) -> None:
        self._address = address
        self._store = _connect(address)
        public = address.public_endpoint
        self._public = _connect(replace(address, endpoint=public)) if public else self._store

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
            # It needs no thread, so neither slow viewers nor a storage that hangs cost any.
            found = await self._aget(storage.check_key(key), start, end)
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
            return obstore.sign(self._public, method, storage.check_key(key), expires)

    def link(self, key: str, life_seconds: int, labels: storage.Labels) -> storage.Link | None:
        storage.check_key(key)
        if self._link_signer is None:
            return None
        base, signer = self._link_signer
        begun, left = link_times(int(time.time()), life_seconds)
        query = {
            "response-content-type": labels.content_type,
            "response-cache-control": labels.cache_control,
        }
        if labels.disposition:
            query["response-content-disposition"] = labels.disposition
        at = datetime.fromtimestamp(begun, UTC)
        url = signer.presigned("GET", f"{base}/{key}", query, at, life_seconds)
        return storage.Link(url=url, seconds_left=left)

    @property
    def link_origin(self) -> str | None:
        if self._link_signer is None:
            return None
        parts = urllib.parse.urlsplit(self._link_signer[0])
        return f"{parts.scheme}://{parts.netloc}"

    def join(self, parts: Sequence[storage.Part], target: str, tick: Callable[[], None]) -> bool:
        steps = joining.plan([part.size_bytes for part in parts])
        calls = self.calls
        if steps is None or calls is None:
            return False
        prefix = f"{self._address.prefix}/" if self._address.prefix else ""
        place = joining.Place(
            calls=calls,
            target=prefix + storage.check_key(target),
            sources=[f"{self._address.bucket}/{prefix}{storage.check_key(p.key)}" for p in parts],
            read=lambda n: b"".join(self.read(parts[n].key, 0, parts[n].size_bytes)),
        )
        try:
            joining.run(place, steps, tick)
        except errors.NotSupported:
            return False
        return True

    @cached_property
    def calls(self) -> S3Calls | None:
        """What obstore cannot do; None when the keys are not known here."""
        found = _signer(self._store, self._address)
        if found is None:
            return None
        base, signer = found
        prefix = f"/{self._address.prefix}" if self._address.prefix else ""
        return S3Calls(base.removesuffix(prefix), signer)

    @property
    def address(self) -> S3Address:
        return self._address

    @cached_property
    def _link_signer(self) -> tuple[str, Signer] | None:
        return _signer(self._public, self._address)

    def _put(self, key: str, feed: storage.Feed, size_bytes: int | None) -> None:
        first = _gather(feed, PART_BYTES)
        if len(first) < PART_BYTES:
            with _renamed(key, may_miss=False):
                obstore.put(self._store, key, first, use_multipart=False)
        else:
            self._put_parts(key, first, feed, part_bytes(size_bytes or 0))

    def _put_parts(self, key: str, first: bytes, feed: storage.Feed, chunk_size: int) -> None:
        """The source runs in this thread and the sending in another one: obstore cannot be called
        from within itself, and a source may read from this very storage."""
        handover = Handover()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(
                obstore.put,
                self._store,
                key,
                handover.taken(),
                chunk_size=chunk_size,
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
        try:
            return obstore.get(self._store, key, options=_range(start, end))
        except GenericError as error:
            if s3_errors.hint(str(error)):
                raise
            if _holds(obstore.head(self._store, key)["size"], start, end):
                raise
            return None

    async def _aget(self, key: str, start: int, end: int | None) -> GetResult | None:
        try:
            return await obstore.get_async(self._store, key, options=_range(start, end))
        except GenericError as error:
            if s3_errors.hint(str(error)):
                raise
            if _holds((await obstore.head_async(self._store, key))["size"], start, end):
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


def part_bytes(size_bytes: int) -> int:
    """Of an object of this size, so that its parts are not too many."""
    return max(PART_BYTES, -(-size_bytes // MOST_PARTS))


def _range(start: int, end: int | None) -> GetOptions:
    if end is not None:
        return {"range": (start, end)}
    return {"range": {"offset": start}} if start else {}


def _holds(size_bytes: int, start: int, end: int | None) -> bool:
    return start < (size_bytes if end is None else min(size_bytes, end))


def link_times(now: int, life_seconds: int) -> tuple[int, int]:
    """When a link begins, and how long it lasts from now. Within half a life all begin at the same
    moment and so are the same link; none lasts longer than a life from when it is handed out."""
    begun = now - now % max(1, life_seconds // 2)
    return begun, begun + life_seconds - now


def _signer(store: S3Store, address: S3Address) -> tuple[str, Signer] | None:
    """Where the storage's keys begin, and who signs there: as obstore does it itself, whatever
    its part of the environment says."""
    keys = _known_keys(address)
    if keys is None:
        return None
    access_key, secret_key, token = keys
    signed = urllib.parse.urlsplit(obstore.sign(store, "GET", "x", timedelta(seconds=1)))
    scope = dict(urllib.parse.parse_qsl(signed.query))["X-Amz-Credential"].split("/")
    signer = Signer(access_key=access_key, secret_key=secret_key, region=scope[-3], token=token)
    base = f"{signed.scheme}://{signed.netloc}{signed.path.removesuffix('/x')}"
    return base, signer


def _known_keys(address: S3Address) -> tuple[str, str, str | None] | None:
    if address.access_key and address.secret_key:
        return address.access_key, address.secret_key, None
    access_key, secret_key = (
        os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    )
    if not (access_key and secret_key):
        return None
    return access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN") or None


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
    text, _, report = str(error).partition("\n\nDebug source")
    is_missing = may_miss and isinstance(error, FileNotFoundError)
    return s3_errors.named(text, key, is_missing=is_missing, report=report)
