"""What a version that is still being made lets people watch, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from declared import declared
from rushes import renditions
from rushes.playback import growing
from rushes.playback.growing import Building


def picture(name: str, **more: Any) -> dict[str, Any]:
    height = int(name.removesuffix("p")) if name != "original" else 1080
    return {
        "name": name,
        "status": "in_progress",
        "width": height * 16 // 9,
        "height": height,
        "bandwidth": height * 5000,
        "average_bandwidth": height * 4000,
        "codecs": "avc1.640028",
        "frame_rate": 25,
        **more,
    }


def sound(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "codecs": "mp4a.40.2", "bandwidth": 128_000, "channels": 2, **more}


def begun(*names: str) -> set[str]:
    return {f"{name}/{file}" for name in names for file in ("init.mp4", "seg_00000.m4s")}


def listed(detail: Any, files: set[str]) -> list[str] | None:
    text = growing.master(declared(detail), files)
    if text is None:
        return None
    named = [line for line in text.splitlines() if not line.startswith("#")]
    named += [
        line.partition('URI="')[2].rstrip('"') for line in text.splitlines() if "URI=" in line
    ]
    return sorted(each.removesuffix("/playlist.m3u8") for each in named)


LADDER = {
    "renditions": [picture("1080p"), picture("720p"), picture("2160p", status="skipped")],
    "audio": [sound("audio", default=True, language="en"), sound("audio-1", default=False)],
}
WITH_ORIGINAL = {**LADDER, "renditions": [picture("original"), *LADDER["renditions"]]}
ALL = ("1080p", "720p", "audio", "audio-1")


def test_a_ladder_is_shown_when_each_of_its_renditions_has_begun() -> None:
    assert listed(LADDER, begun(*ALL)) == sorted(ALL)
    for missing in ALL:
        assert listed(LADDER, begun(*ALL) - begun(missing)) is None


def test_a_rendition_without_its_head_has_not_begun() -> None:
    assert listed(LADDER, begun(*ALL) - {"720p/init.mp4"}) is None


def test_the_original_is_shown_alone_and_first() -> None:
    assert listed(WITH_ORIGINAL, begun("original", "audio")) == ["audio", "original"]
    everything = begun("original", *ALL)
    assert listed(WITH_ORIGINAL, everything) == ["audio", "audio-1", "original"]
    assert listed(WITH_ORIGINAL, begun(*ALL)) is None


def test_nobody_watches_a_silent_original_that_has_sound() -> None:
    assert listed(WITH_ORIGINAL, begun("original")) is None
    silent = {**WITH_ORIGINAL, "audio": []}
    assert listed(silent, begun("original")) == ["original"]


def test_what_was_left_out_is_not_waited_for() -> None:
    failed = {**LADDER, "renditions": [picture("1080p"), picture("720p", status="failed")]}
    assert listed(failed, begun("1080p", "audio", "audio-1")) == ["1080p", "audio", "audio-1"]


def test_of_a_sound_each_rendition_that_has_begun_is_shown() -> None:
    detail = {"renditions": [sound("audio"), sound("audio-64")]}
    assert listed(detail, set()) is None
    assert listed(detail, begun("audio-64")) == ["audio-64"]
    assert listed(detail, begun("audio", "audio-64")) == ["audio", "audio-64"]


def test_sizes_and_codecs_are_told_as_players_need_them() -> None:
    text = growing.master(declared(LADDER), begun(*ALL))
    assert text is not None
    assert 'CODECS="avc1.640028,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000' in text
    assert 'LANGUAGE="en"' in text


@pytest.mark.parametrize(
    "odd",
    [
        picture("720p", codecs='x"\n#EXT-X-ENDLIST'),
        picture("720p", codecs=None),
        picture("720p", bandwidth=None),
        {"name": "720p"},
    ],
)
def test_of_what_is_not_known_well_enough_nothing_is_shown(odd: Any) -> None:
    cleaned = renditions.cleaned(declared({"renditions": [odd]}))
    assert growing.master(cleaned, begun("720p")) is None


@pytest.mark.parametrize("name", ["../up", "a\nb", "", "a/b", "x" * 101])
def test_what_cannot_be_named_in_a_playlist_is_left_out(name: str) -> None:
    [one] = declared({"renditions": [picture("720p")]})
    assert renditions.cleaned([replace(one, name=name)]) == []


def test_what_an_older_version_has_kept_and_cannot_be_is_left_out() -> None:
    kept = '[{"name":"Main 1080","kind":"video"},7,{"name":"720p","kind":"video"}]'
    assert [each.name for each in renditions.decode(kept)] == ["720p"]


def test_what_a_handler_of_this_process_declares_in_other_types_is_left_out() -> None:
    odd: Any = {"width": "wide", "height": -1}
    [one] = declared({"renditions": [picture("720p")]})
    assert renditions.cleaned([replace(one, name="1080p", **odd), one]) == [one]


def playlist(
    lengths: Mapping[int, float | None], *, init: bool = True, **building: Any
) -> str | None:
    seconds = {f"seg_{number:05}.m4s": length for number, length in lengths.items()}
    if init:
        seconds["init.mp4"] = None
    given = Building(
        version_id="ver_1",
        args=building.get("args", {"settings": {"segment_seconds": 4.0}}),
        renditions=declared(building.get("detail")),
    )
    return growing.media_playlist(given, "720p", seconds)


def test_segments_are_listed_up_to_the_first_gap() -> None:
    text = playlist({0: 4.0, 1: 3.96, 3: 4.0, 4: 4.0})
    assert text is not None
    assert [line for line in text.splitlines() if line.endswith(".m4s")] == [
        "seg_00000.m4s",
        "seg_00001.m4s",
    ]
    assert "#EXTINF:3.960000," in text
    assert "#EXT-X-PLAYLIST-TYPE:EVENT" in text
    assert '#EXT-X-MAP:URI="init.mp4"' in text
    assert "ENDLIST" not in text


def test_a_playlist_begins_with_its_first_segment() -> None:
    assert playlist({}) is None
    assert playlist({1: 4.0}) is None
    assert playlist({0: None}) is None
    assert playlist({0: 4.0}, init=False) is None


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({}, 4),
        ({"args": {"settings": {"segment_seconds": 5.5}}}, 6),
        ({"args": {}}, 4),
        ({"args": {"settings": "none"}}, 4),
        ({"detail": {"renditions": [picture("720p", target_seconds=9.2)]}}, 10),
    ],
)
def test_the_longest_length_is_promised_from_the_start(given: dict[str, Any], target: int) -> None:
    for lengths in ({0: 2.0}, {0: 2.0, 1: 4.0}):
        text = playlist(lengths, **given)
        assert text is not None
        assert f"#EXT-X-TARGETDURATION:{target}\n" in text
