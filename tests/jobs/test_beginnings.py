"""The beginning of a job that waits may be done by another worker; nobody waits for that."""

from __future__ import annotations

import pytest

from rushes import errors, kinds
from rushes.jobs.job import BEGINNING, ErrorClass, Job, NewJob, State
from rushes.jobs.terms import Claimant
from rushes.media import library
from rushes.media import store as media_store
from rushes.protocol import Artifact, Claim, Part
from world import World

WHOLE, QUICK = kinds.TRANSCODE.name, kinds.PREPARE.name


def begin(world: World, **options: str) -> str:
    """A job that nobody has claimed yet, with its beginning if there is somebody for it."""

    def add(tx: object) -> str:
        whole = world.queue.enqueue(tx, NewJob(kind=WHOLE, **options)).id  # type: ignore[arg-type]
        world.queue.begin_early(tx, whole, NewJob(kind=QUICK, **options))  # type: ignore[arg-type]
        return whole

    return world.run(add)


def crew(world: World) -> tuple[Claimant, Claimant]:
    """One for the whole, and one for what is quick; and somebody else's job, which waits."""
    world.enqueue()
    return world.worker(kinds=[WHOLE]), world.worker(kinds=[QUICK])


def beginning(world: World, whole_id: str) -> Job:
    [found] = world.parts(whole_id)
    return found


def test_it_is_done_while_the_whole_waits_which_then_goes_on_from_there(world: World) -> None:
    slow, quick = crew(world)
    first, second = begin(world), begin(world)
    assert world.claim(slow).job_id == first
    early = world.claim(quick)
    assert early.job_id == beginning(world, second).id
    assert beginning(world, second).division == BEGINNING
    world.progress(early, 0.9, checkpoint={"copied": 7}, detail={"renditions": []})
    assert world.complete(early) is State.COMPLETED
    assert (world.state(second), world.job(second).progress) == (State.QUEUED, 0)
    world.check()
    [taken] = world.claim_all(slow)
    assert (taken.job_id, taken.checkpoint, taken.attempt) == (second, {"copied": 7}, 1)
    assert world.job(second).checkpoint == {"copied": 7}
    assert world.complete(taken.claim) is State.COMPLETED
    assert world.event_types(second) == [
        "transcode.queued",
        "transcode.started",
        "transcode.completed",
    ]
    world.check()


def test_there_is_none_while_nothing_else_waits_or_runs(world: World) -> None:
    world.worker(kinds=[QUICK])
    alone = begin(world)
    assert world.parts(alone) == []
    behind = begin(world)
    assert beginning(world, behind).state is State.QUEUED
    world.check()


def test_whoever_takes_the_whole_needs_no_beginning_of_it(world: World) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    world.claim(slow)
    assert beginning(world, whole).state is State.CANCELED
    assert world.claim_all(quick) == []
    world.check()


def test_one_that_runs_is_told_to_stop_and_what_it_has_done_is_kept(world: World) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    early = world.claim(quick)
    world.progress(early, 0.3, checkpoint={"copied": 3})
    [taken] = world.claim_all(slow)
    assert taken.checkpoint == {"copied": 3}
    assert world.heartbeat(early).cancel
    with pytest.raises(errors.CancelRequested):
        world.complete(early)
    assert world.release(early) is State.CANCELED
    assert world.state(whole) is State.PROCESSING
    assert world.complete(taken.claim) is State.COMPLETED
    world.check()


def test_nobody_is_asked_who_is_not_there(world: World) -> None:
    slow, quick = crew(world)
    world.pass_time(world.terms.lease_ms / 1000 + 1)
    world.hear(slow)
    whole = begin(world)
    assert world.parts(whole) == []
    world.hear(quick)
    assert len(world.parts(begin(world))) == 1


def test_what_can_never_be_done_is_said_of_the_whole_once(world: World) -> None:
    _, quick = crew(world)
    whole = begin(world)
    child = world.enqueue(kind="noop", parent_id=whole)
    early = world.claim(quick)
    assert world.fail(early, ErrorClass.PERMANENT, "damaged") is State.FAILED
    job = world.job(whole)
    assert (job.state, job.error_code, job.last_error) == (State.FAILED, "damaged", "boom")
    assert (job.claims, job.failed_at is not None) == (0, True)
    assert world.state(child) is State.CANCELED
    # A worker that did not hear the answer says it again.
    assert world.fail(early, ErrorClass.PERMANENT, "damaged") is State.FAILED
    assert world.event_types(whole) == ["transcode.queued", "transcode.failed"]
    world.check()


@pytest.mark.parametrize("error", [ErrorClass.TRANSIENT, ErrorClass.RESOURCE])
def test_what_may_be_done_later_leaves_the_whole_alone(world: World, error: ErrorClass) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    assert world.fail(world.claim(quick), error) is State.QUEUED
    assert world.state(whole) is State.QUEUED
    assert world.claim(slow).job_id == whole
    world.check()


def test_a_beginning_that_is_tried_for_the_last_time_leaves_the_whole_alone(world: World) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    for state in (State.QUEUED, State.QUEUED, State.FAILED):
        assert world.fail(world.claim(quick)) is state
        world.pass_time(60)
        world.hear(quick)
    assert world.claim(slow).job_id == whole
    world.check()


def test_a_worker_that_dies_keeps_nobody_from_the_whole(world: World) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    early = world.claim(quick)
    world.progress(early, 0.3, checkpoint={"copied": 3})
    # Also before anybody has noticed.
    [taken] = world.claim_all(slow)
    assert (taken.job_id, taken.checkpoint) == (whole, {"copied": 3})
    world.pass_time(30)
    world.heartbeat(taken.claim)
    world.live(40)
    assert beginning(world, whole).state is State.CANCELED
    assert world.state(whole) is State.PROCESSING


def test_another_goes_on_with_the_beginning_of_one_that_died(world: World) -> None:
    _, quick = crew(world)
    whole = begin(world)
    world.progress(world.claim(quick), 0.3, checkpoint={"copied": 3})
    world.live(80)
    [again] = world.claim_all(world.worker(kinds=[QUICK]))
    assert (again.job_id, again.checkpoint) == (beginning(world, whole).id, {"copied": 3})
    assert world.complete(again.claim) is State.COMPLETED
    assert world.state(whole) is State.QUEUED
    world.check()


def test_it_ends_with_the_whole_but_not_the_whole_with_it(world: World) -> None:
    _, quick = crew(world)
    first, second = begin(world), begin(world)
    running = world.claim(quick)
    assert running.job_id == beginning(world, first).id
    assert world.cancel(beginning(world, second).id) is State.CANCELED
    assert world.state(second) is State.QUEUED
    assert world.cancel(first) is State.CANCELED
    assert world.heartbeat(running).cancel
    assert world.release(running) is State.CANCELED
    world.check()


def test_a_whole_that_is_tried_again_keeps_what_its_beginning_has_found(world: World) -> None:
    _, quick = crew(world)
    media_id = world.add_media()
    whole = begin(world, media_id=media_id)
    early = world.claim(quick)
    world.progress(early, 0.9, checkpoint={"copied": 7})
    world.complete(early, {"kind": "video", "duration": 12.5})
    [row] = world.rows("SELECT kind, duration FROM media")
    assert (row["kind"], row["duration"]) == ("video", 12.5)
    world.cancel(whole)
    again = world.retry(whole)
    assert (world.job(again).checkpoint, world.parts(again)) == ({"copied": 7}, [])
    world.check()


def test_no_job_is_divided_into_one(world: World) -> None:
    slow, _ = crew(world)
    begin(world)
    claim = world.claim(slow)
    parts = [Part(kind=QUICK)]
    with pytest.raises(errors.BadField, match="no parts of kind 'prepare'"):
        world.run(lambda tx: world.queue.divide(tx, claim, parts))


def test_a_version_belongs_to_the_whole_and_only_while_that_waits(world: World) -> None:
    slow, quick = crew(world)
    media_id = world.add_media()
    whole = begin(world, media_id=media_id)

    def start(claim: Claim) -> str:
        return world.run(lambda tx: library.start_version(tx, claim, media_id))

    early = world.claim(quick)
    version = start(early)
    taken = world.claim(slow)
    assert start(taken) == version
    with pytest.raises(errors.CancelRequested):
        start(early)
    [row] = world.rows("SELECT job_id, slot, state FROM versions")
    assert (row["job_id"], row["slot"], row["state"]) == (whole, kinds.WATCH, "building")


def test_one_whose_whole_is_handed_out_by_an_older_server_puts_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = crew(world)
    media_id = world.add_media()
    whole = begin(world, media_id=media_id)
    early = world.claim(quick)
    version = world.run(lambda tx: library.start_version(tx, early, media_id))

    def put(claim: Claim, name: str) -> bool:
        file = Artifact(name=name, size_bytes=1, sha256="00", content_type="text/plain")
        return world.run(
            lambda tx: media_store.add_artifact(tx, claim, version, f"{name}-key", file)
        )

    assert put(early, "a.txt")
    with monkeypatch.context() as older:
        older.setattr(kinds, "begins_early", lambda name: False)
        taken = world.claim(slow)
    assert (taken.job_id, world.job(early.job_id).cancel_requested_at) == (whole, None)
    assert not put(early, "b.txt")
    assert put(taken, "a.txt")
    # It is not written over what the other has put.
    assert not put(early, "a.txt")
    assert world.complete(taken) is State.COMPLETED
    world.live(20)
    assert world.heartbeat(early).cancel
    world.check()


def test_one_that_fails_beside_a_whole_that_runs_fails_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = crew(world)
    whole = begin(world)
    early = world.claim(quick)
    with monkeypatch.context() as older:
        older.setattr(kinds, "begins_early", lambda name: False)
        world.claim(slow)
    assert world.fail(early, ErrorClass.PERMANENT) is State.FAILED
    assert world.state(whole) is State.PROCESSING
    world.check()
