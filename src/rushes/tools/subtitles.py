"""Subtitles that come with a recording: which can be shown as text, and their cues as WebVTT. Pure.

A stranger has written them: nothing of their markup but bold, italic and underlined gets through.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

TEXT_CODECS = ("mov_text", "subrip", "srt", "text", "ass", "ssa", "webvtt")
MOST_TRACKS = 32
MOST_CUES = 20_000
MOST_CHARACTERS = 4_000_000
LONGEST_TEXT = 1_000
MOST_LINES = 10
HEADER = "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0"
TIMING = re.compile(
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})\.(\d{3})[ \t]+-->[ \t]+"
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})\.(\d{3})"
)
KEPT_TAG = re.compile(r"(</?[biu]>)")
OTHER_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


@dataclass(frozen=True, slots=True)
class SubtitleCue:
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Written:
    """`cut`: there was more than is shown."""

    text: str
    cues: int
    cut: bool


def read(vtt: str) -> Iterator[SubtitleCue]:
    """As ffmpeg writes them; what is no cue is left out."""
    times: tuple[float, float] | None = None
    lines: list[str] = []
    for line in [*vtt.splitlines(), ""]:
        if match := TIMING.match(line):
            if times and lines:
                yield SubtitleCue(*times, "\n".join(lines))
            found = match.groups()
            times, lines = (_seconds(*found[:4]), _seconds(*found[4:])), []
        elif times and line.strip():
            lines.append(line)
        elif times:
            if lines:
                yield SubtitleCue(*times, "\n".join(lines))
            times, lines = None, []


def written(vtt: str, *, zero: float, seconds: float) -> Written:
    """The cues between `zero` and `seconds` later, counted from there."""
    blocks, size, cut = [HEADER], 0, False
    for cue in read(vtt):
        start, end = max(0.0, cue.start - zero), min(seconds, cue.end - zero)
        text = safe(cue.text)
        if end - start < 0.001 or not text:
            continue
        if len(blocks) > MOST_CUES or size > MOST_CHARACTERS:
            cut = True
            break
        blocks.append(f"{_clock(start)} --> {_clock(end)}\n{text}")
        size += len(text)
    return Written("\n\n".join(blocks) + "\n", len(blocks) - 1, cut)


def safe(text: str) -> str:
    """Escaped, but for the plainest markup."""
    lines = [each for each in text[:LONGEST_TEXT].splitlines() if each.strip()]
    return "\n".join(_safe_line(each) for each in lines[:MOST_LINES]).strip()


def _safe_line(line: str) -> str:
    parts = KEPT_TAG.split(line)
    return "".join(part if KEPT_TAG.fullmatch(part) else _plain(part) for part in parts if part)


def _plain(part: str) -> str:
    shown = "".join(char for char in html.unescape(OTHER_TAG.sub("", part)) if _is_shown(char))
    return html.escape(shown, quote=False)


def _is_shown(char: str) -> bool:
    return char.isprintable() or char == "\t"


def _seconds(hours: str | None, minutes: str, seconds: str, thousandths: str) -> float:
    whole = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
    return whole + int(thousandths) / 1000


def _clock(seconds: float) -> str:
    whole = round(seconds * 1000)
    minutes, milliseconds = divmod(whole, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{milliseconds / 1000:06.3f}"
