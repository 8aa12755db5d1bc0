"""Servers that start at the same moment, or before what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

import world as worlds
from proxy import Proxy
from resilience.breakpoints import until
from resilience.programs import Server
from running import settings_for, wait_for_server
from rushes.accounts import access
from rushes.app import Rushes
from rushes.db import schema
from rushes.db.database import Database
from world import World

WAITING = """SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


def test_two_servers_that_make_the_first_admin_at_once_make_one(world: World) -> None:
    begun = threading.Event()

    def second() -> str:
        begun.set()
        return world.run(access.ensure_admin).id

    with ThreadPoolExecutor(1) as other:
        with world.db.begin() as tx:
            first = access.ensure_admin(tx).id
            late = other.submit(second)
            assert begun.wait(10)
            if world.db.dialect.name == "postgresql":
                # It has found no admin, and waits for the name; on SQLite it cannot even look.
                until(lambda: world.rows(WAITING))
        assert late.result(30) == first


@pytest.fixture
def empty_url() -> Iterator[str]:
    with worlds.postgres_database(worlds.EMPTY_DATABASE) as url:
        yield url


def test_many_servers_may_migrate_an_empty_database_at_once(tmp_path: Path, empty_url: str) -> None:
    def start(number: int) -> str:
        given = settings_for(data_dir=tmp_path / str(number), database_url=empty_url)
        with Rushes(settings=given) as rushes:
            return rushes.db.run(access.ensure_admin).id

    with ThreadPoolExecutor(4) as servers:
        assert len(set(servers.map(start, range(4)))) == 1


def test_two_servers_started_at_once_on_an_empty_database_both_come_up(
    tmp_path: Path, empty_url: str
) -> None:
    with ExitStack() as stack:
        servers = [Server(tmp_path / name, database_url=empty_url) for name in ("a", "b")]
        for server in servers:
            stack.callback(server.end)
            super(Server, server).start()
        for server in servers:
            wait_for_server(server.settings.port, log=server.log)
            with server.client(base_url=server.url) as client:
                assert client.get("/readyz").status_code == 200


STOPPED_AS_IT_STARTS = """
import os, signal
from pathlib import Path
from rushes import config, serving
def greeting(server):
    os.kill(os.getpid(), signal.SIGTERM)
    yield "never said"
serving.Server.greeting = greeting
settings = config.load()
try:
    serving.serve(settings)
except KeyboardInterrupt:
    print("left in order:", not (settings.data_dir / serving.ADDRESS_FILE).exists())
"""


def test_a_server_that_is_stopped_as_it_starts_leaves_in_order(tmp_path: Path) -> None:
    given = {
        "RUSHES_DATA_DIR": str(tmp_path),
        "RUSHES_PORT": "0",
    }
    command = [sys.executable, "-c", STOPPED_AS_IT_STARTS]
    ended = subprocess.run(
        command, env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert "left in order: True" in ended.stdout, ended.stderr


def test_a_server_waits_for_its_database_and_can_be_stopped_meanwhile(
    tmp_path: Path, postgres_url: str
) -> None:
    real = sa.make_url(postgres_url)
    assert real.port is not None
    with Proxy(real.port) as proxy, ExitStack() as stack:
        url = real.set(port=proxy.port).render_as_string(hide_password=False)
        server = Server(tmp_path / "data", database_url=url)
        stack.callback(server.end)
        super(Server, server).start()
        _wait_for_line(server, "Waiting up to 60 s: the database cannot be reached")
        server.stop()
        super(Server, server).start()
        _wait_for_line(server, "Waiting up to 60 s: the database cannot be reached", times=2)
        proxy.open()
        wait_for_server(server.settings.port, log=server.log)
        assert server.stop() == 0


def test_a_server_that_must_not_migrate_waits_until_somebody_has(
    tmp_path: Path, empty_url: str
) -> None:
    with ExitStack() as stack:
        server = Server(tmp_path / "data", database_url=empty_url, migrate="never")
        stack.callback(server.end)
        super(Server, server).start()
        _wait_for_line(server, "Waiting up to 60 s: the database has schema none")
        with closing(Database(empty_url)) as db:
            assert schema.current(db) is None
            schema.migrate(db)
        wait_for_server(server.settings.port, log=server.log)
        assert server.stop() == 0


def _wait_for_line(server: Server, line: str, times: int = 1) -> None:
    def is_there() -> bool:
        assert server.is_running, server.log.read_text()
        return server.log.exists() and server.log.read_text().count(line) >= times

    until(is_there)
