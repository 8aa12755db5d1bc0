"""Wake-ups by Redis: a hint goes to one server that waits, and on to all if that one cannot use it.

Below it is the wake-up of the database, which goes on listening: for processes without Redis, and
for all while the circuit breaker is open and `falls_back` says that they are told that way.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rushes import errors, redis_link
from rushes.redis_link import Entries, RedisLink
from rushes.wakeup import CLOSE_SECONDS, COALESCE_SECONDS, Hint, Wakeup

log = logging.getLogger("rushes.redis")

# How long closing may have to wait for those who listen.
LISTEN_SECONDS = 0.5
# How often stuck entries and servers that are gone are looked for.
RECLAIM_SECONDS = 30.0
# After something that nobody expected.
RETRY_SECONDS = 1.0
# Of a rush, one more tells nobody anything.
MOST_HINTS = 100
# Whoever waits here looks at once; what nobody has looked for by then is for others.
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Unlooked:
    """Read at `at`; whoever remembers `mark` or a later one has looked since."""

    entries: Entries
    mark: int
    at: float


class RedisWakeup:
    """Three threads: one tells, from the first ring on; one reads the streams and one listens to
    the channels, from the first mark on. A stream is read while somebody here waits, so that no
    hint goes to a server that is busy."""

    def __init__(self, below: Wakeup, link: RedisLink, *, falls_back: bool) -> None:
        self._below = below
        self._link = link
        self._falls_back = falls_back
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._somebody_waits = threading.Condition(self._lock)
        self._waiting = 0
        self._unlooked: list[_Unlooked] = []
        self._rung = threading.Event()
        self._hints: dict[tuple[str, str], Hint] = {}
        self._done = Entries()
        self._pass_on = False

    def ring(self, hints: Sequence[Hint] = ()) -> None:
        self._below.ring_here()
        if not self._link.breaker.is_closed:
            self._tell_otherwise()
            if self._link.breaker.pause_seconds:
                return
        with self._lock:
            for each in hints or [Hint("normal", "", "")]:
                self._add(each)
        self._rung.set()
        self._start("tell", self._tell)

    def ring_here(self) -> None:
        self._below.ring_here()

    def is_quiet(self) -> bool:
        """With Redis nobody is told by the commit, which makes commits wait for each other."""
        breaker = self._link.breaker
        is_due = breaker.is_closed or not breaker.pause_seconds
        return self._falls_back and not is_due and self._below.is_quiet()

    def mark(self) -> int:
        self._start("read", self._read)
        self._start("listen", self._listen)
        return self._below.mark()

    def wait(self, mark: int, timeout_seconds: float) -> bool:
        with self._lock:
            self._waiting += 1
            self._somebody_waits.notify_all()
        try:
            return self._below.wait(mark, timeout_seconds)
        finally:
            with self._lock:
                self._waiting -= 1

    def looked(self, mark: int, found: int) -> None:
        """What was read before is acknowledged. If there are hints of more jobs than were found,
        the others may have workers for them."""
        if self._unlooked:
            self._settle(lambda each: each.mark <= mark, found)

    def close(self) -> None:
        """What was rung before is still told, if Redis answers in time."""
        atexit.unregister(self.close)
        self._closing.set()
        self._rung.set()
        with self._lock:
            self._somebody_waits.notify_all()
        latest = time.monotonic() + CLOSE_SECONDS
        if teller := self._threads.get("tell"):
            # What it cannot tell goes by the one below.
            teller.join(CLOSE_SECONDS)
        self._below.close()
        for thread in self._threads.values():
            thread.join(max(0, latest - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads.values()):
            return
        if "read" in self._threads and self._link.breaker.is_closed:
            with suppress(errors.RedisDown):
                self._link.leave()
        self._link.close()

    def _settle(self, is_settled: Callable[[_Unlooked], bool], found: int) -> None:
        with self._lock:
            settled = [each for each in self._unlooked if is_settled(each)]
            if not settled:
                return
            self._unlooked = [each for each in self._unlooked if not is_settled(each)]
            for each in settled:
                self._done.merge(each.entries)
            hinted = sum(each.entries.jobs for each in settled)
            self._pass_on = self._pass_on or hinted > found
        self._rung.set()
        self._start("tell", self._tell)

    def _add(self, hint: Hint) -> None:
        """Under the lock. Those of one kind are told together."""
        key = hint.priority, hint.kind
        if before := self._hints.get(key):
            self._hints[key] = Hint(*key, before.job_id, before.jobs + hint.jobs)
        elif len(self._hints) < MOST_HINTS:
            self._hints[key] = hint

    def _tell_otherwise(self) -> None:
        if self._falls_back:
            self._link.fallbacks += 1
            self._below.ring()

    # The threads

    def _start(self, name: str, work: Callable[[], None]) -> None:
        if name in self._threads:
            return
        with self._starting:
            if name not in self._threads and not self._closing.is_set():
                atexit.register(self.close)
                args = (work,)
                thread = threading.Thread(
                    target=self._keep, args=args, name=f"redis-{name}", daemon=True
                )
                self._threads[name] = thread
                thread.start()

    def _keep(self, work: Callable[[], None]) -> None:
        """Until closing: again after every failure, as soon as the breaker permits it."""
        while True:
            try:
                work()
            except errors.RedisDown as error:
                # Those that are told are of the breaker; this may come often.
                log.debug("%s", error.message)
            except Exception:
                log.exception("hints by Redis failed")
                self._link.breaker.failed("thread", "something that nobody expected")
            if self._closing.wait(random.uniform(0.5, 1) * RETRY_SECONDS):
                return

    def _tell(self) -> None:
        while True:
            self._rung.wait()
            self._rung.clear()
            if not self._link.is_ready():
                # It was asked to try once, and others have been told.
                with self._lock:
                    self._take()
            else:
                with suppress(errors.RedisDown):
                    self._tell_once()
            if self._closing.wait(COALESCE_SECONDS):
                if self._link.breaker.is_closed:
                    self._tell_once()
                return

    def _tell_once(self) -> None:
        with self._lock:
            hints, done, pass_on = self._take()
        if not (hints or done or pass_on):
            return
        try:
            self._link.tell(hints, done, look=pass_on)
        except errors.RedisDown:
            if hints or pass_on:
                self._tell_otherwise()
            raise

    def _take(self) -> tuple[list[Hint], Entries, bool]:
        """Under the lock."""
        taken = list(self._hints.values()), self._done, self._pass_on
        self._hints, self._done, self._pass_on = {}, Entries(), False
        return taken

    def _read(self) -> None:
        reclaim_at = time.monotonic() + random.uniform(0, RECLAIM_SECONDS)
        while not self._closing.is_set():
            was_closed = self._link.breaker.is_closed
            if not self._link.is_ready():
                self._pause()
                continue
            if not was_closed:
                # Whatever was told while nobody listened.
                self._below.ring_here()
            self._pass_on_unlooked()
            if time.monotonic() >= reclaim_at:
                reclaim_at = time.monotonic() + RECLAIM_SECONDS * random.uniform(0.75, 1.25)
                self._heard(self._link.reclaim())
            elif self._somebody_is_waiting():
                self._heard(self._link.read(LISTEN_SECONDS))

    def _pause(self) -> None:
        """Until it may be tried again; while another thread tries, a little."""
        pause = self._link.breaker.pause_seconds
        self._closing.wait(min(LISTEN_SECONDS, max(pause, 0.1 * LISTEN_SECONDS)))

    def _pass_on_unlooked(self) -> None:
        late = time.monotonic() - LOOK_SECONDS
        if self._unlooked:
            self._settle(lambda each: each.at <= late, 0)

    def _somebody_is_waiting(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._somebody_waits.wait(LOOK_SECONDS if self._unlooked else LISTEN_SECONDS)
            return self._waiting > 0

    def _heard(self, entries: Entries) -> None:
        if not entries:
            return
        with self._lock:
            # First noted, then rung: whoever marks from now on looks after these were told.
            mark = self._below.mark() + 1
            self._unlooked.append(_Unlooked(entries, mark, time.monotonic()))
        self._below.ring_here()

    def _listen(self) -> None:
        if not self._link.is_ready():
            self._pause()
            return
        with self._link.listening() as subscription:
            # Whatever was said while nobody listened.
            self._below.ring_here()
            self._call_for_events()
            while not self._closing.is_set() and self._link.breaker.is_closed:
                heard = subscription.heard(LISTEN_SECONDS)
                if heard is None:
                    continue
                channel, sender = heard
                if sender == self._link.consumer.encode():
                    continue
                if channel == redis_link.EVENTS:
                    self._call_for_events()
                else:
                    self._below.ring_here()

    def _call_for_events(self) -> None:
        for call in self._link.on_events:
            call()
