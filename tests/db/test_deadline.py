"""A database that goes silent, with its connections open."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from proxy import Proxy
from running import Running
from rushes import errors
from rushes.db.database import Database
from rushes.jobs import read_store
from world import World, postgres_database


def test_a_database_that_goes_silent_is_given_up_and_found_again() -> None:
    with postgres_database("rushes_template") as url:
        real = sa.make_url(url)
        assert real.port is not None
        with Proxy(real.port) as proxy:
            proxy.open()
            db = Database(real.set(port=proxy.port).render_as_string(hide_password=False))
            db.deadlines.seconds = 1.0
            assert db.run(read_store.now)
            proxy.silence()
            with pytest.raises(errors.DatabaseDown):
                db.run(read_store.now)
            proxy.speak()
            assert db.run(read_store.now)
            db.close()


def test_a_database_whose_connections_are_all_in_use_is_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sa.create_engine(
        world.db.url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    monkeypatch.setattr(world.db, "_engine", engine)
    with engine.connect(), pytest.raises(errors.DatabaseBusy), world.db.read():
        pass
    engine.dispose()


def test_a_server_that_does_not_tell_of_events_is_not_ready(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def silent() -> int:
        asked.set()
        raise errors.DatabaseDown("the database does not answer")

    relay = server.services.relay
    with server.client() as client, client.stream("GET", "/events") as stream:
        assert stream.status_code == 200
        monkeypatch.setattr(relay, "_numbered_head", silent)
        assert asked.wait(30), "an earlier look must not end after this"
        relay.looked_at -= 3600
        with server.client(base_url=server.url) as prober:
            answer = prober.get("/readyz")
        assert (answer.status_code, answer.json()["events"]) == (503, False)


def test_a_server_whose_sweep_does_not_run_is_not_ready(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def silent() -> None:
        asked.set()
        raise errors.DatabaseDown("the database does not answer")

    with server.client(base_url=server.url) as client:
        assert client.get("/readyz").json()["sweep"] is True
        monkeypatch.setattr(server.rushes.chores, "tick", silent)
        assert asked.wait(30), "an earlier one must not end after this"
        server.rushes.chores.done_at -= 3600
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["sweep"]) == (503, False)
