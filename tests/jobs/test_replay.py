"""A history that can have happened, and what is said of one that cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rushes.events import JobEvent
from rushes.jobs.job import ErrorClass
from rushes.jobs.replay import STEPS, Replay, impossible
from world import World

SPECIFICATION = Path(__file__).parents[2] / "proof" / "Jobs.tla"


def event(state: str, was: str | None, attempt: int = 0, epoch: int = 0) -> JobEvent:
    return JobEvent(
        pos=1, job_id="job_1", type="x", was=was, state=state, attempt=attempt, epoch=epoch
    )


NEW = event("queued", None)
HELD = event("processing", "queued", 1, 1)
GETS_ON = event("processing", "processing", 1, 1)
DONE = event("completed", "processing", 1, 1)


def why(*events: JobEvent, **given: Any) -> list[str]:
    replay = Replay(**given)
    found = [replay.see(each) for each in events]
    return [each.why for each in found if each is not None]


def test_the_steps_are_those_of_the_specification() -> None:
    text = SPECIFICATION.read_text()
    steps = text[text.index("Steps == {") : text.index("VARIABLES")]
    assert set(re.findall(r'<<"(\w+)", "(\w+)">>', steps)) == STEPS


def test_a_life_as_it_is() -> None:
    again = event("queued", "processing", 1, 1)
    assert why(NEW, HELD, GETS_ON, again, event("processing", "queued", 2, 2)) == []
    given_back = event("queued", "processing", 0, 1)
    assert why(NEW, HELD, given_back, event("processing", "queued", 1, 2)) == []


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([NEW, DONE], "no job goes from queued to completed"),
        ([NEW, HELD, DONE, event("queued", "completed", 1, 1)], "goes from completed to queued"),
        ([NEW, HELD, DONE, DONE], "goes from completed to completed"),
        ([HELD], "no job goes from none to processing"),
        ([NEW, event("processing", "queued", 1, 2)], "of claim 2 after 0"),
        ([NEW, HELD, event("completed", "processing", 1, 2)], "of claim 2 after 1"),
        ([NEW, HELD, event("completed", "processing", 0, 1)], "attempt 0 comes after 1"),
        ([NEW, HELD, event("queued", "processing", 2, 1)], "attempt 2 comes after 1"),
        ([NEW, event("canceled", "blocked")], "tells that the job was blocked, which was queued"),
    ],
)
def test_what_cannot_have_happened(events: list[JobEvent], said: str) -> None:
    [found] = why(*events)
    assert said in found


def test_a_history_that_begins_in_the_middle() -> None:
    assert why(DONE, is_cut=True) == []
    assert why(DONE, DONE, is_cut=True) != []


def test_a_real_one_of_every_verb(world: World) -> None:
    done = world.enqueue()
    world.complete(world.claim())
    world.enqueue(max_attempts=2)
    world.fail(world.claim(), ErrorClass.TRANSIENT)
    world.cancel(world.enqueue())
    world.enqueue()
    world.release(world.claim())
    world.enqueue()
    whole = world.claim()
    world.divide(whole)
    world.complete(world.claim())
    world.progress(world.claim())
    world.check()
    # A job that somebody has ended twice, by hand.
    world.run(
        lambda tx: tx.all(
            "INSERT INTO events (pos, at, type, job_id, state, attempt, epoch, job_was)"
            " SELECT pos + 100, at, type, job_id, state, attempt, epoch, job_was FROM events"
            " WHERE state = 'completed' AND job_id = :id",
            id=done,
        )
    )
    with world.db.read() as tx:
        [found] = impossible(tx, Replay())
    assert found.why == "no job goes from completed to completed"
