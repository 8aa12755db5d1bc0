"""Where a handler puts what it has finished: several files at once, while tools go on."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from rushes import correlation
from rushes.protocol import Artifact
from rushes.worker.context import JobContext

HANDS = 3
# So many files may wait: more would only be lost by a crash.
WAITING = 8


class ArtifactWriter:
    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._hands = ThreadPoolExecutor(HANDS, "rushes-artifacts")
        self._room = threading.Semaphore(WAITING)
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._under_way: dict[Future[None], str] = {}
        self._copied: tuple[str, Path] | None = None
        self.files: dict[str, Artifact] = {}

    def copy(self, prefix: str, folder: Path) -> None:
        """Keep what is put from now on under names that begin so in a folder, too."""
        folder.mkdir(exist_ok=True)
        self._copied = prefix, folder

    def adopt(self, wanted: Callable[[str], bool]) -> set[str]:
        """What earlier attempts and other workers have left, as far as it is intact. Returns the
        names of the rest."""
        there = [each.name for each in self._job.artifacts()]
        names = [name for name in there if name not in self.files and wanted(name)]
        if names:
            self.files |= {each.name: each for each in self._job.adopt(names)}
        return {name for name in names if name not in self.files}

    def look_up(self, wanted: Callable[[str], bool]) -> None:
        """Files that are others' and stay theirs; the same need not be put again."""
        self.files |= {each.name: each for each in self._job.artifacts() if wanted(each.name)}

    def discard(self, prefixes: tuple[str, ...]) -> None:
        """Files of this attempt that turned out to be of no use."""
        self.flush(prefixes)
        with self._lock:
            names = [name for name in self.files if name.startswith(prefixes)]
        self._job.discard(names)
        with self._lock:
            for name in names:
                self.files.pop(name, None)

    def put(self, name: str, content: bytes, seconds: float | None = None) -> None:
        """Soon: `flush` waits for it. The same again is nothing."""
        self.check()
        there = self.files.get(name)
        if there is not None and there.sha256 == hashlib.sha256(content).hexdigest():
            return
        self._room.acquire()
        future = self._hands.submit(correlation.carried(self._put), name, content, seconds)
        with self._lock:
            self._under_way[future] = name
        future.add_done_callback(self._done)

    def flush(self, prefixes: tuple[str, ...] = ("",)) -> None:
        """Until everything (whose name begins so) is where it stays."""
        while True:
            with self._lock:
                waiting = [
                    future for future, name in self._under_way.items() if name.startswith(prefixes)
                ]
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
        if name in self.files:
            # A name is written once in an attempt: what it adopted has to go first.
            self._job.discard([name])
        if self._copied and name.startswith(self._copied[0]):
            (self._copied[1] / Path(name).name).write_bytes(content)
        artifact = self._job.put(name, content, seconds)
        with self._lock:
            self.files[name] = artifact

    def _done(self, future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            # First the error: whoever finds nothing under way must find that, too.
            self._error = self._error or error
            self._under_way.pop(future, None)
        self._room.release()
