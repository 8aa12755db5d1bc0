"""Everything that a recording brings along is there in what is made, or is named as missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from handlers.transcode import checks, encoding
from handlers.transcode.checks import DASH, Version, near
from handlers.transcode.clips import Clips
from handlers.transcode.test_clips import _tone
from rushes.tools import languages, playlist, probe, subtitles


def sets(target: Path, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.parse(target / "manifest.mpd").getroot()
    return [each for each in root.iter(f"{DASH}AdaptationSet") if each.get("contentType") == kind]


def roles(each: ElementTree.Element) -> list[str | None]:
    return [role.get("value") for role in each.iter(f"{DASH}Role")]


def cues(path: Path) -> list[subtitles.SubtitleCue]:
    text = path.read_text()
    assert text.startswith("WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n\n")
    return list(subtitles.read(text))


@pytest.mark.parametrize("clip", ["subtitled.mkv", "subtitled.mp4"])
def test_subtitles_become_tracks_of_hls_and_dash(clip: str, clips: Clips, target: Path) -> None:
    made = encoding.make(clips[clip], target)
    version = Version(target)
    checks.check(version)
    texts = [each for each in version.master.media if each.type == "SUBTITLES"]
    assert [(each.language, each.default, each.forced, each.uri) for each in texts] == [
        ("de", "NO", "YES", "subtitles/playlist.m3u8"),
        ("en", "YES", "NO", "subtitles-1/playlist.m3u8"),
    ]
    for stream in version.master.playlists:
        assert stream.stream_info.subtitles == texts[0].group_id
    first, second = cues(target / "subtitles/captions.vtt")
    assert first.start == near(0.2, 0.01)
    assert first.end == near(0.9, 0.01)
    assert re.sub("</?i>", "", first.text) == "Guten Tag"
    assert second.start == near(1.5, 0.01)
    assert "<" not in second.text
    assert "--&gt; more" in second.text
    [hello] = cues(target / "subtitles-1/captions.vtt")
    assert re.sub("</?b>", "", hello.text) == "Hello\nthere"
    german, english = sets(target, "text")
    assert (german.get("lang"), roles(german)) == ("de", ["forced-subtitle"])
    assert (english.get("lang"), roles(english)) == ("en", ["subtitle", "main"])
    files = [each.text for each in german.iter(f"{DASH}BaseURL")]
    assert files == ["subtitles/captions.vtt"]
    assert made.result["subtitles"] == ["subtitles", "subtitles-1"]
    assert made.result["warnings"] == []


def test_subtitles_are_cut_with_the_picture(clips: Clips, target: Path) -> None:
    encoding.make(clips["subtitled.mkv"], target, edit={"start": 0.6, "end": 2.0})
    first, second = cues(target / "subtitles/captions.vtt")
    assert first.start == 0
    assert first.end == near(0.3, 0.03)
    assert second.start == near(0.9, 0.03)
    assert second.end == near(1.4, 0.05)


def test_subtitles_that_are_pictures_are_named(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["pictures.mkv"], target)
    [said] = made.result["warnings"]
    assert said == "subtitles that are pictures, not text, were left out: fr hdmv_pgs_subtitle"
    assert made.reports[-1].detail["warnings"] == [{"code": "picture_subtitles", "message": said}]  # type: ignore[index]
    assert said in made.lines
    assert not any(each.type == "SUBTITLES" for each in Version(target).master.media)


def test_hostile_subtitles_are_escaped_and_cut() -> None:
    nasty = "<scr<b>ipt>alert(1)</script>&lt;img src=x onerror=y&gt; a-->b \x1b[2J"
    shown = subtitles.safe(nasty)
    assert re.sub("</?b>", "", shown).count("<") == 0
    assert "--&gt;" in shown
    assert "\x1b" not in shown
    many = "WEBVTT\n\n" + "".join(
        f"{n // 60:02d}:{n % 60:02d}.000 --> {n // 60:02d}:{n % 60:02d}.900\nline {n}\n\n"
        for n in range(3600)
    )
    made = subtitles.written(many * 30, zero=0.0, seconds=3600.0)
    assert made.cut
    assert made.cues == subtitles.MOST_CUES
    long = f"WEBVTT\n\n00:00.000 --> 00:01.000\n{'x' * 10_000_000}\n\n"
    assert len(subtitles.written(long, zero=0.0, seconds=2.0).text) < 2000


def test_captions_stand_beside_subtitles() -> None:
    video = playlist.Video(
        name="90p", width=160, height=90, bandwidth=1, average_bandwidth=1, codecs="avc1",
        frame_rate=25,
    )  # fmt: skip
    text = playlist.Text(name="subtitles", language="en", title="en")
    master = playlist.with_captions(playlist.master([video], [], [text]), "captions.m3u8", "en")
    assert playlist.with_captions(master, "captions.m3u8", "en") == master
    lines = [line for line in master.splitlines() if "TYPE=SUBTITLES" in line]
    assert [re.search('NAME="(.*?)"', line)[1] for line in lines] == ["en", "en 2"]  # type: ignore[index]
    assert master.count('SUBTITLES="captions"') == 1
    track = playlist.DashTrack(video, [1.0], 90_000)
    plain = playlist.manifest([track], 1.0, [text])
    both = playlist.manifest_with_captions(plain, "captions.vtt", "de")
    assert playlist.manifest_with_captions(both, "captions.vtt", "de") == both
    found = [each.text for each in ElementTree.fromstring(both).iter(f"{DASH}BaseURL")]
    assert found == ["subtitles/captions.vtt", "captions.vtt"]


def test_the_sound_that_a_file_calls_its_default_is_heard_first(clips: Clips, target: Path) -> None:
    encoding.make(clips["second-default.mkv"], target)
    version = Version(target)
    checks.check(version)
    heard = [(each.language, each.default) for each in version.master.media]
    assert heard == [("en", "NO"), ("de", "YES")]
    found = [(each.get("lang"), roles(each)) for each in sets(target, "audio")]
    assert found == [("en", ["alternate"]), ("de", ["main"])]


def test_all_tracks_of_sound_without_a_picture_are_kept(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["second-default.m4a"], target)
    version = Version(target)
    names = ["audio-128k", "audio-1-128k", "audio-64k", "audio-1-64k"]
    assert made.result["renditions"] == names
    assert made.result["duration"] == near(4, 0.06)
    listed = [(each.group_id, each.language, each.default) for each in version.master.media]
    assert listed == [
        (group, language, default)
        for group in ("audio-128k", "audio-64k")
        for language, default in (("en", "NO"), ("de", "YES"))
    ]
    streams = [(each.uri, each.stream_info.audio) for each in version.master.playlists]
    assert streams == [
        ("audio-1-128k/playlist.m3u8", "audio-128k"),
        ("audio-1-64k/playlist.m3u8", "audio-64k"),
    ]
    tones = [_tone(checks.Rendition(target / name).samples) for name in names]
    assert tones == [near(1000, 30), near(500, 30)] * 2
    found = [
        (each.get("lang"), [one.get("id") for one in each.iter(f"{DASH}Representation")])
        for each in sets(target, "audio")
    ]
    assert found == [("en", [names[0], names[2]]), ("de", [names[1], names[3]])]


def test_the_waveform_is_of_the_sound_that_is_heard_first(clips: Clips, target: Path) -> None:
    encoding.make(clips["silent-first.m4a"], target)
    assert max(json.loads((target / "waveform.json").read_text())["peaks"]) > 0.5


@pytest.mark.parametrize(
    ("said", "tag"),
    [
        ("eng", "en"), ("ger", "de"), ("deu", "de"), ("fre", "fr"), ("zho", "zh"), ("en", "en"),
        ("por-BR", "pt-br"), ("gsw", "gsw"), ("und", None), ("", None), ("mul", None),
        ("english", None), ('e"n', None),
    ],
)  # fmt: skip
def test_languages_are_named_as_players_expect(said: str, tag: str | None) -> None:
    assert languages.tag(said) == tag


@pytest.mark.parametrize(("clip", "share"), [("plain.mp4", 0.5), ("second-default.m4a", 0.5)])
def test_a_file_that_was_cut_off_says_what_is_missing(
    clip: str, share: float, clips: Clips, target: Path, tmp_path: Path
) -> None:
    whole = clips["faststart.m4a"] if clip.endswith("m4a") else clips[clip]
    data = whole.read_bytes()
    source = tmp_path / clip
    source.write_bytes(data[: int(len(data) * share)])
    made = encoding.make(source, target)
    # The last frame may have been cut in two, which is told as well.
    said = next(each for each in made.result["warnings"] if each.startswith("the end is"))
    claimed = probe.probe(whole).claimed_seconds
    assert claimed is not None
    assert said.startswith(f"the end is missing: the file claims {claimed:.1f} s and holds ")
    assert said in made.lines
    held = float(said.split()[-2])
    assert held < claimed - 1
    assert made.result["duration"] == near(held, 0.2)


def test_sound_before_the_picture_is_not_left_out_in_silence(clips: Clips, target: Path) -> None:
    made = encoding.make(clips["late-picture.mkv"], target)
    [said] = made.result["warnings"]
    assert said.endswith("s of sound before the picture begins are left out")
    assert said in made.lines


def test_small_pictures_of_hdr_are_as_bright_as_the_others(clips: Clips, target: Path) -> None:
    encoding.make(clips["hdr10.mkv"], target)
    first = Version(target)["90p"].frames[0]
    [sheet] = target.glob("storyboard-*.jpg")
    assert checks.Sheet.read(sheet).brightness(0, 0, 160, 90) == near(first.brightness, 6)
