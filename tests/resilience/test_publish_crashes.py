"""A server is killed at every step of handing out, keeping and publishing. Whoever watches sees the
old set or the new one, and the new one is published once.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest

import services
from resilience import crashing_server as steps
from resilience.cases import some
from resilience.programs import Server
from resilience.shared_media import SharedMedia, opened, viewer, worker

# Longer than any restart takes here; what was lost is found again by a shorter one.
LEASE = {"claim_duration": 60.0, "heartbeat_interval": 5.0}
SHORT = {"claim_duration": 2, "heartbeat_interval": 0.4}
HANDLERS = {"handlers": "resilience.demo_handlers"}

STEPS = [*steps.PUT_STEPS, *steps.UNCOMMITTED]

Start = Callable[..., Server]


@contextmanager
def scene_on(server: Server, *, remote: bool = True) -> Iterator[SharedMedia]:
    """With a worker, and a first version that everybody watches."""
    with ExitStack() as stack:
        shared = SharedMedia(stack.enter_context(opened(server.settings)), server.url)
        if remote:
            stack.enter_context(worker(server.url, server.worker_key()))
        shared.wait(shared.enqueue())
        yield shared


def crash_at(
    server: Server, shared: SharedMedia, step: str, *, published: bool = False
) -> list[str]:
    """Kill the server there while it makes the second version; returns how its attempts ended."""
    before = shared.watch()
    assert before is not None
    with viewer(shared) as watching:
        server.breakpoints.arm(step)
        job_id = shared.enqueue()
        server.breakpoints.wait(step)
        now = shared.watch()
        assert now is not None
        assert now.job_id == (job_id if published else before.job_id)
        server.kill()
        server.start()
        shared.wait(job_id)
        after = shared.watch()
        assert watching.leave() in ([before], [before, after])
    outcomes = shared.outcomes(job_id)
    shared.check(job_id, outcomes, before=before)
    return outcomes


@pytest.mark.parametrize(
    "step", some(STEPS, each_time={*steps.PUT_STEPS[2:], *steps.UNCOMMITTED[2:]})
)
def test_a_remote_worker_finishes_its_attempt_when_the_server_dies(
    start_server: Start, step: str
) -> None:
    server = start_server(**LEASE)
    with scene_on(server) as shared:
        assert crash_at(server, shared, step) == ["succeeded"]


@pytest.mark.parametrize("step", some(STEPS, each_time={steps.PUT_STEPS[3], steps.UNCOMMITTED[3]}))
def test_a_remote_worker_finishes_its_attempt_when_the_server_dies_on_postgres(
    start_server: Start, postgres_url: str, step: str
) -> None:
    server = start_server(database_url=postgres_url, **LEASE)
    with scene_on(server) as shared:
        assert crash_at(server, shared, step) == ["succeeded"]


def test_a_set_stays_published_when_the_server_dies_before_it_can_say_so(
    start_server: Start, database_url: str
) -> None:
    server = start_server(database_url=database_url, **LEASE)
    with scene_on(server) as shared:
        assert crash_at(server, shared, steps.COMMITTED, published=True) == ["succeeded"]


@pytest.mark.parametrize(
    "database_url", some(["sqlite", "postgres"], each_time={"sqlite"}), indirect=True
)
def test_a_job_whose_worker_never_heard_of_it_is_handed_out_again(
    start_server: Start, database_url: str
) -> None:
    server = start_server(database_url=database_url, **LEASE)
    with scene_on(server) as shared:
        server.set(**SHORT)
        assert crash_at(server, shared, steps.CLAIMED) == ["succeeded"]


@pytest.mark.parametrize("step", some(STEPS, each_time={steps.PUT_STEPS[2], steps.UNCOMMITTED[3]}))
def test_a_server_that_works_itself_tries_again_after_it_died(
    start_server: Start, step: str
) -> None:
    server = start_server(**HANDLERS, **LEASE)
    with scene_on(server, remote=False) as shared:
        server.set(**SHORT)
        assert crash_at(server, shared, step) == ["lost", "succeeded"]


def test_a_server_that_works_itself_does_not_do_again_what_it_has_published(
    start_server: Start,
) -> None:
    server = start_server(**HANDLERS, **LEASE)
    with scene_on(server, remote=False) as shared:
        server.set(**SHORT)
        assert crash_at(server, shared, steps.COMMITTED, published=True) == ["succeeded"]


@pytest.mark.parametrize(
    "step", some([steps.COPIED, steps.UNCOMMITTED[3]], each_time={steps.COPIED})
)
def test_files_in_a_bucket_survive_the_server_as_well(
    start_server: Start, seaweed: services.Seaweed, step: str
) -> None:
    server = start_server(storage_url=seaweed.url(prefix=uuid.uuid4().hex), **LEASE)
    with scene_on(server) as shared:
        assert crash_at(server, shared, step) == ["succeeded"]


@pytest.fixture(scope="module")
def postgres() -> Iterator[services.Postgres]:
    """One that keeps its promises, to be crashed."""
    # Not tmp_path: as root that lies below a 0700 directory, where PostgreSQL cannot go.
    with tempfile.TemporaryDirectory(prefix="rushes-crash-pg-") as data:
        server = services.Postgres.start(Path(data), durable=True)
        yield server
        server.stop()


@pytest.mark.parametrize(
    ("step", "remote"),
    some(
        product([*steps.UNCOMMITTED[2:], steps.ANSWER_LOST], [True, False]),
        each_time={(steps.UNCOMMITTED[3], False), (steps.ANSWER_LOST, True)},
    ),
)
def test_a_database_that_dies_while_it_publishes_leaves_one_set_or_the_other(
    start_server: Start, postgres: services.Postgres, step: str, remote: bool
) -> None:
    url = postgres.create_database(f"d_{uuid.uuid4().hex}")
    more = {} if remote else HANDLERS
    server = start_server(database_url=url, **more, **LEASE)
    with scene_on(server, remote=remote) as shared:
        before = shared.watch()
        with viewer(shared) as watching:
            server.breakpoints.arm(step)
            job_id = shared.enqueue()
            server.breakpoints.wait(step)
            restart(postgres)
            server.breakpoints.release(step)
            shared.wait(job_id)
            assert set(watching.leave()) <= {before, shared.watch()}
        shared.check(job_id, ["succeeded"], before=before)


def restart(server: services.Postgres) -> None:
    """Clients that try a closed port again and again can take it for themselves."""
    for _ in range(3):
        with suppress(services.StartFailed):
            server.restart()
            return
    server.restart()
