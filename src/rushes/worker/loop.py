"""The worker's loop: claim, run, report, in one thread for each job that may run at once; renew the
leases in another.

Speaks only `protocol.Coordinator`. Once a lease cannot be renewed in time the worker fences itself:
the handler is held up, because somebody else may hold the job by then. When the server answers
again it goes on, or stops, as the server says.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rushes import correlation, errors, ids, protocol, worker_settings
from rushes.protocol import (
    Assignment,
    Completion,
    Coordinator,
    Hello,
    Progress,
    Pulse,
    Standing,
    Terms,
)
from rushes.worker.conduct import Conduct, is_news
from rushes.worker.context import JobContext, Stop
from rushes.worker.outcome import Failure, checked, failure_of, is_for_the_process
from rushes.worker.slots import FENCE_AT, Crew, Held, Slot, bound_to
from rushes.worker_settings import OTHERS, Group

T = TypeVar("T")
log = logging.getLogger("rushes.worker")

# Results are reported together, but none waits longer than this for its neighbours.
REPORT_SECONDS = 0.25
RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 5.0
# A claim that is answered so much sooner than asked, with nothing, says that there is news.
EARLY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Handler:
    """`stall_seconds`: how long `run` may go without a sign of life before its lease is let go.
    `scratch_share`: how much room for temporary files it takes beside a copy of the source, as a
    share of that; None: hardly any, whatever the source."""

    run: Callable[[JobContext], Any]
    stall_seconds: float | None = None
    scratch_share: float | None = None


class Worker:
    def __init__(
        self,
        coordinator: Coordinator,
        handlers: Mapping[str, Handler],
        *,
        hello: Hello,
        batch: int = 1,
        heartbeat_seconds: float = 15.0,
        claim_wait_seconds: float = 30.0,
        scratch_root: Path | None = None,
        keep_completed_qualities: bool = True,
        conduct: Conduct | None = None,
    ) -> None:
        """`batch`: how many jobs to claim at once; more than one only pays for tiny jobs.
        Heartbeats and what to keep are the server's to say, if it says something. `conduct`: how it
        is to work, which also knows where temporary files go."""
        self.coordinator = coordinator
        self._handlers = handlers
        self._scratch_shares = {kind: each.scratch_share for kind, each in handlers.items()}
        self._conduct = conduct or Conduct(scratch_root=scratch_root)
        self._hello = replace(
            hello,
            protocol=protocol.version_text(protocol.VERSION),
            settings=worker_settings.plain(self._conduct.own),
        )
        self._batch = batch
        self._heartbeat_seconds = heartbeat_seconds
        self._keep_completed_qualities = keep_completed_qualities
        self._claim_wait_seconds = claim_wait_seconds
        self._main = Slot(OTHERS, 0)
        self._crew = Crew(self._work_beside)
        # One slot of a group asks for all of it.
        self._turns: dict[str, threading.Lock] = {}
        self._terms: Terms | None = None
        self._terms_etag = ""
        self._waiting = 0
        self._told, self._told_at = Standing(), 0.0
        # By claim: a job that was lost may come back before its old report is answered.
        self._held: dict[str, Held] = {}
        # The claim requests whose answers no heartbeat has told of yet, and what keeps a heartbeat
        # from telling of an answer before its jobs are held.
        self._answered_requests: list[str] = []
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._drained = False
        self._is_running = False
        self._said_hello = False
        # Set when the server does not know this worker any more, which ends it.
        self.refused: errors.Unauthorized | None = None
        self._broke_down: errors.RushesError | None = None
        self._out_of_reach = False

    def run(self) -> None:
        """Until `stop`, or until the server refuses this worker: then Unauthorized. While an
        admin has drained or disabled it, it claims nothing."""
        over = threading.Event()
        heart = threading.Thread(target=self._beat_until_stopped, args=[over], daemon=True)
        threading.Thread(target=self._fence_until, args=[over], daemon=True).start()
        try:
            self._work(self._main, heart)
        except BaseException:
            # Nobody works on it any more: a heart that went on would keep it from all others.
            self._is_running = False
            self._crew.dismiss(self._held.values())
            self._held.clear()
            self._said_hello = False
            over.set()
            raise
        self._stopping.set()
        self._crew.join()
        if heart.ident is not None:
            heart.join(timeout=self._heartbeat_seconds)
        over.set()
        if (ended_by := self.refused or self._broke_down) is not None:
            raise ended_by

    def _work(self, slot: Slot, heart: threading.Thread | None = None) -> None:
        """Until the worker stops, or this slot is not wanted any more."""
        with ThreadPoolExecutor(1, "rushes-reporter") as reporter:
            outages = 0
            while not self._stopping.is_set() and (slot is self._main or self._is_wanted(slot)):
                try:
                    self._say_hello()
                    if heart is not None and heart.ident is None:
                        self._settle_in(heart)
                    if self._drained or self._conduct.is_resting or not self._is_wanted(slot):
                        self._idle()
                        continue
                    with correlation.bound(worker_id=self.coordinator.worker_id):
                        self._round(slot, reporter)
                    self._reached()
                    outages = 0
                except errors.Unavailable as error:
                    self._missed(error)
                    outages = self._rest(outages)
                except errors.RushesError:
                    raise
                except Exception:
                    # A worker that is gone helps nobody; the leases of what it held run out.
                    log.exception("the worker stumbled, and goes on")
                    for held in list(self._held.values()):
                        if held.slot is slot:
                            self._drop(held)
                    outages = self._rest(outages)

    def _idle(self) -> None:
        if self._news_of_it() is not None:
            self.beat()
        self._stopping.wait(self._heartbeat_seconds / 4)

    def _settle_in(self, heart: threading.Thread) -> None:
        if self._terms is None and (said := self.coordinator.admins_word()):
            self._listen_to(said)
        heart.start()
        self._is_running = True
        self._arrange()

    def _arrange(self) -> None:
        if self._is_running and not self._stopping.is_set():
            self._crew.arrange(self._groups(), besides=self._main)

    def _work_beside(self, slot: Slot) -> None:
        try:
            self._work(slot)
        except errors.RushesError as error:
            self._broke_down = error
            self.stop()

    def _groups(self) -> dict[str, Group]:
        """Which kinds run how many at a time; an older server gives whatever there is."""
        if self._terms is None or self._is_newer:
            return self._conduct.groups(self._handlers)
        at_once = (self._conduct.now.concurrency or {}).get(OTHERS, 1)
        return {OTHERS: Group(tuple(sorted(self._handlers)), at_once)}

    def _is_wanted(self, slot: Slot) -> bool:
        group = self._groups().get(slot.group)
        return group is not None and slot.number < group.count and not slot.dismissed

    @property
    def _knows_signs(self) -> bool:
        """Whether the server takes a claim that waits for a sign of life."""
        return self._is_newer and self.coordinator.is_understood

    @property
    def _is_newer(self) -> bool:
        return self._terms is not None and self._terms.knows_signs

    def step(self, wait_seconds: float = 0) -> int:
        """Claim once, run what was claimed, report it; returns how many jobs that were."""
        count = self._claim_and_run(self._main, wait_seconds)
        self._report_results(self._main.take_results())
        return count

    def stop(self) -> None:
        """Claim nothing more and give back what is held."""
        self._stopping.set()
        self.coordinator.interrupt()
        for held in list(self._held.values()):
            held.context.stop(Stop.SHUTDOWN)

    def abandon(self) -> None:
        """Give back what a handler that does not listen still holds; its result will be refused."""
        for held in list(self._held.values()):
            held.context.stop(Stop.CLAIM_LOST)
            self._answered(partial(self.coordinator.release, held.assignment.claim))

    def beat(self) -> None:
        """Tell of all that is held, and renew it. Not what is stalled: its lease is to run out."""
        with self._taking:
            everything = list(self._held.values())
            answered = tuple(self._answered_requests)
        stalled = [each.assignment.claim for each in everything if each.context.stalled]
        held = [each for each in everything if each.assignment.claim not in stalled]
        sent_at = time.monotonic()
        standing = self._news_of_it()
        more = {} if standing is None else {"standing": standing}
        try:
            pulse = self.coordinator.heartbeat(
                [each.assignment.claim for each in held], stalled, answered, **more
            )
        except errors.Unauthorized as error:
            self.refused = error
            self.stop()
            return
        except errors.RushesError as error:
            self._missed(error)
            self._fence()
            return
        self._reached()
        if standing is not None:
            self._told, self._told_at = standing, sent_at
        self._listen_to(pulse)
        self._forget_answered(answered)
        for each in held:
            beat = pulse.claims[each.assignment.claim_id]
            if not beat.held:
                each.context.stop(Stop.CLAIM_LOST)
            else:
                each.renewed_at = max(each.renewed_at, sent_at)
                if each.context.resume():
                    log.info("job %s goes on: it is still held", each.assignment.job_id)
                if beat.cancel:
                    each.context.stop(Stop.CANCELED)
        self._fence()

    def _forget_answered(self, answered: Collection[str]) -> None:
        with self._taking:
            self._answered_requests = [
                each for each in self._answered_requests if each not in answered
            ]

    def _listen_to(self, said: Pulse | Terms) -> None:
        """What the admin says of this worker."""
        if isinstance(said, Pulse):
            self._drained = said.drain
            if self._terms is not None and self._terms.upgrade and not said.drain:
                # The server speaks its version by now, but knows nothing of what it can do.
                self._said_hello = False
        if said.settings is None:
            return  # An older server knows of none; another one beside it may have told some.
        self._terms_etag = said.terms_etag
        if self._terms is not None and not self._is_newer and self.coordinator.is_understood:
            # It was upgraded, or another one answers now: it is to hear all.
            self._said_hello = False
        if self._conduct.obey(said.settings):
            self._arrange()

    def _news_of_it(self) -> Standing | None:
        """What is to be told of this worker, if it is not as it was told."""
        if self._terms is not None and not self._knows_signs:
            return None
        now = self._conduct.standing(self._scratch_shares)
        between = time.monotonic() - self._told_at
        return now if is_news(self._told, now, between) else None

    def _round(self, slot: Slot, reporter: Executor) -> None:
        """As `step`, but results of a batch are reported while the next one is claimed."""
        # Not past the end of its hours.
        self._claim_and_run(slot, min(self._claim_wait_seconds, self._conduct.seconds_left))
        if self._batch == 1:
            self._report_results(slot.take_results())
        else:
            if slot.reporting is not None:
                slot.reporting.result()
            slot.reporting = reporter.submit(self._report_results, slot.take_results())

    def _claim_and_run(self, slot: Slot, wait_seconds: float) -> int:
        self._say_hello()
        turn = self._turns.setdefault(slot.group, threading.Lock())
        # Whoever waits for its turn looks now and then whether it is still wanted.
        if not turn.acquire(timeout=max(wait_seconds, 0) and RETRY_SECONDS):
            return 0
        try:
            assignments = self._claimed(slot, wait_seconds)
        finally:
            turn.release()
        for assignment in assignments:
            held = self._held[assignment.claim_id]
            with held.bound(self.coordinator.worker_id):
                self._run_one(held)
        return len(assignments)

    def _claimed(self, slot: Slot, wait_seconds: float) -> list[Assignment]:
        kinds = self._kinds_for(slot)
        if kinds is not None and not kinds:
            if wait_seconds:
                self._idle()
            return []
        asked_at = time.monotonic()
        request = slot.asking = slot.asking or ids.new("req")
        with self._taking:
            answered = () if self._held else tuple(self._answered_requests)
            self._waiting += 1
        more: dict[str, Any] = {} if kinds is None else {"kinds": kinds}
        if self._knows_signs:
            more |= {"terms_etag": self._terms_etag, "answered": answered}
        try:
            assignments = self.coordinator.claim(self._batch, wait_seconds, request, **more)
        finally:
            with self._taking:
                self._waiting -= 1
        if self._knows_signs:
            self._forget_answered(answered)
        early = asked_at + wait_seconds - time.monotonic() > EARLY_SECONDS
        if wait_seconds:
            asked_at = time.monotonic()
        with self._taking:
            slot.asking = None
            self._answered_requests.append(request)
            for assignment in assignments:
                held = Held(assignment, self._context(assignment), asked_at, slot)
                self._held[assignment.claim_id] = held
        if early and not assignments and self._knows_signs and not self._stopping.is_set():
            self._hear_news()
        return assignments

    def _kinds_for(self, slot: Slot) -> list[str] | None:
        """Those that this slot asks for now; None: whatever there is."""
        declined = self._conduct.declined(self._scratch_shares)
        groups = self._groups()
        group = groups[slot.group]
        if (len(groups) == 1 and not declined) or (self._terms and not self._is_newer):
            return [] if declined and set(declined) >= set(group.kinds) else None
        return [kind for kind in group.kinds if kind not in declined]

    def _hear_news(self) -> None:
        """A claim has ended before its time."""
        before = self._terms_etag
        self.beat()
        if self._terms_etag == before:
            self._stopping.wait(RETRY_SECONDS)

    def _context(self, assignment: Assignment) -> JobContext:
        handler = self._handlers.get(assignment.kind)
        return JobContext(
            assignment,
            self._report_progress,
            coordinator=self.coordinator,
            ask=self.beat,
            stall_seconds=handler.stall_seconds if handler else None,
            space=self._conduct.space,
            keep_completed_qualities=self._keep_completed_qualities,
        )

    def _fence(self) -> None:
        for held in list(self._held.values()):
            if held.late and held.context.suspend():
                log.warning("job %s is held up: its claim is not renewed", held.assignment.job_id)

    def _fence_until(self, over: threading.Event) -> None:
        """Not by the heart: it may wait for an answer for longer than the lease lasts."""
        while not over.wait(self._heartbeat_seconds / 4):
            self._fence()

    def _beat_until_stopped(self, over: threading.Event) -> None:
        """Beats go on while a stopping worker still holds something."""
        while not over.is_set() and (
            not self._stopping.wait(self._heartbeat_seconds) or self._held
        ):
            try:
                self._conduct.tick()
                self._arrange()
                if self._conduct.is_resting and self._conduct.gives_back:
                    self._give_back()
                if not self._is_heard:
                    with correlation.bound(worker_id=self.coordinator.worker_id):
                        self.beat()
            except Exception:
                # Without a heart the worker would lose every job from now on.
                log.exception("a heartbeat failed")
                self._fence()
            if self._stopping.is_set():
                time.sleep(min(self._heartbeat_seconds, RETRY_SECONDS))

    @property
    def _is_heard(self) -> bool:
        """Whether the server knows without a heartbeat that this worker is alive, and all of it."""
        waits = self._knows_signs and self._waiting > 0 and not self._held
        return waits and self._news_of_it() is None

    def _give_back(self) -> None:
        for held in list(self._held.values()):
            if not held.context.stopping:
                log.info("job %s is given back: the hours are over", held.assignment.job_id)
                held.context.stop(Stop.SHUTDOWN)

    def _rest(self, outages: int) -> int:
        """Longer each time, up to a limit; returns the number of outages with this one."""
        longer = RETRY_SECONDS * 2 ** min(outages, 10)
        self._stopping.wait(min(longer, LONGEST_RETRY_SECONDS))
        return outages + 1

    def _say_hello(self) -> None:
        if not self._said_hello:
            terms = self._terms = self.coordinator.hello(self._hello)
            self._told = Standing()
            if terms is not None:
                self._heartbeat_seconds = terms.heartbeat_seconds
                self._keep_completed_qualities = terms.keep_completed_qualities
                self._listen_to(terms)
                if terms.upgrade:
                    log.error("no work for this worker: %s", terms.upgrade)
                    self._drained = True
            self._said_hello = True

    def _missed(self, error: errors.RushesError) -> None:
        """Told once for each time that the queue is away."""
        if not self._out_of_reach:
            reason = error.detail or error.message
            log.warning("cannot reach the queue: %s; trying again", reason)
        self._out_of_reach = True

    def _reached(self) -> None:
        if self._out_of_reach:
            log.info("the queue answers again")
        self._out_of_reach = False

    def _run_one(self, held: Held) -> None:
        if self._stopping.is_set():
            held.context.stop(Stop.SHUTDOWN)
        try:
            held.context.raise_if_stopped()
            result = held.traced(lambda: self._handle(held), self.coordinator.worker_id)
            held.context.close()
        except errors.Divided as division:
            held.context.close()
            self._report_division(held, division)
        except BaseException as error:
            held.context.close()
            if is_for_the_process(error):
                raise
            self._report_failure(held, failure_of(error, held.context.stop_reason))
        else:
            self._keep_result(held, result)

    def _handle(self, held: Held) -> Any:
        handler = self._handlers.get(held.assignment.kind)
        if handler is None:
            raise errors.PermanentFailure("no handler for this kind", code="no_handler")
        if handler.scratch_share is not None:
            held.context.reserve(handler.scratch_share)
        return checked(handler.run(held.context))

    def _keep_result(self, held: Held, result: Any) -> None:
        if held.lost:
            self._drop(held)
            return
        slot = held.slot
        if not slot.results:
            slot.results_since = time.monotonic()
        slot.results.append((held, result))
        if time.monotonic() - slot.results_since > REPORT_SECONDS:
            self._report_results(slot.take_results())

    def _report_results(self, results: list[tuple[Held, Any]]) -> None:
        if any(held.late for held, _ in results):
            # As after a long sleep: a short question before a long report.
            self.beat()
        fresh = [
            Completion(held.context.claim, result, held.context.manifest)
            for held, result in results
            if not held.lost
        ]
        with bound_to([held for held, _ in results], self.coordinator.worker_id):
            answers = self._answered(lambda: self.coordinator.complete_all(fresh)) if fresh else {}
        for held, _ in results:
            job_id = held.assignment.job_id
            answer = (answers or {}).get(job_id, errors.ClaimLost.code)
            if answer == errors.CancelRequested.code:
                self._report_failure(held, Failure("transient", "canceled", ""))
            elif answer == errors.ManifestMismatch.code:
                self._report_failure(held, Failure("transient", answer, "files went missing"))
            elif answer == errors.Invalid.code:
                refused = "the server does not accept the result"
                self._report_failure(held, Failure("permanent", "bad_result", refused))
            else:
                if answer == errors.ClaimLost.code:
                    log.warning("job %s: the claim was lost, its result is dropped", job_id)
                self._drop(held)

    def _report_division(self, held: Held, division: errors.Divided) -> None:
        stop = held.context.stop_reason
        if stop is Stop.CANCELED:
            self._report_failure(held, Failure("transient", "canceled", ""))
            return
        if not held.lost:
            refused = self._answered(partial(self._divide, held, division), held)
            if refused:
                self._report_failure(held, refused)
        self._drop(held)

    def _divide(self, held: Held, division: errors.Divided) -> Failure | None:
        """What to say instead, when the server will not have it."""
        try:
            self.coordinator.divide(held.assignment.claim, division.parts, division.checkpoint)
        except errors.ClaimLost:
            raise
        except (errors.Invalid, errors.Conflict) as error:
            return Failure("permanent", "bad_division", error.message)
        return None

    def _report_failure(self, held: Held, failure: Failure | Stop) -> None:
        claim = held.assignment.claim
        if failure is Stop.SHUTDOWN:
            self._answered(lambda: self.coordinator.release(claim), held)
        elif isinstance(failure, Failure) and not held.lost:
            log.info("job %s failed: %s %s", claim.job_id, failure.code, failure.message)
            self._answered(
                lambda: self.coordinator.fail(
                    claim, failure.error_class, failure.code, failure.message
                ),
                held,
            )
        self._drop(held)

    def _answered(self, call: Callable[[], T], held: Held | None = None) -> T | None:
        """Repeat a report until there is an answer; None when the claim is gone, or when a worker
        that is to leave has waited long enough."""
        leases = [each.assignment.lease_seconds for each in list(self._held.values())]
        outages, give_up_at = 0, time.monotonic() + FENCE_AT * max(leases, default=0)
        while not (held and held.lost):
            try:
                with held.bound(self.coordinator.worker_id) if held else nullcontext():
                    answer = call()
                self._reached()
                return answer
            except errors.Unavailable as error:
                self._missed(error)
            except errors.RushesError as error:
                log.warning("a report was refused: %s", error.message)
                return None
            if self._stopping.is_set():
                if time.monotonic() > give_up_at or (held and held.late):
                    return None
                time.sleep(RETRY_SECONDS)
            else:
                outages = self._rest(outages)
        return None

    def _report_progress(self, progress: Progress) -> None:
        held = self._held.get(progress.claim.claim_id)
        sent_at = time.monotonic()
        try:
            renewed = self.coordinator.progress(progress)
        except errors.Unavailable:
            self._fence()
            return
        except errors.ClaimLost:
            if held is not None:
                held.context.stop(Stop.CLAIM_LOST)
            return
        if held is not None:
            held.renewed_at = max(held.renewed_at, sent_at)
            if renewed.cancel:
                held.context.stop(Stop.CANCELED)

    def _drop(self, held: Held) -> None:
        self._held.pop(held.assignment.claim_id, None)
