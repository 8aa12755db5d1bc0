"""Transcripts as captions and text, written and read: WebVTT, SubRip, text, JSON. Pure.

Nothing that was said becomes markup, and no markup becomes something that was said.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from rushes import errors
from rushes.transcripts import language, transcript
from rushes.transcripts.layout import NOBODY, Cue, cues
from rushes.transcripts.transcript import Transcript, TranscriptSegment

__all__ = ["Cue", "brought", "cues", "paragraphs", "parse", "srt", "txt", "vtt"]

PARAGRAPH_SECONDS, PARAGRAPH_CHARACTERS = 2.0, 600
# The picture and the captions begin together.
TIMESTAMP_MAP = "X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0"


def vtt(
    t: Transcript,
    *,
    names: Mapping[str, str] = NOBODY,
    hls: bool = False,
    end: float | None = None,
) -> str:
    blocks = [f"WEBVTT\n{TIMESTAMP_MAP}" if hls else "WEBVTT"]
    for cue in cues(t, names=names, end=end):
        voice = f"<v {_escaped(transcript.clean(cue.speaker))}>" if cue.speaker else ""
        text = "\n".join(map(_escaped, cue.lines))
        blocks.append(f"{_clock(cue.start)} --> {_clock(cue.end)}\n{voice}{text}")
    return "\n\n".join(blocks) + "\n"


def srt(
    t: Transcript,
    *,
    names: Mapping[str, str] = NOBODY,
    end: float | None = None,
    clip: tuple[float, float] | None = None,
) -> str:
    """It has no place for speakers, so their names stand in the text. `clip`: of what is said
    between these seconds, in times from the first of them on."""
    found = cues(t, names=names, end=end, is_labelled=True)
    if clip is not None:
        found = [_within(cue, *clip) for cue in found if cue.end > clip[0] and cue.start < clip[1]]
    blocks = [
        "\n".join(
            [
                str(number),
                f"{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}",
                *map(_unmarked, cue.lines),
            ]
        )
        for number, cue in enumerate(found, start=1)
    ]
    return "".join(f"{block}\n\n" for block in blocks)


def _within(cue: Cue, start: float, end: float) -> Cue:
    return replace(cue, start=max(cue.start, start) - start, end=min(cue.end, end) - start)


def txt(t: Transcript, *, names: Mapping[str, str] = NOBODY) -> str:
    """In paragraphs."""
    if not t.segments:
        return f"{t.text}\n" if t.text else ""
    made: list[str] = []
    before: str | None = None
    for paragraph in paragraphs(t.segments):
        speaker = paragraph[0].speaker
        text = transcript.joined(each.text for each in paragraph)
        if speaker is not None and speaker != before:
            text = f"{names.get(speaker) or speaker}: {text}"
        made.append(text)
        before = speaker
    return "\n\n".join(made) + "\n"


def paragraphs(segments: Sequence[TranscriptSegment]) -> Iterator[list[TranscriptSegment]]:
    held = [segments[0]]
    for before, segment in pairwise(segments):
        is_new = (
            segment.speaker != before.speaker
            or segment.start - before.end >= PARAGRAPH_SECONDS
            or sum(len(each.text) for each in held) >= PARAGRAPH_CHARACTERS
        )
        if is_new:
            yield held
            held = []
        held.append(segment)
    yield held


def _clock(seconds: float, point: str = ".") -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}{point}{milliseconds:03d}"


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


# Players take these for markup, and there is no way to escape them: nothing that is seen comes
# between the bracket and the name.
MARKUP_START = re.compile(r"([<{])(?=[\\/A-Za-z])")
UNSEEN = "\u200b"


def _unmarked(line: str) -> str:
    return MARKUP_START.sub(rf"\1{UNSEEN}", line).replace("-->", f"--{UNSEEN}>")


# Reading

JSON, PLAIN = "application/json", "text/plain"
CUE_LIMIT, WORDS_PER_CUE = 100_000, 10
LINES_LIMIT, CHARACTERS_LIMIT = 100, 10_000
TIME = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[.,](\d{1,9}))?"
TIMING = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}(?:\s.*)?")
LOOKS_TIMED = re.compile(r"\s*\d[\d:.,]*\s*-->")
# No class reaches over the next "<", so that a file of them is read once, not once for each.
VOICE = re.compile(r"<v(?:\.[^\s<>]{0,200})?(?:[ \t]([^<>]{0,1000}))?>")
VTT_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|</?>")
SRT_TAG = re.compile(
    r"(?i)</?(?:b|i|u|s|em|strong|font|span|c|ruby|rt)(?:[\s.][^<>]*)?>|\{\\[^{}]*\}"
)
ENTITY = re.compile(r"&(?:[A-Za-z]{2,10}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
LANGUAGE = re.compile(r"(?i)language:\s*([A-Za-z-]{2,35})\s*")
# Captions that roll show what was said last once more, above what is said now.
ROLLING_SHARE, ROLLING_LINES, TOUCHING_SECONDS = 0.25, 10, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A caption as it stands in the file."""

    start: float
    end: float
    lines: list[str]


_NOTHING = _Block(start=0.0, end=0.0, lines=[])


def brought(text: str, type: str, spoken: str | None = None) -> Transcript:
    """A file of people's: captions, or, if that is its type, a plain text or a transcript in JSON
    as Rushes and others write it. BadField when there is nothing in it. `spoken` is the language,
    if they say; else the file may, or what is said in it."""
    t = _read(text, type)
    return replace(t, language=spoken or language.named(t.language) or language.detect(t.text))


def _read(text: str, type: str) -> Transcript:
    if type == JSON:
        return _older(text)
    if type == PLAIN and not _is_timed(text):
        return _with_text(transcript.decode(text))
    return parse(text)


def _is_timed(text: str) -> bool:
    lines = text.removeprefix("\ufeff").splitlines()
    return text.lstrip("\ufeff \r\n").startswith("WEBVTT") or any(map(LOOKS_TIMED.match, lines))


def _older(text: str) -> Transcript:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise errors.BadField("file", "this is not JSON") from None
    t = _with_text(replace(transcript.decode(value), engine=None))
    if max(len(t.segments), len(t.words) / WORDS_PER_CUE) > CUE_LIMIT:
        raise errors.BadField("file", f"more than {CUE_LIMIT:,} segments")
    longest = max((len(each.text) for each in t.segments), default=0)
    if t.segments and longest > CHARACTERS_LIMIT and not t.words:
        raise errors.BadField("file", f"more than {CHARACTERS_LIMIT:,} characters in a segment")
    return t


def _with_text(t: Transcript) -> Transcript:
    if not t.text:
        raise errors.BadField("file", "there is no text in it")
    return t


def parse(text: str) -> Transcript:
    """WebVTT or SubRip that people have, as segments without words. BadField when it is neither."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((each.strip() for each in lines if each.strip()), "")
    is_vtt = re.match(r"WEBVTT(?:\s|$)", first) is not None
    blocks = _blocks(lines, is_vtt)
    if not is_vtt and not blocks:
        raise errors.BadField("file", "line 1: this is neither WebVTT nor SubRip")
    pieces = [piece for each in _unrolled(blocks, is_vtt) for piece in _segments(each, is_vtt)]
    pieces.sort(key=lambda each: each.start)
    segments = [
        replace(each, id=transcript.ID.format(number))
        for number, each in enumerate(pieces, start=1)
    ]
    return Transcript(
        text=transcript.joined(each.text for each in segments),
        language=_language(lines) if is_vtt else None,
        segments=segments,
        words=[],
    )


def _language(lines: Sequence[str]) -> str | None:
    """Some say it in the first lines."""
    found = (LANGUAGE.fullmatch(line) for line in lines[:10])
    return next((match[1].lower() for match in found if match), None)


def _blocks(lines: Sequence[str], is_vtt: bool) -> list[_Block]:
    """What stands outside of captions is an id or a comment in WebVTT. In SubRip it is a number, or
    belongs to the caption before, in which somebody left a line empty."""
    found: list[_Block] = []
    loose: list[str] = []
    is_open = False
    for number, line in enumerate(lines, start=1):
        if timing := TIMING.fullmatch(line):
            if found and not is_vtt:
                _take_number(found[-1].lines if is_open else loose)
                _extend(found[-1], loose, number)
            found.append(_begun(timing, number, len(found)))
            is_open, loose = True, []
        elif LOOKS_TIMED.match(line):
            raise errors.BadField("file", f"line {number}: these times cannot be read")
        elif not (line if is_vtt else line.strip()):
            is_open = False
        elif is_open:
            _extend(found[-1], [line], number)
        else:
            loose.append(line)
    if found and not is_vtt:
        _extend(found[-1], loose, len(lines))
    return found


def _extend(block: _Block, lines: Sequence[str], number: int) -> None:
    block.lines.extend(lines)
    if len(block.lines) > LINES_LIMIT:
        raise errors.BadField("file", f"line {number}: more than {LINES_LIMIT} lines in a caption")
    if sum(map(len, block.lines)) > CHARACTERS_LIMIT:
        raise errors.BadField(
            "file", f"line {number}: more than {CHARACTERS_LIMIT:,} characters in a caption"
        )


def _take_number(lines: list[str]) -> None:
    if lines and lines[-1].strip().isdecimal():
        lines.pop()


def _begun(timing: re.Match[str], number: int, count: int) -> _Block:
    if count >= CUE_LIMIT:
        raise errors.BadField("file", f"line {number}: more than {CUE_LIMIT:,} captions")
    start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
    return _Block(start=start, end=max(start, end), lines=[])


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds = (int(each or 0) for each in parts[:3])
    milliseconds = int(f"{parts[3] or 0:0<3}"[:3])
    return (hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + milliseconds) / 1000


def _unrolled(blocks: Sequence[_Block], is_vtt: bool) -> Sequence[_Block]:
    """Each line once, if most of what a caption shows first was in the one before."""
    tag = VTT_TAG if is_vtt else SRT_TAG
    plain = [
        replace(each, lines=[own for line in each.lines if (own := tag.sub("", line).strip())])
        for each in blocks
    ]
    repeats = [_repeated(before, after) for before, after in pairwise([_NOTHING, *plain])]
    rolling = sum(0 < each < len(block.lines) for each, block in zip(repeats, plain, strict=True))
    if rolling < max(2, ROLLING_SHARE * len(plain)):
        return blocks
    kept: list[_Block] = []
    for count, block in zip(repeats, plain, strict=True):
        if count and count == len(block.lines):
            kept[-1] = replace(kept[-1], end=max(kept[-1].end, block.end))
        else:
            kept.append(replace(block, lines=block.lines[count:]))
    return kept


def _repeated(before: _Block, after: _Block) -> int:
    """How many of its first lines are the last ones of the caption before."""
    if after.start > before.end + TOUCHING_SECONDS:
        return 0
    most = min(len(before.lines), len(after.lines), ROLLING_LINES)
    return next(
        (count for count in range(most, 0, -1) if before.lines[-count:] == after.lines[:count]), 0
    )


def _segments(block: _Block, is_vtt: bool) -> Iterator[TranscriptSegment]:
    """One, or one for each voice."""
    text = "\n".join(block.lines)
    parts: list[str | None] = [None, *(VOICE.split(text) if is_vtt else [text])]
    for name, said in zip(parts[::2], parts[1::2], strict=True):
        read = _read_vtt if is_vtt else _read_srt
        lines = (transcript.clean(read(line)) for line in (said or "").split("\n"))
        if text := transcript.joined(line for line in lines if line):
            speaker = transcript.clean(_read_vtt(name or ""))[: transcript.SPEAKER_LIMIT]
            yield TranscriptSegment(
                id="", start=block.start, end=block.end, text=text, speaker=speaker or None
            )


def _read_vtt(text: str) -> str:
    return ENTITY.sub(lambda entity: html.unescape(entity[0]), VTT_TAG.sub("", text))


def _read_srt(text: str) -> str:
    plain = SRT_TAG.sub("", text)
    for start in ("<", "{", "--"):
        plain = plain.replace(start + UNSEEN, start)
    return plain
