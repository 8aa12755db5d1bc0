"""How many programs a job starts: each costs a tenth of a second with some builds of ffmpeg."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from rushes.tools import probe, process
from transcode import studio
from transcode.clips import Clips


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs, in the order in which they were started."""
    names: list[str] = []
    begin = process.Running.__init__

    def note(self: process.Running, argv: Sequence[str], *rest: Any, **more: Any) -> None:
        names.append(Path(argv[0]).name)
        begin(self, argv, *rest, **more)

    monkeypatch.setattr(process.Running, "__init__", note)
    return names


def test_a_short_recording_is_looked_into_once(
    clips: Clips, target: Path, started: list[str]
) -> None:
    # Looked for, and tried, once for all jobs.
    studio.make(clips["plain.mp4"], target.with_name("before"))
    started.clear()
    studio.make(clips["plain.mp4"], target)
    assert started[0] == "ffprobe"
    assert started.count("ffprobe") == 1


def test_a_lively_thumbnail_takes_one_program(tmp_path: Path, started: list[str]) -> None:
    source, folder = tmp_path / "lively.mkv", tmp_path / "made"
    graph = "testsrc2=s=320x180:r=5:d=2"
    run = [ffmpegs.known(), "-v", "error", "-f", "lavfi", "-i", graph, "-c:v", "mpeg4", str(source)]
    subprocess.run(run, check=True)
    studio.make(source, folder.with_name("before"))
    started.clear()
    studio.make(source, folder)
    assert started == ["ffprobe", *["ffmpeg"] * 3], "ladder, thumbnail, storyboard"


@pytest.mark.parametrize("clip", ["plain.mp4", "short-picture.mkv", "late-picture.mkv"])
def test_it_is_the_same_whether_all_packets_are_read_at_once(
    clip: str, clips: Clips, target: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    once = studio.make(clips[clip], target)
    monkeypatch.setattr(probe, "SMALL_BYTES", 0)
    for count in (256, 4):
        monkeypatch.setattr(probe, "FIRST_PACKETS", count)
        started.clear()
        again = studio.make(clips[clip], target.with_name(f"again-{count}"))
        assert again.result == once.result
    assert started.count("ffprobe") > 2


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
