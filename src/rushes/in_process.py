"""The in-process transport of a worker: it calls what others call over HTTP."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from rushes import kinds, wakeup
from rushes.db.database import Database
from rushes.dispatch import Dispatch, WorkerCalls
from rushes.fleet import store as fleet
from rushes.jobs.job import Priority, State
from rushes.jobs.request_store import Asking
from rushes.jobs.terms import Claimant
from rushes.media import files
from rushes.protocol import (
    Artifact,
    Assignment,
    Claim,
    Completion,
    Excerpt,
    Hello,
    Pulse,
    Source,
    Standing,
    capability_words,
)
from rushes.worker_settings import MOST_AT_ONCE


class Ask(Protocol):
    """Claim together with all others who wait; None when that is over."""

    def __call__(
        self,
        claimant: Claimant,
        limit: int,
        request_id: str | None,
        *,
        now: bool,
        stands_aside: Callable[[], bool],
    ) -> Future[list[Assignment]] | None: ...


class Local(WorkerCalls):
    """The in-process transport of one worker."""

    def __init__(
        self,
        dispatch: Dispatch,
        db: Database,
        bell: wakeup.Wakeup,
        *,
        worker_id: str,
        worker_name: str,
        poll_seconds: float = 2.0,
        stands_aside: Callable[[], bool] = lambda: False,
        lowest_priority: Priority = Priority.LOW,
        most_per_user: int | None = None,
        ask: Ask | None = None,
    ) -> None:
        """`stands_aside`: asked before each claim whether the jobs are better left to others.
        `ask`: who claims for all workers of this process together, if anybody does. For the rest
        see `Claimant`."""
        super().__init__(dispatch, worker_id, worker_name, None)
        self._db = db
        self._bell = bell
        self._poll_seconds = poll_seconds
        self._stands_aside = stands_aside
        self._me = Claimant(
            id=worker_id,
            name=worker_name,
            kinds=(),
            lowest_priority=lowest_priority,
            most_per_user=most_per_user,
        )
        self._ask = ask
        self._interrupted = False
        # The last requests, and what those that wait will be answered.
        self._asked: deque[str] = deque(maxlen=2 * MOST_AT_ONCE)
        self._waits_for: set[Future[list[Assignment]]] = set()
        self._terms_etag = ""

    def hello(self, hello: Hello) -> None:
        """On the terms that the worker was started with."""
        self._me = replace(
            self._me,
            kinds=tuple(hello.kinds),
            capabilities=tuple(capability_words(hello.capabilities)),
            boot_id=hello.boot_id,
        )
        urgent = self._me.lowest_priority is Priority.HIGH
        self._db.run(lambda tx: fleet.register(tx, self._me.id, self._me.name, for_urgent=urgent))
        super().hello(hello)

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        pulse = super().heartbeat(claims, stalled, answered, standing)
        if pulse.terms_etag != self._terms_etag:
            # Its tags may be others.
            words = tuple(self._dispatch.capabilities_of(self._me.id))
            self._me = replace(self._me, capabilities=words)
            self._terms_etag = pulse.terms_etag
        return pulse

    def admins_word(self) -> Pulse:
        return self.heartbeat()

    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
        kinds: Sequence[str] | None = None,
        terms_etag: str | None = None,
        answered: Sequence[str] = (),
    ) -> list[Assignment]:
        """Whoever is in this process beats as well: `terms_etag` and `answered` are of no use."""
        # In this process only the database can lose an answer; then the loop asks once more.
        if request_id is not None and request_id in self._asked:
            asking = Asking(self._me.id, request_id)
            if held := self._dispatch.claimed_before([asking]).get(asking):
                return held
        elif request_id is not None:
            self._asked.append(request_id)
        me = self._me
        if kinds is not None:
            me = replace(me, kinds=tuple(kind for kind in me.kinds if kind in kinds))
        return self._claimed(me, limit, wait_seconds, request_id)

    def _claimed(
        self, me: Claimant, limit: int, wait_seconds: float, request_id: str | None
    ) -> list[Assignment]:
        until = time.monotonic() + wait_seconds
        while True:
            mark = self._bell.mark()
            left = until - time.monotonic()
            # Jittered, so that workers that started together do not poll together.
            pause = min(left, self._poll_seconds * random.uniform(0.75, 1.25))
            found, has_waited = self._found(me, limit, request_id, left)
            if not has_waited:
                self._bell.looked(mark, len(found))
            left = until - time.monotonic()
            if found or left <= 0 or self._interrupted:
                return found
            if not has_waited:
                self._bell.wait(mark, min(left, pause))

    def _found(
        self, me: Claimant, limit: int, request_id: str | None, wait_seconds: float
    ) -> tuple[list[Assignment], bool]:
        """What there is, and whether it was waited for already."""
        taken = self._claimed_with_others(me, limit, request_id, wait_seconds)
        if taken is not None:
            return taken, True
        if self._stands_aside():
            return [], False
        return self._dispatch.claim(me, limit, request_id), False

    def _claimed_with_others(
        self, me: Claimant, limit: int, request_id: str | None, wait_seconds: float
    ) -> list[Assignment] | None:
        """None when nobody claims for all."""
        if self._ask is None:
            return None
        now = wait_seconds <= 0
        answer = self._ask(me, limit, request_id, now=now, stands_aside=self._stands_aside)
        if answer is None:
            return None
        self._waits_for.add(answer)
        if self._interrupted:
            answer.cancel()
        try:
            return answer.result(None if now else wait_seconds)
        except CancelledError:
            return []
        except TimeoutError:
            return [] if answer.cancel() else answer.result()
        finally:
            self._waits_for.discard(answer)

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        """Those without files together. Those that others follow one by one, with what follows."""
        is_led = kinds.ones_own_are_followed()
        plain = [each for each in completions if each.manifest is None and not is_led]
        done = self._dispatch.complete_plain(plain) if plain else set()
        left = [each for each in completions if each.claim.job_id not in done]
        return dict.fromkeys(done, str(State.COMPLETED)) | super().complete_all(left)

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        if excerpt is not None:
            return files.joined(self._dispatch.excerpt(claim, excerpt))
        return self._dispatch.source(claim, media_id)[1]

    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        if excerpt is not None:
            return self._dispatch.read_excerpt(claim, excerpt, start)
        key, _ = self._dispatch.source(claim, media_id)
        return self._dispatch.storage.read(key, start)

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        return self._dispatch.put_artifact(claim, name, content, seconds=seconds)

    def interrupt(self) -> None:
        self._interrupted = True
        for answer in list(self._waits_for):
            answer.cancel()
        self._bell.ring_here()
