"""A job that is divided waits for its parts, and ends or goes on with them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rushes import errors, queue_report
from rushes.jobs import relation_store, why
from rushes.jobs.job import ErrorClass, State
from rushes.jobs.lifecycle import MAX_CLAIMS
from rushes.media import library
from rushes.protocol import Claim, Part
from world import World


def divided(world: World, parts: int = 2, **options: Any) -> tuple[str, Claim]:
    """A job that has just been divided, and the claim that did it."""
    job_id = world.enqueue(**options)
    claim = world.claim()
    assert world.divide(claim, parts) is State.BLOCKED
    return job_id, claim


def test_a_divided_job_runs_again_when_its_last_part_has_completed(
    world: World,
) -> None:
    job_id = world.enqueue(user_id="ann", priority="high", max_attempts=1)
    claim = world.claim()
    world.progress(claim, 0.2, stage="transcode")
    assert world.divide(claim, checkpoint={"parts": 2}) is State.BLOCKED
    whole = world.job(job_id)
    assert (whole.attempt, whole.claims, whole.progress) == (0, 1, 0.2)
    assert whole.divided_at is not None
    first, second = world.parts(job_id)
    assert (first.user_id, first.priority, first.queued_at) == (
        "ann",
        whole.priority,
        whole.queued_at,
    )
    assert [first.args, second.args] == [{"part": 0}, {"part": 1}]
    world.check()
    assert world.complete(world.claim()) is State.COMPLETED
    assert world.state(job_id) is State.BLOCKED
    rings = world.rings
    assert world.complete(world.claim()) is State.COMPLETED
    assert world.state(job_id) is State.QUEUED
    assert world.rings > rings
    assert world.job(job_id).queued_at == whole.queued_at
    [again] = world.claim_all()
    assert (again.job_id, again.checkpoint, again.attempt) == (job_id, {"parts": 2}, 1)
    assert world.job(job_id).progress == 0.95
    assert world.complete(again.claim) is State.COMPLETED
    assert world.event_types(job_id) == [
        "noop.queued",
        "noop.started",
        "noop.progress",
        "noop.divided",
        "noop.queued",
        "noop.started",
        "noop.completed",
    ]
    world.check()


def test_parts_are_next_in_line(world: World) -> None:
    job_id = world.enqueue()
    world.advance(1)
    other = world.enqueue()
    claim = world.claim()
    world.advance(1)
    world.divide(claim)
    taken = [world.claim_all()[0].job_id for _ in range(3)]
    assert taken == [*[part.id for part in world.parts(job_id)], other]


def test_dividing_twice_is_the_same_as_once(world: World) -> None:
    job_id, claim = divided(world)
    before = world.snapshot()
    assert world.divide(claim) is State.BLOCKED
    assert world.snapshot() == before
    for _ in range(2):
        world.complete(world.claim())
    world.complete(world.claim())
    assert world.state(job_id) is State.COMPLETED
    assert world.divide(claim) is State.BLOCKED
    assert len(world.parts(job_id)) == 2


def test_a_job_may_be_divided_again(world: World) -> None:
    job_id, _ = divided(world)
    for _ in range(2):
        world.complete(world.claim())
    assert world.divide(world.claim(), 1) is State.BLOCKED
    world.check()
    world.complete(world.claim())
    assert world.state(job_id) is State.QUEUED
    assert len(world.parts(job_id)) == 3


def test_only_the_parts_of_the_last_division_are_counted(world: World) -> None:
    job_id, _ = divided(world, 3)
    for _ in range(3):
        world.complete(world.claim())
    world.divide(world.claim(), 2)
    with world.db.read() as tx:
        counted = relation_store.counts(tx, job_id)
    assert counted is not None
    assert (counted.parts, counted.completed, counted.progress) == (2, 0, 0)


@pytest.mark.parametrize("parts", [0, 2_001])
def test_neither_no_parts_nor_too_many(world: World, parts: int) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    with pytest.raises(errors.BadField):
        world.divide(claim, parts)
    assert world.state(job_id) is State.PROCESSING


def test_a_part_that_cannot_be_enqueued_leaves_the_job_as_it_was(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    before = world.snapshot()
    with pytest.raises(errors.BadField):
        world.divide(claim, kind="No Kind")
    assert world.snapshot() == before
    assert world.state(job_id) is State.PROCESSING


def test_a_part_is_not_divided_again(world: World) -> None:
    divided(world)
    with pytest.raises(errors.WrongState):
        world.divide(world.claim())
    world.check()


def test_a_canceled_job_is_not_divided(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.cancel(job_id)
    assert world.divide(claim) is State.CANCELED
    assert world.parts(job_id) == []
    world.check()


def test_a_job_is_not_divided_for_ever(world: World) -> None:
    job_id = world.enqueue()
    for _ in range(MAX_CLAIMS - 1):
        assert world.divide(world.claim(), 1) is State.BLOCKED
        assert world.complete(world.claim()) is State.COMPLETED
    assert world.divide(world.claim(), 1) is State.FAILED
    assert world.job(job_id).error_code == "too_many_claims"
    world.check()


def test_a_lost_claim_divides_nothing(world: World) -> None:
    world.enqueue()
    claim = world.claim()
    world.release(claim)
    world.claim()
    before = world.snapshot()
    assert world.divide(claim) is State.QUEUED  # as the release was answered
    assert world.snapshot() == before
    with pytest.raises(errors.ClaimLost):
        world.divide(Claim(claim.job_id, "clm_nobody"))


def test_a_part_that_fails_takes_the_job_and_the_others_along(world: World) -> None:
    job_id, _ = divided(world, 4)
    waiter = world.enqueue(parent_id=job_id)
    done, failing, running = world.claim(), world.claim(), world.claim()
    world.complete(done)
    assert world.fail(failing, ErrorClass.PERMANENT, "corrupt") is State.FAILED
    whole = world.job(job_id)
    assert (whole.state, whole.error_code, whole.last_error) == (
        State.FAILED,
        "corrupt",
        "boom",
    )
    states = [part.state for part in world.parts(job_id)]
    assert states == [State.COMPLETED, State.FAILED, State.PROCESSING, State.CANCELED]
    assert world.heartbeat(running).cancel
    with pytest.raises(errors.CancelRequested):
        world.complete(running)
    assert world.release(running) is State.CANCELED
    assert world.state(waiter) is State.CANCELED
    assert world.claim_all() == []
    world.live(60)
    world.check()


def test_a_part_is_tried_again_before_the_job_fails(world: World) -> None:
    job_id, _ = divided(world, 1)
    assert world.fail(world.claim()) is State.QUEUED
    assert world.state(job_id) is State.BLOCKED
    world.live(60)
    world.claim()
    moved = world.live(120)
    assert moved == {world.parts(job_id)[0].id: State.QUEUED}
    assert world.complete(world.claim()) is State.COMPLETED
    assert world.state(job_id) is State.QUEUED
    world.check()


def test_a_part_that_is_lost_for_good_fails_the_job(world: World) -> None:
    job_id, _ = divided(world, 2, max_attempts=1)
    world.claim()
    world.live(90)
    whole = world.job(job_id)
    assert (whole.state, whole.error_code) == (State.FAILED, "attempts_exhausted")
    assert {part.state for part in world.parts(job_id)} == {
        State.FAILED,
        State.CANCELED,
    }
    world.check()


def test_canceling_the_job_cancels_its_parts(world: World) -> None:
    job_id, _ = divided(world)
    waiter = world.enqueue(parent_id=job_id)
    running = world.claim()
    assert world.cancel(job_id) is State.CANCELED
    assert [part.state for part in world.parts(job_id)] == [
        State.PROCESSING,
        State.CANCELED,
    ]
    assert world.heartbeat(running).cancel
    assert world.fail(running) is State.CANCELED
    assert world.state(waiter) is State.CANCELED
    world.live(60)
    world.check()


def test_canceling_a_part_cancels_the_job(world: World) -> None:
    job_id, _ = divided(world, 3)
    running = world.claim()
    last = world.parts(job_id)[-1]
    assert world.cancel(last.id) is State.CANCELED
    whole = world.job(job_id)
    assert (whole.state, whole.error_code) == (State.CANCELED, "part_canceled")
    assert world.heartbeat(running).cancel
    world.release(running)
    assert {part.state for part in world.parts(job_id)} == {State.CANCELED}
    world.check()


def test_deleting_the_media_ends_all_of_it(world: World) -> None:
    media_id = world.add_media()
    job_id, _ = divided(world, media_id=media_id)
    running = world.claim()
    world.run(lambda tx: library.delete(tx, world.queue, media_id))
    assert world.state(job_id) is State.CANCELED
    with pytest.raises(errors.CancelRequested):
        world.complete(running)
    assert world.release(running) is State.CANCELED
    world.check()


def test_retrying_a_part_retries_the_job(world: World) -> None:
    job_id, _ = divided(world)
    [part, _] = world.parts(job_id)
    with pytest.raises(errors.WrongState):
        world.retry(part.id)
    world.fail(world.claim(), ErrorClass.PERMANENT)
    again = world.retry(part.id)
    assert world.retry(job_id) == again
    fresh = world.job(again)
    assert (fresh.retry_of, fresh.parent_id, fresh.division) == (job_id, None, None)
    assert world.divide(world.claim(), 1) is State.BLOCKED
    world.complete(world.claim())
    world.complete(world.claim())
    assert world.state(again) is State.COMPLETED
    world.check()


def test_a_job_with_a_parent_of_its_own_waits_for_its_parts(world: World) -> None:
    parent = world.enqueue()
    child = world.enqueue(parent_id=parent)
    world.complete(world.claim())
    world.divide(world.claim(), 1)
    assert world.run(world.queue.heal) == 0
    assert world.state(child) is State.BLOCKED
    world.complete(world.claim())
    assert world.state(child) is State.QUEUED
    world.check()


def test_what_waits_for_a_divided_job_waits_for_all_of_it(world: World) -> None:
    job_id, _ = divided(world, 1)
    waiter = world.enqueue(parent_id=job_id)
    world.complete(world.claim())
    assert world.state(waiter) is State.BLOCKED
    world.complete(world.claim())
    assert world.state(waiter) is State.QUEUED


def test_healing_frees_a_job_whose_parts_ended_without_anybody_noticing(
    world: World,
) -> None:
    job_id, _ = divided(world, 1)
    [part] = world.parts(job_id)
    # As a server leaves it that dies between the two.
    world.run(
        lambda tx: tx.all(
            "UPDATE jobs SET state = 'completed', completed_at = {now}, progress = 1"
            " WHERE id = :id",
            id=part.id,
        )
    )
    rings = world.rings
    assert world.run(world.queue.heal) == 1
    assert world.rings > rings
    assert world.state(job_id) is State.QUEUED
    assert world.run(world.queue.heal) == 0


def test_healing_ends_the_parts_of_a_job_that_has_ended(world: World) -> None:
    job_id, _ = divided(world)
    world.claim()
    world.run(
        lambda tx: tx.all(
            "UPDATE jobs SET state = 'failed', failed_at = {now}, divided_at = NULL WHERE id = :id",
            id=job_id,
        )
    )
    assert world.run(world.queue.heal) == 2
    running, waiting = world.parts(job_id)
    assert (running.state, waiting.state) == (State.PROCESSING, State.CANCELED)
    assert running.cancel_requested_at is not None
    assert world.run(world.queue.heal) == 0


def test_it_says_how_many_parts_it_waits_for(world: World) -> None:
    job_id, _ = divided(world, 3)
    world.complete(world.claim())
    with world.db.read() as tx:
        told = queue_report.why(tx, world.job(job_id), world.terms, offline_after_ms=60_000)
    assert told.reasons == [why.Reason("parts", "It waits for 2 of 3 parts.")]


def test_parts_of_another_kind_need_what_they_say(world: World) -> None:
    world.enqueue()
    claim = world.claim()
    parts = [Part(kind="piece", args={"n": 1}, needs=["gpu"])]
    world.run(lambda tx: world.queue.divide(tx, claim, parts))
    assert world.claim_all() == []
    assert world.claim_all(world.worker(kinds=["piece"])) == []
    able = world.worker(kinds=["piece"], capabilities=["gpu"])
    assert [each.args for each in world.claim_all(able)] == [{"n": 1}]


@pytest.mark.parametrize(
    ("whole", "part"), [("noop", "purge"), ("noop", "span"), ("transcode", "noop")]
)
def test_a_job_has_parts_of_its_own_kinds_only(world: World, whole: str, part: str) -> None:
    world.enqueue(whole)
    claim = world.claim(world.worker(kinds=[whole]))
    before = world.snapshot()
    with pytest.raises(errors.BadField):
        world.divide(claim, kind=part)
    assert world.snapshot() == before


def test_a_part_is_about_the_media_of_its_job(world: World) -> None:
    own, named, other = world.add_media(), world.add_media(), world.add_media()
    world.enqueue(media_id=own, args={"edit": {"overlay": {"media_id": named}}})
    claim = world.claim()
    before = world.snapshot()
    with pytest.raises(errors.BadField):
        parts = [Part(kind="noop", args={"of": [{"media_id": other}]})]
        world.run(lambda tx: world.queue.divide(tx, claim, parts))
    assert world.snapshot() == before
    parts = [Part(kind="noop", args={"media_id": each}) for each in (own, named)]
    assert world.run(lambda tx: world.queue.divide(tx, claim, parts)) == "blocked"


# At the same moment


def together(*calls: object) -> list[object]:
    """Each in a thread of its own, from one start."""
    ready = threading.Barrier(len(calls))
    answers: list[object] = [None] * len(calls)

    def run(n: int, call: object) -> None:
        ready.wait()
        try:
            answers[n] = call()  # type: ignore[operator]
        except errors.RushesError as error:
            answers[n] = error.code

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


def test_two_parts_that_complete_at_once_free_the_job(world: World) -> None:
    for _ in range(15):
        job_id, _ = divided(world)
        one, two = world.claim(), world.claim()
        answers = together(lambda a=one: world.complete(a), lambda b=two: world.complete(b))
        assert answers == [State.COMPLETED, State.COMPLETED]
        assert world.state(job_id) is State.QUEUED
        world.complete(world.claim())
    world.check()


def test_parts_without_files_that_complete_at_once_free_the_job(world: World) -> None:
    """Each statement by itself, as results without files are reported."""

    def plain(claim: Claim) -> set[str]:
        return world.db.run_step(lambda tx: world.queue.complete_many(tx, [(claim, None)]))

    for _ in range(15):
        job_id, _ = divided(world)
        one, two = world.claim(), world.claim()
        together(lambda a=one: plain(a), lambda b=two: plain(b))
        assert world.state(job_id) is State.QUEUED
        world.complete(world.claim())
    world.check()


def test_a_part_that_fails_while_another_completes(world: World) -> None:
    for _ in range(15):
        job_id, _ = divided(world)
        one, two = world.claim(), world.claim()
        answers = together(
            lambda a=one: world.fail(a, ErrorClass.PERMANENT),
            lambda b=two: world.complete(b),
        )
        assert answers[0] is State.FAILED
        assert answers[1] in (State.COMPLETED, errors.CancelRequested.code)
        assert world.state(job_id) is State.FAILED
        if answers[1] is not State.COMPLETED:
            world.release(two)
    world.check()


def test_a_cancel_that_races_the_last_part(world: World) -> None:
    for _ in range(15):
        job_id, _ = divided(world)
        one, two = world.claim(), world.claim()
        together(
            lambda a=one: world.complete(a),
            lambda b=two: world.complete(b),
            lambda id=job_id: world.cancel(id),
        )
        assert world.state(job_id) is State.CANCELED
        for claim in (one, two):
            if world.state(claim.job_id) is State.PROCESSING:
                world.release(claim)
    world.live(60)
    world.check()


def test_canceling_while_it_is_divided_leaves_nothing_behind(world: World) -> None:
    for _ in range(15):
        job_id = world.enqueue()
        claim = world.claim()
        together(lambda a=claim: world.divide(a), lambda id=job_id: world.cancel(id))
        assert world.state(job_id) is State.CANCELED
        assert {part.state for part in world.parts(job_id)} <= {State.CANCELED}
    world.check()
