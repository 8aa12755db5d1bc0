"""What cameras, editors and encoders of many years have made becomes a stream like any other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from handlers.transcode import checks, encoding
from handlers.transcode.checks import RATE, Version, near
from handlers.transcode.footage import (
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

# A package may have to be fetched.
pytestmark = pytest.mark.timeout(900)

QUICK = [
    Take(IMAGEIO, "realshort.mp4"),
    Take(IMAGEIO, "newtonscradle.gif"),
]
VIDEOS = [
    Take(IMAGEIO, "cockatoo.mp4", seconds=2),
    Take(WORDPRESS, "birds.mp4"),
    Take(JANUS, "ChID-BLITS-EBU.mp4", seconds=6),
    Take(GNOME, "display-dual-monitors.webm", seconds=4),
    Take(OPENBOARD, "wannaworktogether.mp4", begin=20, seconds=4),
    Take(FORENSICS, "VID_20191220_170832.mp4"),
    Take(FORENSICS, "movie-hello.mp4", seconds=3),
    Take(FORENSICS, "movie-hello.avi"),
    Take(FORENSICS, "movie-hello.mpeg"),
    Take(FORENSICS, "movie-hello.ogg"),
    Take(OPENSHOT, "hardware-example.mp4"),
    Take(VISP, "cube.mpeg"),
    Take(OPENCV, "vtest.avi", seconds=4),
    Take(OPENCV, "tree.avi", seconds=4),
    Take(OPENCV, "Megamind.avi", seconds=3),
    Take(OPENCV, "Megamind_bugy.avi", seconds=3),
]
# An AVI with reordered frames does not tell when they are shown, and ffmpeg guesses late.
UNTOLD = ("Megamind.avi",)
SOUNDS = [
    Take(FORENSICS, "debian.wav"),
    Take(FORENSICS, "debian.mp3"),
    Take(FORENSICS, "debian.ogg"),
    Take(FORENSICS, "deleted.mp3"),
    Take(OPENBOARD, "Sonata para piano.mp3", seconds=5),
]


def _thorough(takes: list[Take]) -> list[object]:
    return [pytest.param(each, id=each.name, marks=pytest.mark.thorough) for each in takes]


@pytest.mark.parametrize(
    "take", [*(pytest.param(each, id=each.name) for each in QUICK), *_thorough(VIDEOS)]
)
def test_real_footage_becomes_a_stream_of_the_same_frames(
    take: Take, tmp_path: Path, target: Path
) -> None:
    source = take.put(tmp_path)
    made = encoding.make(source, target, settings={"segment_seconds": 2})
    version = Version(target)
    checks.check(version)
    frames = checks.frames_of("-i", str(source))
    for rendition in version.videos:
        checks.check_frames(rendition, frames)
        assert [each.brightness for each in rendition.frames] == [
            near(each.brightness, 2) for each in frames
        ]
    assert made.result["frames"] == len(frames)
    assert made.result["duration"] == near(sum(version.videos[0].seconds), 0.002)
    sounds = [each for each in checks.streams(str(source)) if each["codec_type"] == "audio"]
    assert len(version.sounds) == len(sounds)
    if sounds:
        heard = _heard(source, 0.0 if take.name in UNTOLD else frames[0].seconds)
        checks.check_heard(version.sounds[0], heard)
        assert sum(version.sounds[0].seconds) == near(len(heard) / RATE, 0.06)
    assert checks.brightness(target / "thumbnail.jpg") > 12


def _heard(source: Path, begin: float) -> Sequence[int]:
    """Its sound from then on, as far as it can be decoded."""
    return checks.samples_of("-i", str(source))[0][round(begin * RATE) :]


@pytest.mark.parametrize("take", _thorough(SOUNDS))
def test_real_sound_gets_renditions_and_a_waveform(
    take: Take, tmp_path: Path, target: Path
) -> None:
    source = take.put(tmp_path)
    made = encoding.make(source, target)
    version = Version(target)
    checks.check(version)
    [stream] = checks.streams(str(source))
    heard = _heard(source, float(stream.get("start_time", 0)))
    seconds = near(len(heard) / RATE, 0.06)
    assert made.result["kind"] == "audio"
    assert made.result["duration"] == seconds
    assert [each.name for each in version.sounds] == ["audio-128k", "audio-64k"]
    for sound in version.sounds:
        checks.check_heard(sound, heard)
        assert sum(sound.seconds) == seconds
    wave = json.loads((target / "waveform.json").read_text())
    assert wave["seconds"] == seconds
    assert 0 < max(wave["peaks"]) <= 1
