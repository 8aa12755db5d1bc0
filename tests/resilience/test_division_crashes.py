"""A server is killed at every step of dividing, gathering and adopting. The job is put together all
the same, once, and nothing is left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

import world as worlds
from resilience import crashing_server as steps
from resilience import demo_handlers as demo
from resilience.cases import some
from resilience.programs import Server
from resilience.shared_media import SharedMedia, opened
from rushes.jobs.job import NewJob
from rushes.media import store as media_store
from rushes.protocol import Hello
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote

PARTS = 3
LEASE = {"claim_duration": 60.0, "heartbeat_interval": 5.0}
SHORT = {"claim_duration": 2, "heartbeat_interval": 0.4}
HANDLERS = {"handlers": "resilience.demo_handlers"}
STEPS = [*steps.DIVIDE_STEPS, *steps.GATHER_STEPS, *steps.ADOPT_STEPS]

Start = Callable[..., Server]


@contextmanager
def worker(server: Server) -> Iterator[None]:
    """For wholes and pieces, over HTTP; it outlives the server."""
    kinds = {demo.WHOLE: Handler(demo.whole), demo.PIECE: Handler(demo.piece)}
    with closing(Remote(server.url, server.worker_key())) as remote, ExitStack() as stack:
        mine = Worker(remote, kinds, hello=Hello(kinds=list(kinds)), claim_wait_seconds=0.5)
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(mine.stop)
        yield


def crash_at(server: Server, shared: SharedMedia, step: str) -> list[str]:
    """Kill the server there; returns how the attempts of the whole ended."""
    server.breakpoints.arm(step)
    new = NewJob(kind=demo.WHOLE, media_id=shared.media_id, args={"parts": PARTS})
    rushes = shared.rushes
    job_id = rushes.db.run(lambda tx: rushes.queue.enqueue(tx, new)).id
    server.breakpoints.wait(step)
    server.kill()
    server.start()
    shared.wait(job_id)
    assert shared.job(job_id).result == {"adopted": PARTS + 1}
    assert files(shared) == {
        "begin.txt": b"begin",
        "end.txt": b"end",
        **{name: demo.piece_content(name) for name in map(demo.piece_name, range(PARTS))},
    }
    parts = rushes.jobs(kind=demo.PIECE)
    assert [(part.state, part.parent_id) for part in parts] == [("completed", job_id)] * PARTS
    shared.check_tables()
    check_leftovers(shared)
    return shared.outcomes(job_id)


def files(shared: SharedMedia) -> dict[str, bytes]:
    with shared.rushes.db.read() as tx:
        version = worlds.current_version(tx, shared.media_id)
        assert version is not None
        rows = media_store.artifacts(tx, version)
    read = shared.rushes.storage.read
    return {row.name: b"".join(read(row.key)) for row in rows}


def check_leftovers(shared: SharedMedia) -> None:
    """Nothing is kept but what is published."""
    keys = {entry.key for entry in shared.rushes.storage.list(f"media/{shared.media_id}")}
    with shared.rushes.db.read() as tx:
        known = {row["key"] for row in tx.all("SELECT key FROM artifacts")}
        versions = tx.all("SELECT state FROM versions")
    assert known <= keys
    assert versions == [{"state": "current"}]


@pytest.mark.parametrize(
    "step", some(STEPS, each_time={steps.DIVIDE_STEPS[1], steps.GATHER_STEPS[0]})
)
def test_a_remote_worker_goes_on_when_the_server_dies(start_server: Start, step: str) -> None:
    server = start_server(**LEASE)
    with opened(server.settings) as rushes, worker(server):
        assert crash_at(server, SharedMedia(rushes, server.url), step) == ["divided", "succeeded"]


@pytest.mark.parametrize(
    "step", some(STEPS, each_time={steps.DIVIDE_STEPS[0], steps.GATHER_STEPS[1]})
)
def test_a_remote_worker_goes_on_when_the_server_dies_on_postgres(
    start_server: Start, postgres_url: str, step: str
) -> None:
    server = start_server(database_url=postgres_url, **LEASE)
    with opened(server.settings) as rushes, worker(server):
        assert crash_at(server, SharedMedia(rushes, server.url), step) == ["divided", "succeeded"]


EXPECTED = {
    steps.DIVIDE_STEPS[0]: ["lost", "divided", "succeeded"],
    steps.ADOPT_STEPS[0]: ["divided", "lost", "succeeded"],
    steps.ADOPT_STEPS[1]: ["divided", "lost", "succeeded"],
}


@pytest.mark.parametrize("step", some(STEPS, each_time={steps.ADOPT_STEPS[1]}))
def test_a_server_that_works_itself_tries_again(start_server: Start, step: str) -> None:
    server = start_server(**HANDLERS, **LEASE)
    with opened(server.settings) as rushes:
        server.set(**SHORT)
        outcomes = crash_at(server, SharedMedia(rushes, server.url), step)
    assert outcomes == EXPECTED.get(step, ["divided", "succeeded"])
