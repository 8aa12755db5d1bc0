"""A desk for what needs a server and no engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from running import Running
from worker.desk import Desk, open_desk


@pytest.fixture
def desk(either_server: Running) -> Iterator[Desk]:
    with open_desk(either_server, "in-process") as opened:
        yield opened
