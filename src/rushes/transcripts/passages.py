"""What a worker says of a recording window by window, and the transcript that comes of it. Pure.

A passage is one finished window; the last ones of a job may tell who speaks when instead. A
worker's words are not trusted: what does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from rushes.records import JsonObject
from rushes.transcripts import transcript
from rushes.transcripts.transcript import Passage, Transcript, TranscriptEngine, Turn

TURNS, PAGE, LAST = "turns", "page", "last"
TURNS_PER_PAGE = 2000
# Where the next attempt goes on; means nothing to anybody but the handler.
NEXT = "next"
WORD_LIMIT = 100
# Of a transcription's arguments: what it is about, if it is not to hear the words.
ONLY, SPEAKERS = "only", "speakers"
LABEL = "SPEAKER_{:02d}"


def tells_speakers_only(args: JsonObject) -> bool:
    """The words are there already; who speaks when is all that the job says."""
    return args.get(ONLY) == SPEAKERS


def encode(passage: Passage, *, next: Any = None) -> JsonObject:
    made: JsonObject = msgspec.to_builtins(passage)
    return {name: value for name, value in made.items() if value not in (None, [])} | {NEXT: next}


def encode_turns(turns: Sequence[Turn], page: int = 0, *, is_last: bool = True) -> JsonObject:
    return {TURNS: msgspec.to_builtins(turns), PAGE: page, LAST: is_last}


def turn_pages(turns: Sequence[Turn]) -> list[JsonObject]:
    """Passages of a size that is always taken: a day of talk has tens of thousands of turns."""
    rounded = [replace(each, start=round(each.start, 3), end=round(each.end, 3)) for each in turns]
    begins = range(0, max(len(rounded), 1), TURNS_PER_PAGE)
    return [
        encode_turns(rounded[begin : begin + TURNS_PER_PAGE], page, is_last=page + 1 == len(begins))
        for page, begin in enumerate(begins)
    ]


def spoken(contents: Sequence[Any]) -> list[Passage]:
    return [found for each in contents if (found := _passage(each)) is not None]


def turns(contents: Sequence[Any]) -> list[Turn] | None:
    """Who speaks when; None when nobody has listened for that, or not all of it is there."""
    found: list[Turn] = []
    expected = 0
    for each in contents:
        if not is_turns(each):
            continue
        page = each.get(PAGE, 0)
        if page == 0:
            found, expected = [], 0
        elif page != expected:
            # Of an attempt that has not come to its end.
            continue
        found += _turns(each[TURNS])
        expected += 1
        if each.get(LAST, True):
            return found
    return None


def is_turns(content: Any) -> bool:
    return isinstance(content, Mapping) and TURNS in content


def next_of(contents: Sequence[Any]) -> Any:
    """Where the windows that are there end, as the handler has put it."""
    for each in reversed(contents):
        if isinstance(each, Mapping) and each.get(NEXT) is not None:
            return each[NEXT]
    return None


def made_of(contents: Sequence[Any], engine: TranscriptEngine) -> Transcript:
    return transcript.build(spoken(contents), turns(contents), engine)


def engine_of(result: Any) -> TranscriptEngine:
    """Which engine and models, in the words of the worker that used them."""
    said = result.get("engine") if isinstance(result, Mapping) else None
    said = said if isinstance(said, Mapping) else {}
    return TranscriptEngine(
        provider=_word(said.get("provider")) or "unknown",
        transcription_model=_word(said.get("transcription_model")) or "unknown",
        diarization_model=_word(said.get("diarization_model")),
    )


def told(number: int, content: Any) -> JsonObject | None:
    """What listeners hear of it: the words as they come."""
    found = _passage(content)
    if found is None or not found.text:
        return None
    return {
        "passage": number,
        "start": found.start,
        "end": found.end,
        "text": found.text,
        "language": found.language,
        "words": [
            {"start": each.start, "end": each.end, "word": each.word} for each in found.words
        ],
    }


def _passage(content: Any) -> Passage | None:
    if not isinstance(content, Mapping) or is_turns(content):
        return None
    given = {"text": "", **{name: value for name, value in content.items() if name != NEXT}}
    try:
        return msgspec.convert(given, Passage)
    except msgspec.ValidationError:
        return None


def _turns(value: Any) -> list[Turn]:
    try:
        return msgspec.convert(value, list[Turn])
    except msgspec.ValidationError:
        return []


def _word(value: Any) -> str | None:
    return value[:WORD_LIMIT] if isinstance(value, str) and value else None
