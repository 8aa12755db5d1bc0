"""Clips that all tests of a run share, whichever process they run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcode.clips import Clips


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Clips:
    folder = tmp_path_factory.getbasetemp()
    return Clips((folder if worker_id == "master" else folder.parent) / "clips")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "made"
