"""Picture and sound of different lengths: what is made lasts as long as the longer of the two."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version, near
from handlers.transcode.clips import FLASHES, Clips


def presented(target: Path) -> float:
    """How long the DASH manifest says it is."""
    return checks.presented(ElementTree.parse(target / "manifest.mpd").getroot())


@pytest.mark.parametrize(
    ("clip", "frames", "seconds"),
    [("cover-and-talk.mp4", 1, 6), ("short-picture.mp4", 75, 6.5), ("short-picture.mkv", 90, 6.5)],
)
def test_the_last_frame_is_held_to_the_end_of_the_sound(
    clip: str, frames: int, seconds: float, clips: Clips, target: Path
) -> None:
    made = encoding.make(clips[clip], target)
    version = Version(target)
    checks.check(version)
    assert version.names == ["180p", "90p"]
    assert made.result["duration"] == near(seconds, 0.06)
    assert presented(target) == near(seconds, 0.06)
    for rendition in version.videos:
        assert sum(rendition.seconds) == near(seconds, 0.06)
        assert max(rendition.seconds) < 1.3
        assert len(rendition.frames) > frames
        assert rendition.frames[-1].brightness == near(rendition.frames[frames - 1].brightness, 3)
    assert sum(version.sounds[0].seconds) == near(seconds, 0.06)
    if frames > 1:
        checks.check_in_step(version, FLASHES)
    assert made.result["warnings"] == []


def test_a_picture_that_goes_on_without_sound_is_shown_to_its_end(
    clips: Clips, target: Path
) -> None:
    made = encoding.make(clips["short-sound.mp4"], target)
    version = Version(target)
    checks.check(version)
    assert made.result["duration"] == near(6, 0.002)
    assert presented(target) == near(6, 0.002)
    assert sum(version.sounds[0].seconds) == near(2.5, 0.06)


@pytest.mark.parametrize(("start", "end"), [(2, 5), (4, 6)])
def test_what_is_held_can_be_trimmed(start: float, end: float, clips: Clips, target: Path) -> None:
    made = encoding.make(clips["short-picture.mp4"], target, edit={"start": start, "end": end})
    version = Version(target)
    checks.check(version)
    assert made.result["duration"] == near(end - start, 0.06)
    assert sum(version.videos[0].seconds) == near(end - start, 0.06)
    assert sum(version.sounds[0].seconds) == near(end - start, 0.06)
