"""The command line as tests type it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rushes import cli


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

    def run(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        code = cli.main([str(each) for each in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def text(self, *arguments: str | Path) -> str:
        assert self.run(*arguments) == 0, self.err
        return self.out

    def json(self, *arguments: str | Path) -> Any:
        return json.loads(self.text(*arguments, "--json"))
