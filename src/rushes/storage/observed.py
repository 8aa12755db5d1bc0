"""A storage whose calls are counted: how long they take, how many bytes, what fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from functools import wraps
from typing import Any

from rushes import errors
from rushes.metrics import Metrics
from rushes.storage.storage import Storage

# Those that take one answer of the storage, by what they are counted as.
PLAIN = {"size": "size", "etag": "size", "copy": "copy", "delete": "delete"}


def observed(storage: Storage, metrics: Metrics) -> Storage:
    """The same object. Its own methods are wrapped, so that whatever else a backend has, or calls
    of its own, stays as it is."""
    for name, operation in PLAIN.items():
        setattr(storage, name, _timed(getattr(storage, name), operation, metrics))
    setattr(storage, "put", _put(storage.put, metrics))  # noqa: B010
    setattr(storage, "read", _read(storage.read, metrics))  # noqa: B010
    if type(storage).aread is not Storage.aread:
        setattr(storage, "aread", _aread(storage.aread, metrics))  # noqa: B010
    return storage


def _timed(call: Callable[..., Any], operation: str, metrics: Metrics) -> Callable[..., Any]:
    @wraps(call)
    def timed(*args: Any, **named: Any) -> Any:
        with metrics.storing(operation):
            return call(*args, **named)

    return timed


def _put(call: Callable[..., Any], metrics: Metrics) -> Callable[..., Any]:
    @wraps(call)
    def put(*args: Any, **named: Any) -> Any:
        with metrics.storing("put"):
            stored = call(*args, **named)
        metrics.bytes_written(stored.size_bytes)
        return stored

    return put


def _read(call: Callable[..., Iterator[bytes]], metrics: Metrics) -> Callable[..., Any]:
    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            for chunk in chunks:
                metrics.bytes_read(len(chunk))
                yield chunk
        except errors.RushesError as error:
            metrics.storage_failed("read", error)
            raise

    @wraps(call)
    def read(*args: Any, **named: Any) -> Iterator[bytes]:
        with metrics.storing("read"):
            chunks = call(*args, **named)
        return counted(chunks)

    return read


def _aread(call: Callable[..., AsyncGenerator[bytes, None]], metrics: Metrics) -> Any:
    @wraps(call)
    async def aread(*args: Any, **named: Any) -> AsyncGenerator[bytes, None]:
        chunks = call(*args, **named)
        with metrics.storing("read"):
            chunk = await anext(chunks, b"")
        try:
            while chunk:
                metrics.bytes_read(len(chunk))
                yield chunk
                chunk = await anext(chunks, b"")
        except errors.RushesError as error:
            metrics.storage_failed("read", error)
            raise

    return aread
