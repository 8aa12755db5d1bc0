"""Where a handler puts what it has finished: several files at once, while tools go on."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from rushes.protocol import Artifact
from rushes.worker.context import JobContext

HANDS = 3
# So many files may wait: more would only be lost by a crash.
WAITING = 8


class Shelf:
    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._hands = ThreadPoolExecutor(HANDS, "rushes-shelf")
        self._room = threading.Semaphore(WAITING)
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._under_way: set[Future[None]] = set()
        self.files: dict[str, Artifact] = {}

    def adopt(self, wanted: Callable[[str], bool]) -> None:
        """What earlier attempts and other workers have left, as far as it is intact."""
        names = [each.name for each in self._job.artifacts() if wanted(each.name)]
        if names:
            self.files |= {each.name: each for each in self._job.adopt(names)}

    def discard(self, prefixes: tuple[str, ...]) -> None:
        """Files of this attempt that turned out to be of no use."""
        self.flush()
        names = [name for name in self.files if name.startswith(prefixes)]
        self._job.discard(names)
        for name in names:
            del self.files[name]

    def put(self, name: str, content: bytes, seconds: float | None = None) -> None:
        """Soon: `flush` waits for it. The same again is nothing."""
        self.check()
        there = self.files.get(name)
        if there is not None and there.sha256 == hashlib.sha256(content).hexdigest():
            return
        self._room.acquire()
        future = self._hands.submit(self._put, name, content, seconds)
        with self._lock:
            self._under_way.add(future)
        future.add_done_callback(self._done)

    def flush(self) -> None:
        """Until everything is where it stays."""
        while True:
            with self._lock:
                waiting = list(self._under_way)
            if not waiting:
                break
            wait(waiting, timeout=0.2)
            self._job.alive()
            self._job.raise_if_stopped()
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._hands.shutdown(wait=True, cancel_futures=True)

    def _put(self, name: str, content: bytes, seconds: float | None) -> None:
        artifact = self._job.put(name, content, seconds)
        with self._lock:
            self.files[name] = artifact

    def _done(self, future: Future[None]) -> None:
        self._room.release()
        with self._lock:
            self._under_way.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            self._error = self._error or error
