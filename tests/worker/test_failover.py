"""A worker that knows several servers of one fleet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import world as worlds
from running import Running, free_port
from rushes import errors
from rushes.protocol import Completion, Hello
from rushes.worker import remote
from rushes.worker.remote import Remote


@pytest.fixture
def fleet(serve: Callable[..., Running]) -> Iterator[tuple[Running, Running]]:
    """Two servers on one database."""
    with worlds.postgres_database() as url:
        one, other = (serve(database_url=url) for _ in range(2))
        yield one, other
        for each in (one, other):
            each.stop()


def nobody() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_work_goes_on_at_another_server_when_one_is_gone(fleet: tuple[Running, Running]) -> None:
    one, other = fleet
    job = other.rushes.enqueue("demo")
    with closing(Remote(f"{one.url}, {other.url}/", one.worker_key())) as worker:
        worker.hello(Hello(kinds=["demo"]))
        [held] = worker.claim()
        assert held.job_id == job.id
        one.stop()
        assert worker.heartbeat([held.claim]).claims[held.claim_id].held
        assert worker.complete_all([Completion(held.claim)]) == {job.id: "completed"}


def test_a_server_that_is_away_from_the_start_is_passed_over(
    fleet: tuple[Running, Running],
) -> None:
    one, _ = fleet
    with closing(Remote(f"{nobody()},{one.url}", one.worker_key())) as worker:
        terms = worker.hello(Hello(kinds=["demo"]))
        assert terms is not None
        assert terms.kinds == ["demo"]


def test_who_can_reach_nobody_is_told_so() -> None:
    with (
        closing(Remote(f"{nobody()},{nobody()}", "rsw_key")) as worker,
        pytest.raises(errors.Unavailable),
    ):
        worker.claim()


def test_a_server_that_dies_before_it_answers_is_away_like_any_other(
    fleet: tuple[Running, Running],
) -> None:
    one, _ = fleet
    with closing(socket.create_server(("127.0.0.1", 0))) as dying:

        def hang_up() -> None:
            connection, _ = dying.accept()
            connection.recv(1)
            connection.close()

        listener = threading.Thread(target=hang_up)
        listener.start()
        url = f"http://127.0.0.1:{dying.getsockname()[1]}"
        with closing(Remote(f"{url},{one.url}", one.worker_key())) as worker:
            # It may have heard it: whoever asks again asks the other.
            with pytest.raises(errors.Unavailable):
                worker.hello(Hello(kinds=["demo"]))
            assert worker.hello(Hello(kinds=["demo"])) is not None
        listener.join()


def test_a_server_that_is_about_to_stop_is_left_for_another(
    fleet: tuple[Running, Running],
) -> None:
    one, other = fleet
    with closing(Remote(f"{one.url},{other.url}", one.worker_key())) as worker:
        worker.hello(Hello(kinds=["demo"]))
        one.services.stopping.set()
        with pytest.raises(errors.Unavailable):
            worker.claim()
        job = other.rushes.enqueue("demo")
        assert [each.job_id for each in worker.claim()] == [job.id]


def test_a_refused_key_is_refused_and_not_tried_elsewhere(fleet: tuple[Running, Running]) -> None:
    one, other = fleet
    with (
        closing(Remote(f"{one.url},{other.url}", "no key")) as worker,
        pytest.raises(errors.Unauthorized),
    ):
        worker.claim()


def test_a_code_is_used_at_the_first_server_that_is_there(fleet: tuple[Running, Running]) -> None:
    one, _ = fleet
    with one.client() as admin:
        code = admin.post("/workers/invite", json={}).json()["code"]
    worker_id, key = remote.join(f"{nobody()},{one.url}", code, "late")
    assert worker_id.startswith("wrk_")
    assert key
