"""One writer at a time on an SQLite file, across threads and processes.

SQLite's own waiting is unfair (measured: seconds under contention), and its libraries before
3.51.3 can lose a commit when one connection checkpoints while another writes. Holding this lock
from BEGIN to the end of COMMIT, which includes the checkpoint, avoids both. A killed process
drops it.
"""

from __future__ import annotations

import fcntl
import os
import random
import threading
import time
from pathlib import Path

from rushes import errors

POLL_SECONDS = 0.0005


class FileLock:
    def __init__(self, path: str, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._mutex = threading.Lock()
        self._owner: int | None = None
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise errors.ReadOnly(
                "the database's directory cannot be written", detail=str(error)
            ) from error

    def acquire(self) -> None:
        deadline = time.monotonic() + self._timeout
        if self._owner == threading.get_ident():
            raise errors.DatabaseBusy(
                "this thread has a transaction open already: pass it on as connection="
            )
        if not self._mutex.acquire(timeout=self._timeout):
            raise errors.DatabaseBusy("another thread kept the database busy")
        try:
            self._lock_file(deadline)
        except BaseException:
            self._mutex.release()
            raise
        self._owner = threading.get_ident()

    def release(self) -> None:
        self._owner = None
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._mutex.release()

    def close(self) -> None:
        os.close(self._file)

    def _lock_file(self, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise errors.DatabaseBusy("another process kept the database busy") from None
                time.sleep(random.uniform(POLL_SECONDS, 4 * POLL_SECONDS))
            else:
                return
