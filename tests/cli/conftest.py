"""A shell for the tests of the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shell import Shell


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    for name in list(os.environ):
        if name.startswith("RUSHES_") and not name.startswith("RUSHES_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Shell(capsys, monkeypatch, tmp_path / "here")
