"""Who is next: users in turn, limits by key, priorities that change while a job waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier

import pytest

from rushes import errors, events, queue_report
from rushes.jobs import limit_store
from rushes.jobs.job import ErrorClass, NewJob, Priority, State
from rushes.jobs.policy import Policy
from rushes.jobs.queue import Queue
from rushes.jobs.terms import Claimant
from rushes.protocol import Assignment
from world import World


def limit(world: World, key: str, most: int) -> None:
    world.run(partial(limit_store.set_limit, key=key, most=most))


def add(world: World, user_id: str, count: int = 1, **options: object) -> list[str]:
    news = [NewJob(kind="noop", user_id=user_id, **options)] * count  # type: ignore[arg-type]
    made = world.run(lambda tx: world.queue.enqueue_many(tx, news))
    world.advance(1)
    return [each.id for each in made]


def owners(world: World, claims: int, worker: Claimant | None = None) -> list[str]:
    """Whose jobs so many claims get."""
    worker = worker or world.worker()
    return [each.user_id for _ in range(claims) for each in world.claim_all(worker)]


def reasons(world: World, job_id: str) -> list[str]:
    with world.db.read() as tx:
        told = queue_report.why(tx, world.job(job_id), world.terms, offline_after_ms=300_000)
    return [each.sentence for each in told.reasons]


# Turns


def test_a_user_with_many_jobs_delays_anothers_first_by_one_job_at_most(world: World) -> None:
    worker = world.worker()
    add(world, "ann", 50)
    assert owners(world, 3, worker) == ["ann"] * 3
    add(world, "bob", 2)
    assert "bob" in owners(world, 2, worker)
    assert Counter(owners(world, 4, worker)) == {"ann": 3, "bob": 1}


def test_turns_count_from_the_moment_a_second_user_waits(world: World) -> None:
    """Who was alone for long has used up nothing, and is owed nothing."""
    worker = world.worker()
    add(world, "bob")
    add(world, "ann")
    owners(world, 2, worker)
    add(world, "ann", 20)
    owners(world, 10, worker)
    add(world, "bob", 9)
    assert Counter(owners(world, 8, worker)) == {"ann": 4, "bob": 4}


def test_one_user_alone_is_served_by_age_in_whole_batches(world: World) -> None:
    made = add(world, "ann", 3) + add(world, "ann", 3, needs=("gpu",))
    taken = world.claim_all(world.worker(capabilities=["gpu"]), 5)
    assert [each.job_id for each in taken] == made[:5]


def test_with_fifo_age_alone_decides(world: World) -> None:
    world.set_terms(replace(world.terms, policy=Policy.FIFO))
    add(world, "ann", 5)
    add(world, "bob")
    assert owners(world, 6) == [*["ann"] * 5, "bob"]


# Limits


@pytest.mark.parametrize("policy", Policy)
def test_a_user_at_the_limit_does_not_delay_others(world: World, policy: Policy) -> None:
    world.set_terms(replace(world.terms, policy=policy))
    limit(world, "user:*", 2)
    add(world, "ann", 9)
    add(world, "bob", 9)
    assert Counter(owners(world, 9)) == {"ann": 2, "bob": 2}
    world.check()


def test_who_ends_a_job_makes_a_place_and_rings(world: World) -> None:
    limit(world, "user:*", 1)
    add(world, "ann", 2)
    worker = world.worker()
    claim = world.claim(worker)
    assert world.claim_all(worker) == []
    rings = world.rings
    world.complete(claim)
    assert world.rings > rings
    claim = world.claim(worker)
    assert world.claim_all(worker) == []
    rings = world.rings
    world.fail(claim, ErrorClass.PERMANENT)
    assert world.rings > rings


def test_the_limit_of_the_very_key_comes_before_that_of_its_family(world: World) -> None:
    limit(world, "user:*", 1)
    limit(world, "user:ann", 3)
    add(world, "ann", 9)
    add(world, "bob", 9)
    assert Counter(owners(world, 9)) == {"ann": 3, "bob": 1}


def test_a_key_that_jobs_name_is_limited_whoever_they_belong_to(world: World) -> None:
    limit(world, "engine:*", 2)
    for user in ("ann", "bob"):
        add(world, user, 3, limit_key="engine:far")
        add(world, user, 1, limit_key="engine:near")
    add(world, "cem")
    worker = world.worker()
    taken = [each.job_id for _ in range(9) for each in world.claim_all(worker)]
    keys = Counter(world.job(each).limit_key for each in taken)
    assert keys == {"engine:far": 2, "engine:near": 2, None: 1}


def test_a_kind_is_limited(world: World) -> None:
    limit(world, "kind:noop", 1)
    for kind in ("noop", "noop", "other", "other"):
        world.enqueue(kind)
    worker = world.worker(kinds=["noop", "other"])
    taken = [each.kind for _ in range(4) for each in world.claim_all(worker)]
    assert sorted(taken) == ["noop", "other", "other"]


def test_workers_of_one_name_share_a_limit(world: World) -> None:
    """As those on one machine do, or at one graphics card."""
    limit(world, "worker:studio", 2)
    add(world, "ann", 4)
    for kind in ("webhook", "noop", "noop"):
        world.enqueue(kind)
    workers = [world.worker(name="Studio", kinds=["noop", "webhook"]) for _ in range(6)]
    kinds = [each.kind for worker in workers for each in world.claim_all(worker)]
    assert sorted(kinds) == ["noop", "noop", "webhook"]
    assert len(order(world, world.worker(name="other"))) == 4


def test_a_job_says_that_all_its_workers_are_at_their_limit(world: World) -> None:
    limit(world, "worker:*", 1)
    _, second = add(world, "ann", 2)
    world.claim(world.worker(name="studio"))
    world.worker(name="studio")
    told = "It waits for a free place: the limit worker:* of 1 is reached."
    assert told in reasons(world, second)
    world.worker(name="attic")
    assert told not in reasons(world, second)


def test_a_batch_does_not_exceed_a_limit(world: World) -> None:
    limit(world, "user:ann", 1)
    add(world, "ann", 5)
    add(world, "ann", 5, needs=("gpu",))
    add(world, "bob", 5)
    worker = world.worker(capabilities=["gpu"])
    taken = [each.user_id for _ in range(6) for each in world.claim_all(worker, 9)]
    assert Counter(taken) == {"ann": 1, "bob": 5}


def test_a_limit_holds_from_the_next_claim_on_and_so_does_its_end(world: World) -> None:
    """Also for a worker that goes on in the lane that fed it last, without a look."""
    add(world, "ann", 9)
    worker = world.worker()
    assert len(world.claim_all(worker, 3)) == 3
    limit(world, "user:*", 4)
    taken = [each.job_id for _ in range(4) for each in world.claim_all(worker, 3)]
    assert len(taken) == 1
    world.run(lambda tx: limit_store.remove(tx, "user:*"))
    assert len(world.claim_all(worker, 3)) == 3


def test_what_the_server_does_for_itself_is_no_share_of_a_users(world: World) -> None:
    limit(world, "user:*", 1)
    world.enqueue("webhook", user_id="ann")
    world.enqueue("webhook", user_id="ann")
    add(world, "ann")
    worker = world.worker(kinds=["noop", "webhook"])
    assert len(owners(world, 9, worker)) == 3


def test_parts_and_retries_keep_the_key_of_their_job(world: World) -> None:
    job_id = world.enqueue(limit_key="engine:far")
    world.divide(world.claim(), 2)
    assert {each.limit_key for each in world.parts(job_id)} == {"engine:far"}
    world.cancel(job_id)
    assert world.job(world.retry(job_id)).limit_key == "engine:far"


def test_a_job_says_which_limit_it_waits_for(world: World) -> None:
    limit(world, "user:*", 1)
    _, second = add(world, "ann", 2)
    world.claim()
    assert "It waits for a free place: the limit user:* of 1 is reached." in reasons(world, second)
    [other] = add(world, "bob")
    assert not any("limit" in each for each in reasons(world, other))


@pytest.mark.parametrize(
    "key", ["engine", "user:ann", "kind:noop", "engine:*", "a b:c", "x:" + 70 * "y"]
)
def test_a_job_names_a_key_that_can_be_one(world: World, key: str) -> None:
    with pytest.raises(errors.BadField):
        world.enqueue(limit_key=key)


def test_claimers_at_once_never_exceed_a_limit(world: World) -> None:
    """Each with a queue of its own, as servers have it."""
    limit(world, "user:*", 2)
    limit(world, "engine:*", 1)
    add(world, "ann", 40)
    add(world, "bob", 40, limit_key="engine:far")
    queues = [Queue(world.terms) for _ in range(6)]
    workers = [world.worker() for _ in queues]
    with ThreadPoolExecutor(len(queues)) as pool:
        for _ in range(8):
            start = Barrier(len(queues))

            def claim(queue: Queue, worker: Claimant, start: Barrier = start) -> list[Assignment]:
                start.wait()
                return world.db.run_step(lambda tx: queue.claim(tx, worker))

            taken = [each for answer in pool.map(claim, queues, workers) for each in answer]
            counts = Counter(each.user_id for each in taken)
            assert counts["ann"] <= 2
            assert counts["bob"] <= 1
            assert taken
            for each in taken:
                world.complete(each.claim)
    world.check()


# Places


def prioritize(world: World, job_ids: Sequence[str], priority: Priority) -> set[str]:
    return world.run(lambda tx: world.queue.places.prioritize(tx, job_ids, priority))


def put_first(world: World, job_ids: Sequence[str], user_id: str | None = None) -> set[str]:
    return world.run(lambda tx: world.queue.places.put_first(tx, job_ids, user_id))


def order(world: World, worker: Claimant | None = None) -> list[str]:
    worker = worker or world.worker()
    return [each.job_id for _ in range(20) for each in world.claim_all(worker)]


def test_a_waiting_job_gets_another_priority_and_keeps_its_age(world: World) -> None:
    first, second, third = (world.enqueue() for _ in range(3))
    rings = world.rings
    prioritize(world, [first], Priority.LOW)
    prioritize(world, [third], Priority.HIGH)
    assert world.rings > rings
    assert world.event_types(first) == ["noop.queued", "noop.moved"]
    prioritize(world, [first], Priority.NORMAL)
    assert order(world) == [third, first, second]
    world.check()


def test_a_worker_kept_for_urgent_work_hears_of_a_job_that_becomes_urgent(world: World) -> None:
    job_id = world.enqueue()
    worker = world.worker(lowest_priority=Priority.HIGH)
    assert world.claim_all(worker) == []
    prioritize(world, [job_id], Priority.HIGH)
    assert world.claim(worker).job_id == job_id


@pytest.mark.parametrize("policy", Policy)
def test_an_admin_puts_a_job_before_all_others(world: World, policy: Policy) -> None:
    world.set_terms(replace(world.terms, policy=policy))
    worker = world.worker()
    add(world, "bob")
    owners(world, 1, worker)
    [urgent] = add(world, "ann", priority="high")
    add(world, "ann", 3)
    [asked] = add(world, "bob", priority="low")
    assert put_first(world, [asked]) == {asked}
    assert world.job(asked).priority is Priority.HIGH
    assert order(world, worker)[:2] == [asked, urgent]
    world.check()


def test_a_user_puts_a_job_before_their_own_alone(world: World) -> None:
    theirs = add(world, "bob", 2)
    mine = add(world, "ann", 3)
    [asked] = add(world, "ann", priority="low")
    assert put_first(world, [asked], "ann") == {asked}
    assert world.job(asked).priority is Priority.NORMAL
    taken = order(world)
    assert [each for each in taken if each not in theirs] == [asked, *mine]
    assert taken.index(theirs[0]) <= 1


def test_several_keep_their_order_among_themselves(world: World) -> None:
    made = [world.enqueue() for _ in range(5)]
    put_first(world, [made[4], made[2]])
    assert order(world) == [made[2], made[4], made[0], made[1], made[3]]


def test_the_parts_of_a_divided_job_go_with_it(world: World) -> None:
    other = world.enqueue()
    job_id = world.enqueue(priority="low")
    prioritize(world, [job_id], Priority.HIGH)
    world.divide(world.claim(), 3)
    prioritize(world, [job_id], Priority.LOW)
    assert {part.priority for part in world.parts(job_id)} == {Priority.LOW}
    assert world.claim().job_id == other
    running = world.claim()
    part = world.parts(job_id)[2].id
    # A part is nothing by itself: the whole of it is moved.
    assert part in put_first(world, [part])
    assert world.job(job_id).priority is Priority.HIGH
    world.release(running)
    world.enqueue(priority="high")
    assert [world.job(each).parent_id for each in order(world)[:3]] == [job_id] * 3
    world.check()


def test_one_that_waits_for_another_is_next_when_it_may_be(world: World) -> None:
    parent = world.enqueue()
    waiting = [world.enqueue(priority="high") for _ in range(2)]
    child = world.enqueue(parent_id=parent)
    put_first(world, [child])
    prioritize(world, [parent], Priority.HIGH)
    put_first(world, [parent])
    claim = world.claim()
    assert claim.job_id == parent
    world.complete(claim)
    assert order(world) == [child, *waiting]
    world.check()


def test_a_move_is_not_taken_for_a_recovery(world: World) -> None:
    job_id = world.enqueue()
    world.claim()
    world.live(80)
    assert world.state(job_id) is State.QUEUED
    prioritize(world, [job_id], Priority.LOW)
    world.run(events.assign_positions)
    counted = world.rows("SELECT count FROM incident_counts")
    assert [row["count"] for row in counted] == [1]


def test_only_what_waits_is_moved(world: World) -> None:
    running, ended = world.enqueue(), world.enqueue()
    world.claim()
    world.cancel(ended)
    before = world.snapshot()
    assert prioritize(world, [running, ended], Priority.HIGH) == set()
    assert put_first(world, [running, ended], "") == set()
    assert world.snapshot() == before
    for job_id, word in ((running, "worked on"), (ended, "canceled")):
        with pytest.raises(errors.WrongState, match=word):
            world.run(partial(world.queue.places.check, job_id=job_id, moved=[]))
    assert world.state(running) is State.PROCESSING
