"""The command line as tests type it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

import pytest

from running import clean_environment
from rushes import cli

WAIT_SECONDS = 60


class Shell:
    """Runs commands in a directory of its own; remembers what they printed."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        directory: Path,
    ) -> None:
        self.directory = directory
        self.out = self.err = ""
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def set(self, **settings: Any) -> None:
        for name, value in settings.items():
            self._monkeypatch.setenv(f"RUSHES_{name.upper()}", str(value))

    def unset(self, *names: str) -> None:
        for name in names:
            self._monkeypatch.delenv(f"RUSHES_{name.upper()}", raising=False)

    def is_set(self, name: str) -> bool:
        return f"RUSHES_{name.upper()}" in os.environ

    def run(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        with _logs_as_they_were():
            code = cli.main([str(each) for each in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def text(self, *arguments: str | Path) -> str:
        assert self.run(*arguments) == 0, self.err
        return self.out

    def json(self, *arguments: str | Path) -> Any:
        return json.loads(self.text(*arguments, "--json"))


@contextmanager
def _logs_as_they_were() -> Iterator[None]:
    """Some commands send the log to stderr, which is another test's, or closed, a moment later."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


class Command:
    """`rushes …` as a process of its own, which can be interrupted and killed."""

    def __init__(self, directory: Path, *arguments: str | Path, **settings: Any) -> None:
        given = {f"RUSHES_{name.upper()}": str(value) for name, value in settings.items()}
        cache = {"XDG_CACHE_HOME": str(directory / "cache")}
        self._errors = directory / f"stderr-{uuid.uuid4().hex}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rushes", *map(str, arguments)],
                env={**clean_environment(), **cache, **given},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=directory,
            )

    @property
    def err(self) -> str:
        return self._errors.read_text()

    def wait_for(self, words: str) -> None:
        """Until it has said this on stderr."""
        until(lambda: words in self.err or self.process.poll() is not None)
        assert words in self.err, self.err

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code; what it printed is then in `out`."""
        out, _ = self.process.communicate(timeout=WAIT_SECONDS)
        self.out = out.decode()
        return self.process.returncode

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=WAIT_SECONDS)


def everything_below(*folders: Path) -> dict[Path, os.stat_result]:
    """Also while a server makes and removes some of it: what goes meanwhile is left out."""
    found = {}
    for folder in folders:
        for place, inner, names in os.walk(folder):
            for name in (*inner, *names):
                with suppress(FileNotFoundError):
                    found[Path(place, name)] = Path(place, name).lstat()
    return found


def files_below(*folders: Path) -> list[Path]:
    return [path for path, known in everything_below(*folders).items() if S_ISREG(known.st_mode)]


def until(true: Callable[[], Any]) -> None:
    """For real processes, whose pace nobody sets."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
