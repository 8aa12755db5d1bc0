"""What people choose: qualities, ladder, codecs, segments, and the device that encodes."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version, near
from handlers.transcode.clips import FLASHES, Clips
from rushes import errors
from rushes.tools import encoders, profile, programs


def rows(made: encoding.Made) -> dict[str, dict[str, Any]]:
    detail = made.reports[-1].detail
    assert detail is not None
    return {row["name"]: row for row in detail["renditions"]}


def test_only_the_chosen_qualities_are_made(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["ntsc.mp4"], target, qualities=["90p"])
    assert Version(target).names == ["90p"]
    assert rows(made)["180p"]["status"] == "skipped"
    assert rows(made)["90p"]["status"] == "completed"


def test_rungs_above_the_source_are_skipped(clips: Clips, target: Path) -> None:
    ladder = [{"height": height, "bitrate": 300} for height in (360, 180, 120)]
    made = encoding.make(clips["ntsc.mp4"], target, settings={"ladder": ladder})
    version = Version(target)
    assert version.names == ["180p", "120p"]
    assert rows(made)["360p"]["status"] == "skipped"
    assert version["120p"].about.stream_info.resolution == (214, 120)


@pytest.mark.parametrize(
    ("settings", "listed", "kept"),
    [
        ({}, True, True),
        ({"original_bitrate": 1}, False, False),
        ({"original_bitrate": 1, "keep_original": True}, False, True),
        ({"ladder": [{"height": 180, "bitrate": 50}]}, False, False),
        ({"ladder": [{"height": 180, "bitrate": 50}], "original_bitrate": 9000}, True, True),
        ({"original": False}, False, False),
    ],
)
def test_the_copy_is_listed_and_kept_as_the_profile_says(
    settings: dict[str, Any], listed: bool, kept: bool, clips: Clips, target: Path
) -> None:
    made = encoding.make(clips["plain.mp4"], target, settings=settings)
    assert ("original" in Version(target).names) == listed
    assert ("original/playlist.m3u8" in made.folder.joinpath("master.m3u8").read_text()) == listed
    assert ("original" in made.result["renditions"]) == kept
    gone = (target / "original").exists() and not kept
    assert made.result["temporary"] == ["original"] * gone
    if gone:
        assert rows(made)["original"]["status"] == "skipped"


def test_segments_are_as_long_as_requested(clips: Clips, target: Path) -> None:
    encoding.make(clips["ntsc.mp4"], target, settings={"segment_seconds": 2})
    version = Version(target)
    checks.check(version)
    assert version["180p"].seconds == [near(2.002, 0.001), near(1.001, 0.001)]
    assert version["180p"].playlist.target_duration == 2


@pytest.mark.parametrize("codec", ["hevc", "av1"])
def test_other_codecs_are_additional_renditions(codec: str, clips: Clips, target: Path) -> None:
    ladder = [{"height": 90, "bitrate": 200}]
    encoding.make(clips["ntsc.mp4"], target, settings={"codecs": ["h264", codec], "ladder": ladder})
    version = Version(target)
    checks.check(version)
    assert sorted(version.names) == sorted(["90p", f"90p-{codec}"])
    assert version[f"90p-{codec}"].stream["codec_name"] == codec
    checks.check_in_step(version, FLASHES)


def test_progress_tells_every_step_and_never_goes_back(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["plain.mp4"], target)
    stages = list(dict.fromkeys(report.stage for report in made.reports))
    assert stages == ["probe", "thumbnail", "transcode", "master_playlist", "finalize"]
    values = [report.progress for report in made.reports]
    assert values == sorted(values)
    for row in rows(made).values():
        assert row["status"] == "completed"
        assert row["segments_completed"] == row["segments_total"] == 3
        assert row["progress"] == 1
    assert rows(made)["180p"]["encoder"] == "libx264"


def test_a_second_run_makes_nothing_again(clips: Clips, target: Path) -> None:
    encoding.make(clips["ntsc.mp4"], target)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*.m4s")}
    made = encoding.make(clips["ntsc.mp4"], target)
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*.m4s")} == before
    assert made.result["frames"] == 90
    checks.check(Version(target))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"preset": "placebo"}, "preset"),
        ({"codecs": ["hevc"]}, "h264"),
        ({"ladder": []}, "ladder"),
        ({"ladder": [{"height": 90, "bitrate": 100}] * 2}, "twice"),
        ({"crf": 99}, "crf"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_wrong_profile_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadField, match=said):
        profile.decode(settings)


def test_a_profile_survives_being_written_down() -> None:
    given = profile.decode({"codecs": ["h264", "av1"], "crf": 20, "segment_seconds": 6})
    assert profile.decode(profile.encode(given)) == given
    assert profile.names(given)[:2] == ["2160p", "1440p"]
    assert profile.names(given)[6] == "2160p-av1"


# Devices

DEVICES = {
    "nvenc": ("h264_nvenc", ["-rc", "vbr", "-cq", "23"], []),
    "qsv": ("h264_qsv", ["-global_quality", "23"], ["-init_hw_device", "qsv=hw"]),
    "vaapi": ("h264_vaapi", ["-rc_mode", "QVBR"], ["-init_hw_device"]),
    "videotoolbox": ("h264_videotoolbox", ["-b:v", "800k"], []),
}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_asked_for_capped_quality_and_forced_key_frames(name: str) -> None:
    program, quality, device = DEVICES[name]
    encoder = encoders.BY_NAME[name]
    arguments = encoder.arguments("h264", bitrate=800, crf=23, preset="veryfast")
    assert arguments[:2] == ["-c:v", program]
    for wanted in (quality, ["-maxrate", "800k"], ["-bufsize", "1600k"], ["-g", "9999"]):
        at = arguments.index(wanted[0])
        assert arguments[at : at + len(wanted)] == wanted
    assert list(encoder.device[: len(device)]) == device
    assert "hvc1" in encoder.arguments("hevc", bitrate=800, crf=23, preset="veryfast")


def test_software_works_and_a_device_that_is_not_there_does_not() -> None:
    encoders.works.cache_clear()
    assert encoders.works("software", "h264")
    assert not encoders.works("videotoolbox", "h264")
    assert not encoders.works("videotoolbox", "av1")
    assert encoders.choose("videotoolbox", ["h264"]).name == "software"
    encoders.works.cache_clear()


# A device that encodes what it is tested with, and fails at real work: in truth libx264.
DEVICE = """#!{python}
import os, subprocess, sys
real, dies, argv = {real!r}, {dies!r}, sys.argv[1:]
if "h264_nvenc" not in argv:
    os.execv(real, [real, *argv])
plain, skip = [], 0
for word in argv:
    if skip:
        skip -= 1
    elif word in ("-rc", "-cq", "-forced-idr", "-no-scenecut", "-preset", "-b:v"):
        skip = 1
    elif word == "h264_nvenc":
        plain += ["libx264", "-preset", "ultrafast", "-sc_threshold", "0"]
        if dies == "later" and "null" not in argv:
            plain += ["-frames:v", "40"]
    else:
        plain.append(word)
if dies == "at once" and "null" not in argv:
    sys.exit("no capable devices found")
subprocess.run([real, *plain], close_fds=False, check=True)
if dies == "later" and "null" not in argv:
    sys.exit("device lost")
"""


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    real = programs.ffmpeg()

    def install(dies: str) -> None:
        path = tmp_path / "ffmpeg-with-device"
        path.write_text(DEVICE.format(python=sys.executable, real=real, dies=dies))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        programs.use(ffmpeg=str(path))
        encoders.works.cache_clear()

    yield install
    programs.use()
    encoders.works.cache_clear()


def test_a_device_that_works_is_used_and_named(
    device: Callable[[str], None], clips: Clips, target: Path
) -> None:
    device("never")
    made = encoding.make(clips["ntsc.mp4"], target, settings={"encoder": "nvenc"})
    checks.check(Version(target))
    assert rows(made)["180p"]["encoder"] == "h264_nvenc"
    assert not any("software" in line for line in made.lines)


@pytest.mark.parametrize("dies", ["at once", "later"])
def test_a_device_that_fails_is_replaced_in_the_same_attempt(
    dies: str, device: Callable[[str], None], clips: Clips, target: Path
) -> None:
    device(dies)
    made = encoding.make(clips["ntsc.mp4"], target, settings={"encoder": "nvenc"})
    version = Version(target)
    checks.check(version)
    assert [len(each.frames) for each in version.videos] == [90, 90]
    assert rows(made)["180p"]["encoder"] == rows(made)["90p"]["encoder"] == "libx264"
    assert any("starting over in software" in line for line in made.lines)
