"""Linux tells what changes in files and folders: its inotify, by ctypes.

`open_watch` returns None where there is none, or no more of it; then the caller has to look for
itself, as it also has to after an overflow.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x1000000
DONT_FOLLOW = 0x2000000
ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Change:
    """`watch` is what `add` returned; `name` is that of a file in a watched folder, or empty."""

    watch: int
    mask: int
    name: str


class Watch:
    """One inotify instance. One thread reads; `wake` and `close` may be called by any."""

    def __init__(self, libc: ctypes.CDLL, file: int) -> None:
        self._libc = libc
        self._file = file
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._closing = threading.Lock()

    def add(self, path: Path, mask: int) -> int:
        """Raises OSError. The same path again replaces its mask and returns the same number."""
        number: int = self._libc.inotify_add_watch(self._file, os.fsencode(path), mask)
        if number < 0:
            raise _error(str(path))
        return number

    def read(self, timeout_seconds: float | None) -> list[Change]:
        """What has changed since, in order; empty after the time, or when woken."""
        wait_ms = None if timeout_seconds is None else max(0, int(timeout_seconds * 1000))
        ready = {file for file, _ in self._poll.poll(wait_ms)}
        if self._woken in ready:
            os.read(self._woken, _READ_BYTES)
        return _changes(os.read(self._file, _READ_BYTES)) if self._file in ready else []

    def wake(self) -> None:
        with self._closing:
            if self._wake >= 0:
                os.write(self._wake, b"!")

    def close(self) -> None:
        """By the thread that reads, when it will not any more."""
        with self._closing:
            for each in (self._file, self._woken, self._wake):
                os.close(each)
            self._wake = -1


def open_watch() -> Watch | None:
    if (libc := _libc()) is None:
        return None
    file = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    return None if file < 0 else Watch(libc, file)


@cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    try:
        library.inotify_init1.argtypes = [ctypes.c_int]
        library.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
    except AttributeError:
        return None
    return library


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


def _changes(raw: bytes) -> list[Change]:
    found, at = [], 0
    while at < len(raw):
        watch, mask, _, length = _EVENT.unpack_from(raw, at)
        at += _EVENT.size
        name = raw[at : at + length].rstrip(b"\0")
        found.append(Change(watch, mask, os.fsdecode(name)))
        at += length
    return found
