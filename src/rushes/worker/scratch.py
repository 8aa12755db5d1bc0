"""Private directories for attempts. What a killed process left behind is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from rushes import errors

PREFIX, LOCK = "rushes-", ".lock"
# Others live on the disk, too: so much stays free, or a twentieth of a small one.
SPARE_BYTES = 256 * 1024 * 1024


class Scratch:
    def __init__(self, root: Path | None) -> None:
        if root is not None:
            root.mkdir(parents=True, exist_ok=True)
            clean(root)
        made = Path(tempfile.mkdtemp(prefix=".rushes-", dir=root))
        # Held as long as this process lives: so others know that it is in use.
        self._lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under this name others look for it, so it gets it last.
        self.path = made.rename(made.with_name(made.name[1:]))

    def check_room(self, size_bytes: int) -> None:
        """RetryLater when so much would not fit."""
        disk = shutil.disk_usage(self.path)
        if disk.free < size_bytes + min(SPARE_BYTES, disk.total // 20):
            raise errors.RetryLater("there is no room for temporary files", code="disk_full")

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def clean(root: Path) -> None:
    for path in root.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(path / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
