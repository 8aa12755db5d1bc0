"""Events as messages in channels of Redis: for other programs, and for other servers to look.

Each event is published by the server that has numbered it, after the commit and with what the
stream of events says of it. Nothing is repeated: who must not miss anything reads the events.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator

import msgspec

from rushes import errors, events, kinds, redis_link
from rushes.chores import Chores
from rushes.db.database import Database
from rushes.events import Event
from rushes.live import Relay, payload_of
from rushes.redis_link import RedisLink

log = logging.getLogger("rushes.redis")

# At most one look per this time, however many commits there are.
COALESCE_SECONDS = 0.02
LISTEN_SECONDS = 0.5
PAGE = 500
# Behind by more than this, it leaves the oldest out.
RANGES = 100
WORKER_STATUS = "worker_status"
PROGRESS, COMPLETE = "transcode_progress", "transcode_complete"
ENDS = ("completed", "failed", "canceled")


class EventPublisher:
    """One per server."""

    def __init__(self, db: Database, chores: Chores, relay: Relay, link: RedisLink) -> None:
        self._db = db
        self._chores = chores
        self._link = link
        self._news = threading.Event()
        self._numbered: deque[range] = deque(maxlen=RANGES)
        self._thread: threading.Thread | None = None
        chores.on_numbered.append(self._note)
        db.on_commit.append(self._ring)
        link.on_events.append(relay.look)

    def run(self, stopping: threading.Event) -> None:
        self._thread = threading.current_thread()
        while not stopping.wait(COALESCE_SECONDS):
            if self._news.wait(LISTEN_SECONDS) and not stopping.is_set():
                self._news.clear()
                try:
                    self.publish()
                except errors.Unavailable as error:
                    # The breaker tells of Redis, and whoever needs the database tells of that.
                    log.debug("events are not published: %s", error.message)

    def publish(self) -> None:
        """What has committed since, once it has its position."""
        if not self._link.breaker.is_closed:
            self._numbered.clear()
            return
        with self._db.read() as tx:
            _, is_waiting = events.news(tx)
        if is_waiting:
            self._chores.number_events()
        while self._numbered:
            self._publish(self._numbered.popleft())

    def _publish(self, positions: range) -> None:
        for first in positions[::PAGE]:
            until = min(first + PAGE, positions.stop) - 1
            with self._db.read() as tx:
                rows = events.read_range(tx, first - 1, until) or ()
            told = [
                (channel, msgspec.json.encode(payload_of(row)))
                for row in rows
                for channel in _channels(row)
            ]
            self._link.publish([*told, (redis_link.EVENTS, self._link.consumer.encode())])

    def _note(self, positions: range) -> None:
        self._numbered.append(positions)
        self._news.set()

    def _ring(self) -> None:
        """After every commit of this process; its own numbering is none to look for."""
        if threading.current_thread() is not self._thread:
            self._news.set()


def _channels(event: Event) -> Iterator[str]:
    family, _, verb = event.type.partition(".")
    if family == "worker":
        yield WORKER_STATUS
    elif family in kinds.making(kinds.WATCH) and event.media_id:
        if verb == "progress":
            yield f"{PROGRESS}:{event.media_id}"
        elif verb in ENDS:
            yield f"{COMPLETE}:{event.media_id}"
