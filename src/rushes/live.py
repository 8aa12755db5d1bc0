"""Live events: one thread follows the log and hands what is new to every subscriber.

Nothing here is the truth. Who subscribes, and who is too slow, reads from the database up to where
the live events begin; so a client that comes back with its last position misses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from rushes import clock, errors, events
from rushes.db.database import Database
from rushes.events import Event
from rushes.jobs.job import without_old_pace
from rushes.records import JsonObject
from rushes.threads import Supervised

log = logging.getLogger("rushes.live")

# At most one look per this time, however many commits ring.
COALESCE_SECONDS = 0.02
# How soon the commits of other servers are seen.
POLL_SECONDS = 0.25
RETRY_SECONDS = 1.0
CLOSE_SECONDS = 5.0
LATE_SECONDS = 60.0
# How long an event loop that is busy may hold up the others.
HANDOVER_SECONDS = 1.0
# Positions handed over at once; less than a buffer holds, so that only slow clients fill theirs.
PAGE = 500
BUFFER = 1_000
# Positions read from the database at once, for one client that is behind.
READ_POSITIONS = 2_000


@dataclass(frozen=True, slots=True)
class Message:
    """One event, encoded once for all clients. `user_id` None: for admins only."""

    position: int
    type: str
    media_id: str | None
    job_id: str | None
    user_id: str | None
    frame: bytes

    @property
    def key(self) -> int | str:
        """Of messages with the same key only the newest matters: a job's progress."""
        is_progress = self.type.endswith(".progress")
        return f"{self.type} {self.job_id}" if is_progress else self.position


Messages = dict[int | str, Message]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Whose events, and which. `user_id` None is an admin: all of them. A type may be a whole
    family, `transcode.*`."""

    user_id: str | None
    media_id: str | None = None
    job_id: str | None = None
    types: frozenset[str] = frozenset()

    def matches(self, message: Message) -> bool:
        return (
            self.user_id in (None, message.user_id)
            and self.media_id in (None, message.media_id)
            and self.job_id in (None, message.job_id)
            and self._wants(message.type)
        )

    @property
    def is_narrow(self) -> bool:
        return bool(self.media_id or self.job_id or self.types)

    def _wants(self, type: str) -> bool:
        types = self.types
        return not types or type in types or f"{type.partition('.')[0]}.*" in types


class Subscription:
    """One client's view of the log; belongs to the event loop it was made in.

    First it reads from the database, from `since` up to where the relay stood when it was let in
    (`_stored`). What the relay hands over after that waits in the buffer.
    """

    def __init__(self, relay: Relay, hub: _Hub, since: int | None, want: EventFilter) -> None:
        self.want = want
        # Everything up to here has been taken.
        self.position = since or 0
        self.ended = False
        self._since = since
        self._relay = relay
        self._hub = hub
        self._stored: int | None = None
        self._offered = 0
        self._buffer: Messages = {}
        self._waiter: asyncio.Future[None] | None = None
        self._left = False

    async def opened(self) -> bool:
        """Wait until whatever commits from now on will be heard of; False: it is over already."""
        while self._stored is None and not self.ended:
            await self._wait(None)
        return not self.ended

    async def take(self, timeout_seconds: float | None = None) -> list[Message] | None:
        """What is new, oldest first; nothing when nothing came in time, None when it is over."""
        await self.opened()
        has_waited = False
        while True:
            if self.position < (self._stored or 0):
                if self.ended:
                    return None
                if page := await self._read_on():
                    return page
            elif self._buffer:
                taken, self._buffer = self._buffer, {}
                self.position = self._offered
                return list(taken.values())
            else:
                self.position = self._offered
                if self.ended or has_waited:
                    return None if self.ended else []
                await self._wait(timeout_seconds)
                has_waited = True

    def close(self) -> None:
        self.end()
        if not self._left:
            self._left = True
            self._relay.leave(self._hub, self)

    def end(self) -> None:
        self.ended = True
        self._wake()

    def admit(self, position: int) -> None:
        """The relay stands at `position` and hands over all that follows."""
        self._stored = self._offered = position
        if self._since is None:
            self.position = position
        elif not 0 <= self._since <= position:
            # Not from this log, or the log was set back to a backup.
            self.position = position
            self._buffer = {position: reset(position)}
        self._wake()

    def offer(self, batch: Batch) -> None:
        assert self._stored is not None
        self._offered = batch.until
        if self.position < self._stored:
            # It is still reading from the database, where these are, too.
            self._stored = batch.until
        elif fresh := batch.of(self.want):
            self._buffer = _merged(self._buffer, fresh)
            if len(self._buffer) > BUFFER:
                self._buffer = {}
                self._stored = batch.until
            self._wake()

    async def _read_on(self) -> list[Message]:
        until = min(self.position + READ_POSITIONS, self._stored or 0)
        page = await asyncio.to_thread(self._relay.read, self.position, until, self.want)
        if page is None:
            self.position = self._stored or 0
            return [reset(self.position)]
        self.position = until
        return page

    async def _wait(self, timeout_seconds: float | None) -> None:
        self._waiter = waiter = self._hub.loop.create_future()
        timer = None
        if timeout_seconds is not None:
            timer = self._hub.loop.call_later(timeout_seconds, self._wake)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Batch:
    """All messages up to position `until`, sorted out by user once for all subscriptions."""

    def __init__(self, messages: Iterable[Message], until: int) -> None:
        self.until = until
        self._all = _newest(messages)
        self._of_user: dict[str, Messages] = {}
        for key, message in self._all.items():
            if message.user_id is not None:
                self._of_user.setdefault(message.user_id, {})[key] = message

    def of(self, want: EventFilter) -> Messages:
        mine = self._all if want.user_id is None else self._of_user.get(want.user_id, {})
        if want.is_narrow:
            return {key: message for key, message in mine.items() if want.matches(message)}
        return mine


class _Hub:
    """The subscriptions of one event loop, whose thread alone touches `members`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.members: set[Subscription] = set()
        # Not yet let in, and how many there are of both kinds; under the relay's lock.
        self.joining: list[Subscription] = []
        self.size = 0
        self.handed_over = threading.Event()

    def admit(self, joining: list[Subscription], position: int) -> None:
        for each in joining:
            if not each.ended:
                each.admit(position)
                self.members.add(each)

    def deliver(self, batch: Batch) -> None:
        for each in self.members:
            each.offer(batch)
        # Behind all who were waiting for this: they have emptied their buffers by then.
        self.loop.call_soon(self.handed_over.set)

    def end(self) -> None:
        for each in [*self.members, *self.joining]:
            each.end()


class Relay:
    """One per server process. Its thread sleeps while nobody is subscribed."""

    def __init__(self, db: Database, number_events: Callable[[], int]) -> None:
        self._db = db
        self._number_events = number_events
        self._hubs: dict[asyncio.AbstractEventLoop, _Hub] = {}
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        # When it last had a look, by the monotonic clock.
        self.looked_at = time.monotonic()
        # All up to here was handed over; None while nobody listens.
        self._position: int | None = None
        db.on_commit.append(self._ring)

    def subscribe(self, since: int | None, want: EventFilter) -> Subscription:
        """In an event loop. `since` is the client's last position: it gets all that follows it;
        None: what happens from now on. Close it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._hubs:
                # It sleeps while nobody listens.
                self.looked_at = time.monotonic()
            hub = self._hubs.setdefault(loop, _Hub(loop))
            subscription = Subscription(self, hub, since, want)
            hub.joining.append(subscription)
            hub.size += 1
            if self._closed.is_set():
                subscription.end()
            elif self._thread is None:
                self._thread = Supervised(self._run, "relay", self._closed)
                self._thread.start()
        self._bell.set()
        return subscription

    @property
    def subscribers(self) -> int:
        with self._lock:
            return sum(hub.size for hub in self._hubs.values())

    @property
    def late(self) -> bool:
        """Whether somebody listens, and has not been told of anything for long."""
        return self.subscribers > 0 and time.monotonic() - self.looked_at > LATE_SECONDS

    def close(self) -> None:
        """Every subscription ends, after what it has in its buffer."""
        self._closed.set()
        self._bell.set()
        if self._ring in self._db.on_commit:
            self._db.on_commit.remove(self._ring)
        for hub in self._all_hubs():
            self._tell(hub, hub.end)
            hub.handed_over.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def leave(self, hub: _Hub, subscription: Subscription) -> None:
        hub.members.discard(subscription)
        with self._lock:
            hub.size -= 1
            if hub.size == 0:
                self._hubs.pop(hub.loop, None)
        self._bell.set()

    def read(self, after: int, until: int, want: EventFilter) -> list[Message] | None:
        """From the database; None when some of it is forgotten."""
        of = {"user_id": want.user_id, "media_id": want.media_id, "job_id": want.job_id}
        with self._db.read() as tx:
            rows = events.read_range(tx, after, until, **of)
        if rows is None:
            return None
        messages = (message_of(row) for row in rows)
        return list(_newest(each for each in messages if want.matches(each)).values())

    # The thread

    def _run(self) -> None:
        while not self._closed.is_set():
            pause = COALESCE_SECONDS
            try:
                self._look()
                self.looked_at = time.monotonic()
            except errors.Unavailable as error:
                log.warning("live events: %s", error.message)
                pause = RETRY_SECONDS
            except Exception:
                log.exception("live events failed")
                pause = RETRY_SECONDS
            self._closed.wait(pause)
            self._bell.wait(POLL_SECONDS if self._hubs else None)
            self._bell.clear()

    def _look(self) -> None:
        with self._lock:
            waiting = [(hub, list(hub.joining)) for hub in self._hubs.values()]
        if not waiting:
            self._position = None
            return
        position = self._follow(self._numbered_head())
        for hub, joining in waiting:
            if joining and self._tell(hub, hub.admit, joining, position):
                with self._lock:
                    del hub.joining[: len(joining)]

    def _numbered_head(self) -> int:
        with self._db.read() as tx:
            head, is_waiting = events.news(tx)
        if is_waiting:
            self._number_events()
            with self._db.read() as tx:
                head = events.head(tx)
        return head

    def _follow(self, head: int) -> int:
        """Hand over everything up to `head`; returns where that is."""
        if self._position is None:
            self._position = head
        elif self._position > head:
            self._start_over(head)
        while self._position < head and not self._closed.is_set():
            until = min(self._position + PAGE, head)
            with self._db.read() as tx:
                rows = events.read_range(tx, self._position, until)
            if rows is None:
                self._start_over(head)
                break
            self._hand_over(Batch((message_of(row) for row in rows), until))
            self._position = until
        return self._position

    def _start_over(self, head: int) -> None:
        """The log was set back to a backup, or went on without us for too long: the clients come
        back and are told to begin anew."""
        for hub in self._all_hubs():
            self._tell(hub, hub.end)
        self._position = head

    def _hand_over(self, batch: Batch) -> None:
        """Waits until it has arrived, so that a rush does not pile up before the clients."""
        hubs = self._all_hubs()
        for hub in hubs:
            hub.handed_over.clear()
        for hub in [hub for hub in hubs if self._tell(hub, hub.deliver, batch)]:
            if self._closed.is_set():
                return
            hub.handed_over.wait(HANDOVER_SECONDS)

    def _tell(self, hub: _Hub, call: Callable[..., None], *arguments: Any) -> bool:
        try:
            hub.loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed, and with it went all its clients.
            with self._lock:
                self._hubs.pop(hub.loop, None)
            return False
        return True

    def _all_hubs(self) -> list[_Hub]:
        with self._lock:
            return list(self._hubs.values())

    def _ring(self) -> None:
        """After every commit of this process; its own numbering is none to look for."""
        if self._hubs and threading.current_thread() is not self._thread:
            self._bell.set()


_encode = msgspec.json.Encoder().encode


def message_of(event: Event) -> Message:
    type = event.type
    facts = {
        "id": event.job_id or event.media_id or event.worker_id,
        "type": type,
        "status": event.state,
        "progress": event.progress,
        "stage": event.stage,
        "media_id": event.media_id,
        "job_id": event.job_id,
        "attempt": event.attempt,
        "error_code": event.error_code,
        "at": clock.rfc3339(event.at),
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    more = without_old_pace(_more(event.data), event.stage)
    return Message(
        position=event.pos,
        type=type,
        media_id=event.media_id,
        job_id=event.job_id,
        user_id=None if type.startswith("worker.") else event.user_id,
        # The facts come first, and nobody's data replaces them.
        frame=_frame(event.pos, type, {**facts, **more, **facts}),
    )


def reset(position: int) -> Message:
    """Says that events are missing: read everything anew, and go on from here."""
    return Message(
        position, "reset", None, None, None, _frame(position, "reset", {"type": "reset"})
    )


def _frame(position: int, type: str, body: JsonObject) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (position, type.encode(), _encode(body))


def _more(data: str | None) -> JsonObject:
    try:
        more = msgspec.json.decode(data) if data else {}
    except msgspec.DecodeError:
        # One row that cannot be read must not stop all that come after it.
        return {}
    if not isinstance(more, dict):
        return {}
    return {name: value for name, value in more.items() if value is not None}


def _newest(messages: Iterable[Message]) -> Messages:
    newest: Messages = {}
    for message in messages:
        key = message.key
        # Taken out first, so that it moves to the end: positions only grow.
        newest.pop(key, None)
        newest[key] = message
    return newest


def _merged(buffer: Messages, fresh: Messages) -> Messages:
    """Never changes either: batches are shared by all subscriptions."""
    if not buffer:
        return fresh
    return {key: message for key, message in buffer.items() if key not in fresh} | fresh
