"""Harnesses for the tests of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from running import Running
from worker.harness import Harness, open_harness


@pytest.fixture(params=["in-process", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def harness(transport: str, either_server: Running) -> Iterator[Harness]:
    with open_harness(either_server, transport) as opened:
        yield opened


@pytest.fixture
def remote_harness(server: Running) -> Iterator[Harness]:
    with open_harness(server, "http") as opened:
        yield opened


@pytest.fixture
def stored_harness(
    transport: str, storage_url: str, serve: Callable[..., Running]
) -> Iterator[Harness]:
    """On files and on S3."""
    with open_harness(serve(storage_url=storage_url), transport) as opened:
        yield opened
