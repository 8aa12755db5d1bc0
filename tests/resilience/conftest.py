"""Servers and workers that are killed and paused, and what becomes of the library then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from resilience import crashing_server
from resilience.programs import Server, WorkerProcess
from rushes.jobs import lifecycle


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """`rushes serve` as a process; settings by name."""
    with ExitStack() as stack:

        def start(**given: Any) -> Server:
            server = Server(tmp_path / "data", **given)
            stack.callback(server.end)
            server.start()
            return server

        yield start


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """`rushes worker` as a process."""
    with ExitStack() as stack:

        def start(name: str, url: str, key: str) -> WorkerProcess:
            worker = WorkerProcess(tmp_path / name, url, key)
            stack.callback(worker.end)
            worker.start()
            return worker

        yield start


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, too, what failed is tried again at once."""
    monkeypatch.setattr(lifecycle, "BACKOFF_FLOOR_MS", lifecycle.BACKOFF_FLOOR_MS)
    monkeypatch.setattr(lifecycle, "BACKOFF_BASE_MS", lifecycle.BACKOFF_BASE_MS)
    crashing_server.hurry()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with worlds.postgres_database() as url:
        yield url
