"""A storage as a package of somebody else would add it: objects in memory, by `memory://NAME`.

It has neither files nor addresses of its own, so everything goes through the server.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rushes import errors
from rushes.storage import storage

_rooms: dict[str, dict[str, tuple[bytes, int]]] = {}


def from_url(url: str) -> MemoryStorage:
    name = url.removeprefix("memory://")
    if not storage.is_part(name):
        raise errors.BadSetting("STORAGE_URL: memory:// takes a name, as memory://mine")
    return MemoryStorage(name)


class MemoryStorage(storage.Storage):
    on_network = False

    def __init__(self, name: str) -> None:
        self._objects = _rooms.setdefault(name, {})

    def size(self, key: str) -> int | None:
        found = self._objects.get(storage.check_key(key))
        return None if found is None else len(found[0])

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._objects.pop(storage.check_key(key), None)

    def list(self, prefix: str = "") -> Iterator[storage.StoredObject]:
        folder = f"{storage.check_prefix(prefix)}/" if prefix else ""
        return iter(
            [
                storage.StoredObject(key=key, size_bytes=len(data), modified_at_ms=modified_at_ms)
                for key, (data, modified_at_ms) in sorted(self._objects.items())
                if key.startswith(folder)
            ]
        )

    def _put(self, key: str, feed: storage.Feed, size_bytes: int | None) -> None:
        self._objects[key] = b"".join(feed), time.time_ns() // 1_000_000

    def _stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        if key not in self._objects:
            raise errors.NotFound(storage.MISSING, detail=key)
        data = memoryview(self._objects[key][0])[start:end]
        yield b""
        for at in range(0, len(data), storage.CHUNK_BYTES):
            yield bytes(data[at : at + storage.CHUNK_BYTES])


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str = "memory") -> None:
    """As pip would: what a package says of itself, in a directory that Python looks into."""
    info = directory / f"{name}_storage-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-storage\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{storage.ENTRY_POINTS}]\n{name} = memory_storage:from_url\n"
    )
    monkeypatch.syspath_prepend(directory)
