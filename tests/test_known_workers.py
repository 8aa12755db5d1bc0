"""What a server remembers of workers: never longer than it is true."""

from __future__ import annotations

import pytest

from rushes.accounts import access
from rushes.accounts.known_workers import REREAD_SECONDS, TRUE_SECONDS, KnownWorkers
from rushes.dispatch import Dispatch
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState, AdminWord
from rushes.jobs.job import State
from rushes.kinds import Grant
from rushes.protocol import Hello
from rushes.worker_settings import WorkerSettings
from world import World

HEARTBEAT_SECONDS = 15.0


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(world: World, clock: Clock) -> KnownWorkers:
    made = KnownWorkers(world.db, world.queue, heartbeat_seconds=HEARTBEAT_SECONDS, clock=clock)
    made.flush()
    return made


def register(world: World) -> tuple[str, str]:
    worker_id, key = world.run(lambda tx: access.register_worker(tx, "remote", Grant()))
    return worker_id, key.text


def remember(world: World, known: KnownWorkers, key: str) -> None:
    """As a server does that has run for a while."""
    known.by_key(key)
    known.flush()
    # What changed in the last moments is not relied upon.
    world.advance(60)
    known.by_key(key)
    known.flush()
    known.by_key(key)
    known.flush()
    assert known.remembered(key) is not None


def test_a_key_is_looked_up_once(world: World, known: KnownWorkers) -> None:
    worker_id, key = register(world)
    remember(world, known, key)
    found = known.remembered(key)
    assert found is not None
    assert found.id == worker_id


def test_keys_are_read_again_all_at_once(world: World, known: KnownWorkers, clock: Clock) -> None:
    """Whatever was changed past the server, by hand or by a transaction that took very long."""
    (_, stays), (goes_id, goes) = register(world), register(world)
    for key in (stays, goes):
        remember(world, known, key)
    remember(world, known, stays)
    world.rows("UPDATE worker_keys SET revoked_at = 1 WHERE worker_id = :id", id=goes_id)
    world.rows("UPDATE workers SET name = 'renamed' WHERE id <> :id", id=goes_id)
    known.flush()
    assert known.remembered(goes) is not None, "nothing has told of it"
    clock.at += REREAD_SECONDS
    known.flush()
    assert known.remembered(goes) is None
    found = known.remembered(stays)
    assert found is not None
    assert found.name == "renamed"


def test_a_wrong_key_is_never_remembered(world: World, known: KnownWorkers) -> None:
    _, key = register(world)
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    assert known.by_key(wrong) is None
    assert known.remembered(wrong) is None


def test_a_key_that_another_server_has_revoked_is_forgotten_with_the_next_flush(
    world: World, known: KnownWorkers
) -> None:
    worker_id, key = register(world)
    remember(world, known, key)
    prefix = world.rows("SELECT prefix FROM worker_keys")[0]["prefix"]
    world.run(lambda tx: access.revoke_worker_key(tx, worker_id, prefix))
    known.flush()
    assert known.remembered(key) is None
    assert known.by_key(key) is None


def test_what_a_worker_says_elsewhere_is_heard_with_the_next_flush(
    world: World, known: KnownWorkers
) -> None:
    worker_id, key = register(world)
    remember(world, known, key)
    Dispatch(world.db, world.queue).hello(worker_id, Hello(kinds=["noop"]))
    known.flush()
    assert known.remembered(key) is None
    found = known.by_key(key)
    assert found is not None
    assert found.kinds == ["noop"]


def test_nothing_is_remembered_while_nobody_listens_to_changes(
    world: World, known: KnownWorkers, clock: Clock
) -> None:
    worker_id, key = register(world)
    remember(world, known, key)
    known.written(worker_id, AdminWord(state=AdminState.ENABLED, settings=WorkerSettings()))
    clock.at += TRUE_SECONDS + 0.1
    assert known.remembered(key) is None
    assert known.beat(worker_id, []) is None


def last_seen(world: World, worker_id: str) -> int | None:
    found = world.run(lambda tx: fleet.get(tx, worker_id))
    assert found is not None
    return found.last_seen_at


def test_signs_of_life_of_idle_workers_are_written_together(
    world: World, known: KnownWorkers
) -> None:
    dispatch = Dispatch(world.db, world.queue)
    dispatch.known = known
    workers = [world.worker() for _ in range(3)]
    for each in workers:
        # The first is written at once: others may have taken it for gone.
        world.advance(1)
        dispatch.heartbeat(each.id, [])
        assert last_seen(world, each.id) == world.clock.at
    world.advance(5)
    for each in workers:
        assert not dispatch.heartbeat(each.id, []).drain
        assert last_seen(world, each.id) != world.clock.at
    known.flush()
    assert {last_seen(world, each.id) for each in workers} == {world.clock.at}


def test_a_worker_that_was_silent_is_written_down_at_once(
    world: World, known: KnownWorkers, clock: Clock
) -> None:
    dispatch = Dispatch(world.db, world.queue)
    dispatch.known = known
    worker = world.worker()
    dispatch.heartbeat(worker.id, [])
    clock.at += 2 * HEARTBEAT_SECONDS + 1
    known.flush()
    world.advance(60)
    dispatch.heartbeat(worker.id, [])
    assert last_seen(world, worker.id) == world.clock.at


@pytest.mark.parametrize("state", [AdminState.DRAINING, AdminState.DISABLED])
def test_an_admins_word_reaches_an_idle_worker(
    world: World, known: KnownWorkers, state: AdminState
) -> None:
    dispatch = Dispatch(world.db, world.queue)
    dispatch.known = known
    worker = world.worker()
    assert not dispatch.heartbeat(worker.id, []).drain
    known.flush()
    world.run(lambda tx: fleet.set_state(tx, worker.id, state))
    known.flush()
    assert dispatch.heartbeat(worker.id, []).drain


def test_a_job_whose_answer_was_lost_is_freed_by_an_idle_heartbeat(
    world: World, known: KnownWorkers
) -> None:
    dispatch = Dispatch(world.db, world.queue)
    dispatch.known = known
    worker = world.worker()
    dispatch.heartbeat(worker.id, [])
    job_id = world.enqueue()
    assert dispatch.claim(worker, 1, "req_lost")
    # It has got an answer to this request, and holds nothing.
    dispatch.heartbeat(worker.id, [], answered=["req_lost"])
    known.flush()
    job = world.job(job_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


def test_whoever_waits_for_work_is_alive_as_often_as_it_would_have_said(
    world: World, known: KnownWorkers, clock: Clock
) -> None:
    waiting = world.worker()
    known.flush()
    world.advance(60)
    for seconds, is_written in ((0, True), (1, False), (HEARTBEAT_SECONDS, True)):
        clock.at += seconds
        world.advance(10)
        known.wait([waiting.id])
        known.flush()
        assert (last_seen(world, waiting.id) == world.clock.at) is is_written


def test_a_flush_tells_what_an_admin_has_changed(world: World, known: KnownWorkers) -> None:
    worker_id, key = register(world)
    remember(world, known, key)
    known.flush()
    assert known.flush() == {}
    world.run(lambda tx: fleet.set_settings(tx, worker_id, WorkerSettings(nice=3)))
    assert known.flush()[worker_id].settings.nice == 3
