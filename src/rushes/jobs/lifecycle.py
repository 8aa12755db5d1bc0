"""What a failure, a loss, a release, a division or a cancel means for a job. No clock, no SQL.

Each function takes the facts of the guarded row and returns a `Next`, which `store.settle` writes
under the same guard; `after_parts` says what the ends of its parts mean for a divided job.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from rushes.jobs.job import ErrorClass, Outcome, Priority, State

# Bounds what no attempt counts: releases, deferrals and divisions.
MAX_CLAIMS = 25
# A job that took its worker down three times in a row, and never got on, is poison, whatever
# attempts are left.
MAX_LOSSES = 3
POISON = "poison"
# How far a divided job is when all its parts have completed; the rest is for putting them together.
PARTS_DONE = 0.95
BACKOFF_FLOOR_MS = 1_000
BACKOFF_BASE_MS = 10_000
BACKOFF_CAP_MS = 3_600_000

Uniform = Callable[[float, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the decision depends on, read from the guarded row."""

    attempt: int
    max_attempts: int
    claims: int
    losses: int
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What is known of how a claim was lost. `stalled`: the attempt's deadline passed. `got_on`:
    something was made under it. `silent`: since it last spoke of the job, the worker has not
    spoken at all. `survived`: a worker that was silent after an earlier loss has spoken again.
    `unheard_of`: the worker goes on, and has never spoken of the job. `outage`: nobody was there
    to speak to."""

    stalled: bool = False
    got_on: bool = False
    silent: bool = True
    survived: bool = False
    unheard_of: bool = False
    outage: bool = False

    @property
    def cause(self) -> str:
        """In a word, for whoever counts them."""
        if self.stalled:
            return "deadline"
        if self.outage:
            return "outage"
        if self.unheard_of:
            return "reply_lost"
        return "silence" if self.silent else "let_go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Where the job goes, when it may run again, and how its attempt is closed."""

    state: State
    outcome: Outcome
    delay_ms: int = 0
    attempt: int
    losses: int
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A job that is held, and locked."""

    id: str
    kind: str
    claim_id: str
    claim_epoch: int
    whole_id: str | None
    media_id: str | None
    user_id: str
    priority: Priority
    queued_at: int | None
    timeout_ms: int | None
    limit_key: str | None
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A job whose worker is believed to be gone, and what is known of that."""

    id: str
    kind: str
    priority: Priority
    claim_id: str | None
    claimed_by: str | None
    whole_id: str | None
    facts: Facts
    loss: Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What was decided for one held job."""

    id: str
    claim_id: str | None
    next: Next
    error: str | None = None
    checkpoint: str | None = None


def after_failure(
    job: Facts, error: ErrorClass, code: str, uniform: Uniform = random.uniform
) -> Next:
    if job.cancel_requested:
        return _canceled(job)
    if error is ErrorClass.RESOURCE:
        return _again(
            job,
            Outcome.DEFERRED,
            attempt=job.attempt - 1,
            delay_ms=backoff_ms(job.claims, uniform),
            code=code,
        )
    if error is ErrorClass.PERMANENT or job.attempt >= job.max_attempts:
        return Next(
            state=State.FAILED,
            outcome=Outcome.FAILED,
            attempt=job.attempt,
            losses=0,
            error_code=code,
        )
    return _again(
        job,
        Outcome.FAILED,
        attempt=job.attempt,
        delay_ms=backoff_ms(job.attempt, uniform),
        code=code,
    )


def after_release(job: Facts) -> Next:
    if job.cancel_requested:
        return _canceled(job)
    return _again(job, Outcome.RELEASED, attempt=job.attempt - 1, delay_ms=0, code=None)


def after_division(job: Facts) -> Next:
    """Wait for the parts; unless the job could not be claimed again after them."""
    waiting = after_release(job)
    if waiting.state is not State.QUEUED:
        return waiting
    return replace(waiting, state=State.BLOCKED, outcome=Outcome.DIVIDED)


def after_parts(parts: Collection[State]) -> State | None:
    """Where a divided job goes by the states of its parts; None: it waits on. One part that did
    not complete decides for all, since the whole cannot be had any more."""
    if State.FAILED in parts:
        return State.FAILED
    if State.CANCELED in parts:
        return State.CANCELED
    return State.QUEUED if set(parts) <= {State.COMPLETED} else None


def progress_by_parts(divided_at: float, parts: float) -> float:
    """How far a divided job is, by how far it was when it was divided and its parts are now."""
    return divided_at + max(0.0, PARTS_DONE - divided_at) * parts


def after_loss(job: Facts, loss: Loss) -> Next:
    """The lease ran out (`lost`), or the attempt's deadline passed (`stalled`). No pause: a loss
    is not a failure. What nobody could have helped is not counted."""
    outcome = Outcome.STALLED if loss.stalled else Outcome.LOST
    if job.cancel_requested:
        return _canceled(job, outcome)
    if not loss.stalled and (loss.outage or loss.unheard_of):
        code = "server_away" if loss.outage else "reply_lost"
        back = _again(job, Outcome.RELEASED, attempt=job.attempt - 1, delay_ms=0, code=code)
        return replace(back, losses=job.losses)
    if loss.got_on or loss.stalled or not loss.silent:
        return _lost(job, outcome, 0)
    return _lost(job, outcome, 1 if loss.survived else job.losses + 1)


def _lost(job: Facts, outcome: Outcome, losses: int) -> Next:
    if losses >= MAX_LOSSES:
        code: str | None = POISON
    elif job.attempt >= job.max_attempts or job.claims >= MAX_CLAIMS:
        code = "attempts_exhausted"
    else:
        code = None
    return Next(
        state=State.QUEUED if code is None else State.FAILED,
        outcome=outcome,
        attempt=job.attempt,
        losses=losses,
        error_code=code or ("deadline_passed" if outcome is Outcome.STALLED else "worker_lost"),
    )


def backoff_ms(n: int, uniform: Uniform = random.uniform) -> int:
    """Random between 1 s and min(1 h, 10 s · 2ⁿ), so that failures of one cause spread out."""
    highest = min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2 ** min(n, 20))
    return int(uniform(BACKOFF_FLOOR_MS, highest))


def _again(job: Facts, outcome: Outcome, *, attempt: int, delay_ms: int, code: str | None) -> Next:
    if job.claims >= MAX_CLAIMS:
        return Next(
            state=State.FAILED,
            outcome=outcome,
            attempt=attempt,
            losses=0,
            error_code=code or "too_many_claims",
        )
    return Next(
        state=State.QUEUED,
        outcome=outcome,
        delay_ms=delay_ms,
        attempt=attempt,
        losses=0,
        error_code=code,
    )


def _canceled(job: Facts, outcome: Outcome = Outcome.CANCELED) -> Next:
    return Next(state=State.CANCELED, outcome=outcome, attempt=job.attempt, losses=job.losses)
