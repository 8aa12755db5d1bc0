"""The worker's loop: claim, run, report, in one thread; renew the leases in another.

Speaks only `protocol.Coordinator`. Once a lease cannot be renewed in time the worker fences itself:
the handler is held up, because somebody else may hold the job by then. When the server answers
again it goes on, or stops, as the server says.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rushes import errors, ids
from rushes.protocol import Assignment, Completion, Coordinator, Hello, Progress
from rushes.sanitize import sanitize
from rushes.worker.context import JobContext, Stop

T = TypeVar("T")
log = logging.getLogger("rushes.worker")

# Of the lease; the rest is for the handler to come to a halt before anybody else may start.
FENCE_AT = 0.75
# Results are reported together, but none waits longer than this for its neighbours.
REPORT_SECONDS = 0.25
RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 5.0
RESULT_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Handler:
    """`stall_seconds`: how long `run` may go without a sign of life before its lease is let go."""

    run: Callable[[JobContext], Any]
    stall_seconds: float | None = None


class Held:
    """A job in this worker's hands."""

    def __init__(self, assignment: Assignment, context: JobContext, asked_at: float) -> None:
        self.assignment = assignment
        self.context = context
        self.renewed_at = asked_at

    @property
    def late(self) -> bool:
        """It may be another's by now; only the server knows."""
        return time.monotonic() - self.renewed_at > FENCE_AT * self.assignment.lease_seconds

    @property
    def lost(self) -> bool:
        return self.context.stop_reason is Stop.CLAIM_LOST


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
    ) -> None:
        """`batch`: how many jobs to claim at once; more than one only pays for tiny jobs.
        Heartbeats and what to keep are the server's to say, if it says something."""
        self.coordinator = coordinator
        self._handlers = handlers
        self._hello = hello
        self._batch = batch
        self._heartbeat_seconds = heartbeat_seconds
        self._keep_completed_qualities = keep_completed_qualities
        self._claim_wait_seconds = claim_wait_seconds
        self._scratch_root = scratch_root
        # By claim: a job that was lost may come back before its old report is answered.
        self._held: dict[str, Held] = {}
        # The claim request to be repeated, those whose answers no heartbeat has told of yet, and
        # what keeps a heartbeat from telling of an answer before its jobs are held.
        self._asking: str | None = None
        self._answered_requests: list[str] = []
        self._taking = threading.Lock()
        self._results: list[tuple[Held, Any]] = []
        self._results_since = 0.0
        self._reporting: Future[None] | None = None
        self._stopping = threading.Event()
        self._drained = False
        self._said_hello = False
        # Set when the server does not know this worker any more, which ends it.
        self.refused: errors.Unauthorized | None = None
        self._out_of_reach = False

    def run(self) -> None:
        """Until `stop`, or until the server refuses this worker: then Unauthorized. While an
        admin has drained or disabled it, it claims nothing."""
        over = threading.Event()
        heart = threading.Thread(target=self._beat_until_stopped, args=[over], daemon=True)
        threading.Thread(target=self._fence_until, args=[over], daemon=True).start()
        try:
            self._work(heart)
        except BaseException:
            # Nobody works on it any more: a heart that went on would keep it from all others.
            self._held.clear()
            self._said_hello = False
            over.set()
            raise
        self._stopping.set()
        if heart.ident is not None:
            heart.join(timeout=self._heartbeat_seconds)
        over.set()
        if self.refused is not None:
            raise self.refused

    def _work(self, heart: threading.Thread) -> None:
        with ThreadPoolExecutor(1, "rushes-reporter") as reporter:
            outages = 0
            while not self._stopping.is_set():
                if self._drained:
                    self._stopping.wait(self._heartbeat_seconds / 4)
                    continue
                try:
                    self._say_hello()
                    if heart.ident is None:
                        heart.start()
                    self._round(reporter)
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
                    self._held.clear()
                    outages = self._rest(outages)

    def step(self, wait_seconds: float = 0) -> int:
        """Claim once, run what was claimed, report it; returns how many jobs that were."""
        count = self._claim_and_run(wait_seconds)
        self._report_results()
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
        try:
            pulse = self.coordinator.heartbeat(
                [each.assignment.claim for each in held], stalled, answered
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
        self._drained = pulse.drain
        with self._taking:
            self._answered_requests = [
                each for each in self._answered_requests if each not in answered
            ]
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

    def _round(self, reporter: Executor) -> None:
        """As `step`, but results of a batch are reported while the next one is claimed."""
        self._claim_and_run(self._claim_wait_seconds)
        if self._batch == 1:
            self._report_results()
        else:
            if self._reporting is not None:
                self._reporting.result()
            self._reporting = reporter.submit(self._report_results, self._take_results())

    def _claim_and_run(self, wait_seconds: float) -> int:
        self._say_hello()
        asked_at = time.monotonic()
        request = self._asking = self._asking or ids.new("req")
        assignments = self.coordinator.claim(self._batch, wait_seconds, request)
        if wait_seconds:
            asked_at = time.monotonic()
        with self._taking:
            self._asking = None
            self._answered_requests.append(request)
            for assignment in assignments:
                held = Held(assignment, self._context(assignment), asked_at)
                self._held[assignment.claim_id] = held
        for assignment in assignments:
            self._run_one(self._held[assignment.claim_id])
        return len(assignments)

    def _context(self, assignment: Assignment) -> JobContext:
        handler = self._handlers.get(assignment.kind)
        return JobContext(
            assignment,
            self._report_progress,
            coordinator=self.coordinator,
            ask=self.beat,
            stall_seconds=handler.stall_seconds if handler else None,
            scratch_root=self._scratch_root,
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
                self.beat()
            except Exception:
                # Without a heart the worker would lose every job from now on.
                log.exception("a heartbeat failed")
                self._fence()
            if self._stopping.is_set():
                time.sleep(min(self._heartbeat_seconds, RETRY_SECONDS))

    def _rest(self, outages: int) -> int:
        """Longer each time, up to a limit; returns the number of outages with this one."""
        longer = RETRY_SECONDS * 2 ** min(outages, 10)
        self._stopping.wait(min(longer, LONGEST_RETRY_SECONDS))
        return outages + 1

    def _say_hello(self) -> None:
        if not self._said_hello:
            if terms := self.coordinator.hello(self._hello):
                self._heartbeat_seconds = terms.heartbeat_seconds
                self._keep_completed_qualities = terms.keep_completed_qualities
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
            result = _checked(self._handler(held).run(held.context))
            held.context.close()
        except errors.Divided as division:
            held.context.close()
            self._report_division(held, division)
        except BaseException as error:
            held.context.close()
            if _is_for_the_process(error):
                raise
            self._report_failure(held, failure_of(error, held.context.stop_reason))
        else:
            self._keep_result(held, result)

    def _handler(self, held: Held) -> Handler:
        handler = self._handlers.get(held.assignment.kind)
        if handler is None:
            raise errors.PermanentFailure("no handler for this kind", code="no_handler")
        return handler

    def _keep_result(self, held: Held, result: Any) -> None:
        if held.lost:
            self._drop(held)
            return
        if not self._results:
            self._results_since = time.monotonic()
        self._results.append((held, result))
        if time.monotonic() - self._results_since > REPORT_SECONDS:
            self._report_results()

    def _take_results(self) -> list[tuple[Held, Any]]:
        results, self._results = self._results, []
        return results

    def _report_results(self, results: list[tuple[Held, Any]] | None = None) -> None:
        results = self._take_results() if results is None else results
        if any(held.late for held, _ in results):
            # As after a long sleep: a short question before a long report.
            self.beat()
        fresh = [
            Completion(held.assignment.claim, result, held.context.manifest)
            for held, result in results
            if not held.lost
        ]
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
        outages, give_up_at = 0, time.monotonic() + self._patience()
        while not (held and held.lost):
            try:
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

    def _patience(self) -> float:
        leases = [held.assignment.lease_seconds for held in list(self._held.values())]
        return FENCE_AT * max(leases, default=0)

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


def _is_for_the_process(error: BaseException) -> bool:
    """What a signal raises, it raises in the main thread. Anywhere else a handler's code has tried
    to exit, or a library has panicked."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and isinstance(error, KeyboardInterrupt | SystemExit)


def _checked(result: Any) -> Any:
    """Refuse here what could not be reported later, and would hold up its neighbours."""
    try:
        size = len(msgspec.json.encode(result))
    except (TypeError, ValueError) as error:
        raise errors.PermanentFailure(
            f"the handler's result is not JSON: {error}", code="bad_result"
        ) from None
    if size > RESULT_LIMIT_BYTES:
        raise errors.PermanentFailure(
            "the handler's result is larger than 1 MB: put it as an artifact", code="bad_result"
        )
    return result


@dataclass(frozen=True, slots=True)
class Failure:
    """What an exception of a handler means for its job, in words that may be shown to strangers."""

    error_class: str
    code: str
    message: str


def failure_of(error: BaseException, stop: Stop | None) -> Failure | Stop:
    """How to report a handler's exception; a `Stop` when there is nothing to report as failed."""
    if stop is Stop.CLAIM_LOST or stop is Stop.SHUTDOWN:
        return stop
    match error:
        case errors.Canceled():
            return Failure("transient", "canceled", sanitize(error.message))
        case errors.PermanentFailure():
            return Failure("permanent", error.code or "permanent", sanitize(error.message))
        case errors.TransientFailure():
            return Failure("transient", error.code or "transient", sanitize(error.message))
        case errors.RetryLater():
            return Failure("resource", error.code or "resource", sanitize(error.message))
        case errors.Unavailable():
            return Failure("resource", error.code, sanitize(error.message))
        case MemoryError():
            return Failure("resource", "out_of_memory", "there was not enough memory")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failure("resource", "disk_full", "the disk is full")
        case OSError(errno=errno.EIO | errno.EROFS | errno.ESTALE | errno.ENODEV):
            return Failure("resource", "disk_failed", "the disk cannot be used")
        case _:
            pass
    log.exception("a handler failed", exc_info=error)
    return Failure("transient", "handler_error", sanitize(f"{type(error).__name__}: {error}"))
