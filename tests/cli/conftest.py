"""A shell for the tests of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shell import Command, Shell


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


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Start a command as a process; settings by name."""
    with ExitStack() as stack:

        def start(*arguments: str | Path, **settings: Any) -> Command:
            started = Command(tmp_path, *arguments, **settings)
            stack.callback(started.end)
            return started

        yield start
