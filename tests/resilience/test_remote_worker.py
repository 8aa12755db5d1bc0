"""Workers are killed and paused, servers restart, answers get lost; each job is published once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from proxy import Proxy
from resilience import demo_handlers
from resilience.breakpoints import until
from resilience.cases import some
from resilience.programs import Server, WorkerProcess
from resilience.shared_media import SharedMedia, opened, viewer, worker, working
from running import Running
from rushes import errors
from rushes.protocol import Assignment, Pulse
from rushes.worker import loop
from rushes.worker.context import JobContext
from rushes.worker.remote import Remote
from wire import Wire

SHORT = {"claim_duration": 2.0, "heartbeat_interval": 0.4}
LONG = {"claim_duration": 60.0, "heartbeat_interval": 0.4}
LOST_ONCE, DONE = ("lost", "succeeded"), ("succeeded",)

StartServer = Callable[..., Server]
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def short(serve: Callable[..., Running], hurried: None) -> Running:
    """It soon finds out what was lost."""
    return serve(**SHORT)


# A worker dies


@pytest.mark.parametrize(
    ("step", "outcomes"),
    some(
        [
            ("worker: after claim", LOST_ONCE),
            ("demo: source read", LOST_ONCE),
            ("worker: half sent", LOST_ONCE),
            ("demo: 1 put", LOST_ONCE),
            ("demo: all put", LOST_ONCE),
            ("worker: before complete", LOST_ONCE),
            ("worker: after complete", DONE),
        ],
        each_time={
            ("worker: half sent", LOST_ONCE),
            ("worker: before complete", LOST_ONCE),
            ("worker: after complete", DONE),
        },
    ),
)
def test_another_worker_finishes_what_a_killed_one_began(
    short: Running, start_worker: StartWorker, step: str, outcomes: tuple[str, ...]
) -> None:
    shared = SharedMedia(short.rushes, short.url)
    doomed = start_worker("doomed", short.url, short.worker_key("doomed"))
    doomed.breakpoints.arm(step)
    job_id = shared.enqueue()
    doomed.breakpoints.wait(step)
    doomed.kill()
    with worker(short.url, short.worker_key("heir")):
        shared.wait(job_id)
    shared.check(job_id, list(outcomes))


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(3))
def test_a_killed_workers_job_runs_again_within_a_lease_and_a_sweep(
    serve: Callable[..., Running], start_worker: StartWorker, number: int
) -> None:
    """What the README says of 60 s and 10 s, with shorter ones. Measured on the server's clock."""
    lease, sweep = 6.0, 2.0
    server = serve(claim_duration=lease, heartbeat_interval=1.5, sweep_interval=sweep)
    shared = SharedMedia(server.rushes, server.url)
    doomed = start_worker("doomed", server.url, server.worker_key("doomed"))
    doomed.breakpoints.arm("demo: 1 put")
    job_id = shared.enqueue()
    doomed.breakpoints.wait("demo: 1 put")
    with worker(server.url, server.worker_key("heir")):
        doomed.kill()
        killed_at = time.time()
        shared.wait(job_id)
    again = server.rushes.executions(job_id)[-1]
    assert again.started_at / 1000 - killed_at <= lease + sweep + 1


def test_a_worker_that_is_started_again_gives_up_what_it_held_at_once(
    serve: Callable[..., Running], start_worker: StartWorker, hurried: None
) -> None:
    """Not when the lease is over, which is longer here than a test may take."""
    server = serve(**LONG)
    shared, key = SharedMedia(server.rushes, server.url), server.worker_key("doomed")
    doomed = start_worker("doomed", server.url, key)
    doomed.breakpoints.arm("demo: 1 put")
    job_id = shared.enqueue()
    doomed.breakpoints.wait("demo: 1 put")
    doomed.kill()
    doomed.breakpoints.release("demo: 1 put")
    doomed.start()
    shared.wait(job_id)
    shared.check(job_id, ["lost", "succeeded"])


# A worker sleeps too long


@pytest.mark.parametrize(
    "step",
    some(
        ["worker: half sent", "demo: 1 put", "demo: all put", "worker: before complete"],
        each_time={"worker: half sent", "worker: before complete"},
    ),
)
def test_a_worker_that_wakes_up_late_can_change_nothing(
    short: Running, start_worker: StartWorker, step: str
) -> None:
    shared, other = SharedMedia(short.rushes, short.url), SharedMedia(short.rushes, short.url)
    zombie = start_worker("zombie", short.url, short.worker_key("zombie"))
    zombie.breakpoints.arm(step)
    job_id = shared.enqueue(args={"deaf": True})
    zombie.breakpoints.wait(step)
    zombie.pause()
    with worker(short.url, short.worker_key("heir")):
        shared.wait(job_id)
    before = tables(shared)
    zombie.breakpoints.arm("worker: before claim")
    zombie.breakpoints.release(step)
    with viewer(shared) as watching:
        zombie.resume()
        zombie.breakpoints.wait("worker: before claim")
        assert watching.leave() == [shared.watch()]
    assert tables(shared) == before
    shared.check(job_id, ["lost", "succeeded"])
    # It is none the worse for it.
    zombie.breakpoints.release("worker: before claim")
    other.wait(next_id := other.enqueue())
    other.check(next_id, ["succeeded"])
    assert zombie.stop() == 0


def test_a_worker_that_wakes_up_late_does_not_even_try(
    short: Running, start_worker: StartWorker
) -> None:
    shared = SharedMedia(short.rushes, short.url)
    zombie = start_worker("zombie", short.url, short.worker_key("zombie"))
    zombie.breakpoints.arm("demo: all put")
    job_id = shared.enqueue(args={"deaf": True})
    zombie.breakpoints.wait("demo: all put")
    zombie.pause()
    shared.rushes.pause()
    until(lambda: shared.outcomes(job_id) == ["lost"])
    for step in ("worker: before complete", "worker: before claim"):
        zombie.breakpoints.arm(step)
    zombie.breakpoints.release("demo: all put")
    zombie.resume()
    zombie.breakpoints.wait("worker: before claim")
    zombie.breakpoints.disarm("worker: before complete")


def tables(shared: SharedMedia) -> dict[str, Any]:
    """All that a zombie could have changed."""
    with shared.rushes.db.read() as tx:
        return {
            table: tx.all(f"SELECT * FROM {table} ORDER BY 1, 2")
            for table in ("jobs", "attempts", "versions", "artifacts", "media")
        }


# Answers get lost


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        (b'"claim_id"', DONE),
        (b"206 partial content", DONE),
        (b'"sha256"', DONE),
        (b'"held":true,"cancel"', DONE),
        (b'"state":"completed"', DONE),
    ],
    ids=["claim", "source", "put", "progress", "complete"],
)
def test_what_was_done_is_not_done_again_when_the_answer_is_lost(
    short: Running, answer: bytes, outcomes: tuple[str, ...]
) -> None:
    shared = SharedMedia(short.rushes, short.url)
    with Wire(short.settings.port) as wire:
        wire.cut_before_answer(answer)
        with worker(wire.url, short.worker_key()):
            job_id = shared.enqueue()
            shared.wait(job_id)
        assert wire.was_cut.is_set()
    shared.check(job_id, list(outcomes))


def test_a_failure_is_told_once_when_the_answer_is_lost(short: Running) -> None:
    shared = SharedMedia(short.rushes, short.url)

    def fail(job: JobContext) -> None:
        raise ValueError("no luck")

    with Wire(short.settings.port) as wire:
        wire.cut_before_answer(b'"state":"queued"')
        with worker(wire.url, short.worker_key(), fail):
            job_id = shared.enqueue(max_attempts=2)
            shared.wait(job_id, "failed")
        assert wire.was_cut.is_set()
    assert shared.outcomes(job_id) == ["failed", "failed"]
    shared.check_tables()


# A worker stumbles


class Stumbling(Remote):
    """What it is told makes no sense now and then."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self.claims = self.beats = 0

    def claim(self, *told: Any, **more: Any) -> list[Assignment]:
        self.claims += 1
        if self.claims == 1:
            raise KeyError("jobs")
        return super().claim(*told, **more)

    def heartbeat(self, *told: Any, **more: Any) -> Pulse:
        self.beats += 1
        if self.beats == 1:
            raise KeyError("claims")
        return super().heartbeat(*told, **more)


def test_a_worker_goes_on_after_what_nobody_expected(short: Running) -> None:
    shared, remote = SharedMedia(short.rushes, short.url), Stumbling(short.url, short.worker_key())

    def run(job: JobContext) -> Any:
        until(lambda: remote.beats > 3)
        return demo_handlers.demo(job)

    with working(remote, run):
        job_id = shared.enqueue()
        shared.wait(job_id)
    shared.check(job_id, ["succeeded"])


def test_a_worker_outlives_a_server_that_is_away_for_long(
    short: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LONGEST_RETRY_SECONDS", 0.0)
    shared, misses = SharedMedia(short.rushes, short.url), iter(range(1100))

    class Away(Remote):
        def claim(self, *told: Any, **more: Any) -> list[Assignment]:
            for _ in misses:
                raise errors.Unavailable("the server cannot be reached")
            return super().claim(*told, **more)

    with working(Away(short.url, short.worker_key())):
        job_id = shared.enqueue()
        shared.wait(job_id)
    shared.check(job_id, ["succeeded"])


# The server goes and comes back


@pytest.mark.parametrize(
    ("database_url", "gently"),
    some(
        product(["sqlite", "postgres"], [True, False]),
        each_time={("sqlite", True), ("postgres", False)},
    ),
    indirect=["database_url"],
)
def test_a_remote_worker_works_on_while_the_server_restarts(
    start_server: StartServer, database_url: str, gently: bool
) -> None:
    server = start_server(database_url=database_url, **LONG)
    begun, go_on = threading.Event(), threading.Event()

    def run(job: JobContext) -> Any:
        begun.set()
        assert go_on.wait(60)
        return demo_handlers.demo(job)

    with opened(server.settings) as rushes, worker(server.url, server.worker_key(), run) as remote:
        shared = SharedMedia(rushes, server.url)
        job_id = shared.enqueue()
        assert begun.wait(60)
        if gently:
            assert server.stop() == 0
        else:
            server.kill()
        remote.beat()
        go_on.set()
        server.start()
        shared.wait(job_id)
        shared.check(job_id, ["succeeded"])


def test_a_server_on_postgres_that_is_started_again_frees_what_its_own_workers_held(
    start_server: StartServer, postgres_url: str
) -> None:
    server = start_server(handlers="resilience.demo_handlers", database_url=postgres_url, **LONG)
    with opened(server.settings) as rushes:
        shared = SharedMedia(rushes, server.url)
        server.breakpoints.arm("demo: 1 put")
        job_id = shared.enqueue()
        server.breakpoints.wait("demo: 1 put")
        server.kill()
        server.breakpoints.release("demo: 1 put")
        server.start()
        shared.wait(job_id)
        shared.check(job_id, ["lost", "succeeded"])


@pytest.mark.parametrize("deaf", [False, True], ids=["a handler that listens", "a deaf handler"])
def test_a_server_that_is_stopped_gives_its_own_jobs_back_at_once(
    start_server: StartServer, deaf: bool
) -> None:
    server = start_server(handlers="resilience.demo_handlers", **LONG)
    with opened(server.settings) as rushes:
        shared = SharedMedia(rushes, server.url)
        server.breakpoints.arm("demo: 1 put")
        job_id = shared.enqueue(args={"deaf": deaf})
        server.breakpoints.wait("demo: 1 put")
        assert server.stop() == 0
        job = shared.job(job_id)
        assert (job.state, job.attempt, job.checkpoint) == ("queued", 0, {"files": 1})
        server.start()
        shared.wait(job_id)
        shared.check(job_id, ["released", "succeeded"])


# Nobody answers for longer than a worker goes on by itself

HELD_UP, GOES_ON = "is held up", "goes on: it is still held"
BRIEF = {"claim_duration": 4.0, "heartbeat_interval": 0.4}


@pytest.mark.thorough
@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_a_worker_holds_its_job_up_and_goes_on_under_the_same_claim(
    start_server: StartServer, start_worker: StartWorker, database_url: str
) -> None:
    """The server is away for more than three quarters of a lease."""
    server = start_server(database_url=database_url, **BRIEF)
    with opened(server.settings) as rushes:
        shared = SharedMedia(rushes, server.url)
        patient = start_worker("patient", server.url, server.worker_key("patient"))
        patient.breakpoints.arm("demo: 1 put")
        job_id = shared.enqueue()
        patient.breakpoints.wait("demo: 1 put")
        server.kill()
        before = shared.job(job_id)
        until(lambda: HELD_UP in patient.log.read_text())
        server.start()
        until(lambda: GOES_ON in patient.log.read_text())
        after = shared.job(job_id)
        assert (after.claim_id, after.attempt) == (before.claim_id, 1)
        patient.breakpoints.release("demo: 1 put")
        shared.wait(job_id)
        shared.check(job_id, ["succeeded"])


@pytest.mark.thorough
def test_a_worker_that_was_out_of_reach_stops_what_somebody_else_has_taken(
    short: Running, start_worker: StartWorker
) -> None:
    """Its network is silent, while the server and the others go on."""
    shared = SharedMedia(short.rushes, short.url)
    with Proxy(short.settings.port) as proxy:
        proxy.open()
        url = f"http://127.0.0.1:{proxy.port}"
        away = start_worker("away", url, short.worker_key("away"))
        away.breakpoints.arm("demo: 1 put")
        job_id = shared.enqueue()
        away.breakpoints.wait("demo: 1 put")
        proxy.silence()
        until(lambda: HELD_UP in away.log.read_text())
        with worker(short.url, short.worker_key("heir")):
            shared.wait(job_id)
        before = tables(shared)
        for step in ("demo: 2 put", "worker: before complete", "worker: before claim"):
            away.breakpoints.arm(step)
        proxy.speak()
        away.breakpoints.wait("worker: before claim")
        away.breakpoints.release("demo: 1 put")
        for step in ("demo: 2 put", "worker: before complete"):
            away.breakpoints.disarm(step)
        assert tables(shared) == before
        away.breakpoints.release("worker: before claim")
    shared.check(job_id, ["lost", "succeeded"])
