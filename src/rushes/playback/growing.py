"""What can be watched of a version that is still being made, by the renditions that its job has
declared and the files that are there. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rushes import renditions
from rushes.protocol import Rendition
from rushes.records import JsonObject
from rushes.tools import playlist
from rushes.tools import profile as profile_tools

MASTER = playlist.MASTER
PLAYLIST, INIT = "playlist.m3u8", "init.mp4"
# Its lengths are those of the source, and it plays before anything is encoded.
ORIGINAL = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """A version under way: what its job was asked for, and the renditions it has declared."""

    version_id: str
    args: JsonObject
    renditions: Sequence[Rendition] = ()


def first_files(declared: Iterable[Rendition]) -> list[str]:
    """The artifacts that decide what can be watched."""
    return [
        f"{each.name}/{file}"
        for each in _made(declared)
        for file in (INIT, playlist.segment_name(0))
    ]


def is_first(name: str) -> bool:
    """Whether a file is one of those."""
    return name.rpartition("/")[2] in (INIT, playlist.segment_name(0))


def master(declared: Iterable[Rendition], files: Collection[str]) -> str | None:
    """None while there is nothing to watch. Players read it once, so all that they are to find
    out about has to be there from the first time on."""
    made = _made(declared)
    pictures = [each for each in made if each.kind == "video"]
    sounds = [each for each in made if each.kind == "audio"]
    audios = [audio for each in sounds if (audio := renditions.audio(each))]
    heard = [each for each in audios if _has_begun(each.name, files)]
    if not pictures:
        is_whole = {each.track for each in heard} == {each.track for each in audios}
        return playlist.master([], heard) if heard and is_whole else None
    first = [each for each in pictures if each.name == ORIGINAL]
    if first and _has_begun(ORIGINAL, files):
        # Other sounds may take their time, but nobody is to watch it silent.
        shown, is_whole = first, bool(heard) or not sounds
    else:
        shown, is_whole = pictures, len(heard) == len(sounds)
    videos = [video for each in shown if (video := renditions.video(each))]
    seen = [each for each in videos if _has_begun(each.name, files)]
    return playlist.master(seen, heard) if is_whole and len(seen) == len(shown) else None


def media_playlist(
    building: Building, name: str, seconds: Mapping[str, float | None]
) -> str | None:
    """Of the segments that have come without a gap. `seconds`: how long the files of the rendition
    are, by their names in its folder."""
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
    asked = settings.get("segment_seconds") if isinstance(settings, dict) else None
    if not isinstance(asked, int | float):
        asked = profile_tools.DEFAULT.segment_seconds
    # Also of one that is left out by now: somebody may still be watching it.
    planned = [each.target_seconds for each in building.renditions if each.name == name]
    return float(max(asked, *(each or 0 for each in planned), 0))


def _made(declared: Iterable[Rendition]) -> list[Rendition]:
    return [each for each in declared if each.status not in renditions.LEFT_OUT]


def _has_begun(name: str, files: Collection[str]) -> bool:
    return f"{name}/{INIT}" in files and f"{name}/{playlist.segment_name(0)}" in files
