"""Every kind of clip becomes a stream with the same frames at the same times, in step with its
sound, that any player can switch in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import m3u8  # type: ignore[import-untyped]
import pytest

import ffmpegs
from declared import declared
from handlers.transcode import checks, encoding
from handlers.transcode.checks import Rendition, Version, near
from handlers.transcode.clips import FLASHES, SECONDS, Clips, joined, rateless, shape_changing
from rushes.playback import growing
from rushes.playback.growing import Building
from rushes.tools import boxes

thorough = pytest.mark.thorough
WIDE, SMALL = (320, 180), (160, 90)
ALL = ("180p", "90p")


@dataclass(frozen=True)
class Case:
    """What a clip should become. `shift`: its first frame is shown so much after second 0."""

    clip: str
    sizes: Sequence[tuple[int, int]] = (WIDE, SMALL)
    names: Sequence[str] = ALL
    sound: bool = True
    shift: float = 0.0
    late: float = 0.041
    rounded: float = checks.ROUNDED_SECONDS


WITH_ORIGINAL = ("180p", "90p", "original")
THREE = (WIDE, WIDE, SMALL)
CASES = [
    Case("plain.mp4", THREE, WITH_ORIGINAL),
    Case("silent.mp4", THREE, WITH_ORIGINAL, sound=False),
    Case("portrait.mp4", ((180, 320), (180, 320), (90, 160)), WITH_ORIGINAL),
    Case("phone-90.mp4", ((180, 320), (90, 160))),
    Case("phone-180.mp4"),
    Case("phone-270.mov", ((180, 320), (90, 160))),
    Case("varying.mp4", late=0.081),
    Case("screen.webm", late=0.5),
    Case("interlaced.mpg"),
    Case("interlaced.mkv"),
    Case("anamorphic.mp4"),
    Case("odd.mkv"),
    Case("tiny.mp4", ((16, 16), (16, 16)), ("16p", "original")),
    Case("wide.mp4", ((960, 32), (960, 32)), ("32p", "original")),
    Case("ntsc.mp4"),
    Case("film.mkv", late=0.043),
    Case("one-key.mp4"),
    Case("cut.mp4", shift=0.32),
    Case("surround.mkv", THREE, WITH_ORIGINAL),
    Case("late-picture.mkv", THREE, WITH_ORIGINAL, shift=0.2),
    Case("stream.ts", THREE, WITH_ORIGINAL),
    Case("later.ts", THREE, WITH_ORIGINAL),
    Case("camera.avi"),
    Case("divx.avi"),
    Case("editing.mov"),
    Case("old.flv"),
    Case("office.wmv"),
    Case("free.ogv", late=0.081),
    Case("modern.webm"),
    Case("phone.3gp", ((110, 90),), ("90p",)),
    Case("moving.gif", (SMALL,), ("90p",), sound=False),
    Case("sparse.mp4", (SMALL,), ("90p",), sound=False),
]
# What the others show as well.
SLOW = ("phone-180.mp4", "office.wmv", "old.flv", "camera.avi", "phone-270.mov", "surround.mkv")


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=each.clip, marks=[thorough] * (each.clip in SLOW)) for each in CASES],
)
def test_a_clip_becomes_a_stream_of_the_same_frames(case: Case, clips: Clips, target: Path) -> None:
    source = clips[case.clip]
    made = encoding.make(source, target)
    version = Version(target)
    checks.check(version)
    assert sorted(version.names) == sorted(case.names)
    assert sorted(each.about.stream_info.resolution for each in version.videos) == sorted(
        case.sizes
    )
    frames = checks.frames_of("-i", str(source))
    if "interlaced" in case.clip:
        # Both halves of a frame show a moment of their own.
        frames = [replace(each, seconds=each.seconds + at) for each in frames for at in (0, 0.02)]
    for rendition in version.videos:
        checks.check_frames(rendition, frames, rounded=case.rounded)
    assert made.result["frames"] == len(frames)
    assert made.result["duration"] == near(sum(version.videos[0].seconds), 0.002)
    assert bool(version.sounds) == case.sound
    if case.sound:
        checks.check_in_step(version, [each - case.shift for each in FLASHES], late=case.late)
        assert sum(version.sounds[0].seconds) == near(SECONDS - case.shift, 0.06)
    assert checks.brightness(target / "thumbnail.jpg") > 12


@pytest.mark.parametrize("clip", ["pauses.mp4", "pauses.mkv", "dropped.webm", "still.ogv"])
def test_a_rate_that_varies_loses_no_frame(clip: str, clips: Clips, target: Path) -> None:
    """Encoders that reorder frames decode what follows a pause before it."""
    source = clips[clip]
    made = encoding.make(source, target, settings={"preset": "veryfast"})
    version = Version(target)
    checks.check(version)
    frames = checks.frames_of("-i", str(source))
    for rendition in version.encoded:
        checks.check_frames(rendition, frames, last=1.0)
    assert made.result["frames"] == len(frames)
    assert made.result["warnings"] == []
    checks.check_in_step(version, FLASHES)


def test_a_recording_of_a_browser_gets_no_frames_that_it_does_not_have(
    clips: Clips, target: Path
) -> None:
    source = rateless(clips)
    [stream] = checks.streams(str(source))
    assert stream["r_frame_rate"] == "1000/1"
    made = encoding.make(source, target)
    version = Version(target)
    checks.check(version)
    frames = checks.frames_of("-i", str(source))
    assert made.result["frames"] == len(frames)
    for rendition in version.videos:
        checks.check_frames(rendition, frames)
        assert rendition.about.stream_info.frame_rate < 40


@pytest.mark.parametrize("clip", ["pauses.mkv", "ntsc.mkv"])
def test_a_header_is_the_same_wherever_a_part_begins(clip: str, clips: Clips, target: Path) -> None:
    """Otherwise the parts of a long recording would not fit together."""
    settings = {"preset": "veryfast"}
    encoding.make(clips[clip], target / "whole", settings=settings)
    whole = Version(target / "whole")
    for start in (0.5, 1.37, 2.1):
        part = target / f"from-{start}"
        encoding.make(clips[clip], part, settings=settings, edit={"start": start, "end": None})
        for rendition in Version(part).videos:
            assert rendition.init == whole[rendition.name].init


def test_a_source_that_browsers_play_is_not_encoded_again(clips: Clips, target: Path) -> None:
    source = clips["plain.mp4"]
    encoding.make(source, target)
    version = Version(target)
    assert _packets(*version["original"].local) == _packets("-i", str(source))
    assert _packets(*version["180p"].local) != _packets("-i", str(source))


@pytest.mark.parametrize(
    ("clip", "why", "frames"),
    [
        ("open.mp4", "key frame", 75),
        ("trimmed.mp4", "not to be shown", 42),
        ("far-keys.mp4", "too far apart", 150),
        ("shape-changing.ts", "changes its shape", 150),
    ],
)
def test_what_players_would_stumble_over_is_not_copied(
    clip: str, why: str, frames: int, clips: Clips, target: Path
) -> None:
    source = shape_changing(clips) if clip.startswith("shape") else clips[clip]
    made = encoding.make(source, target)
    version = Version(target)
    checks.check(version)
    assert "original" not in version.names
    assert "original" not in made.result["renditions"]
    assert not [each for each in version.files if each.startswith("original/")]
    assert [each for each in made.lines if why in each]
    assert [len(each.frames) for each in version.videos] == [frames] * len(version.videos)
    assert made.result["frames"] == frames


def test_frames_that_are_shown_for_long_are_decoded_in_order(clips: Clips, target: Path) -> None:
    """A header that tells of seconds of delay shifts all in hls.js."""
    encoding.make(clips["slides.mp4"], target, settings={"preset": "veryfast"})
    version = Version(target)
    checks.check(version)
    for rendition in version.encoded:
        assert b"elst" not in rendition.init
        assert [each.seconds for each in rendition.frames] == [near(n, 0.001) for n in range(9)]
        for number, segment in enumerate(rendition.playlist.segments):
            [part] = boxes.Cutter().feed((rendition.folder / segment.uri).read_bytes())
            assert (part.start, part.ticks) == (number * 90_000, 90_000)


@pytest.mark.parametrize("clip", ["plain.mp4", "pauses.mkv", "ntsc.mp4"])
def test_the_longest_length_of_segments_is_told_once_and_for_all(
    clip: str, clips: Clips, target: Path
) -> None:
    """Players rely on it while a playlist grows (RFC 8216, section 6.2.1)."""
    made = encoding.make(clips[clip], target)
    told: dict[str, set[int]] = {}
    for report in made.reports:
        listed = declared(report.detail)
        building = Building(
            version_id="ver_1", args={"settings": encoding.SETTINGS}, renditions=listed
        )
        for each in listed:
            if each.segments_completed:
                seconds = dict.fromkeys(["init.mp4", "seg_00000.m4s"], 0.9)
                text = growing.media_playlist(building, each.name, seconds)
                told.setdefault(each.name, set()).add(m3u8.loads(text).target_duration)
    assert len(told) >= 2
    for name, found in told.items():
        assert found == {Rendition(target / name).playlist.target_duration}, name


def _packets(*arguments: str) -> list[str]:
    """The hash of every frame as it is stored, in the order of the file."""
    said = checks.tool(
        ffmpegs.known(), *arguments, "-map", "0:v", "-c", "copy", "-f", "framemd5", "-"
    )
    return [line.split()[-1] for line in said.splitlines() if not line.startswith("#")]


def test_the_original_is_left_out_of_the_master_when_players_could_not_switch_to_it(
    clips: Clips, target: Path
) -> None:
    made = encoding.make(clips["one-key.mp4"], target)
    assert made.result["temporary"] == ["original"]
    assert made.result["renditions"] == Version(target).names == ["180p", "90p"]


@pytest.mark.parametrize("clip", ["hdr10.mkv", "hlg.mp4"])
def test_hdr_becomes_what_every_screen_shows(clip: str, clips: Clips, target: Path) -> None:
    encoding.make(clips[clip], target)
    version = Version(target)
    checks.check(version)
    assert version.names == ["180p", "90p"]
    for rendition in version.videos:
        stream = rendition.stream
        assert stream["pix_fmt"] == "yuv420p"
        assert stream["color_transfer"] == stream["color_space"] == "bt709"
        assert rendition.about.stream_info.video_range == "SDR"
        assert len(rendition.frames) == 50
    checks.check_in_step(version, FLASHES[:1])


def test_frames_of_interlaced_video_have_no_combs(clips: Clips, target: Path) -> None:
    encoding.make(clips["interlaced.mkv"], target)
    graph = ["-vf", "idet,metadata=print:key=lavfi.idet.multiple.current_frame:file=-"]
    said = checks.tool(ffmpegs.known(), *Version(target)["180p"].local, *graph, "-f", "null", "-")
    found = re.findall(r"current_frame=(\w+)", said)
    assert len(found) == 150
    assert found.count("progressive") > 120


def test_very_fast_video_gets_sixty_frames_a_second(clips: Clips, target: Path) -> None:
    encoding.make(clips["fast.mp4"], target)
    version = Version(target)
    checks.check(version)
    [rendition] = version.videos
    assert len(rendition.frames) == 120
    assert rendition.about.stream_info.frame_rate == 60
    checks.check_in_step(version, FLASHES[:1])


def test_a_single_frame_is_a_video(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["one-frame.mp4"], target)
    version = Version(target)
    checks.check(version)
    assert [len(each.frames) for each in version.videos] == [1, 1]
    assert sum(version["180p"].seconds) == near(0.04, 0.001)
    assert made.result["frames"] == 1


def test_times_that_a_file_does_not_tell_are_found(clips: Clips, target: Path) -> None:
    """AVI keeps no times of frames that are reordered; a bare stream keeps none at all."""
    for clip in ("reordered.avi", "bare.h264"):
        made = encoding.make(clips[clip], target / clip)
        version = Version(target / clip)
        checks.check(version)
        frames = version["90p"].frames
        assert [each.seconds for each in frames] == [near(n * 0.04, 0.002) for n in range(75)]
        if version.sounds:
            checks.check_in_step(version, FLASHES)
        assert "the source's times are broken: it is put in order first" in made.lines


def test_a_stream_that_was_joined_late_begins_with_its_first_key_frame(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    data = clips["stream.ts"].read_bytes()
    path = tmp_path / "joined-late.ts"
    # The tables of the first three packets, then on from the middle of a second.
    path.write_bytes(data[: 188 * 3] + data[188 * 150 :])
    encoding.make(path, target)
    version = Version(target)
    checks.check(version)
    assert len(version["90p"].frames) == 50
    checks.check_in_step(version, [FLASHES[1] - 1])


def test_two_recordings_in_one_file_are_shown_one_after_the_other(
    clips: Clips, target: Path
) -> None:
    encoding.make(joined(clips), target)
    version = Version(target)
    checks.check(version)
    assert len(version["90p"].frames) == 150
    checks.check_in_step(version, [*FLASHES, *(SECONDS + each for each in FLASHES)], late=0.1)


def test_sound_that_begins_late_stays_where_it_belongs(clips: Clips, target: Path) -> None:
    encoding.make(clips["late-sound.mp4"], target)
    version = Version(target)
    checks.check(version)
    [sound] = version.sounds
    assert checks.beeps(sound.samples) == [near(FLASHES[1], checks.IN_STEP_SECONDS)]
    assert sum(sound.seconds) == near(SECONDS, 0.05)


def test_tracks_of_sound_can_be_chosen(clips: Clips, target: Path) -> None:
    encoding.make(clips["languages.mkv"], target)
    version = Version(target)
    checks.check(version)
    media = version.master.media
    assert [each.language for each in media] == ["en", "de", None]
    assert [each.default for each in media] == ["YES", "NO", "NO"]
    assert [each.name for each in media] == ["en", "Kommentar 'laut'", "Audio"]
    assert len({each.name for each in media}) == 3
    tones = [_tone(sound.samples) for sound in version.sounds]
    assert tones == [near(1000, 30), near(500, 30), near(2000, 30)]


def _tone(samples: Sequence[int]) -> float:
    """Hertz, by counting where the first beep crosses zero."""
    begin = int((FLASHES[0] + 0.02) * checks.RATE)
    beep = samples[begin : begin + checks.RATE // 20]
    crossings = sum(1 for one, other in pairwise(beep) if one < 0 <= other)
    return crossings * 20


MUSIC = ["music.mp3", "music.m4a", "music.flac", "music.wav", "music.ogg", "telephone.wav"]


@pytest.mark.parametrize("clip", MUSIC)
def test_sound_alone_gets_renditions_and_a_waveform(clip: str, clips: Clips, target: Path) -> None:
    made = encoding.make(clips[clip], target)
    version = Version(target)
    checks.check(version)
    assert made.result["kind"] == "audio"
    assert made.result["duration"] == near(SECONDS, 0.05)
    assert [each.name for each in version.sounds] == ["audio-128k", "audio-64k"]
    for sound in version.sounds:
        assert checks.beeps(sound.samples) == [near(each, 0.01) for each in FLASHES]
        assert sound.about.stream_info.bandwidth >= sound.peak - 2
    wave = json.loads((target / "waveform.json").read_text())
    assert wave["seconds"] == near(SECONDS, 0.05)
    assert all(0 <= each <= 1 for each in wave["peaks"])
    loud = [n * SECONDS / len(wave["peaks"]) for n, each in enumerate(wave["peaks"]) if each > 0.5]
    assert {round(each, 1) for each in loud} == {0.4, 0.5, 2.2, 2.3}
    assert "thumbnail.jpg" in version.files


def test_chapters_become_a_track_and_subtitles_are_told(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["described.mkv"], target)
    checks.check(Version(target))
    text = (target / "chapters.vtt").read_text()
    found = re.findall(r"00:00:0(\S+) --> 00:00:0(\S+)\n(.+)", text)
    assert [each[2] for each in found] == ["Hello &lt;b>", "Two → &amp; more"]
    times = [float(each) for each in (*found[0][:2], *found[1][:2])]
    # Sound that begins before zero moves all times of such a file.
    assert times == [near(each, 0.022) for each in (0, 1, 1, 3)]
    assert made.result["subtitles"] == ["subtitles"]


def test_sound_alone_has_its_chapters_too(clips: Clips, target: Path, tmp_path: Path) -> None:
    sound = tmp_path / "described.mka"
    argv = [ffmpegs.known(), "-v", "error", "-i", str(clips["described.mkv"]), "-vn"]
    subprocess.run([*argv, "-sn", "-c", "copy", sound], check=True, timeout=60)
    made = encoding.make(sound, target)
    checks.check(Version(target))
    assert made.result["chapters"] == 2
    assert "Two → &amp; more" in (target / "chapters.vtt").read_text()


def test_the_thumbnail_is_not_the_black_beginning(clips: Clips, target: Path) -> None:
    encoding.make(clips["dark.mp4"], target)
    assert checks.brightness(target / "thumbnail.jpg") > 25


def test_a_storyboard_is_whole_when_the_decoder_cannot_skip_frames(
    clips: Clips, target: Path
) -> None:
    encoding.make(clips["many-keys.ogv"], target)
    checks.check_storyboard(Version(target))


def test_frames_that_an_encoder_reorders_are_in_step_too(clips: Clips, target: Path) -> None:
    """The default preset holds frames back, the one of the other tests does not."""
    encoding.make(clips["ntsc.mp4"], target, settings={"preset": "veryfast"})
    version = Version(target)
    checks.check(version)
    checks.check_in_step(version, FLASHES)


@thorough
@pytest.mark.timeout(900)
def test_two_hours_are_whole(clips: Clips, target: Path) -> None:
    settings = {
        "segment_seconds": 4,
        "ladder": [{"height": 64, "bitrate": 100}],
        "divide_after": 1e6,
    }
    made = encoding.make(clips["hours.mp4"], target, settings=settings)
    version = Version(target)
    assert made.result["duration"] == 7200
    assert made.result["segments"] == 1800
    [rendition] = version.encoded
    assert [each.seconds for each in rendition.frames] == [near(n, 0.002) for n in range(7200)]
    assert sum(version.sounds[0].seconds) == near(7200, 0.05)
    checks.check_storyboard(version)
