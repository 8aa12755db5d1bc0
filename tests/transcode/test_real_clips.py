"""What cameras, editors and encoders of many years have made becomes a stream like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from transcode import checks, studio
from transcode.checks import Frame, Rendition, Version, near
from transcode.footage import (
    FORENSICS,
    GNOME,
    IMAGEIO,
    JANUS,
    OPENBOARD,
    OPENCV,
    OPENSHOT,
    VISP,
    WORDPRESS,
    Take,
)

# Of which a package may have to be fetched.
pytestmark = pytest.mark.timeout(900)
thorough = pytest.mark.thorough

VIDEOS = [
    Take(IMAGEIO, "realshort.mp4"),
    Take(IMAGEIO, "newtonscradle.gif"),
    Take(IMAGEIO, "cockatoo.mp4", seconds=3),
    Take(WORDPRESS, "birds.mp4"),
    Take(JANUS, "ChID-BLITS-EBU.mp4", seconds=6),
    Take(GNOME, "display-dual-monitors.webm", seconds=4),
    Take(OPENBOARD, "wannaworktogether.mp4", begin=20, seconds=4),
    Take(FORENSICS, "VID_20191220_170832.mp4"),
    Take(FORENSICS, "movie-hello.mp4"),
    Take(FORENSICS, "movie-hello.avi"),
    Take(FORENSICS, "movie-hello.mpeg"),
    Take(FORENSICS, "movie-hello.ogg"),
    Take(OPENSHOT, "hardware-example.mp4"),
    Take(VISP, "cube.mpeg"),
    Take(OPENCV, "vtest.avi", seconds=4),
    Take(OPENCV, "tree.avi", seconds=4),
    Take(OPENCV, "Megamind.avi", seconds=4),
    Take(OPENCV, "Megamind_bugy.avi", seconds=4),
]
QUICK = ("realshort.mp4", "cockatoo.mp4")


def _id(take: Take) -> str:
    return take.name


@pytest.mark.parametrize("take", VIDEOS, ids=_id)
def test_real_footage_becomes_a_stream_of_the_same_frames(
    take: Take, tmp_path: Path, target: Path
) -> None:
    source = take.put(tmp_path)
    made = studio.make(source, target)
    version = Version(target)
    print(made.lines, made.result, version.names)
    checks.check(version)
    frames = checks.frames_of("-i", str(source))
    for rendition in version.videos:
        checks.check_frames(rendition, frames)
    assert made.result["frames"] == len(frames)
