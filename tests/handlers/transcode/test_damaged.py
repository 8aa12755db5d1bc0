"""Whatever is damaged in a file, people get a plain sentence or something to watch."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from handlers.transcode import checks, encoding
from handlers.transcode.checks import Rendition, Version, near
from handlers.transcode.clips import ENVIRONMENT, FLASHES, Clips
from handlers.transcode.damage import damaged
from rushes import errors
from rushes.tools import ffmpeg

COUNT = int(os.environ.get("RUSHES_TEST_DAMAGED", "1000"))
LIMIT_SECONDS = 60
TELLTALE = ("/", "0x", "ffmpeg", "ffprobe", "Error", "status", "Invalid", "[", "\n")


def outcome(source: Path, target: Path) -> str:
    """The sentence for people; empty when there is something to watch."""
    began = time.monotonic()
    message = ""
    try:
        made = encoding.make(source, target)
    except errors.PermanentFailure as error:
        message = error.message
        assert message
        assert not [each for each in TELLTALE if each in message], message
    else:
        for warning in made.result["warnings"]:
            assert not [each for each in TELLTALE if each in warning], warning
        check_watchable(Version(target))
    assert time.monotonic() - began < LIMIT_SECONDS
    check_nothing_is_left(source, target)
    return message


def check_watchable(version: Version) -> None:
    assert version.videos or version.sounds
    for rendition in [*version.videos, *version.sounds]:
        checks.check_playlist(rendition)
    for rendition in version.videos:
        assert len(rendition.seconds) == len(version.videos[0].seconds)
        if rendition.name == "original":
            # What is damaged in a source is damaged in a copy of it.
            decode(rendition)
        else:
            assert rendition.frames
    for rendition in version.sounds:
        decode(rendition, "-max_error_rate", "0")


def decode(rendition: Rendition, *options: str) -> None:
    """Not every complaint of a decoder is a fault."""
    argv = [ffmpegs.known(), "-v", "quiet", *options, *rendition.local, "-f", "null", "-"]
    subprocess.run(argv, check=True, timeout=60, env=ENVIRONMENT)


def check_nothing_is_left(source: Path, target: Path) -> None:
    scratch = target.with_name(f"{target.name}.scratch")
    assert not scratch.exists() or not list(scratch.iterdir())
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert os.fsencode(source) not in each.read_bytes()
        except OSError:
            continue


@pytest.mark.parametrize("number", range(50))
def test_a_damaged_file_is_refused_or_watched(
    number: int, clips: Clips, tmp_path: Path, target: Path
) -> None:
    outcome(damaged(number, clips, tmp_path), target)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", range(20))
def test_many_damaged_files(group: int, clips: Clips, tmp_path: Path) -> None:
    """RUSHES_TEST_DAMAGED says how many."""
    wrong = {}
    for number in range(50 + group, 50 + COUNT, 20):
        target = tmp_path / f"made-{number}"
        try:
            outcome(damaged(number, clips, tmp_path), target)
        except (AssertionError, errors.JobOutcome) as error:
            wrong[number] = str(error)[:300]
        shutil.rmtree(target, ignore_errors=True)
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.mp4", b""),
        ("one-byte.mp4", b"\0"),
        ("text.mp4", b"Dear diary,\n" * 100),
        ("zeros.mkv", bytes(100_000)),
        ("page.webm", b"<!doctype html><title>Not found</title>"),
        ("archive.mov", b"PK\x03\x04" + bytes(1000)),
        ("header-only.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"),
        ("riff.avi", b"RIFF\xff\xff\xff\xffAVI LIST"),
    ],
)
def test_what_is_no_media_is_refused(
    name: str, content: bytes, tmp_path: Path, target: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert outcome(path, target)


def test_a_picture_is_refused_as_one(clips: Clips, tmp_path: Path, target: Path) -> None:
    path = tmp_path / "holiday.mp4"
    path.write_bytes(clips["cover.jpg"].read_bytes())
    assert outcome(path, target)


def test_an_interrupted_recording_is_told_as_such(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    path = tmp_path / "recording.mp4"
    path.write_bytes(clips["silent.mp4"].read_bytes()[:60_000])
    assert "index is missing" in outcome(path, target)


def test_a_copy_that_ended_early_is_watched_as_far_as_it_goes(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    for clip in ("described.mkv", "stream.ts", "plain.mp4"):
        data = clips[clip].read_bytes()
        path = tmp_path / clip
        path.write_bytes(data[: len(data) * 2 // 3])
        made = target / clip
        assert outcome(path, made) == ""
        assert 30 < len(Version(made)["90p"].frames) < 75


def broken_stream(source: Path, target: Path, which: str) -> Path:
    """All payload of one stream is noise."""
    said = checks.tool(
        ffmpegs.known("ffprobe"), "-select_streams", which, "-show_entries", "packet=pos,size",
        "-of", "csv=p=0", str(source),
    )  # fmt: skip
    data = bytearray(source.read_bytes())
    for line in filter(None, said.splitlines()):
        size, at = (int(each) for each in line.strip(",").split(",")[:2])
        data[at : at + size] = os.urandom(size)
    target.write_bytes(data)
    return target


def test_a_picture_that_cannot_be_decoded_is_refused(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    source = broken_stream(clips["plain.mp4"], tmp_path / "broken.mp4", "v:0")
    assert outcome(source, target)


def test_sound_that_is_damaged_in_the_middle_is_mended(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    """Kept as it is, it would stop a player."""
    data = bytearray(clips["plain.mp4"].read_bytes())
    said = checks.tool(
        ffmpegs.known("ffprobe"), "-select_streams", "a:0", "-show_entries", "packet=pos,size",
        "-of", "csv=p=0", str(clips["plain.mp4"]),
    )  # fmt: skip
    places = [line.strip(",").split(",") for line in said.splitlines() if line]
    for size, at in places[60:80]:
        data[int(at) : int(at) + int(size)] = b"\xff" * int(size)
    path = tmp_path / "broken.mp4"
    path.write_bytes(data)
    assert outcome(path, target) == ""
    version = Version(target)
    checks.check_in_step(version, FLASHES)
    assert sum(version.sounds[0].seconds) == near(3, 0.06)


def test_sound_that_cannot_be_decoded_does_not_keep_the_picture_away(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    source = broken_stream(clips["late-sound.mp4"], tmp_path / "broken.mp4", "a:0")
    assert outcome(source, target) == ""
    assert len(Version(target)["90p"].frames) == 75


def without_frames(source: Path, target: Path, numbers: slice) -> Path:
    """Nothing is left of these frames but their place."""
    said = checks.tool(
        ffmpegs.known("ffprobe"), "-select_streams", "v:0", "-show_entries", "packet=pos,size",
        "-of", "csv=p=0", str(source),
    )  # fmt: skip
    places = [line.strip(",").split(",") for line in said.splitlines() if line]
    data = bytearray(source.read_bytes())
    for size, at in places[numbers]:
        data[int(at) + 8 : int(at) + 8 + int(size) - 8] = bytes(int(size) - 8)
    target.write_bytes(data)
    return target


def test_frames_that_cannot_be_decoded_are_counted(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    """All else stays at its time."""
    path = without_frames(clips["camera.avi"], tmp_path / "broken.avi", slice(30, 33))
    made = encoding.make(path, target)
    times = [each.seconds for each in Version(target)["90p"].frames]
    assert times == [near(n * 0.04, 0.002) for n in range(75) if n not in (30, 31, 32)]
    assert made.result["warnings"] == ["3 frames of the picture could not be decoded"]


def test_frames_of_a_fast_video_that_cannot_be_decoded_are_counted(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    """Others are shown in their place when it comes down to sixty a second."""
    path = without_frames(clips["fast.avi"], tmp_path / "broken.avi", slice(30, 33))
    made = encoding.make(path, target)
    assert len(Version(target)["90p"].frames) == 120
    assert made.result["warnings"] == ["3 frames of the picture could not be decoded"]


@pytest.mark.parametrize(
    ("clip", "source", "frames"), [("plain.mp4", 75, 75), ("fast.mp4", 240, 120)]
)
def test_a_frame_that_gets_lost_in_silence_is_not_published(
    clip: str,
    source: int,
    frames: int,
    clips: Clips,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An encoder that swallows a frame of a healthy source; then one that does not."""
    graph = ffmpeg._graph

    def swallowing(*arguments: Any) -> str:
        return graph(*arguments).replace("split=", "select='not(eq(n,30))',split=")

    with monkeypatch.context() as patch:
        patch.setattr(ffmpeg, "_graph", swallowing)
        with pytest.raises(errors.TransientFailure, match="lost"):
            encoding.make(clips[clip], target)
    assert not (target / "master.m3u8").exists()
    made = encoding.make(clips[clip], target)
    assert made.result["frames"] == source
    assert len(Version(target)["90p"].frames) == frames
