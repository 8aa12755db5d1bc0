"""One claimer for all who wait: who gets what, what it costs, and who is not forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from rushes import errors, ids
from rushes.accounts.known_workers import KnownWorkers
from rushes.dispatch import Dispatch
from rushes.dispatcher import Dispatcher
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.in_process import Local
from rushes.jobs.job import NewJob, Priority, State
from rushes.jobs.policy import Look
from rushes.jobs.terms import Claimant
from rushes.protocol import Assignment, Completion, Hello
from rushes.worker_settings import WorkerSettings
from world import World

SECONDS = 20.0
Answer = Future[list[Assignment]]


class Counting(Dispatch):
    """Counts what it is asked, and tells when it has looked."""

    def __init__(self, world: World) -> None:
        super().__init__(world.db, world.queue)
        self.looks = self.claims = 0
        self.looked = threading.Condition()
        self.broken = False

    def offers(self, kinds: Collection[str]) -> Look:
        if self.broken:
            raise errors.DatabaseDown("the database is away")
        return super().offers(kinds)

    def claim(
        self,
        worker: Claimant,
        limit: int,
        request_id: str | None = None,
        offers: Look | None = None,
    ) -> list[Assignment]:
        self.claims += 1
        return super().claim(worker, limit, request_id, offers)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self.looked:
            assert self.looked.wait_for(is_so, SECONDS)


class Told(Dispatcher):
    """A dispatcher that never polls by itself, and says when a round is over."""

    def __init__(self, dispatch: Counting, world: World) -> None:
        known = KnownWorkers(world.db, world.queue, heartbeat_seconds=15)
        super().__init__(dispatch, world.bell, known, poll_seconds=3600)
        self._counting = dispatch

    def _look(self) -> None:
        super()._look()
        with self._counting.looked:
            self._counting.looks += 1
            self._counting.looked.notify_all()


@pytest.fixture
def dispatch(world: World) -> Counting:
    return Counting(world)


@pytest.fixture
def dispatcher(dispatch: Counting, world: World) -> Iterator[Told]:
    with closing(Told(dispatch, world)) as dispatcher:
        yield dispatcher


def ask(
    dispatcher: Dispatcher, worker: Claimant, request_id: str | None = None, *, now: bool = False
) -> Answer:
    answer = dispatcher.ask(worker, 1, request_id, now=now)
    assert answer is not None
    return answer


def waiting_in_vain(dispatch: Counting, dispatcher: Dispatcher, worker: Claimant) -> Answer:
    """Who has looked, and found nothing."""
    before = dispatch.looks
    answer = ask(dispatcher, worker)
    dispatch.wait_for(lambda: dispatch.looks > before)
    assert not answer.done()
    return answer


def test_whoever_waits_gets_a_job_the_moment_it_is_there(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    answer = waiting_in_vain(dispatch, dispatcher, world.worker())
    job_id = world.enqueue()
    [job] = answer.result(SECONDS)
    assert job.job_id == job_id
    assert world.job(job_id).state is State.PROCESSING


def test_what_waits_already_is_given_at_once(world: World, dispatcher: Told) -> None:
    job_id = world.enqueue()
    [job] = ask(dispatcher, world.worker()).result(SECONDS)
    assert job.job_id == job_id


def test_jobs_of_several_lanes_are_given_in_the_order_of_their_age(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    """What a round has seen at its start is not what there is after its first claim."""
    first = waiting_in_vain(dispatch, dispatcher, world.worker(capabilities=["gpu"]))
    second = ask(dispatcher, world.worker(capabilities=["gpu"]))
    news = [NewJob(kind="noop"), NewJob(kind="noop", needs=["gpu"]), NewJob(kind="noop")]
    ids = [each.id for each in world.run(lambda tx: world.queue.enqueue_many(tx, news))]
    given = [each.result(SECONDS)[0].job_id for each in (first, second)]
    assert sorted(given) == ids[:2]


def test_a_ring_costs_one_round_however_many_wait(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    workers = [world.worker() for _ in range(30)]
    answers = [waiting_in_vain(dispatch, dispatcher, workers[0])]
    answers += [ask(dispatcher, each) for each in workers[1:]]
    before = dispatch.claims
    job_ids = {world.enqueue(), world.enqueue()}
    while sum(each.done() for each in answers) < 2:
        looks = dispatch.looks
        dispatch.wait_for(lambda looks=looks: dispatch.looks > looks)  # type: ignore[misc]
    given = [each.result()[0].job_id for each in answers if each.done()]
    assert set(given) == job_ids
    assert len(given) == 2
    # Each job its claim, and in each of two rounds at most two that find nothing left.
    assert dispatch.claims - before <= 6


def test_who_comes_where_others_wait_in_vain_costs_no_look(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    waiting_in_vain(dispatch, dispatcher, world.worker())
    looks, claims = dispatch.looks, dispatch.claims
    late = [ask(dispatcher, world.worker()) for _ in range(5)]
    other = world.worker(kinds=("other",))
    # Somebody of another kind looks, and only then: the ones before have caused none.
    waiting_in_vain(dispatch, dispatcher, other)
    assert dispatch.looks == looks + 1
    assert dispatch.claims == claims
    assert not any(each.done() for each in late)


def test_jobs_go_to_those_who_can_do_them(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    plain = waiting_in_vain(dispatch, dispatcher, world.worker())
    able = waiting_in_vain(dispatch, dispatcher, world.worker(capabilities=("gpu",)))
    other = waiting_in_vain(dispatch, dispatcher, world.worker(kinds=("other",)))
    before = dispatch.claims
    job_id = world.enqueue(needs=["gpu"])
    assert able.result(SECONDS)[0].job_id == job_id
    dispatch.wait_for(lambda: not dispatcher._has_news)
    assert not plain.done()
    assert not other.done()
    # The others were not even asked for.
    assert dispatch.claims == before + 1


def test_who_is_kept_for_urgent_work_is_given_no_other(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    urgent = replace(world.worker(), lowest_priority=Priority.HIGH)
    answer = waiting_in_vain(dispatch, dispatcher, urgent)
    before = dispatch.looks
    world.enqueue(priority="low")
    dispatch.wait_for(lambda: dispatch.looks > before)
    assert not answer.done()
    job_id = world.enqueue(priority="high")
    assert answer.result(SECONDS)[0].job_id == job_id


def test_a_disabled_worker_does_not_stand_in_others_way(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    first, second = world.worker(), world.worker()
    in_vain = waiting_in_vain(dispatch, dispatcher, first)
    served = ask(dispatcher, second)
    world.run(lambda tx: fleet.set_state(tx, first.id, AdminState.DISABLED))
    job_id = world.enqueue()
    assert served.result(SECONDS)[0].job_id == job_id
    assert not in_vain.done()


def test_who_waits_hears_at_once_that_its_terms_are_others(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    worker, other = world.worker(), world.worker()
    word = world.run(lambda tx: fleet.seen(tx, worker.id))
    told = dispatcher.ask(worker, 1, None, terms_etag=word.etag)
    simple = dispatcher.ask(worker, 1, None)
    unchanged = dispatcher.ask(other, 1, None, terms_etag=word.etag)
    assert told is not None
    assert simple is not None
    assert unchanged is not None
    # Changes are heard of from the second flush on.
    dispatcher._flush()
    dispatcher._flush()
    assert not told.done()
    world.run(lambda tx: fleet.set_settings(tx, worker.id, WorkerSettings(nice=3)))
    assert told.result(SECONDS) == []
    assert not simple.done()
    assert not unchanged.done()


def test_who_asks_for_what_there_is_now_is_answered_with_nothing(
    world: World, dispatcher: Told
) -> None:
    assert ask(dispatcher, world.worker(), now=True).result(SECONDS) == []


def test_who_has_left_is_given_nothing(world: World, dispatch: Counting, dispatcher: Told) -> None:
    gone = waiting_in_vain(dispatch, dispatcher, world.worker())
    there = ask(dispatcher, world.worker())
    assert gone.cancel()
    job_id = world.enqueue()
    assert there.result(SECONDS)[0].job_id == job_id


def test_what_was_claimed_for_somebody_who_left_meanwhile_is_given_back(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    claim = dispatch.claim
    left: list[bool] = []

    def leaving(
        worker: Claimant,
        limit: int,
        request_id: str | None = None,
        offers: Look | None = None,
    ) -> list[Assignment]:
        jobs = claim(worker, limit, request_id, offers)
        if jobs and not left:
            left.append(answer.cancel())
        return jobs

    dispatch.claim = leaving  # type: ignore[method-assign]
    answer = waiting_in_vain(dispatch, dispatcher, world.worker())
    job_id = world.enqueue()
    dispatch.wait_for(lambda: bool(left) and world.job(job_id).state is State.QUEUED)
    job = world.job(job_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


def test_a_request_whose_answer_was_lost_is_answered_again(world: World, dispatcher: Told) -> None:
    worker, request = world.worker(), ids.new("req")
    world.enqueue()
    world.enqueue()
    [first] = ask(dispatcher, worker, request).result(SECONDS)
    [again] = ask(dispatcher, worker, request, now=True).result(SECONDS)
    assert again.claim == first.claim


def test_an_outage_is_told_to_all_who_wait(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    answers = [waiting_in_vain(dispatch, dispatcher, world.worker())]
    answers.append(ask(dispatcher, world.worker()))
    dispatch.broken = True
    world.bell.ring()
    for each in answers:
        with pytest.raises(errors.DatabaseDown):
            each.result(SECONDS)
    dispatch.broken = False
    job_id = world.enqueue()
    assert ask(dispatcher, world.worker()).result(SECONDS)[0].job_id == job_id


def test_closing_sends_everybody_away(world: World, dispatch: Counting, dispatcher: Told) -> None:
    answer = waiting_in_vain(dispatch, dispatcher, world.worker())
    dispatcher.close()
    assert answer.result(SECONDS) == []
    assert dispatcher.ask(world.worker(), 1, None) is None


def local(world: World, dispatch: Counting, dispatcher: Told, **options: Any) -> Local:
    """A worker of the server's own."""
    usual: dict[str, Any] = {"poll_seconds": 3600, "ask": dispatcher.ask}
    made = Local(
        dispatch,
        world.db,
        world.bell,
        worker_id="server_1",
        worker_name="server 1",
        **usual | options,
    )
    made.hello(Hello(kinds=["noop"]))
    return made


def in_thread(call: Callable[[], list[Assignment]]) -> Answer:
    answer: Answer = Future()
    threading.Thread(target=lambda: answer.set_result(call()), daemon=True).start()
    return answer


def test_the_servers_own_workers_wait_with_the_others(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    worker = local(world, dispatch, dispatcher)
    answer = in_thread(lambda: worker.claim(1, wait_seconds=SECONDS))
    dispatch.wait_for(lambda: dispatch.looks > 0)
    job_id = world.enqueue()
    assert answer.result(SECONDS)[0].job_id == job_id


def test_the_servers_own_workers_leave_polling_to_the_dispatcher(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    """Who leaves and comes again may leave just when a job is claimed: it had an attempt more."""

    class Patient(Future[list[Assignment]]):
        def result(self, timeout: float | None = None) -> list[Assignment]:
            waited.append(timeout or 0)
            return super().result(timeout)

    waited: list[float] = []
    world.enqueue()
    [job] = world.claim_all()

    def ask(*args: Any, **more: Any) -> Answer:
        answer = Patient()
        answer.set_result([job])
        return answer

    worker = local(world, dispatch, dispatcher, poll_seconds=0.001, ask=ask)
    assert worker.claim(1, wait_seconds=SECONDS) == [job]
    assert waited == [pytest.approx(SECONDS, abs=SECONDS / 2)]


def test_a_worker_that_is_to_stop_waits_no_longer(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    worker = local(world, dispatch, dispatcher)
    answer = in_thread(lambda: worker.claim(1, wait_seconds=3600))
    dispatch.wait_for(lambda: dispatch.looks > 0)
    worker.interrupt()
    assert answer.result(SECONDS) == []
    job_id = world.enqueue()
    assert ask(dispatcher, world.worker()).result(SECONDS)[0].job_id == job_id


def test_a_worker_that_stands_aside_claims_nothing_and_asks_seldom(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    asked = threading.Semaphore(0)
    times = 0

    def stands_aside() -> bool:
        nonlocal times
        times += 1
        asked.release()
        return True

    world.enqueue()
    worker = local(world, dispatch, dispatcher, stands_aside=stands_aside)
    answer = in_thread(lambda: worker.claim(1, wait_seconds=3600))
    assert asked.acquire(timeout=SECONDS)
    world.bell.ring()
    assert asked.acquire(timeout=SECONDS)
    worker.interrupt()
    assert answer.result(SECONDS) == []
    # At the start, at the ring, and perhaps once more when it was told to stop.
    assert times <= 3
    assert dispatch.claims == 0


def test_the_servers_own_workers_go_on_when_the_dispatcher_is_closed(
    world: World, dispatch: Counting, dispatcher: Told
) -> None:
    worker = local(world, dispatch, dispatcher)
    answer = in_thread(lambda: worker.claim(1, wait_seconds=SECONDS))
    dispatch.wait_for(lambda: dispatch.looks > 0)
    dispatcher.close()
    job_id = world.enqueue()
    assert answer.result(SECONDS)[0].job_id == job_id


def test_only_a_job_without_media_is_completed_without_looking_at_it(
    world: World, dispatch: Counting
) -> None:
    """Of the others there may be something to publish, or to follow."""
    bare, of_media = world.enqueue(), world.enqueue(media_id=world.add_media())
    whole = world.enqueue()
    worker = world.worker()
    claims = [world.claim(worker) for _ in range(3)]
    world.divide(claims[2], 1)
    claims[2] = world.claim(worker)
    for claim in claims:
        results = [(claim, None)]
        world.run(lambda tx, done=results: world.queue.complete_many(tx, done, bare=True))  # type: ignore[misc]
    states = [world.job(each).state for each in (bare, of_media, world.parts(whole)[0].id)]
    assert states == [State.COMPLETED, State.PROCESSING, State.PROCESSING]
    assert [dispatch.complete(Completion(claim)) for claim in claims[1:]] == [State.COMPLETED] * 2
