"""Every state × every event, on both databases: what is not allowed changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from rushes import errors
from rushes.jobs.job import ErrorClass, State
from rushes.protocol import Claim
from world import World

JobAndClaim = tuple[str, Claim]


def _blocked(world: World) -> JobAndClaim:
    parent = world.enqueue("parent")
    return world.enqueue(parent_id=parent), Claim("", "")


def _queued(world: World) -> JobAndClaim:
    return world.enqueue(), Claim("", "")


def _processing(world: World) -> JobAndClaim:
    job_id = world.enqueue()
    return job_id, world.claim()


def _completed(world: World) -> JobAndClaim:
    job_id, claim = _processing(world)
    world.complete(claim)
    return job_id, claim


def _failed(world: World) -> JobAndClaim:
    job_id, claim = _processing(world)
    world.fail(claim, ErrorClass.PERMANENT)
    return job_id, claim


def _canceled(world: World) -> JobAndClaim:
    job_id, claim = _processing(world)
    world.cancel(job_id)
    world.release(claim)
    return job_id, claim


IN_STATE: dict[State, Callable[[World], JobAndClaim]] = {
    State.BLOCKED: _blocked,
    State.QUEUED: _queued,
    State.PROCESSING: _processing,
    State.COMPLETED: _completed,
    State.FAILED: _failed,
    State.CANCELED: _canceled,
}


def _expire_and_sweep(world: World) -> dict[str, State]:
    """As the chores would, but at once: the lease is over and no grace applies."""
    world.advance(world.terms.lease_ms / 1000 + 1)
    return world.run(world.queue.sweep)


# Makes the event happen to the job; a falsy answer or a Conflict says that it did not.
DO: dict[str, Callable[[World, Claim], Any]] = {
    "claim": lambda world, claim: [
        each for each in world.claim_all(limit=9) if each.job_id == claim.job_id
    ],
    "heartbeat": lambda world, claim: world.heartbeat(claim).held,
    "progress": lambda world, claim: world.progress(claim).held,
    "complete": lambda world, claim: world.complete(claim),
    "fail": lambda world, claim: world.fail(claim),
    "release": lambda world, claim: world.release(claim),
    "divide": lambda world, claim: world.divide(claim, parts=1),
    "cancel": lambda world, claim: world.cancel(claim.job_id),
    "sweep": lambda world, claim: claim.job_id in _expire_and_sweep(world),
    "retry": lambda world, claim: world.retry(claim.job_id),
}


AFTER = {
    (State.BLOCKED, "cancel"): State.CANCELED,
    (State.QUEUED, "claim"): State.PROCESSING,
    (State.QUEUED, "cancel"): State.CANCELED,
    (State.PROCESSING, "heartbeat"): State.PROCESSING,
    (State.PROCESSING, "progress"): State.PROCESSING,
    (State.PROCESSING, "complete"): State.COMPLETED,
    (State.PROCESSING, "fail"): State.QUEUED,
    (State.PROCESSING, "release"): State.QUEUED,
    (State.PROCESSING, "divide"): State.BLOCKED,
    (State.PROCESSING, "cancel"): State.PROCESSING,
    (State.PROCESSING, "sweep"): State.QUEUED,
    (State.COMPLETED, "retry"): State.COMPLETED,
    (State.FAILED, "retry"): State.FAILED,
    (State.CANCELED, "retry"): State.CANCELED,
}
# What happens to a job because of another one has tests of its own.
BY_OTHERS = {"unblock", "join_parts"}
# What may happen to a job in each state; everything else changes nothing and says why.
EVENTS: dict[State, frozenset[str]] = {
    State.BLOCKED: frozenset({"cancel", "unblock", "join_parts"}),
    State.QUEUED: frozenset({"claim", "cancel"}),
    State.PROCESSING: frozenset(
        {"heartbeat", "progress", "complete", "fail", "release", "divide", "cancel", "sweep"}
    ),
    State.COMPLETED: frozenset({"retry"}),
    State.FAILED: frozenset({"retry"}),
    State.CANCELED: frozenset({"retry"}),
}
ALL_EVENTS = sorted({event for events in EVENTS.values() for event in events} - BY_OTHERS)
# How many job events each tells, if not one.
TOLD = {"heartbeat": 0, "divide": 2}
REPEATS = {
    (State.COMPLETED, "complete"): State.COMPLETED,
    (State.FAILED, "fail"): State.FAILED,
    (State.FAILED, "release"): State.FAILED,
    (State.FAILED, "divide"): State.FAILED,
    (State.CANCELED, "release"): State.CANCELED,
    (State.CANCELED, "divide"): State.CANCELED,
    (State.CANCELED, "fail"): State.CANCELED,
}


def test_the_table_of_allowed_events_is_the_one_tested_here() -> None:
    allowed = {(state, event) for state, events in EVENTS.items() for event in events}
    assert {pair for pair in allowed if pair[1] not in BY_OTHERS} == set(AFTER)


@pytest.mark.parametrize("event", ALL_EVENTS)
@pytest.mark.parametrize("state", list(State))
def test_every_event_in_every_state(world: World, state: State, event: str) -> None:
    job_id, held = IN_STATE[state](world)
    claim = Claim(job_id, held.claim_id or "clm_nobody")
    assert world.state(job_id) is state
    before = world.snapshot()

    if event in EVENTS[state]:
        assert DO[event](world, claim)
        assert world.state(job_id) is AFTER[state, event]
        old = {row["seq"] for row in before["events"]}
        told = [row for row in world.snapshot()["events"] if row["seq"] not in old]
        assert len([row for row in told if row["job_id"]]) == TOLD.get(event, 1)
    elif (state, event) in REPEATS:
        assert DO[event](world, claim) == REPEATS[state, event]
        assert world.snapshot() == before
    else:
        with suppress(errors.Conflict):
            assert not DO[event](world, claim)
        assert _of(job_id, world.snapshot()) == _of(job_id, before)
    world.check()


def _of(job_id: str, snapshot: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All rows that speak of one job; its parent may well have moved."""
    rows = [row for table in snapshot.values() for row in table]
    return [row for row in rows if job_id in (row.get("id"), row.get("job_id"))]
