"""Desks for the tests of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from running import Running
from worker.desk import Desk, open_desk


@pytest.fixture(params=["in-process", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def desk(transport: str, either_server: Running) -> Iterator[Desk]:
    with open_desk(either_server, transport) as opened:
        yield opened


@pytest.fixture
def remote_desk(server: Running) -> Iterator[Desk]:
    with open_desk(server, "http") as opened:
        yield opened


@pytest.fixture
def stored_desk(transport: str, storage_url: str, serve: Callable[..., Running]) -> Iterator[Desk]:
    """On files and on S3."""
    with open_desk(serve(storage_url=storage_url), transport) as opened:
        yield opened
