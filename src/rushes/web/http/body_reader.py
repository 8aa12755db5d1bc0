"""From a request's body to a writer: the loop only gathers, threads write and flush.

While one batch is written the next is received, and a flush runs beside both. What has begun in a
thread runs to its end, whatever becomes of the request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from rushes import correlation, errors
from rushes.limits import Hold
from rushes.uploads.receiver import Writer
from rushes.uploads.upload import Upload

T = TypeVar("T")

BATCH_BYTES = 2**20
# A slow sender's bytes wait no longer than this for company.
BATCH_SECONDS = 0.5
# A sender who is silent for so long may be replaced by one who is not.
SILENCE_SECONDS = 3.0
# How soon the server's end is noticed.
LOOK_SECONDS = 0.2

# Their own: a disk that hangs must not take the threads of all other requests.
_threads = ThreadPoolExecutor(32, thread_name_prefix="upload")


async def run(call: Callable[..., T], *args: Any, **named: Any) -> T:
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(_threads, correlation.carried(partial(call, *args, **named)))
    await _ended([running])
    return running.result()


async def _ended(running: list[asyncio.Future[Any]]) -> None:
    """Waits even if it is canceled meanwhile: what a thread does cannot be taken back."""
    canceled = None
    while any(not each.done() for each in running):
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        raise canceled


@asynccontextmanager
async def until_ended(stopping: threading.Event, hold: Hold) -> AsyncIterator[None]:
    """What is inside ends with Unavailable when the server leaves, and with Unauthorized when its
    user may not go on; what came so far is kept."""

    async def watch() -> None:
        while not (stopping.is_set() or hold.is_cut):  # noqa: ASYNC110  threads set them
            await asyncio.sleep(LOOK_SECONDS)
        limit.reschedule(0)

    try:
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(watch())
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if hold.is_cut:
            raise errors.Unauthorized("you are signed out") from None
        raise errors.Unavailable("the server is stopping: go on in a moment") from None


class BodyReader:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._loop = asyncio.get_running_loop()
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._batch_at = 0.0
        self._came_bytes = 0
        self._writing: asyncio.Future[None] | None = None
        self._flushing: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self._paused = False
        self._heard = self._loop.time()
        self._watch = self._loop.create_task(self._watch_silence())

    async def feed(self, chunk: bytes) -> None:
        self._heard = self._loop.time()
        self._came_bytes += len(chunk)
        self.writer.check_room(self._came_bytes)
        if not self._batch:
            self._batch_at = self._heard
        self._batch.append(chunk)
        self._batch_bytes += len(chunk)
        if self._batch_bytes >= BATCH_BYTES or self._heard - self._batch_at >= BATCH_SECONDS:
            async with self._turn:
                await self._hand_over()

    async def drain(self) -> None:
        """Everything that came is written; raises what went wrong on the way."""
        self._watch.cancel()
        async with self._turn:
            await self._hand_over()
            await self._settle()

    async def complete(self) -> Upload:
        await self.drain()
        return await run(self.writer.complete)

    async def leave(self, error: BaseException) -> None:
        """Keeps what came, if that is possible."""
        self._watch.cancel()
        async with self._turn:
            try:
                if not isinstance(error, errors.Invalid | errors.Conflict):
                    await self._hand_over()
                await self._settle()
            except errors.RushesError as other:
                error = other
                await self._wait()
            await run(self.writer.leave, error)

    async def _hand_over(self) -> None:
        if self._paused and self._batch:
            await run(self.writer.resume)
            self._paused = False
        if self._writing is not None:
            await _ended([self._writing])
            self._writing.result()
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            self._writing = self._start(self._write, batch)
        if self._flushing is not None and self._flushing.done():
            self._flushing.result()
            self._flushing = None
        if self._flushing is None and self.writer.is_due:
            self._flushing = self._start(self.writer.flush)

    def _write(self, batch: list[bytes]) -> None:
        # Joined here, not in the loop: one call to the disk and one to the hash are enough.
        self.writer.write(batch[0] if len(batch) == 1 else b"".join(batch))

    def _start(self, call: Callable[..., None], *args: Any) -> asyncio.Future[None]:
        return self._loop.run_in_executor(_threads, correlation.carried(call), *args)

    async def _settle(self) -> None:
        """Nothing runs in a thread any more; raises what went wrong there."""
        await self._wait()
        finished = [self._writing, self._flushing]
        self._writing = self._flushing = None
        for each in finished:
            if each is not None:
                each.result()

    async def _wait(self) -> None:
        await _ended([each for each in (self._writing, self._flushing) if each is not None])

    async def _watch_silence(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_SECONDS)
            silent = self._loop.time() - self._heard
            if silent >= SILENCE_SECONDS and not self._paused:
                # What goes wrong here is found again, and told, with the next bytes.
                with suppress(errors.RushesError):
                    await self._pause()

    async def _pause(self) -> None:
        async with self._turn:
            await self._hand_over()
            await self._wait()
            # Before it is done: if this is canceled, it has to be taken back all the same.
            self._paused = True
            await run(self.writer.pause)
