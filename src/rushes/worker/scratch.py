"""Temporary files: a private directory for each attempt, and how much room all of them may take.

Room is kept before it is used, so that jobs that begin together do not fill the disk together.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from rushes import errors

PREFIX, LOCK = "rushes-", ".lock"
# Others live on the disk, too: so much stays free, or a twentieth of a small one.
SPARE_BYTES = 256 * 1024 * 1024


class Scratch:
    """A private directory. What a killed process left behind is removed by the next."""

    def __init__(self, root: Path | None) -> None:
        try:
            if root is not None:
                root.mkdir(parents=True, exist_ok=True)
                _clean(root)
            # Absolute: programs that get its name run in directories of their own.
            made = Path(tempfile.mkdtemp(prefix=".rushes-", dir=root)).absolute()
            # Held as long as this process lives: so others know that it is in use.
            self._lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            # Under this name others look for it, so it gets it last.
            self.path = made.rename(made.with_name(made.name[1:]))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise _no_place(error) from error

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


class ScratchSpace:
    """The room of one worker. `budget_bytes`: what its jobs may take together; 0: what there is."""

    def __init__(self, root: Path | None = None, budget_bytes: int = 0) -> None:
        self.root = root
        self.budget_bytes = budget_bytes
        self._kept: dict[str, int] = {}
        self._lock = threading.Lock()
        # A job was refused because of others: until one of them ends, more of them need not come.
        self._is_full = False

    def set_budget(self, size_bytes: int) -> None:
        """What is in use stays; whether more fits is found out by the next."""
        with self._lock:
            self.budget_bytes, self._is_full = size_bytes, False

    def reserve(self, holder: str, size_bytes: int) -> None:
        """Keeps so much more for a holder; RetryLater when it does not fit."""
        free = self._free()
        with self._lock:
            kept = sum(self._kept.values())
            budget = self.budget_bytes
            if budget and kept + size_bytes > budget:
                self._is_full = kept > self._kept.get(holder, 0)
                raise errors.RetryLater(_too_much(size_bytes, budget, kept), code="scratch_full")
            if free < size_bytes:
                raise errors.RetryLater("there is no room for temporary files", code="disk_full")
            self._kept[holder] = self._kept.get(holder, 0) + size_bytes

    def release(self, holder: str) -> None:
        with self._lock:
            if self._kept.pop(holder, None) is not None:
                self._is_full = False

    def trouble(self) -> str | None:
        """Why nothing that needs room can be begun now."""
        if self._is_full:
            budget = _rounded(self.budget_bytes)
            return f"its budget of {budget} for temporary files is in use"
        try:
            free = self._free()
        except errors.RetryLater as error:
            return error.message
        return None if free > 0 else "its disk for temporary files is nearly full"

    def _free(self) -> int:
        """What may still be used of the disk."""
        place = self.root or Path(tempfile.gettempdir())
        try:
            place.mkdir(parents=True, exist_ok=True)
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            disk = shutil.disk_usage(place)
        except OSError as error:
            raise _no_place(error) from error
        return disk.free - min(SPARE_BYTES, disk.total // 20)


def _no_place(error: OSError) -> errors.RetryLater:
    told = f"there is no place for temporary files: {error.strerror}"
    return errors.RetryLater(told, code="disk_failed")


def _too_much(size_bytes: int, budget: int, kept: int) -> str:
    told = f"it needs {_rounded(size_bytes)} for temporary files, and the worker may use"
    used = f", of which {_rounded(kept)} are in use" if kept else ""
    return f"{told} {_rounded(budget)}{used}"


def _rounded(size_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{-(-size_bytes // 1000)} kB"


def _clean(root: Path) -> None:
    for path in root.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(path / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
