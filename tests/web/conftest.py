"""A real server for the tests: in a thread of this process, or as a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from running import Process, Running, settings_for


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a server in a thread; settings by name, `handlers_table` adds kinds."""
    with ExitStack() as stack:
        number = 0

        def start(**given: Any) -> Running:
            nonlocal number
            number += 1
            given.setdefault("data_dir", tmp_path / f"server-{number}")
            return stack.enter_context(Running(**given))

        yield start
    assert not [t for t in threading.enumerate() if t.name == "chores"]


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    """With the defaults: SQLite and files."""
    return serve()


@pytest.fixture(params=["sqlite", "postgres"])
def either_server(
    request: pytest.FixtureRequest, serve: Callable[..., Running]
) -> Iterator[Running]:
    """On each database."""
    if request.param == "sqlite":
        yield serve()
    else:
        with worlds.postgres_database() as url:
            running = serve(database_url=url)
            yield running
            running.stop()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start `rushes serve` as a process that can be killed."""
    with ExitStack() as stack:

        def start(**given: Any) -> Process:
            given.setdefault("data_dir", tmp_path / "data")
            return stack.enter_context(Process(settings_for(**given)))

        yield start
