"""One claimer for all workers that wait at this server: a wake-up costs one look at the queue for
all of them, and a claim for each that gets something. It also writes down, together, the signs of
life of those that have nothing to do.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from rushes import errors, kinds
from rushes.accounts.known_workers import KnownWorkers
from rushes.dispatch import Dispatch
from rushes.jobs.policy import Look
from rushes.jobs.request_store import Asking
from rushes.jobs.terms import Claimant
from rushes.metrics import Metrics
from rushes.protocol import Assignment
from rushes.threads import Supervised
from rushes.wakeup import Wakeup

log = logging.getLogger("rushes.dispatcher")

# How long closing may have to wait for the listener.
LISTEN_SECONDS = 0.5
CLOSE_SECONDS = 2.0
# How often signs of life are written down.
FLUSH_SECONDS = 1.0
# A worker may get nothing though there is something, because an admin has just disabled it: then
# the next one like it is asked, but not all of them.
TRIES = 2


@dataclass(eq=False, slots=True, kw_only=True)
class Waiting:
    """A worker that asks for work. `now`: it does not wait for any to come."""

    claimant: Claimant
    # The very same for all who are offered the same jobs.
    alike: Claimant
    limit: int
    request_id: str | None
    now: bool
    # Asked at the last moment whether the jobs are better left to others.
    stands_aside: Callable[[], bool]
    # The terms that the worker has heard of: it is to hear of others at once.
    terms_etag: str | None = None
    answer: Future[list[Assignment]] = field(default_factory=Future)
    # Not looked for yet: what the same request was answered before.
    is_new: bool = True

    def deliver(self, jobs: list[Assignment]) -> bool:
        """False when nobody is there any more to take them."""
        return self._end(lambda: self.answer.set_result(jobs))

    def refuse(self, error: Exception) -> None:
        self._end(lambda: self.answer.set_exception(error))

    def _end(self, end: Callable[[], None]) -> bool:
        # The one who closes and the one who feeds may come at once.
        with _ending:
            if self.answer.done() or not self.answer.set_running_or_notify_cancel():
                return False
            end()
            return True


_ending = threading.Lock()


class Dispatcher:
    def __init__(
        self,
        dispatch: Dispatch,
        bell: Wakeup,
        known: KnownWorkers,
        *,
        poll_seconds: float,
        metrics: Metrics | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._metrics = metrics or Metrics()
        self._bell = bell
        self._known = known
        self._poll_seconds = poll_seconds
        self._waiting: list[Waiting] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._threads: list[Supervised] = []
        # Somebody rang, or has come who is not known to wait in vain.
        self._has_news = False
        self._looked_at = 0.0
        # Those alike for whom nothing was there, and which ring of the bell was the last by then.
        self._in_vain: set[Claimant] = set()
        self._mark = -1
        self._alike: dict[Claimant, Claimant] = {}
        # How many jobs were given in all.
        self._given = 0

    def ask(
        self,
        claimant: Claimant,
        limit: int,
        request_id: str | None,
        *,
        now: bool = False,
        terms_etag: str | None = None,
        stands_aside: Callable[[], bool] = lambda: False,
    ) -> Future[list[Assignment]] | None:
        """What there is for a worker, as soon as there is something; nothing, as soon as its terms
        are not those of `terms_etag` any more. Who does not wait for it any more cancels the
        answer. None: it is closed."""
        alike = claimant.alike()
        waiting = Waiting(
            claimant=claimant,
            alike=alike,
            limit=limit,
            request_id=request_id,
            now=now,
            terms_etag=terms_etag,
            stands_aside=stands_aside,
        )
        with self._changed:
            if self._closing.is_set():
                return None
            self._start()
            waiting.alike = self._alike.setdefault(alike, alike)
            self._waiting.append(waiting)
            self._has_news = self._has_news or now or not self._is_in_vain(alike)
            if self._has_news or len(self._waiting) == 1:
                self._changed.notify_all()
        return waiting.answer

    @property
    def waiting(self) -> int:
        with self._changed:
            return sum(not each.answer.done() for each in self._waiting)

    def close(self) -> None:
        """Everybody who waits gets nothing."""
        self._closing.set()
        with self._changed:
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for each in waiting:
            each.deliver([])
        for thread in self._threads[-1:]:
            # It may be asking the database.
            thread.join(CLOSE_SECONDS)

    def _is_in_vain(self, alike: Claimant) -> bool:
        """Whether others alike wait already, and nothing has come since they looked."""
        return (
            alike in self._in_vain
            and self._bell.mark() == self._mark
            and time.monotonic() - self._looked_at < self._poll_seconds
        )

    def _start(self) -> None:
        if not self._threads:
            self._threads = [
                Supervised(self._listen, "doorbell", self._closing),
                Supervised(self._feed, "dispatcher", self._closing),
            ]
            for thread in self._threads:
                thread.start()

    def _listen(self) -> None:
        """Waits for the bell only while somebody waits here: one that tells of jobs must know."""
        mark = self._bell.mark()
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            # By the mark of the last time: what was rung since is for those who came meanwhile.
            if self._bell.wait(mark, LISTEN_SECONDS):
                mark = self._bell.mark()
                with self._changed:
                    self._has_news = True
                    self._changed.notify_all()

    def _feed(self) -> None:
        flushed_at = poll_at = 0.0
        while not self._closing.is_set():
            now = time.monotonic()
            if now - flushed_at >= FLUSH_SECONDS:
                self._flush()
                flushed_at = now
            if self._take_news() or now >= poll_at:
                self._look()
                # Jittered, so that servers that started together do not poll together.
                poll_at = time.monotonic() + self._poll_seconds * random.uniform(0.75, 1.25)
            with self._changed:
                until = min(poll_at, flushed_at + FLUSH_SECONDS) - time.monotonic()
                self._changed.wait_for(
                    lambda: self._has_news or self._closing.is_set(), max(0.0, until)
                )

    def _take_news(self) -> bool:
        with self._changed:
            news, self._has_news = self._has_news, False
            return news

    def _flush(self) -> None:
        """Whoever waits here is alive, and hears when its terms are others."""
        with self._changed:
            waiting = [each for each in self._waiting if not each.answer.done()]
        self._known.wait(each.claimant.id for each in waiting)
        try:
            changed = self._known.flush()
        except errors.RushesError as error:
            # What was not written is written the next time.
            log.warning("signs of life were not kept: %s", error.message)
            return
        for each in waiting:
            word = changed.get(each.claimant.id)
            if word is not None and each.terms_etag not in (None, word.etag):
                each.deliver([])

    def _look(self) -> None:
        """One round for all who wait."""
        mark, given = self._bell.mark(), self._given
        with self._changed:
            self._waiting = [each for each in self._waiting if not each.answer.done()]
            waiting = list(self._waiting)
            self._alike = {each: each for each in {id(w.alike): w.alike for w in waiting}.values()}
        if not waiting:
            return
        try:
            self._metrics.rounds.inc()
            in_vain = self._serve(waiting)
        except errors.RushesError as error:
            for each in waiting:
                each.refuse(error)
            return
        except BaseException:
            for each in waiting:
                each.refuse(errors.Unavailable("the queue could not be asked: try again"))
            raise
        self._bell.looked(mark, self._given - given)
        self._in_vain, self._mark, self._looked_at = in_vain, mark, time.monotonic()
        for each in waiting:
            if each.now and not each.answer.done():
                each.deliver([])

    def _serve(self, waiting: Sequence[Waiting]) -> set[Claimant]:
        """Returns for whom, of those alike, nothing was left in the end."""
        self._answer_again(waiting)
        groups = _groups(waiting)
        offers = self._dispatch.offers({kind for alike, _ in groups for kind in alike.kinds})
        in_vain, given = set(), self._given
        for alike, group in groups:
            mine = alike.choice(offers)
            is_fresh = self._given == given
            if not mine.strands or not self._claim(alike, group, mine if is_fresh else None):
                in_vain.add(alike)
        return in_vain

    def _answer_again(self, waiting: Iterable[Waiting]) -> None:
        """Those whose first answer was lost."""
        asked = {
            Asking(each.claimant.id, each.request_id): each
            for each in waiting
            if each.is_new and each.request_id is not None
        }
        held = self._dispatch.claimed_before(asked) if asked else {}
        for asking, each in asked.items():
            each.is_new = False
            # Its key may be for fewer kinds by now.
            jobs = [job for job in held.get(asking, ()) if job.kind in each.claimant.kinds]
            if jobs:
                each.deliver(jobs)

    def _claim(self, alike: Claimant, group: Sequence[Waiting], offers: Look | None) -> bool:
        """For one after the other, until nothing is left; False: some of them got nothing. Who
        stands aside has not asked for any. What is offered after a claim is looked at again."""
        tries = 0
        for each in group:
            if each.answer.done() or each.stands_aside():
                continue
            if offers is None:
                offers = alike.choice(self._dispatch.offers(alike.kinds))
            if not offers.strands:
                return False
            jobs = self._dispatch.claim(each.claimant, each.limit, each.request_id, offers)
            offers = None
            self._given += len(jobs)
            self._metrics.given.inc(len(jobs))
            if not jobs:
                self._put_last(each)
                tries += 1
            elif not each.deliver(jobs):
                # Nobody is there to take them; otherwise they would wait for their lease to end.
                for job in jobs:
                    self._dispatch.release(job.claim)
            if tries == TRIES:
                break
        return tries == 0

    def _put_last(self, tried: Waiting) -> None:
        with self._changed:
            if tried in self._waiting:
                self._waiting.remove(tried)
                self._waiting.append(tried)


def _groups(waiting: Iterable[Waiting]) -> list[tuple[Claimant, list[Waiting]]]:
    """By who is alike; by identity, because there are many of them and each look sorts them. Those
    for what is quick come last: who can do the whole of a job at once needs no beginning of it."""
    groups: dict[int, tuple[Claimant, list[Waiting]]] = {}
    for each in waiting:
        if not each.answer.done():
            groups.setdefault(id(each.alike), (each.alike, []))[1].append(each)
    return sorted(groups.values(), key=lambda group: all(map(kinds.is_quick, group[0].kinds)))
