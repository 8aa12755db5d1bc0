"""What can be watched of a version that is still being made, by what its job says of it. Pure.

A job's `detail` is a worker's own words: what does not fit is left out, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rushes.tools import playlist
from rushes.tools import profile as profile_tools

MASTER = playlist.MASTER
PLAYLIST, INIT = "playlist.m3u8", "init.mp4"
# Its lengths are those of the source, and it plays before anything is encoded.
ORIGINAL = "original"
LEFT_OUT = ("skipped", "failed")
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
CODECS = re.compile(r"[A-Za-z0-9._, -]{1,200}")
RANGES = ("SDR", "PQ", "HLG")
OF_A_LADDER = re.compile(r"\d+p(-.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """A version under way, and what its job was asked for and has told so far."""

    version_id: str
    args: Mapping[str, Any]
    detail: Any


def first_files(detail: Any) -> list[str]:
    """The artifacts that decide what can be watched."""
    names = [each["name"] for each in [*_said(detail, "renditions"), *_said(detail, "audio")]]
    return [f"{name}/{file}" for name in names for file in (INIT, playlist.segment_name(0))]


def master(detail: Any, files: Collection[str]) -> str | None:
    """None while there is nothing to watch. Players read it once, so all that they are to find
    out about has to be there from the first time on."""
    pictures, sounds = _pictures(detail), _sounds(detail)
    heard = [each for each in _audios(sounds) if _has_begun(each.name, files)]
    if not pictures:
        is_whole = {each.track for each in heard} == {each.track for each in _audios(sounds)}
        return playlist.master([], heard) if heard and is_whole else None
    first = [each for each in pictures if each["name"] == ORIGINAL]
    if first and _has_begun(ORIGINAL, files):
        # Other sounds may take their time, but nobody is to watch it silent.
        shown, is_whole = first, bool(heard) or not sounds
    else:
        shown, is_whole = pictures, len(heard) == len(sounds)
    seen = [each for each in _videos(shown) if _has_begun(each.name, files)]
    return playlist.master(seen, heard) if is_whole and len(seen) == len(shown) else None


def media_playlist(building: Building, name: str, rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Of the segments that have come without a gap. `rows`: the rendition's artifacts."""
    seconds = {row["name"].rpartition("/")[2]: row["seconds"] for row in rows}
    listed: list[float] = []
    while (length := seconds.get(playlist.segment_name(len(listed)))) is not None:
        listed.append(length)
    if not listed or INIT not in seconds:
        return None
    target = _target_seconds(building, name)
    return playlist.media_playlist(listed, target_seconds=target, growing=True)


def _target_seconds(building: Building, name: str) -> float:
    """Must stay the same while it grows, so it is taken from what was planned."""
    settings = building.args.get("settings")
    wished = settings.get("segment_seconds") if isinstance(settings, dict) else None
    if not isinstance(wished, int | float):
        wished = profile_tools.DEFAULT.segment_seconds
    # Also of one that is left out by now: somebody may still be watching it.
    for each in [*_entries(building.detail, "renditions"), *_entries(building.detail, "audio")]:
        planned = each.get("target_seconds")
        if each["name"] == name and isinstance(planned, int | float):
            wished = max(wished, planned)
    return float(wished)


def _has_begun(name: str, files: Collection[str]) -> bool:
    return f"{name}/{INIT}" in files and f"{name}/{playlist.segment_name(0)}" in files


def _said(detail: Any, what: str) -> list[dict[str, Any]]:
    return [each for each in _entries(detail, what) if each.get("status") not in LEFT_OUT]


def _entries(detail: Any, what: str) -> list[dict[str, Any]]:
    found = detail.get(what) if isinstance(detail, dict) else None
    return [
        each
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict)
        and isinstance(each.get("name"), str)
        and NAME.fullmatch(each["name"])
    ]


def _is_picture(entry: Mapping[str, Any]) -> bool:
    return entry.get("width") is not None or OF_A_LADDER.fullmatch(entry["name"]) is not None


def _pictures(detail: Any) -> list[dict[str, Any]]:
    return [each for each in _said(detail, "renditions") if _is_picture(each)]


def _sounds(detail: Any) -> list[dict[str, Any]]:
    plain = [each for each in _said(detail, "renditions") if not _is_picture(each)]
    return plain + _said(detail, "audio")


def _videos(entries: Sequence[Mapping[str, Any]]) -> list[playlist.Video]:
    return [
        video
        for each in entries
        if (video := _read({"average_bandwidth": each.get("bandwidth"), **each}, playlist.Video))
    ]


def _audios(entries: Sequence[Mapping[str, Any]]) -> list[playlist.Audio]:
    return [audio for each in entries if (audio := _read(each, playlist.Audio))]


def _read(entry: Mapping[str, Any], kind: type[Any]) -> Any:
    given = {name: value for name, value in entry.items() if value is not None}
    try:
        made = msgspec.convert(given, kind)
    except msgspec.ValidationError:
        return None
    fits = CODECS.fullmatch(made.codecs) and getattr(made, "range", "SDR") in RANGES
    return made if fits else None
