"""A harness for what needs a server and no engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from running import Running
from worker.harness import Harness, open_harness


@pytest.fixture
def harness(either_server: Running) -> Iterator[Harness]:
    with open_harness(either_server, "in-process") as opened:
        yield opened
