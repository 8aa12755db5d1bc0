"""Every state × every event, on both databases: what is not allowed changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rushes import errors
from rushes.jobs.job import ErrorClass, State
from rushes.jobs.lifecycle import EVENTS
from rushes.protocol import Claim
from world import World

Scene = tuple[str, Claim]


def _blocked(world: World) -> Scene:
    parent = world.enqueue("parent")
    return world.enqueue(parent_id=parent), Claim("", "")


def _queued(world: World) -> Scene:
    return world.enqueue(), Claim("", "")


def _processing(world: World) -> Scene:
    job_id = world.enqueue()
    return job_id, world.claim()


def _completed(world: World) -> Scene:
    job_id, claim = _processing(world)
    world.complete(claim)
    return job_id, claim


def _failed(world: World) -> Scene:
    job_id, claim = _processing(world)
    world.fail(claim, ErrorClass.PERMANENT)
    return job_id, claim


def _canceled(world: World) -> Scene:
    job_id, claim = _processing(world)
    world.cancel(job_id)
    world.release(claim)
    return job_id, claim


SCENES: dict[State, Callable[[World], Scene]] = {
    State.BLOCKED: _blocked,
    State.QUEUED: _queued,
    State.PROCESSING: _processing,
    State.COMPLETED: _completed,
    State.FAILED: _failed,
    State.CANCELED: _canceled,
}


def _expire_and_sweep(world: World, job_id: str) -> dict[str, State]:
    """As the chores would, but at once: the lease is over and no grace applies."""
    world.advance(world.terms.lease_ms / 1000 + 1)
    return world.run(world.queue.sweep)


def _do(world: World, event: str, job_id: str, claim: Claim) -> Any:
    """Make the event happen to the job; a falsy answer or a Conflict says that it did not."""
    forged = Claim(job_id, claim.claim_id or "clm_nobody")
    match event:
        case "claim":
            return [each for each in world.claim_all(limit=9) if each.job_id == job_id]
        case "heartbeat":
            return world.heartbeat(forged).held
        case "progress":
            return world.progress(forged).held
        case "complete":
            return world.complete(forged)
        case "fail":
            return world.fail(forged)
        case "release":
            return world.release(forged)
        case "cancel":
            return world.cancel(job_id)
        case "sweep":
            return job_id in _expire_and_sweep(world, job_id)
        case "retry":
            return world.retry(job_id)
        case "unblock":
            return world.run(world.queue.heal)
    raise AssertionError(event)


AFTER = {
    (State.BLOCKED, "cancel"): State.CANCELED,
    (State.QUEUED, "claim"): State.PROCESSING,
    (State.QUEUED, "cancel"): State.CANCELED,
    (State.PROCESSING, "heartbeat"): State.PROCESSING,
    (State.PROCESSING, "progress"): State.PROCESSING,
    (State.PROCESSING, "complete"): State.COMPLETED,
    (State.PROCESSING, "fail"): State.QUEUED,
    (State.PROCESSING, "release"): State.QUEUED,
    (State.PROCESSING, "cancel"): State.PROCESSING,
    (State.PROCESSING, "sweep"): State.QUEUED,
    (State.COMPLETED, "retry"): State.COMPLETED,
    (State.FAILED, "retry"): State.FAILED,
    (State.CANCELED, "retry"): State.CANCELED,
}
ALL_EVENTS = sorted({event for events in EVENTS.values() for event in events} - {"unblock"})
REPEATS = {
    (State.COMPLETED, "complete"): State.COMPLETED,
    (State.FAILED, "fail"): State.FAILED,
    (State.FAILED, "release"): State.FAILED,
    (State.CANCELED, "release"): State.CANCELED,
    (State.CANCELED, "fail"): State.CANCELED,
    (State.CANCELED, "cancel"): State.CANCELED,
}


def test_the_table_of_allowed_events_is_the_one_tested_here() -> None:
    allowed = {(state, event) for state, events in EVENTS.items() for event in events}
    assert allowed - {(State.BLOCKED, "unblock")} == set(AFTER)


@pytest.mark.parametrize("event", ALL_EVENTS)
@pytest.mark.parametrize("state", list(State))
def test_every_event_in_every_state(world: World, state: State, event: str) -> None:
    job_id, claim = SCENES[state](world)
    assert world.state(job_id) is state
    before = world.snapshot()

    if event in EVENTS[state]:
        assert _do(world, event, job_id, claim)
        assert world.state(job_id) is AFTER[state, event]
        if event not in ("heartbeat",):
            assert len(world.snapshot()["events"]) > len(before["events"])
    elif (state, event) in REPEATS:
        assert _do(world, event, job_id, claim) == REPEATS[state, event]
        assert world.snapshot() == before
    else:
        try:
            answer = _do(world, event, job_id, claim)
        except errors.Conflict as error:
            answer = None
            assert error.message
        assert not answer
        unchanged = {**before, "jobs": [row for row in before["jobs"] if row["id"] == job_id]}
        after = world.snapshot()
        after["jobs"] = [row for row in after["jobs"] if row["id"] == job_id]
        assert after["jobs"] == unchanged["jobs"]
    world.check()
