"""How much one user may do at the same time, in one place: 429 with `Retry-After` beyond it.

What is open (streams, followed logs, uploads on the line) is counted in the process that holds it,
and ended from here when its user may not go on. What is in the database (tokens, waiting jobs,
unfinished uploads) is counted there, by whoever adds to it, and judged by `refuse_beyond`.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
import resource
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from rushes import errors
from rushes.settings import Settings

log = logging.getLogger("rushes.limits")

# Files and connections that are left for everything that is no stream: requests, the database,
# storage, tools.
RESERVED_FILES = 256
MOST_FILES = 65_536
FEWEST_STREAMS = 16
RETRY_SECONDS = 30
# Tries to sign in, from one network at the same time.
MOST_SIGN_INS = 6
# Messages to webhooks, on their way at the same time: a receiver that does not answer takes up one
# messenger, not all of them.
MOST_DELIVERIES = 1
HASHING_THREADS, MOST_WAITING = 2, 32
MOST_GUESSES, GUESS_SECONDS = 100, 15 * 60.0
REMEMBERED = 10_000
# Of one link from one network: a class that watches together, but no script that counts for itself.
MOST_VISITS, VISIT_SECONDS = 50, 30 * 60.0

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class What(StrEnum):
    STREAMS = "streams of events"
    LOGS = "logs that are followed"
    UPLOADS = "uploads on the line"
    SIGN_INS = "tries to sign in"


@dataclass(slots=True, eq=False, kw_only=True)
class Hold:
    """One thing that a user has open. `end` is called, from any thread, when it must close."""

    what: What
    user_id: str
    session_id: str | None = None
    token_id: str | None = None
    end: Callable[[], None] = field(default=lambda: None)
    is_cut: bool = False

    def cut(self) -> None:
        self.is_cut = True
        # Its event loop may be closed already, and it with it.
        with suppress(RuntimeError):
            self.end()


class Holds:
    """All that is open in this process, by user."""

    def __init__(self, most: dict[What, int], *, in_all: int) -> None:
        """`most` of each for one user (0: any number), `in_all` for all users together."""
        self.most = most
        self._in_all = in_all
        self._open: set[Hold] = set()
        self._counts: Counter[tuple[What, str]] = Counter()
        self._lock = threading.Lock()
        self._is_full = False

    def enter(self, hold: Hold) -> Hold:
        """Raises TooMany. Whoever enters leaves."""
        with self._lock:
            refuse_beyond(
                self._counts[hold.what, hold.user_id] + 1,
                self.most.get(hold.what, 0),
                f"{hold.what} at the same time",
            )
            if len(self._open) >= self._in_all:
                self._say_full()
                raise errors.TooMany(
                    "the server has as many connections open as it can: try again later",
                    retry_seconds=RETRY_SECONDS,
                )
            self._open.add(hold)
            self._counts[hold.what, hold.user_id] += 1
        return hold

    def leave(self, hold: Hold) -> None:
        with self._lock:
            if hold in self._open:
                self._open.discard(hold)
                self._counts[hold.what, hold.user_id] -= 1
                if not self._counts[hold.what, hold.user_id]:
                    del self._counts[hold.what, hold.user_id]
            if len(self._open) < self._in_all * 0.9:
                self._is_full = False

    @contextmanager
    def held(self, hold: Hold) -> Iterator[Hold]:
        self.enter(hold)
        try:
            yield hold
        finally:
            self.leave(hold)

    def all(self) -> list[Hold]:
        with self._lock:
            return list(self._open)

    def _say_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            log.warning("%d streams and uploads are open: more are refused", self._in_all)


def refuse_beyond(count: int, most: int, what: str, retry_seconds: int = RETRY_SECONDS) -> None:
    """`most` 0: any number."""
    if most and count > most:
        raise errors.TooMany(f"you have {most} {what}: no more", retry_seconds=retry_seconds)


def most_open(settings: Settings) -> dict[What, int]:
    return {
        What.STREAMS: settings.user_streams,
        What.LOGS: settings.user_streams,
        What.UPLOADS: settings.user_uploads,
        What.SIGN_INS: MOST_SIGN_INS,
    }


def holds(settings: Settings) -> Holds:
    return Holds(most_open(settings), in_all=max(FEWEST_STREAMS, file_limit() - RESERVED_FILES))


def file_limit() -> int:
    return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raise_file_limit() -> int:
    """As many files as this process may have; the usual 1024 are used up by a crowd of viewers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return file_limit()


class Guesses:
    """Different wrong keys by network; a script that keeps sending an old one guesses nothing.
    Beyond a number of them only keys that were right here before are looked at, so whoever works
    behind the same address goes on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, OrderedDict[bytes, float]] = OrderedDict()
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def check(self, network: str, key: str) -> None:
        with self._lock:
            tried = self._wrong.get(network)
            if tried is None or _digest(key) in self._right:
                return
            while tried and (first := next(iter(tried.values()))) < self._clock() - GUESS_SECONDS:
                tried.popitem(last=False)
            if len(tried) >= MOST_GUESSES and _digest(key) not in tried:
                left = first + GUESS_SECONDS - self._clock()
                raise errors.TooMany(
                    "too many wrong keys came from your address", retry_seconds=int(left) + 1
                )

    def note(self, network: str, key: str, *, is_right: bool) -> None:
        with self._lock:
            if is_right:
                _renew(self._right, _digest(key), None, REMEMBERED)
            else:
                tried = self._wrong.get(network) or OrderedDict()
                _renew(tried, _digest(key), self._clock(), MOST_GUESSES)
                _renew(self._wrong, network, tried, REMEMBERED)


class Visits:
    """Who has begun to watch by which link, by network: each visit counts once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], OrderedDict[str, float]] = OrderedDict()

    def is_new(self, link: str, network: str, visit: str) -> bool:
        with self._lock:
            seen = self._seen.get((link, network)) or OrderedDict()
            _renew(self._seen, (link, network), seen, REMEMBERED)
            while seen and next(iter(seen.values())) < self._clock() - VISIT_SECONDS:
                seen.popitem(last=False)
            if visit in seen or len(seen) >= MOST_VISITS:
                return False
            seen[visit] = self._clock()
            return True


def _renew(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Passwords:
    """Hashing is slow on purpose and takes 64 MB each time: two at once, a few waiting, and not in
    the threads that everybody else's requests need."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(HASHING_THREADS, thread_name_prefix="password")
        self._waiting = 0

    async def run(self, call: Callable[[], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise errors.Unavailable("too many people are signing in: try again in a moment")
        self._waiting += 1
        try:
            here = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, here.run, call)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
