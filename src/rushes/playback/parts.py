"""What is played of a part of a version: whole segments, and none that lie outside. Pure.

Only what is known to be harmless is let through: everything else would give the rest away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rushes.playback import growing
from rushes.tools import playlist

# Sound and picture do not end at the same moment: so little of a segment is not worth showing.
SLACK_SECONDS = 0.1
# What is copied as it came may have a segment of minutes, and nearly all of it lies outside.
LONGEST_SECONDS = 30.0
KNOWN = ("#EXTM3U", "#EXT-X-VERSION:", "#EXT-X-INDEPENDENT-SEGMENTS", "#EXT-X-MEDIA:TYPE=AUDIO,")
SUBTITLES = re.compile(r',SUBTITLES="[^"]*"')


@dataclass(frozen=True, slots=True)
class Cut:
    """Of one rendition. `start`: where its first segment begins, in seconds of the whole."""

    start: float
    first: int
    lengths: Sequence[float]

    @property
    def end(self) -> float:
        return self.start + sum(self.lengths)

    def has(self, name: str) -> bool:
        numbers = range(self.first, self.first + len(self.lengths))
        return name == growing.INIT or name in map(playlist.segment_name, numbers)

    def playlist(self) -> str:
        target = max(self.lengths)
        return playlist.media_playlist(
            self.lengths, target_seconds=target, growing=False, first=self.first
        )


def cut(seconds: Mapping[str, float | None], start: float, end: float) -> Cut | None:
    """`seconds`: how long the files of a rendition are. None: there is nothing to be shown."""
    lengths: list[float] = []
    while (length := seconds.get(playlist.segment_name(len(lengths)))) is not None:
        lengths.append(length)
    begin, first, kept_from = 0.0, 0, 0.0
    kept: list[float] = []
    for number, length in enumerate(lengths):
        if begin + length > start + SLACK_SECONDS and begin < end - SLACK_SECONDS:
            first, kept_from = (first, kept_from) if kept else (number, begin)
            kept.append(length)
        begin += length
    is_fine = bool(kept) and growing.INIT in seconds and max(kept) <= LONGEST_SECONDS
    return Cut(kept_from, first, kept) if is_fine else None


def master(text: str) -> str | None:
    """Without subtitles, which tell all that is said, and without the copy of the source. None:
    then nothing is left."""
    lines, about = [], ""
    for line in text.splitlines():
        if line.startswith(playlist.STREAM):
            about = SUBTITLES.sub("", line)
        elif line.startswith(KNOWN):
            lines.append(line)
        elif about and not line.startswith("#"):
            lines += [] if _folder(line) == growing.ORIGINAL else [about, line]
            about = ""
    has_streams = any(line.startswith(playlist.STREAM) for line in lines)
    return "\n".join(lines) + "\n" if has_streams else None


def folders(text: str) -> list[str]:
    """The renditions that a master playlist streams, the best first."""
    return [_folder(line) for line in text.splitlines() if line and not line.startswith("#")]


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0]
