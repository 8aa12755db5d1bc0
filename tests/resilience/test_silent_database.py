"""A whole server whose PostgreSQL goes silent: connections stay open, and nothing is answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest
import sqlalchemy as sa

from proxy import Proxy
from resilience.breakpoints import until
from resilience.programs import Server
from resilience.shared_media import SharedMedia, opened
from running import events_of, settings_for
from rushes.app import Rushes

StartServer = Callable[..., Server]
# More than there are threads for requests.
MANY_REQUESTS = 45


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    port = sa.make_url(postgres_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy.open()


@pytest.fixture
def proxied_url(postgres_url: str, proxy: Proxy) -> str:
    url = sa.make_url(postgres_url).set(port=proxy.port)
    return url.render_as_string(hide_password=False)


def test_a_server_whose_database_is_silent_says_so_and_can_be_stopped(
    start_server: StartServer, proxy: Proxy, proxied_url: str
) -> None:
    """With the patience that it has by default, which is longer than any probe's."""
    server = start_server(database_url=proxied_url, handlers="resilience.demo_handlers")
    with ThreadPoolExecutor(MANY_REQUESTS) as people, server.client() as client:
        assert client.get("/jobs").status_code == 200
        proxy.silence()
        for _ in range(MANY_REQUESTS):
            people.submit(_ask, client)
        with server.client(base_url=server.url) as probe:
            answer = probe.get("/readyz")
            assert (answer.status_code, answer.json()["database"]) == (503, False)
            assert probe.get("/livez").status_code == 200
        assert server.stop() == 0


def _ask(client: httpx2.Client) -> None:
    # The server leaves meanwhile.
    with suppress(httpx2.HTTPError):
        client.get("/jobs")


@pytest.mark.thorough
def test_a_server_goes_on_by_itself_when_its_database_speaks_again(
    start_server: StartServer, proxy: Proxy, proxied_url: str, postgres_url: str
) -> None:
    server = start_server(
        database_url=proxied_url, handlers="resilience.demo_handlers", impatient=True
    )
    told: list[str] = []
    beside = settings_for(data_dir=server.settings.data_dir, database_url=postgres_url)
    with (
        opened(beside) as rushes,
        server.client() as client,
        client.stream("GET", "/events") as stream,
        server.client(base_url=server.url) as probe,
    ):
        listener = threading.Thread(target=_listen, args=(stream, told), daemon=True)
        listener.start()
        shared = SharedMedia(rushes, server.url)
        shared.wait(before := shared.enqueue())
        until(lambda: before in told)
        proxy.silence()
        until(lambda: probe.get("/readyz").status_code == 503)
        proxy.speak()
        silent_at = _swept_at(rushes)
        until(lambda: probe.get("/readyz").status_code == 200)
        shared.wait(after := shared.enqueue())
        until(lambda: after in told)
        until(lambda: _swept_at(rushes) > silent_at)
        assert server.stop() == 0


def _listen(stream: httpx2.Response, told: list[str]) -> None:
    for _, _, data in events_of(stream):
        told.append(data.get("job_id", ""))


def _swept_at(rushes: Rushes) -> int:
    with rushes.db.read() as tx:
        row = tx.one("SELECT beat_at FROM service_beat")
    assert row is not None
    return int(row["beat_at"])
