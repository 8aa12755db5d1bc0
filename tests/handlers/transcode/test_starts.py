"""How many programs a job starts: each costs a tenth of a second with some builds of ffmpeg."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version
from handlers.transcode.clips import Clips
from rushes import errors
from rushes.handlers.transcode import images
from rushes.tools import probe, process


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Programs with their arguments, in the order in which they were started."""
    found: list[Sequence[str]] = []
    begin = process.Running.__init__

    def note(self: process.Running, argv: Sequence[str], *rest: Any, **more: Any) -> None:
        found.append(argv)
        begin(self, argv, *rest, **more)

    monkeypatch.setattr(process.Running, "__init__", note)
    return found


def named(commands: Sequence[Sequence[str]]) -> list[str]:
    return [Path(argv[0]).name for argv in commands]


def test_a_short_recording_is_looked_into_once(
    clips: Clips, target: Path, commands: list[Sequence[str]]
) -> None:
    # Looked for, and tried, once for all jobs.
    encoding.make(clips["plain.mp4"], target.with_name("before"))
    commands.clear()
    encoding.make(clips["plain.mp4"], target)
    assert named(commands)[0] == "ffprobe"
    assert named(commands).count("ffprobe") == 1


def test_a_lively_thumbnail_takes_one_program(
    tmp_path: Path, commands: list[Sequence[str]]
) -> None:
    source, folder = tmp_path / "lively.mkv", tmp_path / "made"
    graph = "testsrc2=s=320x180:r=5:d=2"
    run = [ffmpegs.known(), "-v", "error", "-f", "lavfi", "-i", graph, "-c:v", "mpeg4", str(source)]
    subprocess.run(run, check=True)
    encoding.make(source, folder.with_name("before"))
    commands.clear()
    encoding.make(source, folder)
    assert named(commands) == ["ffprobe", *["ffmpeg"] * 3], "ladder, thumbnail, storyboard"


def test_small_pictures_are_taken_from_the_smallest_rung(
    clips: Clips, target: Path, commands: list[Sequence[str]]
) -> None:
    """To decode the source once more would be a twentieth of the whole work."""
    encoding.make(clips["plain.mp4"], target)
    [argv] = [each for each in commands if "file:storyboard-%d.jpg" in each]
    assert not any(str(clips["plain.mp4"]) in word for word in argv)
    assert any(word.endswith("rung.mp4") for word in argv)
    checks.check_storyboard(Version(target))


def test_small_pictures_of_what_was_made_before_are_taken_from_the_source(
    clips: Clips, target: Path, commands: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise errors.TransientFailure("as if it had been killed here")

    with monkeypatch.context() as patched, pytest.raises(errors.TransientFailure):
        patched.setattr(images, "storyboard", killed)
        encoding.make(clips["plain.mp4"], target)
    encoding.make(clips["plain.mp4"], target)
    [argv] = [each for each in commands if "file:storyboard-%d.jpg" in each]
    assert any(str(clips["plain.mp4"]) in word for word in argv)
    checks.check_storyboard(Version(target))


@pytest.mark.parametrize("clip", ["plain.mp4", "short-picture.mkv", "late-picture.mkv"])
def test_it_is_the_same_whether_all_packets_are_read_at_once(
    clip: str,
    clips: Clips,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    commands: list[Sequence[str]],
) -> None:
    once = encoding.make(clips[clip], target)
    monkeypatch.setattr(probe, "SMALL_BYTES", 0)
    for count in (256, 4):
        monkeypatch.setattr(probe, "FIRST_PACKETS", count)
        commands.clear()
        again = encoding.make(clips[clip], target.with_name(f"again-{count}"))
        assert again.result == once.result
    assert named(commands).count("ffprobe") > 2


def test_packets_are_told_apart_by_stream() -> None:
    streams = [
        {"index": 0, "codec_type": "audio", "codec_name": "aac", "sample_rate": 48000,
         "channels": 2},
        {"index": 1, "codec_type": "video", "codec_name": "h264", "width": 16, "height": 16},
    ]  # fmt: skip
    sound = {"stream_index": 0, "pts": 0, "flags": "K__", "pts_time": "0.5", "duration_time": "0.1"}
    packets = [
        sound,
        {"stream_index": 1, "pts": 7, "dts": 5, "flags": "K__"},
        {"stream_index": 1, "dts": 6, "flags": "___"},
        {"stream_index": 1, "pts": 9, "dts": 7, "flags": "_D_"},
    ]
    found = probe.read({"streams": streams, "packets": packets}, 5)
    assert found.is_whole
    assert found.sound_end == pytest.approx(0.6)
    picture = found.packets[1]
    assert (picture.pts, picture.keys, picture.missing) == ([7], [7], 1)
    assert not probe.read({"streams": streams, "packets": packets}, 4).is_whole
    assert not probe.read({"streams": streams}).is_whole
