"""The queue's contract, verb by verb, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import world as worlds
from rushes import errors, events, queue_report
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import read_store
from rushes.jobs.job import ErrorClass, NewJob, Outcome, Priority, State
from rushes.jobs.policy import Policy
from rushes.jobs.request_store import Asking
from rushes.jobs.terms import Claimant
from rushes.media import library, trash_store
from rushes.protocol import Claim, Standing
from rushes.worker_settings import WorkerSettings
from world import EPOCH, World


def outcomes(world: World, job_id: str) -> list[str | None]:
    with world.db.read() as tx:
        return [each.outcome for each in read_store.attempts(tx, job_id)]


# Enqueue


def test_a_new_job_is_queued_with_its_event_and_wakes_workers(world: World) -> None:
    job_id = world.enqueue("noop", args={"n": 1}, user_id="ann", priority="high")
    job = world.job(job_id)
    assert (job.state, job.attempt, job.claims, job.progress) == (State.QUEUED, 0, 0, 0)
    assert (job.args, job.user_id, job.priority.word) == ({"n": 1}, "ann", "high")
    assert job.created_at == job.queued_at == job.run_at == EPOCH
    assert world.event_types(job_id) == ["noop.queued"]
    assert world.rings == 1
    assert job_id.startswith("job_")


def test_transcribe_jobs_speak_of_transcription(world: World) -> None:
    job_id = world.enqueue("transcribe")
    assert world.event_types(job_id) == ["transcription.queued"]


def test_the_same_dedupe_key_answers_the_live_job(world: World) -> None:
    first = world.enqueue(dedupe_key="k")
    again = world.run(lambda tx: world.queue.enqueue(tx, NewJob(kind="noop", dedupe_key="k")))
    assert (again.id, again.created) == (first, False)
    world.claim()
    assert world.enqueue(dedupe_key="k") == first
    assert len(world.rows("SELECT id FROM jobs")) == 1


def test_a_dedupe_key_is_free_again_once_its_job_has_ended(world: World) -> None:
    first = world.enqueue(dedupe_key="k")
    world.complete(world.claim())
    assert world.enqueue(dedupe_key="k") != first


def test_one_batch_may_hold_the_same_key_twice(world: World) -> None:
    news = [NewJob(kind="noop", dedupe_key=key) for key in ("a", "a", "b")]
    answers = world.run(lambda tx: world.queue.enqueue_many(tx, news))
    assert [answer.created for answer in answers] == [True, False, True]
    assert answers[0].id == answers[1].id != answers[2].id


def test_a_batch_keeps_its_order(world: World) -> None:
    news = [NewJob(kind="noop", args={"n": n}) for n in range(20)]
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    taken = world.claim_all(limit=20)
    assert [each.args["n"] for each in taken] == list(range(20))


def test_a_job_is_not_claimed_before_its_time(world: World) -> None:
    world.enqueue(delay_seconds=30)
    later = world.enqueue(run_at=EPOCH + 60_000)
    world.advance(29)
    assert world.claim_all() == []
    world.advance(1)
    assert world.claim_all()
    world.advance(30)
    assert world.claim().job_id == later
    world.check()


def test_a_batch_takes_only_what_is_due(world: World) -> None:
    due = world.enqueue()
    world.enqueue(delay_seconds=1)
    assert [each.job_id for each in world.claim_all(limit=2)] == [due]


def test_a_rolled_back_enqueue_leaves_nothing_and_wakes_nobody(world: World) -> None:
    def enqueue_and_fail(tx: Tx) -> None:
        world.queue.enqueue(tx, NewJob(kind="noop"))
        raise RuntimeError("the caller changed its mind")

    with pytest.raises(RuntimeError):
        world.run(enqueue_and_fail)
    assert world.rows("SELECT id FROM jobs") == world.rows("SELECT seq FROM events") == []
    assert world.rings == 0


BAD: list[tuple[str, dict[str, Any]]] = [
    ("kind", {"kind": "Not A Word"}),
    ("kind", {"kind": ""}),
    ("priority", {"priority": "urgent"}),
    ("args", {"args": {"blob": "x" * 65_536}}),
    ("args", {"args": {"when": object()}}),
    ("args", {"args": {"nul": "\0"}}),
    ("run_at", {"run_at": -1}),
    ("delay_seconds", {"delay_seconds": -1}),
    ("delay_seconds", {"delay_seconds": float("nan")}),
    ("max_attempts", {"max_attempts": 0}),
    ("timeout_seconds", {"timeout_seconds": 0}),
    ("needs", {"needs": "gpu"}),
    ("needs", {"needs": ["GPU!"]}),
    ("parent_id", {"parent_id": "job_nowhere"}),
    ("media_id", {"media_id": "med_nowhere"}),
    ("dedupe_key", {"dedupe_key": "k" * 513}),
    ("user_id", {"user_id": "a\0b"}),
    ("user_id", {"user_id": "\ud800"}),
]


@pytest.mark.parametrize(("field", "options"), BAD)
def test_bad_input_names_the_field_and_writes_nothing(
    world: World, field: str, options: dict[str, Any]
) -> None:
    new = NewJob(**{"kind": "noop", **options})
    with pytest.raises(errors.BadField) as caught:
        world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop"), new]))
    assert caught.value.field == field
    assert world.rows("SELECT id FROM jobs") == []


def test_an_unknown_kind_is_refused_where_the_kinds_are_known(world: World) -> None:
    queue = type(world.queue)(world.terms, kinds=lambda: ["resize"])
    with pytest.raises(errors.BadField, match=r"kind: no handler for 'noop'.*resize"):
        world.run(lambda tx: queue.enqueue(tx, NewJob(kind="noop")))


# Claim


def test_a_claim_takes_the_job_and_opens_an_attempt(world: World) -> None:
    job_id = world.enqueue()
    worker = world.worker(name="edit-suite")
    [assignment] = world.claim_all(worker)
    job = world.job(job_id)
    assert (job.state, job.attempt, job.claims, job.claim_epoch) == (State.PROCESSING, 1, 1, 1)
    assert job.claim_id == assignment.claim_id
    assert job.claim_expires_at == EPOCH + 60_000
    assert job.deadline_at == EPOCH + world.terms.attempt_timeout_ms
    assert (job.claimed_by, job.processed_by_worker_name) == (worker.id, "edit-suite")
    assert assignment.lease_seconds == 60
    assert outcomes(world, job_id) == [None]
    assert world.event_types(job_id) == ["noop.queued", "noop.started"]
    assert world.claim_all() == []
    world.check()


def test_every_claim_has_its_own_id_and_a_growing_epoch(world: World) -> None:
    job_id = world.enqueue()
    seen = set()
    for epoch in (1, 2, 3):
        claim = world.claim()
        seen.add(claim.claim_id)
        assert world.job(job_id).claim_epoch == epoch
        world.release(claim)
    assert len(seen) == 3


def test_higher_priority_first_then_age(world: World) -> None:
    low, normal = world.enqueue(priority="low"), world.enqueue()
    high, normal_too = world.enqueue(priority="high"), world.enqueue()
    order = [world.claim().job_id for _ in range(4)]
    assert order == [high, normal, normal_too, low]


def test_a_batching_worker_comes_to_a_better_lane_after_a_few_batches(world: World) -> None:
    news = [NewJob(kind="noop")] * 20
    world.run(lambda tx: world.queue.enqueue_many(tx, news))
    worker = world.worker()
    world.claim_all(worker, 2)
    high = world.enqueue(priority="high")
    batches = [[each.job_id for each in world.claim_all(worker, 2)] for _ in range(5)]
    assert [high in batch for batch in batches] == [False] * 4 + [True]


def test_a_batching_worker_whose_lane_ran_dry_finds_the_next(world: World) -> None:
    worker = world.worker(kinds=["a", "b"])
    world.enqueue("a")
    assert len(world.claim_all(worker, 5)) == 1
    other = world.enqueue("b")
    assert [each.job_id for each in world.claim_all(worker, 5)] == [other]


def test_age_decides_across_kinds(world: World) -> None:
    worker = world.worker(kinds=["a", "b"])
    first = world.enqueue("b")
    world.advance(1)
    second = world.enqueue("a")
    assert [world.claim(worker).job_id for _ in range(2)] == [first, second]


def test_a_retried_job_keeps_its_place(world: World) -> None:
    first = world.enqueue()
    world.advance(1)
    world.enqueue()
    claim = world.claim()
    world.fail(claim)
    world.live(120)
    assert world.claim().job_id == first


def test_a_worker_gets_only_kinds_and_needs_it_can_do(world: World) -> None:
    world.enqueue("other")
    needy = world.enqueue(needs=["ffmpeg", "model:base"])
    assert world.claim_all(world.worker(capabilities=["ffmpeg"])) == []
    able = world.worker(capabilities=["model:base", "ffmpeg", "gpu"])
    assert world.claim(able).job_id == needy
    world.check()


def test_a_job_nobody_can_do_does_not_stand_in_the_way(world: World) -> None:
    for _ in range(5):
        world.enqueue(needs=["gpu"])
    world.advance(1)
    plain = world.enqueue()
    assert world.claim(world.worker()).job_id == plain


@pytest.mark.parametrize("state", [AdminState.DISABLED, AdminState.DRAINING])
def test_a_disabled_or_draining_worker_gets_nothing(world: World, state: AdminState) -> None:
    world.enqueue()
    worker = world.worker()
    world.run(lambda tx: fleet.set_state(tx, worker.id, state))
    assert world.claim_all(worker) == []
    world.run(lambda tx: fleet.set_state(tx, worker.id, AdminState.ENABLED))
    assert world.claim_all(worker)


def test_a_worker_that_was_never_registered_gets_nothing(world: World) -> None:
    world.enqueue()
    stranger = replace(world.worker(), id="wrk_stranger")
    assert world.claim_all(stranger) == []


def test_a_paused_queue_or_kind_gives_nothing(world: World) -> None:
    worker = world.worker(kinds=["noop", "other"])
    world.enqueue()
    other = world.enqueue("other")
    world.run(lambda tx: read_store.pause(tx, "noop"))
    assert [each.job_id for each in world.claim_all(worker, 9)] == [other]
    world.run(lambda tx: read_store.pause(tx, "*"))
    world.run(lambda tx: read_store.resume(tx, "noop"))
    assert world.claim_all(worker, 9) == []
    world.run(lambda tx: read_store.resume(tx, "*"))
    assert len(world.claim_all(worker, 9)) == 1


def test_a_job_that_prefers_a_gpu_is_left_to_an_idle_gpu_worker_for_a_moment(world: World) -> None:
    cpu, gpu = world.worker(), world.worker(capabilities=["gpu"])
    job_id = world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu) == []
    world.advance(14.9)
    assert world.claim_all(cpu) == []
    world.advance(0.1)
    assert world.claim(cpu).job_id == job_id
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(gpu)


def test_the_preference_does_not_wait_for_a_gpu_worker_that_is_busy_gone_or_disabled(
    world: World,
) -> None:
    cpu, gpu = world.worker(), world.worker(capabilities=["gpu"])
    world.enqueue(needs=["gpu?"])
    world.claim(gpu)
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu)

    gone = world.worker(capabilities=["gpu"])
    world.advance(31)
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu)

    world.run(lambda tx: fleet.seen(tx, gone.id))
    world.run(lambda tx: fleet.set_state(tx, gone.id, AdminState.DISABLED))
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu)


def test_the_preference_does_not_wait_for_a_gpu_worker_that_rests_drains_or_declines(
    world: World,
) -> None:
    cpu, gpu = world.worker(), world.worker(capabilities=["gpu"])

    def is_kept(**standing: Any) -> bool:
        world.run(lambda tx: fleet.stand(tx, gpu.id, Standing(**standing)))
        world.enqueue(needs=["gpu?"])
        kept = not world.claim_all(cpu)
        if kept:
            world.claim(gpu)
        for each in world.rows("SELECT id, claim_id FROM jobs WHERE state = 'processing'"):
            world.complete(Claim(each["id"], each["claim_id"]))
        return kept

    assert is_kept()
    assert not is_kept(resting_seconds=3600)
    assert is_kept(declined={"other": "no room"})
    assert not is_kept(declined={"noop": "no room"})
    assert is_kept(resting_seconds=0)
    world.run(lambda tx: fleet.set_state(tx, gpu.id, AdminState.DRAINING))
    assert not is_kept()


def test_the_preference_does_not_wait_for_a_worker_that_could_only_fail(world: World) -> None:
    cpu, gpu = world.worker(), world.worker(capabilities=["gpu"])
    unable = {"unable": {"noop": "there is no engine"}}
    world.run(
        lambda tx: fleet.hello(tx, gpu.id, kinds=["noop"], capabilities=["gpu"], metadata=unable)
    )
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu)


def test_the_preference_waits_for_a_gpu_worker_as_long_as_it_has_room(world: World) -> None:
    """Per kind: what it does of others does not matter."""
    cpu = world.worker(kinds=["noop", "other"])
    gpu = world.worker(kinds=["noop", "other"], capabilities=["gpu"])
    several = WorkerSettings(concurrency={"noop": 2})
    world.run(lambda tx: fleet.set_settings(tx, gpu.id, several))
    for kind in ("other", "noop", "noop"):
        world.enqueue(kind, needs=["gpu?"])
        assert world.claim_all(cpu) == []
        world.claim(gpu)
    for kind in ("other", "noop"):
        world.enqueue(kind, needs=["gpu?"])
        assert world.claim_all(cpu)


def test_a_tag_that_is_taken_away_leaves_the_work_in_hand(world: World) -> None:
    worker = world.worker(capabilities=["tag:studio"])
    world.enqueue(needs=["tag:studio"])
    claim = world.claim(worker)
    world.advance(1)
    world.run(lambda tx: fleet.set_settings(tx, worker.id, WorkerSettings(tags=[])))
    world.check()
    assert world.heartbeat(claim).held
    world.complete(claim)
    shown = world.run(lambda tx: fleet.get(tx, worker.id))
    assert shown is not None
    assert (shown.capabilities, shown.own_settings.tags) == ([], ["studio"])


def test_the_preference_does_not_wait_for_a_gpu_worker_of_another_trade(world: World) -> None:
    cpu = world.worker()
    world.worker(kinds=["other"], capabilities=["gpu"])
    world.enqueue(needs=["gpu?"])
    assert world.claim_all(cpu)


def test_the_preference_waits_for_a_worker_that_is_kept_for_urgent_jobs_with_those_alone(
    world: World,
) -> None:
    cpu = world.worker()
    world.worker(capabilities=["gpu"], lowest_priority=Priority.HIGH)
    world.enqueue(needs=["gpu?"], priority="high")
    usual = world.enqueue(needs=["gpu?"])
    assert [each.job_id for each in world.claim_all(cpu, 9)] == [usual]


def test_fair_policy_gives_users_turns(world: World) -> None:
    world.set_terms(replace(world.terms, policy=Policy.FAIR))
    for _ in range(3):
        world.enqueue(user_id="ann")
    world.advance(1)
    world.enqueue(user_id="bob")
    world.advance(1)
    world.enqueue(user_id="cho")
    world.enqueue(user_id="cho", priority="high")
    worker = world.worker()
    turns = [world.claim_all(worker)[0].user_id for _ in range(6)]
    assert turns[0] == "cho"
    assert turns[1:4] == ["ann", "bob", "cho"]
    assert turns[4:] == ["ann", "ann"]


def test_fair_policy_shares_a_batch(world: World) -> None:
    world.set_terms(replace(world.terms, policy=Policy.FAIR))
    for user in ("ann", "ann", "ann", "ann", "bob", "bob"):
        world.enqueue(user_id=user)
    users = [each.user_id for each in world.claim_all(limit=4)]
    assert sorted(users) == ["ann", "ann", "bob", "bob"]


def test_a_number_per_user_leaves_room_for_the_others(world: World) -> None:
    for user in ("ann", "ann", "ann", "bob"):
        world.enqueue(user_id=user)
    world.enqueue("other", user_id="ann")
    worker = replace(world.worker(kinds=["noop", "other"]), most_per_user=1)
    taken = world.claim_all(worker, limit=9)
    assert sorted((each.user_id, each.kind) for each in taken) == [
        ("ann", "noop"),
        ("ann", "other"),
        ("bob", "noop"),
    ]
    assert world.claim_all(worker) == []
    of_ann = next(each for each in taken if (each.user_id, each.kind) == ("ann", "noop"))
    world.complete(of_ann.claim)
    assert [each.user_id for each in world.claim_all(worker, limit=9)] == ["ann"]
    world.check()


def test_a_number_per_user_counts_what_others_hold(world: World) -> None:
    for _ in range(4):
        world.enqueue(user_id="ann")
    assert world.claim_all(limit=2)
    assert world.claim_all(replace(world.worker(), most_per_user=2)) == []
    assert len(world.claim_all(replace(world.worker(), most_per_user=3), limit=9)) == 1


def test_whoever_keeps_to_a_number_per_user_gives_users_turns(world: World) -> None:
    for user in ("ann", "ann", "ann", "bob", "bob"):
        world.enqueue(user_id=user)
        world.advance(1)
    worker = replace(world.worker(), most_per_user=9)
    users = [world.claim_all(worker)[0].user_id for _ in range(5)]
    assert users == ["ann", "bob", "ann", "bob", "ann"]


@pytest.mark.parametrize("most_per_user", [None, 1])
def test_a_worker_may_be_for_urgent_jobs_only(world: World, most_per_user: int | None) -> None:
    world.enqueue(user_id="ann")
    urgent = world.enqueue(user_id="bob", priority="high")
    worker = replace(world.worker(), lowest_priority=Priority.HIGH, most_per_user=most_per_user)
    assert [each.job_id for each in world.claim_all(worker, limit=9)] == [urgent]
    assert world.claim_all(worker) == []


def test_jobs_of_a_deleted_media_are_not_claimed_nor_completed(world: World) -> None:
    media_id = world.add_media()
    running, waiting = world.enqueue(media_id=media_id), world.enqueue(media_id=media_id)
    claim = world.claim()
    world.run(lambda tx: library.start_version(tx, claim, media_id))
    world.run(lambda tx: library.delete(tx, world.queue, media_id))
    assert world.state(waiting) is State.CANCELED
    assert world.heartbeat(claim).cancel
    with pytest.raises(errors.CancelRequested):
        world.complete(claim)
    assert world.release(claim) is State.CANCELED
    assert world.state(running) is State.CANCELED
    with world.db.read() as tx:
        assert worlds.current_version(tx, media_id) is None
    world.check()


def test_a_tombstone_alone_keeps_a_job_from_being_claimed_or_completed(world: World) -> None:
    media_id = world.add_media()
    world.enqueue(media_id=media_id)
    claim = world.claim()
    world.enqueue(media_id=media_id)
    world.run(lambda tx: trash_store.put(tx, [media_id]))
    assert world.claim_all() == []
    with pytest.raises(errors.Conflict):
        world.complete(claim)
    with pytest.raises(errors.BadField, match="media_id"):
        world.enqueue(media_id=media_id)


# Held


def test_a_heartbeat_extends_the_lease(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.advance(59.999)
    assert world.heartbeat(claim).held
    assert world.job(job_id).claim_expires_at == world.clock.at + 60_000


def test_a_lease_that_is_over_cannot_be_extended(world: World) -> None:
    world.enqueue()
    claim = world.claim()
    world.pass_time(60)
    assert not world.heartbeat(claim).held
    assert not world.progress(claim).held


def test_nothing_is_renewed_after_the_deadline(world: World) -> None:
    world.enqueue(timeout_seconds=90)
    claim = world.claim()
    for _ in range(2):
        world.pass_time(44)
        assert world.heartbeat(claim).held
    world.pass_time(2)
    assert not world.heartbeat(claim).held
    assert not world.progress(claim).held


def test_progress_is_kept_and_never_goes_back_within_an_attempt(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.advance(30)
    assert world.progress(claim, 0.6, stage="transcode", checkpoint={"segments": 7}).held
    world.progress(claim, 0.4)
    job = world.job(job_id)
    assert (job.progress, job.stage, job.checkpoint) == (0.6, "transcode", {"segments": 7})
    assert job.claim_expires_at == world.clock.at + 60_000
    assert world.event_types(job_id)[-1] == "noop.progress"


def test_a_new_attempt_starts_at_zero_with_the_checkpoint_of_the_last(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.progress(claim, 0.6, checkpoint={"segments": 7})
    world.release(claim)
    [assignment] = world.claim_all()
    assert assignment.checkpoint == {"segments": 7}
    assert (world.job(job_id).progress, world.job(job_id).stage) == (0, None)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_progress_out_of_range_is_refused(world: World, value: float) -> None:
    world.enqueue()
    claim = world.claim()
    with pytest.raises(errors.BadField, match="progress"):
        world.progress(claim, value)


# Endings


def test_complete_ends_the_job_with_its_result(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    assert world.complete(claim, {"answer": 42}) is State.COMPLETED
    job = world.job(job_id)
    assert (job.state, job.result, job.progress) == (State.COMPLETED, {"answer": 42}, 1)
    assert outcomes(world, job_id) == [Outcome.SUCCEEDED]
    assert world.event_types(job_id) == ["noop.queued", "noop.started", "noop.completed"]
    world.check()


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_repeating_a_report_answers_the_same_and_changes_nothing(world: World, verb: str) -> None:
    world.enqueue()
    claim = world.claim()
    report = getattr(world, verb)
    first = report(claim)
    before = world.snapshot()
    assert report(claim) is first
    assert world.snapshot() == before


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_a_repeated_report_stays_the_same_after_others_have_had_the_job(
    world: World, verb: str
) -> None:
    world.enqueue()
    old = world.claim()
    first = getattr(world, verb)(old)
    if first is State.QUEUED:
        world.live(30)
        world.complete(world.claim())
    before = world.snapshot()
    assert getattr(world, verb)(old) is first
    assert world.snapshot() == before


def test_a_batch_is_completed_in_one_go_and_tells_which_were_lost(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    claims = [each.claim for each in world.claim_all(limit=3)]
    world.cancel(claims[0].job_id)
    world.release(claims[1])
    done = world.run(lambda tx: world.queue.complete_many(tx, [(each, None) for each in claims]))
    assert done == {claims[2].job_id}
    world.check()


def test_late_success_after_the_lease_ran_out_counts_while_nobody_else_has_the_job(
    world: World,
) -> None:
    world.enqueue()
    claim = world.claim()
    world.advance(300)
    assert world.complete(claim) is State.COMPLETED


def test_a_transient_failure_is_tried_again_later_until_the_attempts_are_used_up(
    world: World,
) -> None:
    job_id = world.enqueue(max_attempts=2)
    assert world.fail(world.claim()) is State.QUEUED
    job = world.job(job_id)
    assert EPOCH + 1_000 <= job.run_at <= EPOCH + 20_000
    assert (job.error_code, job.last_error) == ("boom", "boom")
    assert world.claim_all() == []
    world.live(30)
    assert world.fail(world.claim()) is State.FAILED
    assert world.job(job_id).failed_at == world.clock.at
    assert outcomes(world, job_id) == [Outcome.FAILED, Outcome.FAILED]
    world.check()


def test_words_of_a_handler_are_never_refused(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.progress(claim, stage="a\0b\ud800" + "x" * 200)
    assert world.job(job_id).stage == "ab" + "x" * 96
    world.run(
        lambda tx: world.queue.fail(
            tx, claim, ErrorClass.PERMANENT, code="\0", message="nul \0 and \ud800 half"
        )
    )
    assert world.job(job_id).last_error == "nul  and  half"
    assert world.job(job_id).error_code == "failed"


def test_a_permanent_failure_is_not_tried_again(world: World) -> None:
    world.enqueue()
    assert world.fail(world.claim(), ErrorClass.PERMANENT) is State.FAILED


def test_a_shortage_does_not_use_up_attempts_but_ends_after_25_claims(world: World) -> None:
    job_id = world.enqueue(max_attempts=1)
    for _ in range(24):
        assert world.fail(world.claim(), ErrorClass.RESOURCE) is State.QUEUED
        assert world.job(job_id).attempt == 0
        world.advance(3_600)
    assert world.fail(world.claim(), ErrorClass.RESOURCE) is State.FAILED
    assert set(outcomes(world, job_id)) == {Outcome.DEFERRED}
    world.check()


def test_release_gives_the_attempt_back_and_the_job_is_there_at_once(world: World) -> None:
    job_id = world.enqueue(max_attempts=1)
    rings = world.rings
    assert world.release(world.claim()) is State.QUEUED
    assert world.job(job_id).attempt == 0
    assert world.rings == rings + 1
    assert world.claim().job_id == job_id
    world.check()


def test_releases_are_bounded(world: World) -> None:
    job_id = world.enqueue()
    for _ in range(24):
        assert world.release(world.claim()) is State.QUEUED
    assert world.release(world.claim()) is State.FAILED
    assert world.job(job_id).error_code == "too_many_claims"
    world.check()


def test_the_error_of_an_attempt_is_forgotten_when_a_later_one_succeeds(world: World) -> None:
    job_id = world.enqueue()
    world.fail(world.claim())
    world.live(30)
    world.complete(world.claim())
    job = world.job(job_id)
    assert (job.error_code, job.last_error) == (None, None)


# Cancel and retry


@pytest.mark.parametrize("end", ["fail", "release"])
def test_cancel_of_a_running_job_is_told_and_ends_with_the_workers_word(
    world: World, end: str
) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    assert world.cancel(job_id) is State.PROCESSING
    assert world.heartbeat(claim).cancel
    assert world.progress(claim).cancel
    with pytest.raises(errors.CancelRequested):
        world.complete(claim)
    assert getattr(world, end)(claim) is State.CANCELED
    assert outcomes(world, job_id) == [Outcome.CANCELED]
    world.check()


def test_cancel_of_a_running_job_whose_worker_is_gone_ends_with_the_lease(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    world.cancel(job_id)
    world.live(70)
    assert world.state(job_id) is State.CANCELED
    world.check()


def test_a_running_job_is_canceled_twice_without_harm_and_an_ended_one_not(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.cancel(job_id)
    before = world.snapshot()
    assert world.cancel(job_id) is State.PROCESSING
    assert world.snapshot() == before
    world.release(claim)
    with pytest.raises(errors.WrongState, match="canceled"):
        world.cancel(job_id)

    done = world.enqueue()
    world.complete(world.claim())
    with pytest.raises(errors.WrongState, match="completed"):
        world.cancel(done)
    with pytest.raises(errors.NotFound):
        world.cancel("job_nowhere")


def test_retry_makes_a_new_job_once_and_leaves_the_old_one_as_it_was(world: World) -> None:
    old = world.enqueue(args={"n": 1}, priority="high", needs=["ffmpeg"], dedupe_key="k")
    worker = world.worker(capabilities=["ffmpeg"])
    world.fail(world.claim(worker), ErrorClass.PERMANENT)
    before = world.job(old)
    new = world.retry(old)
    assert world.retry(old) == new
    assert world.job(old) == before
    fresh = world.job(new)
    assert (fresh.retry_of, fresh.args, fresh.attempt) == (old, {"n": 1}, 0)
    assert (fresh.priority.word, fresh.needs, fresh.dedupe_key) == ("high", ["ffmpeg"], "k")
    with pytest.raises(errors.WrongState):
        world.retry(new)


# Parents


def test_a_child_waits_for_its_parent(world: World) -> None:
    parent = world.enqueue()
    child = world.enqueue(parent_id=parent)
    assert world.state(child) is State.BLOCKED
    claim = world.claim()
    assert claim.job_id == parent
    world.advance(5)
    world.complete(claim)
    job = world.job(child)
    assert (job.state, job.queued_at) == (State.QUEUED, world.clock.at)
    assert world.event_types(child) == ["noop.blocked", "noop.queued"]
    world.check()


def test_a_child_of_a_completed_parent_does_not_wait(world: World) -> None:
    parent = world.enqueue()
    world.complete(world.claim())
    assert world.state(world.enqueue(parent_id=parent)) is State.QUEUED


@pytest.mark.parametrize("ending", ["fail", "cancel", "sweep"])
def test_what_waits_for_a_parent_that_did_not_make_it_is_canceled(
    world: World, ending: str
) -> None:
    parent = world.enqueue(max_attempts=1)
    child = world.enqueue(parent_id=parent)
    grandchild = world.enqueue(parent_id=child)
    if ending == "fail":
        world.fail(world.claim(), ErrorClass.PERMANENT)
    elif ending == "cancel":
        world.cancel(parent)
    else:
        world.claim()
        world.live(70)
    assert world.state(child) is world.state(grandchild) is State.CANCELED
    assert world.job(grandchild).error_code == "parent_canceled"
    with pytest.raises(errors.WrongState):
        world.enqueue(parent_id=parent)
    world.check()


def test_the_chores_free_a_child_whose_parent_ended_at_the_wrong_moment(world: World) -> None:
    parent = world.enqueue()
    child = world.enqueue(parent_id=parent)
    with world.db.begin() as tx:
        tx.all("UPDATE jobs SET parent_id = NULL WHERE id = :id", id=child)
    world.complete(world.claim())
    with world.db.begin() as tx:
        tx.all("UPDATE jobs SET parent_id = :parent WHERE id = :id", id=child, parent=parent)
    world.live(10)
    assert world.state(child) is State.QUEUED


# Sweep


def test_a_lost_job_runs_again_within_lease_and_sweep(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    assert world.live(60) == {job_id: State.QUEUED}
    job = world.job(job_id)
    assert (job.attempt, job.losses, job.error_code) == (1, 1, "worker_lost")
    assert outcomes(world, job_id) == [Outcome.LOST]
    world.check()


def test_three_losses_in_a_row_are_poison_whatever_attempts_are_left(world: World) -> None:
    job_id = world.enqueue(max_attempts=9)
    for _ in range(3):
        world.heartbeat(world.claim())
        world.live(130)
        world.advance(3_600)
    job = world.job(job_id)
    assert (job.state, job.error_code) == (State.FAILED, "poison")
    world.check()


@pytest.mark.parametrize("sign", ["progress", "checkpoint", "passage"])
def test_a_job_that_gets_on_is_no_poison_however_many_workers_it_loses(
    world: World, sign: str
) -> None:
    """As on machines that are taken away at any moment."""
    job_id = world.enqueue(max_attempts=5)
    for number in range(4):
        claim = world.claim()
        if sign == "passage":
            world.put_passage(claim, number)
        elif sign == "progress":
            world.progress(claim, 0.1)
        else:
            world.progress(claim, 0, checkpoint={"at": number})
        assert world.live(70) == {job_id: State.QUEUED}
    assert world.job(job_id).losses == 0
    world.claim()
    world.live(70)
    assert world.job(job_id).error_code == "attempts_exhausted"
    world.check()


def test_a_job_that_hangs_while_its_worker_lives_on_is_no_poison(world: World) -> None:
    job_id = world.enqueue(max_attempts=5)
    for _ in range(4):
        worker = world.worker()
        world.heartbeat(world.claim(worker))
        for _ in range(7):
            world.live(10)
            world.hear(worker)
        assert world.state(job_id) is State.QUEUED
    assert (world.job(job_id).attempt, world.job(job_id).losses) == (4, 0)


def test_a_claim_that_its_worker_never_heard_of_is_not_charged_to_the_job(world: World) -> None:
    """Its answer was lost: the worker speaks on, and never of this job."""
    job_id = world.enqueue()
    for _ in range(5):
        worker = world.worker()
        world.claim(worker)
        for _ in range(6):
            world.live(10)
            world.hear(worker)
        world.live(10)
        job = world.job(job_id)
        assert (job.state, job.attempt, job.error_code) == (State.QUEUED, 0, "reply_lost")
    assert outcomes(world, job_id) == [Outcome.RELEASED] * 5
    world.check()


def test_an_outage_is_not_charged_to_the_job(world: World) -> None:
    job_id = world.enqueue()
    for _ in range(5):
        world.heartbeat(world.claim())
        world.live(20)
        world.advance(600)
        assert world.live(80) == {job_id: State.QUEUED}
        job = world.job(job_id)
        assert (job.attempt, job.losses, job.error_code) == (0, 0, "server_away")
    world.check()


def test_what_is_lost_after_an_outage_counts_again(world: World) -> None:
    job_id = world.enqueue()
    world.advance(600)
    world.live(10)
    world.claim()
    world.live(130)
    job = world.job(job_id)
    assert (job.attempt, job.losses, job.error_code) == (1, 1, "worker_lost")


def test_a_lost_job_may_be_claimed_the_moment_it_is_swept(world: World) -> None:
    job_id = world.enqueue()
    for number in (1, 2, 3):
        claim = world.claim()
        assert claim.job_id == job_id
        world.progress(claim, 0.1 * number)
        world.live(60)


def test_a_worker_that_is_heard_of_again_was_not_taken_down_by_the_job(world: World) -> None:
    """It was out of reach for longer than its lease; three times are no poison."""
    job_id = world.enqueue(max_attempts=9)
    for _ in range(4):
        worker = world.worker()
        world.heartbeat(world.claim(worker))
        assert world.live(70) == {job_id: State.QUEUED}
        world.hear(worker)
    assert world.job(job_id).losses == 1


# Requests and processes


def claimed_by_request(world: World, worker: Claimant, request: str, limit: int = 1) -> list[Claim]:
    taken = world.run(lambda tx: world.queue.claim(tx, worker, limit, request))
    return [each.claim for each in taken]


def claimed_again(world: World, worker: Claimant, request: str) -> list[Claim]:
    asking = Asking(worker.id, request)
    taken = world.run(lambda tx: world.queue.claim_again(tx, [asking]))
    return [each.claim for each in taken.get(asking, [])]


def free_unheard_of(
    world: World, worker: Claimant, answered: list[str], held: list[Claim]
) -> dict[str, State]:
    return world.run(lambda tx: world.queue.free_unheard_of(tx, worker.id, answered, held))


def test_a_repeated_request_is_answered_with_the_same_jobs_while_they_are_held(
    world: World,
) -> None:
    for _ in range(4):
        world.enqueue()
    worker, other = world.worker(), world.worker()
    first, second = claimed_by_request(world, worker, "req_1", 2)
    world.pass_time(50)
    assert claimed_again(world, worker, "req_1") == [first, second]
    world.pass_time(50)
    assert world.heartbeat(first).held
    world.complete(first)
    assert claimed_again(world, worker, "req_1") == [second]
    assert claimed_again(world, worker, "req_2") == []
    assert claimed_again(world, other, "req_1") == []
    world.live(70)
    assert claimed_again(world, worker, "req_1") == []
    world.check()


def test_a_request_of_another_worker_keeps_nothing_alive(world: World) -> None:
    world.enqueue()
    worker, other = world.worker(), world.worker()
    [claim] = claimed_by_request(world, worker, "req_1")
    world.live(50)
    assert claimed_again(world, other, "req_1") == []
    world.live(20)
    assert not world.heartbeat(claim).held


def test_what_a_worker_got_no_answer_for_is_freed_and_the_attempt_given_back(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    worker, other = world.worker(), world.worker()
    kept, lost = claimed_by_request(world, worker, "req_1", 2)
    [foreign] = claimed_by_request(world, other, "req_1")
    assert free_unheard_of(world, worker, ["req_1"], [kept]) == {lost.job_id: State.QUEUED}
    job = world.job(lost.job_id)
    assert (job.attempt, job.losses, job.error_code) == (0, 0, "reply_lost")
    assert outcomes(world, lost.job_id) == [Outcome.RELEASED]
    assert world.heartbeat(kept).held
    assert world.heartbeat(foreign).held
    assert not world.heartbeat(lost).held
    assert free_unheard_of(world, worker, ["req_1"], [kept]) == {}
    world.check()


def test_a_heartbeat_that_is_late_frees_nothing_that_was_claimed_after_it(world: World) -> None:
    """It was written when only the first answer was there, and arrives when the second job runs."""
    world.enqueue()
    world.enqueue()
    worker = world.worker()
    [first] = claimed_by_request(world, worker, "req_1")
    [second] = claimed_by_request(world, worker, "req_2")
    assert free_unheard_of(world, worker, ["req_1"], [first]) == {}
    assert world.heartbeat(second).held


def test_a_new_process_of_a_worker_frees_what_the_old_one_held(world: World) -> None:
    for _ in range(3):
        world.enqueue()
    worker, other = world.worker(), world.worker()
    old, new = replace(worker, boot_id="boot_1"), replace(worker, boot_id="boot_2")
    [plain] = claimed_by_request(world, worker, "req_1")
    [begun] = claimed_by_request(world, old, "req_2")
    [foreign] = claimed_by_request(world, other, "req_3")
    moved = world.run(lambda tx: world.queue.bury_other_boots(tx, worker.id, "boot_2"))
    assert moved == {plain.job_id: State.QUEUED, begun.job_id: State.QUEUED}
    job = world.job(begun.job_id)
    assert (job.attempt, job.losses, job.run_at) == (1, 1, world.clock.at)
    [again] = claimed_by_request(world, new, "req_4")
    assert world.run(lambda tx: world.queue.bury_other_boots(tx, worker.id, "boot_2")) == {}
    assert world.heartbeat(again).held
    assert world.heartbeat(foreign).held
    assert not world.heartbeat(begun).held
    world.check()


def test_losses_that_are_not_in_a_row_are_not_poison(world: World) -> None:
    job_id = world.enqueue(max_attempts=9)
    for _ in range(3):
        world.claim()
        world.live(130)
        world.advance(3_600)
        world.fail(world.claim())
        world.advance(3_600)
    assert world.state(job_id) is State.QUEUED


def test_a_job_past_its_deadline_is_taken_away_though_its_worker_still_beats(world: World) -> None:
    job_id = world.enqueue(timeout_seconds=100)
    claim = world.claim()
    for _ in range(10):
        world.heartbeat(claim)
        world.live(10)
    assert world.state(job_id) is State.QUEUED
    assert outcomes(world, job_id) == [Outcome.STALLED]
    assert world.job(job_id).error_code == "deadline_passed"


def test_after_an_outage_live_workers_get_one_lease_to_come_back(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    world.advance(600)
    assert world.chores.tick() == {}
    assert world.live(59) == {}
    assert world.state(job_id) is State.PROCESSING
    assert world.live(1) == {job_id: State.QUEUED}


@pytest.mark.parametrize("noticed", [True, False])
def test_whoever_works_on_through_an_outage_or_a_jump_may_renew(
    world: World, noticed: bool
) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.advance(600)
    if noticed:
        world.chores.tick()
    assert world.heartbeat(claim).held
    assert world.progress(claim).held
    world.live(50)
    assert world.heartbeat(claim).held
    assert world.live(50) == {}
    assert world.complete(claim) is State.COMPLETED
    assert world.job(job_id).claims == 1


def test_a_quick_restart_does_not_put_the_sweep_off(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    moved: dict[str, State] = {}
    for _ in range(7):
        world.advance(10)
        world.set_terms(world.terms)
        moved |= world.chores.tick()
    assert moved == {job_id: State.QUEUED}


def test_a_clock_that_jumps_forward_burns_no_attempts(world: World) -> None:
    world.enqueue()
    claim = world.claim()
    world.live(10)
    world.advance(7_200)
    assert world.live(10) == {}
    assert world.complete(claim) is State.COMPLETED


def test_a_clock_that_jumps_back_does_not_keep_a_lost_job_for_ever(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    world.live(10)
    world.advance(-7_200)
    assert job_id in world.live(150)


@pytest.mark.parametrize(
    "missing",
    [
        ["claim_expires_at"],
        ["deadline_at"],
        ["claim_id", "claimed_by", "claimed_at", "claim_expires_at", "deadline_at", "started_at"],
    ],
)
def test_rows_without_claim_or_lease_from_an_older_schema_are_freed(
    world: World, missing: list[str]
) -> None:
    job_id = world.enqueue()
    world.claim()
    with world.db.begin() as tx:
        if tx.dialect.name == "postgresql":
            tx.all("ALTER TABLE jobs DROP CONSTRAINT processing_is_claimed")
            restore = "ALTER TABLE jobs ADD CONSTRAINT processing_is_claimed CHECK (true)"
        else:
            tx.all("PRAGMA ignore_check_constraints = ON")
            restore = "PRAGMA ignore_check_constraints = OFF"
        nothing = ", ".join(f"{column} = NULL" for column in missing)
        tx.all(f"UPDATE jobs SET {nothing} WHERE id = :id", id=job_id)
        try:
            assert world.queue.sweep(tx) == {job_id: State.QUEUED}
        finally:
            tx.all(restore)
    assert outcomes(world, job_id) == [Outcome.LOST]


def test_a_sweep_of_many_pages_leaves_nothing(world: World) -> None:
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 250))
    world.claim_all(limit=250)
    assert len(world.live(60)) == 250
    world.check()


def test_a_worker_registered_and_never_seen_disturbs_nothing(world: World) -> None:
    world.run(lambda tx: fleet.register(tx, "wrk_ghost", "ghost"))
    world.enqueue(needs=["gpu?"])
    assert world.claim_all()
    world.live(60)
    with world.db.read() as tx:
        ghost = fleet.get(tx, "wrk_ghost")
    assert ghost is not None
    assert ghost.status(world.clock.at, 300_000) == "active"
    assert ghost.status(world.clock.at + 300_000, 300_000) == "offline"
    world.check()


def test_a_worker_whose_lease_was_lost_is_not_there_until_it_is_heard_of_again(
    world: World,
) -> None:
    def status(worker: Claimant) -> str:
        with world.db.read() as tx:
            found = fleet.get(tx, worker.id)
        assert found is not None
        return found.status(world.clock.at, 300_000)

    dead, hung, idle = world.worker(), world.worker(), world.worker()
    world.enqueue()
    world.enqueue()
    world.claim(dead)
    world.heartbeat(world.claim(hung))
    world.live(50)
    world.hear(hung)
    assert (status(dead), status(hung), status(idle)) == ("busy", "busy", "idle")
    world.live(20)
    assert (status(dead), status(hung), status(idle)) == ("offline", "idle", "idle")
    with world.db.read() as tx:
        online = [
            each.id
            for each in fleet.all_workers(tx)
            if queue_report.is_online(each, world.clock.at, 300_000)
        ]
    assert sorted(online) == sorted([hung.id, idle.id])
    world.hear(dead)
    assert status(dead) == "idle"


# Publication


def test_completing_publishes_the_version_and_a_failure_leaves_the_old_one(world: World) -> None:
    media_id = world.add_media()

    def build() -> tuple[Claim, str]:
        world.enqueue(media_id=media_id)
        claim = world.claim()
        return claim, world.run(lambda tx: library.start_version(tx, claim, media_id))

    def current() -> str | None:
        with world.db.read() as tx:
            return worlds.current_version(tx, media_id)

    claim, first = build()
    assert current() is None
    world.complete(claim)
    assert current() == first
    claim, _ = build()
    world.fail(claim, ErrorClass.PERMANENT)
    assert current() == first
    claim, third = build()
    world.complete(claim)
    world.complete(claim)
    assert current() == third
    world.check()


def test_a_lost_claim_publishes_nothing(world: World) -> None:
    media_id = world.add_media()
    world.enqueue(media_id=media_id)
    claim = world.claim()
    world.run(lambda tx: library.start_version(tx, claim, media_id))
    world.live(60)
    with pytest.raises(errors.ClaimLost):
        world.complete(claim)
    with pytest.raises(errors.ClaimLost):
        world.run(lambda tx: library.start_version(tx, claim, media_id))
    with world.db.read() as tx:
        assert worlds.current_version(tx, media_id) is None


# For people


def test_statistics_per_user_and_kind(world: World) -> None:
    world.enqueue(user_id="ann")
    world.enqueue(user_id="ann")
    world.enqueue("other", user_id="bob")
    world.advance(2)
    claim = world.claim()
    world.advance(3)
    world.complete(claim)
    with world.db.read() as tx:
        found = {(row.kind, row.user_id, row.state): row for row in read_store.stats(tx)}
    assert {key: row.count for key, row in found.items()} == {
        ("noop", "ann", "queued"): 1,
        ("noop", "ann", "completed"): 1,
        ("other", "bob", "queued"): 1,
    }
    done = found["noop", "ann", State.COMPLETED]
    assert (done.wait_ms, done.run_ms) == (2_000, 3_000)


def test_jobs_are_listed_newest_first_in_pages(world: World) -> None:
    ids = [world.enqueue() for _ in range(5)]
    with world.db.read() as tx:
        first = read_store.list_jobs(tx, limit=2)
        queued = read_store.JobFilter(state="queued")
        second = read_store.list_jobs(tx, queued, limit=2, before=first[-1].id)
    assert [job.id for job in first + second] == ids[:0:-1]


def test_every_change_is_an_event_in_commit_order_without_gaps(world: World) -> None:
    job_id = world.enqueue()
    claim = world.claim()
    world.progress(claim)
    world.fail(claim)
    world.live(60)
    world.complete(world.claim())
    world.check()
    with world.db.read() as tx:
        told = [row for row in events.read_since(tx, 0) if row.job_id == job_id]
    assert [row.type for row in told] == [
        "noop.queued",
        "noop.started",
        "noop.progress",
        "noop.queued",
        "noop.started",
        "noop.completed",
    ]
    assert [row.pos for row in told] == sorted(row.pos for row in told)
