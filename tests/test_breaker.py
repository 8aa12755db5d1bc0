"""The circuit breaker, with a clock that the test moves."""

from __future__ import annotations

import threading

import pytest

from rushes.breaker import FAILURES, LONGEST_PAUSE_SECONDS, STABLE_SECONDS, Breaker, BreakerState


class Clock:
    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    """Its pauses are as long as they may be."""
    return Breaker("Redis", clock=clock, jitter=lambda low, high: high)


def fail(breaker: Breaker, times: int = FAILURES, part: str = "read") -> None:
    for _ in range(times):
        breaker.failed(part, "it is away")


def pause(breaker: Breaker, clock: Clock) -> float:
    """Let its pause go by; returns how long that was."""
    seconds = breaker.pause_seconds
    clock.at += seconds
    return seconds


def test_it_opens_after_failures_in_a_row_and_says_why(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    assert breaker.is_closed
    fail(breaker, 1)
    assert breaker.state is BreakerState.OPEN
    assert (breaker.reason, breaker.failures, breaker.openings) == ("it is away", FAILURES, 1)


def test_a_success_in_between_counts_only_for_its_own_part(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1, part="tell")
    breaker.succeeded("tell")
    fail(breaker, FAILURES - 1, part="tell")
    assert breaker.is_closed
    fail(breaker, FAILURES - 1, part="read")
    breaker.succeeded("tell")
    fail(breaker, 1, part="read")
    assert not breaker.is_closed


def test_one_failure_is_enough_when_it_is_said_to_be(breaker: Breaker) -> None:
    breaker.failed("tell", "it does not answer", enough=True)
    assert not breaker.is_closed


def test_when_its_pause_is_over_one_caller_tries(breaker: Breaker, clock: Clock) -> None:
    assert not breaker.may_try(), "nothing is wrong"
    fail(breaker)
    assert not breaker.may_try(), "too soon"
    pause(breaker, clock)
    tries: list[bool] = []
    callers = [threading.Thread(target=lambda: tries.append(breaker.may_try())) for _ in range(8)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert sorted(tries) == [False] * 7 + [True]
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.close()
    assert breaker.is_closed


def test_pauses_double_up_to_the_longest(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    pauses = []
    for _ in range(8):
        pauses.append(pause(breaker, clock))
        assert breaker.may_try()
        breaker.open("still away")
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert breaker.openings == 1


def test_pauses_are_jittered(clock: Clock) -> None:
    breaker = Breaker("Redis", clock=clock)
    for _ in range(100):
        breaker.open("away")
        assert 0 < breaker.pause_seconds <= LONGEST_PAUSE_SECONDS
    assert breaker.pause_seconds >= LONGEST_PAUSE_SECONDS / 2


@pytest.mark.parametrize(("well_seconds", "next_pause"), [(1.0, 2.0), (STABLE_SECONDS, 1.0)])
def test_one_that_was_not_well_for_long_goes_on_with_longer_pauses(
    breaker: Breaker, clock: Clock, well_seconds: float, next_pause: float
) -> None:
    fail(breaker)
    pause(breaker, clock)
    assert breaker.may_try()
    breaker.close()
    clock.at += well_seconds
    fail(breaker)
    assert breaker.pause_seconds == next_pause


def test_an_outage_is_logged_once_however_often_it_comes_and_goes(
    breaker: Breaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rushes.breaker")
    for _ in range(20):
        fail(breaker)
        pause(breaker, clock)
        assert breaker.may_try()
        breaker.open("it is away")
        pause(breaker, clock)
        assert breaker.may_try()
        breaker.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["Redis is not used for now: it is away", "Redis is used again"]


def test_failures_while_it_is_open_do_not_make_the_pause_longer(
    breaker: Breaker, clock: Clock
) -> None:
    fail(breaker)
    before = breaker.pause_seconds
    fail(breaker, 50)
    assert breaker.pause_seconds == before
    assert breaker.openings == 1
