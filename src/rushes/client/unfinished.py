"""Which uploads this user has begun and not finished: a small file that only they can read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

# Longer than any server keeps an unfinished upload by default.
KEPT_SECONDS = 30 * 86400


class UnfinishedUpload(msgspec.Struct, frozen=True):
    upload_id: str
    at: float


class Unfinished:
    """Never a reason to fail: without it an upload begins anew."""

    def __init__(self, directory: Path | None = None) -> None:
        self._path = (directory or cache_directory()) / "uploads.json"

    @staticmethod
    def key(
        server: str, path: Path, size_bytes: int, changed_ns: int, options: Mapping[str, str]
    ) -> str:
        """The same for the same file, unchanged, sent to the same server for the same purpose."""
        facts = [server, str(path.resolve()), size_bytes, changed_ns, sorted(options.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def find(self, key: str) -> str | None:
        entry = self._read().get(key)
        return entry.upload_id if entry else None

    def note(self, key: str, upload_id: str) -> None:
        entry = UnfinishedUpload(upload_id, time.time())
        self._change(lambda entries: entries.update({key: entry}))

    def forget(self, key: str) -> None:
        if key in self._read():
            self._change(lambda entries: entries.pop(key, None))

    def _read(self) -> dict[str, UnfinishedUpload]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, UnfinishedUpload])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _change(self, change: Callable[[dict[str, UnfinishedUpload]], object]) -> None:
        with suppress(OSError), self._locked():
            oldest = time.time() - KEPT_SECONDS
            entries = {key: each for key, each in self._read().items() if each.at > oldest}
            change(entries)
            draft = self._path.with_suffix(".new")
            with open(draft, "wb", opener=_private) as file:
                file.write(msgspec.json.encode(entries))
            draft.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Several commands may send at once."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._path.with_suffix(".lock"), "a", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def cache_directory() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "rushes"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
