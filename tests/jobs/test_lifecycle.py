"""The rules alone: what each ending means for a job, at every edge of its counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes.jobs.job import ErrorClass, Outcome, State
from rushes.jobs.lifecycle import (
    MAX_CLAIMS,
    Facts,
    Loss,
    after_division,
    after_failure,
    after_loss,
    after_parts,
    after_release,
    backoff_ms,
    progress_by_parts,
)


def job(
    attempt: int = 1,
    *,
    max_attempts: int = 3,
    claims: int | None = None,
    losses: int = 0,
    cancel: bool = False,
) -> Facts:
    return Facts(
        attempt=attempt,
        max_attempts=max_attempts,
        claims=attempt if claims is None else claims,
        losses=losses,
        cancel_requested=cancel,
    )


@pytest.mark.parametrize(
    ("facts", "error", "state", "outcome", "attempt"),
    [
        (job(1), ErrorClass.TRANSIENT, State.QUEUED, Outcome.FAILED, 1),
        (job(2), ErrorClass.TRANSIENT, State.QUEUED, Outcome.FAILED, 2),
        (job(3), ErrorClass.TRANSIENT, State.FAILED, Outcome.FAILED, 3),
        (job(1), ErrorClass.PERMANENT, State.FAILED, Outcome.FAILED, 1),
        (job(1), ErrorClass.RESOURCE, State.QUEUED, Outcome.DEFERRED, 0),
        (job(3), ErrorClass.RESOURCE, State.QUEUED, Outcome.DEFERRED, 2),
        (job(1, claims=24), ErrorClass.RESOURCE, State.QUEUED, Outcome.DEFERRED, 0),
        (job(1, claims=25), ErrorClass.RESOURCE, State.FAILED, Outcome.DEFERRED, 0),
        (job(1, claims=25), ErrorClass.TRANSIENT, State.FAILED, Outcome.FAILED, 1),
        (job(1, cancel=True), ErrorClass.TRANSIENT, State.CANCELED, Outcome.CANCELED, 1),
        (job(3, cancel=True), ErrorClass.PERMANENT, State.CANCELED, Outcome.CANCELED, 3),
        (job(1, cancel=True), ErrorClass.RESOURCE, State.CANCELED, Outcome.CANCELED, 1),
    ],
)
def test_failure(
    facts: Facts, error: ErrorClass, state: State, outcome: Outcome, attempt: int
) -> None:
    next = after_failure(facts, error, "boom")
    assert (next.state, next.outcome, next.attempt) == (state, outcome, attempt)
    assert next.error_code == (None if state is State.CANCELED else "boom")
    assert next.losses == 0


@pytest.mark.parametrize(
    ("facts", "state", "attempt"),
    [
        (job(1), State.QUEUED, 0),
        (job(3), State.QUEUED, 2),
        (job(1, claims=24), State.QUEUED, 0),
        (job(1, claims=25), State.FAILED, 0),
        (job(2, cancel=True), State.CANCELED, 2),
    ],
)
def test_release_gives_the_attempt_back_within_the_limit_of_claims(
    facts: Facts, state: State, attempt: int
) -> None:
    next = after_release(facts)
    assert (next.state, next.attempt, next.delay_ms) == (state, attempt, 0)


@pytest.mark.parametrize(
    ("facts", "state", "code"),
    [
        (job(1), State.QUEUED, "worker_lost"),
        (job(2, losses=1), State.QUEUED, "worker_lost"),
        (job(3, losses=2, max_attempts=9), State.FAILED, "poison"),
        (job(3, losses=1), State.FAILED, "attempts_exhausted"),
        (job(3), State.FAILED, "attempts_exhausted"),
        (job(1, claims=25), State.FAILED, "attempts_exhausted"),
        (job(1, cancel=True), State.CANCELED, None),
        (job(3, losses=2, cancel=True), State.CANCELED, None),
    ],
)
def test_loss(facts: Facts, state: State, code: str | None) -> None:
    next = after_loss(facts, Loss())
    assert (next.state, next.error_code, next.outcome) == (state, code, Outcome.LOST)
    assert (next.attempt, next.delay_ms) == (facts.attempt, 0)
    assert next.losses == facts.losses + (0 if state is State.CANCELED else 1)


def test_a_passed_deadline_is_told_apart_from_a_lost_worker() -> None:
    next = after_loss(job(1, losses=1), Loss(stalled=True))
    assert (next.outcome, next.error_code) == (Outcome.STALLED, "deadline_passed")
    assert next.losses == 0


@pytest.mark.parametrize("loss", [Loss(got_on=True), Loss(silent=False)])
def test_poison_is_only_what_took_its_worker_down_and_never_got_on(loss: Loss) -> None:
    next = after_loss(job(3, losses=2, max_attempts=9), loss)
    assert (next.state, next.attempt, next.losses) == (State.QUEUED, 3, 0)
    assert after_loss(job(3), loss).error_code == "attempts_exhausted"


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        (Loss(outage=True), "server_away"),
        (Loss(unheard_of=True, silent=False), "reply_lost"),
    ],
)
def test_an_outage_or_a_lost_reply_is_not_charged_to_the_job(loss: Loss, code: str) -> None:
    next = after_loss(job(3, losses=2), loss)
    assert (next.state, next.outcome, next.error_code) == (State.QUEUED, Outcome.RELEASED, code)
    assert (next.attempt, next.losses, next.delay_ms) == (2, 2, 0)
    assert after_loss(job(1, claims=MAX_CLAIMS), loss).state is State.FAILED
    assert after_loss(job(1, cancel=True), loss).state is State.CANCELED


@given(n=st.integers(0, 200), share=st.floats(0, 1))
def test_backoff_stays_between_a_second_and_an_hour(n: int, share: float) -> None:
    delay = backoff_ms(n, lambda low, high: low + share * (high - low))
    assert 1_000 <= delay <= min(3_600_000, 10_000 * 2**n)


def test_backoff_doubles_and_spreads() -> None:
    highest = [backoff_ms(n, lambda low, high: high) for n in range(4)]
    assert highest == [10_000, 20_000, 40_000, 80_000]
    assert len({backoff_ms(3) for _ in range(100)}) > 90


@given(
    attempt=st.integers(1, 100),
    max_attempts=st.integers(1, 100),
    claims=st.integers(1, MAX_CLAIMS),
    losses=st.integers(0, 2),
)
def test_whatever_happens_a_queued_job_can_be_claimed_again(
    attempt: int, max_attempts: int, claims: int, losses: int
) -> None:
    facts = job(min(attempt, max_attempts), max_attempts=max_attempts, claims=claims, losses=losses)
    endings = [after_loss(facts, Loss()), after_loss(facts, Loss(outage=True))]
    endings.append(after_release(facts))
    endings += [after_failure(facts, error, "boom") for error in ErrorClass]
    for next in endings:
        if next.state is State.QUEUED:
            assert next.attempt < max_attempts
            assert claims < MAX_CLAIMS


# Parts


def test_dividing_gives_the_attempt_back() -> None:
    next = after_division(job(1))
    assert (next.state, next.outcome, next.attempt) == (
        State.BLOCKED,
        Outcome.DIVIDED,
        0,
    )


def test_a_canceled_job_is_canceled_instead_of_divided() -> None:
    assert after_division(job(cancel=True)).state is State.CANCELED


def test_a_job_that_could_not_be_claimed_again_is_not_divided() -> None:
    next = after_division(job(claims=MAX_CLAIMS))
    assert (next.state, next.error_code) == (State.FAILED, "too_many_claims")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({State.COMPLETED}, State.QUEUED),
        ({State.COMPLETED, State.PROCESSING}, None),
        ({State.COMPLETED, State.QUEUED}, None),
        ({State.COMPLETED, State.CANCELED}, State.CANCELED),
        ({State.CANCELED, State.PROCESSING}, State.CANCELED),
        ({State.FAILED, State.CANCELED, State.PROCESSING}, State.FAILED),
    ],
)
def test_what_parts_mean_for_their_whole(parts: set[State], expected: State | None) -> None:
    assert after_parts(parts) is expected


@pytest.mark.parametrize(
    ("divided_at", "parts", "expected"),
    [(0.15, 0, 0.15), (0.15, 1, 0.95), (0.97, 0.5, 0.97)],
)
def test_parts_bring_a_job_up_to_its_last_step(
    divided_at: float, parts: float, expected: float
) -> None:
    assert progress_by_parts(divided_at, parts) == pytest.approx(expected)
