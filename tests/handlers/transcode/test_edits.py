"""Trim and overlay: exact in frames, in step in sound, where and as large as requested."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version, near
from handlers.transcode.clips import ENVIRONMENT, FLASHES, Clips
from rushes import errors


def trim(start: float, end: float | None) -> dict[str, Any]:
    return {"start": start, "end": end}


@pytest.mark.parametrize(
    ("clip", "start", "end", "frames", "flashes"),
    [
        ("plain.mp4", 0.2, 2.6, 60, [0.2, 2.0]),
        ("plain.mp4", 1.0, None, 50, [1.2]),
        ("one-key.mp4", 0.0, 0.5, 13, [0.4]),
        ("later.ts", 1.6, 2.4, 20, [0.6]),
        ("film.mkv", 0.3, 2.3, 48, [0.066, 1.866]),
        ("cut.mp4", 0.04, 2.08, 51, [0.04, 1.84]),
    ],
)
def test_a_trim_keeps_exactly_what_is_between(
    clip: str,
    start: float,
    end: float | None,
    frames: int,
    flashes: list[float],
    clips: Clips,
    target: Path,
) -> None:
    made = encoding.make(clips[clip], target, edit=trim(start, end))
    version = Version(target)
    checks.check(version)
    assert version.names == ["180p", "90p"]
    assert made.result["frames"] == frames
    assert [len(each.frames) for each in version.videos] == [frames, frames]
    assert made.result["duration"] == near(
        frames / (24000 / 1001 if clip == "film.mkv" else 25), 0.05
    )
    checks.check_in_step(version, flashes, late=0.043)
    assert sum(version.sounds[0].seconds) == near(made.result["duration"], 0.05)


def test_a_trim_of_sound_alone(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["music.mp3"], target, edit=trim(0.3, 2.5))
    version = Version(target)
    checks.check(version)
    assert made.result["duration"] == near(2.2, 0.05)
    for sound in version.sounds:
        assert checks.beeps(sound.samples) == [near(each - 0.3, 0.03) for each in FLASHES]


@pytest.mark.parametrize("clip", ["plain.mp4", "music.wav"])
def test_nothing_between_is_a_plain_refusal(clip: str, clips: Clips, target: Path) -> None:
    with pytest.raises(errors.PermanentFailure) as caught:
        encoding.make(clips[clip], target, edit=trim(50, 60))
    assert str(target) not in caught.value.message


def test_a_trim_that_ends_beyond_the_end_ends_with_it(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["plain.mp4"], target, edit=trim(2, 500))
    assert made.result["frames"] == 25


# Overlay

GRID = (32, 18)


def shown(version: Version, at: float) -> list[list[int]]:
    """The brightness of a frame in GRID cells, row by row."""
    width, height = GRID
    graph = f"scale={width}:{height}:flags=area,format=gray"
    argv = [ffmpegs.known(), "-v", "error", *version["180p"].local, "-vf", graph]
    ended = subprocess.run(
        [*argv, "-f", "rawvideo", "pipe:1"],
        capture_output=True, check=True, env=ENVIRONMENT, timeout=60,
    )  # fmt: skip
    size = width * height
    frame = ended.stdout[round(at * 25) * size :][:size]
    return [list(frame[row * width : (row + 1) * width]) for row in range(height)]


@pytest.fixture
def white(clips: Clips) -> Path:
    """A bright square picture, two seconds long, that beeps at one second."""
    path = clips.folder / "white.mp4"
    if not path.exists():
        graph = "aevalsrc='0.8*sin(2*PI*500*t)*between(t,1,1.08)':s=48000:d=2"
        draft = path.with_name(f".white.{id(path)}.mp4")
        subprocess.run(
            [
                *(ffmpegs.known(), "-v", "error", "-f", "lavfi", "-i", "color=white:s=64x64:d=2"),
                *("-f", "lavfi", "-i", graph, "-c:v", "libx264", "-c:a", "aac", str(draft)),
            ],
            check=True,
            timeout=60,
        )
        draft.rename(path)
    return path


def overlaid(source: Path, other: Path, target: Path, **options: Any) -> Version:
    overlay = {"media_id": "med_other", **options}
    encoding.make(
        source, target, {"med_other": other}, edit={"start": 0, "end": None, "overlay": overlay}
    )
    version = Version(target)
    checks.check(version)
    return version


PLACES = {
    "top-left": (0, 0),
    "top-right": (1, 0),
    "bottom-left": (0, 1),
    "bottom-right": (1, 1),
}


@pytest.mark.parametrize("position", PLACES)
def test_an_overlay_is_in_its_corner(
    position: str, clips: Clips, white: Path, target: Path
) -> None:
    version = overlaid(clips["silent.mp4"], white, target, position=position, size=0.25)
    bright = [
        (x, y)
        for y, row in enumerate(shown(version, 1.0))
        for x, value in enumerate(row)
        if value > 200
    ]
    right, bottom = PLACES[position]
    xs, ys = {x for x, _ in bright}, {y for _, y in bright}
    # A quarter of the width, square, and not quite at the edge.
    assert len(xs) == near(8, 1)
    assert len(ys) == near(8, 1)
    assert min(xs) == (near(23, 1) if right else near(1, 1))
    assert min(ys) == (near(9, 1) if bottom else near(1, 1))
    assert len(version["180p"].frames) == 75


def test_an_overlay_at_a_place_and_size_of_its_own(clips: Clips, white: Path, target: Path) -> None:
    version = overlaid(
        clips["silent.mp4"], white, target, position={"x": 0.5, "y": 0.0}, size=0.125
    )
    rows = shown(version, 1.0)
    assert [x for x, value in enumerate(rows[1]) if value > 200] == [
        near(n, 0) for n in range(16, 20)
    ]
    assert max(rows[8]) < 200


def test_an_overlay_that_ends_earlier_is_gone_then(clips: Clips, white: Path, target: Path) -> None:
    version = overlaid(clips["silent.mp4"], white, target, position="top-left")
    assert shown(version, 1.9)[3][3] > 200
    assert shown(version, 2.1)[3][3] < 150


@pytest.mark.parametrize(
    ("audible", "beeps"),
    [("main", FLASHES), ("overlay", [1.0]), ("both", sorted([*FLASHES, 1.0]))],
)
def test_the_sound_of_an_overlay_is_chosen(
    audible: str, beeps: list[float], clips: Clips, white: Path, target: Path
) -> None:
    version = overlaid(clips["plain.mp4"], white, target, sound=audible)
    [sound] = version.sounds
    assert checks.beeps(sound.samples) == [near(each, 0.03) for each in beeps]
    assert all(later > earlier for earlier, later in pairwise(sound.starts))


def test_a_silent_video_gets_the_sound_of_its_overlay(
    clips: Clips, white: Path, target: Path
) -> None:
    version = overlaid(clips["silent.mp4"], white, target)
    [sound] = version.sounds
    assert checks.beeps(sound.samples) == [near(1.0, 0.03)]


def test_an_overlay_is_trimmed_with_the_video(clips: Clips, white: Path, target: Path) -> None:
    overlay = {"media_id": "med_other", "position": "top-left", "sound": "both"}
    edit = {"start": 0.2, "end": 2.6, "overlay": overlay}
    encoding.make(clips["plain.mp4"], target, {"med_other": white}, edit=edit)
    version = Version(target)
    checks.check(version)
    assert len(version["180p"].frames) == 60
    assert shown(version, 1.7)[3][3] > 200
    assert shown(version, 1.9)[3][3] < 150
    [sound] = version.sounds
    assert checks.beeps(sound.samples) == [near(each, 0.03) for each in (0.2, 0.8, 2.0)]


def test_an_overlay_without_a_picture_is_refused(clips: Clips, target: Path) -> None:
    with pytest.raises(errors.PermanentFailure, match="no picture"):
        overlaid(clips["plain.mp4"], clips["music.wav"], target)
