"""Whether something works, told in time: what does not answer does not work."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from rushes import errors
from rushes.storage.storage import Storage

log = logging.getLogger("rushes.health")

# Those who look after servers do not wait for long.
WAIT_SECONDS = 4.0
# One who looks for longer waits for an answer that is lost, and what it asked may work again.
ABANDON_SECONDS = 15.0
# A request that writes costs ten times one that looks, and probes come every few seconds.
WRITE_EVERY_SECONDS = 300.0


class StorageCheck:
    """Whether the storage works. One on the network is written to now and then, and after it has
    failed; in between it is only asked, which finds all but a right to write that was lost."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self._clock = clock
        self._wrote_at: float | None = None

    def __call__(self) -> None:
        now, wrote_at = self._clock(), self._wrote_at
        recent = wrote_at is not None and now - wrote_at < WRITE_EVERY_SECONDS
        self._wrote_at = None
        if recent and self._storage.on_network:
            self._storage.check_quickly()
            self._wrote_at = wrote_at
        else:
            self._storage.check()
            self._wrote_at = now


class HealthProbe:
    """However many ask, one thread looks, and another one only when that hangs. They are its own:
    all others may be waiting for the very thing that does not answer."""

    def __init__(self, check: Callable[[], None], wait_seconds: float = WAIT_SECONDS) -> None:
        self._check = check
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._looking: Future[bool] | None = None
        self._since = 0.0

    async def works(self) -> bool:
        looking = asyncio.wrap_future(self._look())
        await asyncio.wait([looking], timeout=self._wait_seconds)
        return looking.done() and looking.result()

    def _look(self) -> Future[bool]:
        with self._lock:
            hangs = time.monotonic() - self._since > ABANDON_SECONDS
            if self._looking is None or self._looking.done() or hangs:
                self._looking, self._since = Future(), time.monotonic()
                args = (self._looking,)
                threading.Thread(target=self._run, args=args, name="probe", daemon=True).start()
            return self._looking

    def _run(self, looking: Future[bool]) -> None:
        works = False
        try:
            self._check()
            works = True
        except errors.RushesError as error:
            log.debug("a probe failed: %s", error.message)
        except Exception:
            log.exception("a probe failed")
        finally:
            looking.set_result(works)
