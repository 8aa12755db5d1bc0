"""The races by name, with real threads and real processes, on both databases."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import world as worlds
from rushes import errors, events
from rushes.jobs import read_store
from rushes.jobs.job import NewJob, State
from rushes.media import library
from rushes.protocol import Claim
from world import World

ROUNDS = 12


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at the same moment; returns what each returned or raised."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return call()
        except errors.RushesError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_two_workers_never_claim_the_same_job(world: World) -> None:
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 200))
    workers = [world.worker() for _ in range(8)]

    def drain(worker: Any) -> list[str]:
        taken: list[str] = []
        while batch := world.claim_all(worker, 3):
            taken += [each.job_id for each in batch]
        return taken

    answers = together(*[partial(drain, worker) for worker in workers])
    counts = Counter(id for taken in answers for id in taken)
    assert len(counts) == 200
    assert set(counts.values()) == {1}
    world.check()


def test_a_worker_that_loses_the_race_for_one_job_gets_the_next(world: World) -> None:
    """Nobody goes away with nothing while another lane has work."""
    for _ in range(ROUNDS):
        for kind in ("a", "b"):
            world.enqueue(kind)
        workers = [world.worker(kinds=["a", "b"]) for _ in range(2)]
        answers = together(*[partial(world.claim_all, worker) for worker in workers])
        assert sorted(len(taken) for taken in answers) == [1, 1]


def test_heartbeat_against_sweep_has_one_winner(world: World) -> None:
    for _ in range(ROUNDS):
        job_id = world.enqueue()
        claim = world.claim()
        world.pass_time(60)
        beat, moved = together(
            partial(world.heartbeat, claim), lambda: world.run(world.queue.sweep)
        )
        assert not beat.held
        assert moved == {job_id: State.QUEUED}
        world.cancel(job_id)
    world.check()


def test_sweep_leaves_a_lease_that_was_renewed_in_time(world: World) -> None:
    for _ in range(ROUNDS):
        job_id = world.enqueue()
        claim = world.claim()
        world.pass_time(59.9)
        beat, moved = together(
            partial(world.heartbeat, claim), lambda: world.run(world.queue.sweep)
        )
        assert beat.held
        assert moved == {}
        assert world.state(job_id) is State.PROCESSING
        world.complete(claim)


def test_a_late_complete_after_the_loss_changes_nothing(world: World) -> None:
    job_id = world.enqueue()
    late = world.claim()
    world.live(60)
    world.advance(60)
    winner = world.claim()
    before = world.snapshot()
    for report in (world.complete, world.fail, world.release):
        with pytest.raises(errors.ClaimLost):
            report(late)
    assert not world.heartbeat(late).held
    assert not world.progress(late, 0.9, checkpoint={"stale": True}).held
    assert world.snapshot() == before
    assert world.complete(winner) is State.COMPLETED
    assert world.job(job_id).claim_epoch == 2
    with pytest.raises(errors.ClaimLost):
        world.complete(late)
    world.check()


def test_complete_against_sweep_has_one_winner(world: World) -> None:
    for _ in range(ROUNDS):
        job_id = world.enqueue()
        claim = world.claim()
        world.advance(60)
        done, moved = together(partial(world.complete, claim), lambda: world.run(world.queue.sweep))
        if moved:
            assert isinstance(done, errors.ClaimLost)
            assert world.state(job_id) is State.QUEUED
            world.cancel(job_id)
        else:
            assert done is State.COMPLETED
    world.check()


def test_cancel_against_complete_has_one_winner_and_both_are_told_the_truth(world: World) -> None:
    for _ in range(ROUNDS):
        job_id = world.enqueue()
        claim = world.claim()
        canceled, done = together(partial(world.cancel, job_id), partial(world.complete, claim))
        if done is State.COMPLETED:
            assert isinstance(canceled, errors.WrongState)
        else:
            assert isinstance(done, errors.CancelRequested)
            assert canceled is State.PROCESSING
            assert world.release(claim) is State.CANCELED
    world.check()


def test_cancel_against_claim_never_lets_a_canceled_job_run_to_the_end(world: World) -> None:
    for _ in range(ROUNDS):
        job_id = world.enqueue()
        worker = world.worker()
        state, taken = together(
            partial(world.cancel, job_id),
            partial(world.claim_all, worker),
        )
        if taken:
            assert state is State.PROCESSING
            assert world.heartbeat(taken[0].claim).cancel
            world.release(taken[0].claim)
        assert world.state(job_id) is State.CANCELED
    world.check()


def test_two_sweepers_settle_each_loss_once(world: World) -> None:
    world.run(lambda tx: world.queue.enqueue_many(tx, [NewJob(kind="noop")] * 60))
    world.claim_all(limit=60)
    world.advance(60)
    answers = together(*[lambda: world.run(world.queue.sweep)] * 4)
    moved = [id for answer in answers for id in answer]
    while page := world.run(world.queue.sweep):
        moved += page
    assert len(moved) == len(set(moved)) == 60
    world.check()


def test_the_same_report_twice_at_once_is_one_completion(world: World) -> None:
    for _ in range(ROUNDS):
        world.enqueue()
        claim = world.claim()
        answers = together(*[partial(world.complete, claim)] * 3)
        assert answers == [State.COMPLETED] * 3
    world.check()


def test_deleting_media_against_completing_its_job_publishes_before_or_never(
    world: World,
) -> None:
    def start(claim: Claim, media_id: str) -> None:
        world.run(lambda tx: library.start_version(tx, claim, media_id))

    def delete(media_id: str) -> None:
        world.run(lambda tx: library.delete(tx, world.queue, media_id))

    for _ in range(ROUNDS):
        media_id = world.add_media()
        world.enqueue(media_id=media_id)
        claim = world.claim()
        start(claim, media_id)
        done, _ = together(
            partial(world.complete, claim),
            partial(delete, media_id),
        )
        if done is not State.COMPLETED:
            assert isinstance(done, errors.Conflict)
            assert world.release(claim) is State.CANCELED
        with world.db.read() as tx:
            # What was published before stays whole in the trash.
            published = worlds.current_version(tx, media_id) is not None
        assert published <= (done is State.COMPLETED)
    world.check()


def test_enqueueing_the_same_key_at_once_makes_one_job(world: World) -> None:
    for n in range(ROUNDS):
        answers = together(*[partial(world.enqueue, dedupe_key=f"k{n}")] * 4)
        assert len(set(answers)) == 1
    world.check()


def test_clicking_retry_twice_at_once_makes_one_job(world: World) -> None:
    job_id = world.enqueue()
    world.cancel(job_id)
    answers = together(*[lambda: world.retry(job_id)] * 4)
    assert len(set(answers)) == 1


def test_a_child_enqueued_while_its_parent_ends_is_not_forgotten(world: World) -> None:
    for _ in range(ROUNDS):
        parent = world.enqueue("parent")
        claim = world.claim(world.worker(kinds=["parent"]))
        child, _ = together(
            partial(world.enqueue, "child", parent_id=parent),
            partial(world.complete, claim),
        )
        world.run(world.queue.heal)
        assert world.state(child) is State.QUEUED
    world.check()


def test_positions_are_given_once_and_in_order_while_many_write(world: World) -> None:
    """A reader that only ever looks past its last position sees every event exactly once."""
    seen: list[int] = []
    done = threading.Event()

    def write() -> None:
        for _ in range(15):
            world.enqueue()

    def read() -> None:
        while True:
            last_look = done.is_set()
            world.run(events.assign_positions)
            with world.db.read() as tx:
                fresh = events.read_since(tx, seen[-1] if seen else 0)
            seen.extend(row.pos for row in fresh)
            if last_look and not fresh:
                return

    readers = [threading.Thread(target=read)]
    relays = [
        threading.Thread(target=lambda: [world.run(events.assign_positions) for _ in range(10)])
    ]
    for thread in readers + relays:
        thread.start()
    together(*[write] * 6)
    done.set()
    for thread in readers + relays:
        thread.join()
    total = world.rows("SELECT count(*) AS n FROM events")[0]["n"]
    assert seen == list(range(1, total + 1))


def test_restart_with_live_leases_disturbs_nobody(world: World) -> None:
    """A server that comes back finds work in progress and leaves it alone."""
    job_id = world.enqueue()
    claim = world.claim()
    world.advance(45)
    world.set_terms(world.terms)
    assert world.chores.tick() == {}
    assert world.heartbeat(claim).held
    assert world.complete(claim) is State.COMPLETED
    assert world.job(job_id).claims == 1


CLAIMER = """
import sys
from rushes import Rushes
with Rushes(sys.argv[1]) as rushes:
    rushes.handler("noop")(lambda job: None)
    print("ready", flush=True)
    sys.stdin.readline()
    worker = rushes.worker(batch=3)
    while worker.step():
        pass
"""


def test_processes_drain_one_queue_without_doing_anything_twice(database_url: str) -> None:
    from rushes import Rushes

    with Rushes(database_url) as rushes:
        rushes.enqueue_many([NewJob(kind="noop")] * 120)
        command = [sys.executable, "-c", CLAIMER, database_url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        crew = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]  # type: ignore[call-overload]
        for process in crew:
            assert process.stdout.readline() == "ready\n"
        for process in crew:
            process.communicate("go\n", timeout=60)
            assert process.returncode == 0
        with rushes.db.read() as tx:
            rows = tx.all("SELECT claims, state FROM jobs")
    assert len(rows) == 120
    assert {(row["claims"], row["state"]) for row in rows} == {(1, "completed")}


def test_a_fence_by_number_would_not_survive_a_failover_but_ours_does(world: World) -> None:
    """The last commit is lost, the epoch is given out again: the old claim must not fit."""
    job_id = world.enqueue()
    before = world.rows("SELECT * FROM jobs")[0]
    lost = world.claim()
    with world.db.begin() as tx:
        tx.all("DELETE FROM attempts")
        tx.all("DELETE FROM events WHERE type = 'noop.started'")
        tx.all(
            "UPDATE jobs SET state = 'queued', attempt = 0, claims = 0, claim_epoch = 0,"
            " claim_id = NULL, claimed_by = NULL, claimed_at = NULL, claim_expires_at = NULL,"
            " deadline_at = NULL, started_at = NULL WHERE id = :id",
            id=job_id,
        )
    winner = world.claim()
    assert before["claim_epoch"] == 0
    assert world.job(job_id).claim_epoch == 1
    for report in (world.complete, world.fail, world.release):
        with suppress(errors.ClaimLost):
            report(lost)
            pytest.fail("a claim from before the failover was accepted")
    assert world.complete(winner) is State.COMPLETED


def test_a_claim_of_another_job_opens_nothing(world: World) -> None:
    world.enqueue()
    world.enqueue()
    first, second = (each.claim for each in world.claim_all(limit=2))
    crossed = Claim(first.job_id, second.claim_id)
    before = world.snapshot()
    for report in (world.complete, world.fail, world.release):
        with pytest.raises(errors.ClaimLost):
            report(crossed)
    assert not world.heartbeat(crossed).held
    assert world.snapshot() == before
    with world.db.read() as tx:
        assert read_store.closed_attempt(tx, crossed) is None
