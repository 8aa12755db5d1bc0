"""The canonical transcript: what it is made of, and how older ones are read. Pure."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any

from rushes.records import JsonObject
from rushes.transcripts import merge


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """`segment`: the id of the one it is in, only where its time does not tell: see `words_of`."""

    start: float
    end: float
    word: str
    speaker: str | None = None
    confidence: float | None = None
    segment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSegment:
    """A sentence or so of one speaker. `language`: only where it is not the transcript's."""

    id: str
    start: float
    end: float
    text: str
    speaker: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEngine:
    provider: str
    transcription_model: str
    diarization_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Segments and words are in the order in which they begin; people who talk at once overlap."""

    text: str
    language: str | None
    segments: Sequence[TranscriptSegment]
    words: Sequence[Word]
    engine: TranscriptEngine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What one window of the sound gave. Without words it is one segment, or the `utterances`
    whose times the engine knew (as segments whose ids do not matter). `feed`: which of several
    tracks or channels it was heard on, each of which goes on while others do."""

    start: float
    end: float
    text: str
    language: str | None = None
    words: Sequence[Word] = ()
    utterances: Sequence[TranscriptSegment] = ()
    feed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Who speaks when; `speaker` is a label such as SPEAKER_00. `feed`: as of a passage."""

    start: float
    end: float
    speaker: str
    feed: int | None = None


SEGMENT_SECONDS = 15.0
SEGMENT_CHARACTERS = 200
CLAUSE_END = re.compile(rf"[,;:–—、，；：،]+[{merge.CLOSING}]*$")
# Scripts without spaces between words, with their punctuation.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3105-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\uff66-\uff9f\U00020000-\U0003ffff"
)
IS_UNSPACED = re.compile(f"[{UNSPACED}]")
# What cannot be stored or shown: control characters and halves of pairs.
CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff]")
ID = "seg_{:06d}"
# Years of speech are a mistake, in seconds.
TIME_LIMIT = 1e8
ID_LIMIT, SPEAKER_LIMIT, LANGUAGE_LIMIT = 100, 200, 35


def clean(text: str) -> str:
    """One line, without what no database or page could show."""
    return " ".join(CONTROLS.sub("", text).split())


def joined(texts: Iterable[str]) -> str:
    """With spaces where the script has them."""
    made: list[str] = []
    for text in texts:
        if made and not (IS_UNSPACED.match(made[-1][-1]) or IS_UNSPACED.match(text[0])):
            made.append(" ")
        made.append(text)
    return "".join(made)


def spelled(text: str, words: Sequence[str]) -> list[str]:
    """Each word with what the text has before it, so that any run of them reads as it does there:
    engines cut "l'été" or "1,000" in two. A word that the text does not have stands apart."""
    made: list[str] = []
    place = 0
    for word in words:
        found = text.find(word, place)
        if found >= 0 and not text[place:found].strip():
            made.append(text[place : found + len(word)])
            place = found + len(word)
        else:
            made.append(joined([made[-1], word])[len(made[-1]) :] if made else word)
    return made


# Segments and their words


def words_of(t: Transcript) -> dict[str, list[Word]]:
    """By segment: a word is in the one that it names, else in the last one that has begun."""
    found: dict[str, list[Word]] = {each.id: [] for each in t.segments}
    ordered = sorted(t.segments, key=lambda each: each.start)
    if not ordered:
        return found
    starts = [each.start for each in ordered]
    begin = end = math.inf
    own: list[Word] = []
    for word in t.words:
        if word.segment in found:
            found[word.segment].append(replace(word, segment=None))
            continue
        if not begin <= word.start < end:
            place = max(bisect_right(starts, word.start) - 1, 0)
            own = found[ordered[place].id]
            begin = starts[place] if place else -math.inf
            end = starts[place + 1] if place + 1 < len(starts) else math.inf
        own.append(word)
    return found


def in_time(
    segments: Sequence[TranscriptSegment], words: Mapping[str, Sequence[Word]]
) -> list[Word]:
    """The words of all segments in the order of time, as `words_of` gives them back: one names its
    segment where another has begun before it."""
    placed: list[tuple[float, str, Word]] = []
    for segment in segments:
        begun = -math.inf
        for word in words[segment.id]:
            # Words of one segment stay in the order of its text.
            begun = max(begun, word.start)
            placed.append((begun, segment.id, word))
    placed.sort(key=lambda each: each[0])
    ordered = sorted(segments, key=lambda each: each.start)
    made: list[Word] = []
    place = 0
    for _, id, word in placed:
        while place + 1 < len(ordered) and ordered[place + 1].start <= word.start:
            place += 1
        while place and ordered[place].start > word.start:
            place -= 1
        made.append(word if ordered[place].id == id else replace(word, segment=id))
    return made


# From an engine's results


def build(
    passages: Sequence[Passage], turns: Sequence[Turn] | None, engine: TranscriptEngine
) -> Transcript:
    """Without `turns` (None, or none at all) nobody is named anywhere."""
    usable = [each for each in passages if _is_time(each.start, each.end)]
    ordered = sorted(usable, key=lambda each: each.start)
    language = _longest(seconds_spoken(ordered))
    feeds = list(dict.fromkeys(each.feed for each in ordered))
    runs = [run for feed in feeds for run in _runs(_heard_on(feed, ordered, turns or ()))]
    runs.sort(key=lambda run: run.words[0].start)
    segments = [_segment(number, run, language) for number, run in enumerate(runs, start=1)]
    timed = {
        segment.id: run.words if run.is_timed else ()
        for segment, run in zip(segments, runs, strict=True)
    }
    return Transcript(
        text=joined(each.text for each in segments),
        language=language,
        segments=segments,
        words=in_time(segments, timed),
        engine=engine,
    )


def _heard_on(
    feed: int | None, passages: Sequence[Passage], turns: Sequence[Turn]
) -> list[_TimedText]:
    own = [each for each in passages if each.feed == feed]
    pieces: list[_TimedText] = []
    for passage in own:
        language = _name(passage.language)
        heard = _whole_words(passage) or _utterances(passage)
        pieces += [_TimedText(each.word, each.is_segment, language) for each in heard]
    pieces = _in_order(pieces, max((each.end for each in own), default=0.0))
    speaking = [each for each in turns if each.feed == feed]
    return _labelled(pieces, speaking) if speaking else pieces


@dataclass(frozen=True, slots=True)
class _TimedText:
    """A word, or (`is_segment`) text that is a segment by itself."""

    word: Word
    is_segment: bool = False
    language: str | None = None


def _whole_words(passage: Passage) -> list[_TimedText]:
    """Engines cut "well-known" or "1,000" in two; the text of the passage tells what is one."""
    whole: list[Word] = []
    place = 0
    for each in passage.words:
        text = clean(each.word)
        if not text or not _is_time(each.start, each.end):
            continue
        found = passage.text.find(text, place)
        is_near = found >= 0 and not passage.text[place:found].strip()
        if whole and is_near and found == place and _is_one(whole[-1].word, text):
            whole[-1] = _glued(whole[-1], each, text)
        else:
            whole.append(_within(passage, each.start, each.end, text, each.confidence))
        if is_near:
            place = found + len(text)
    return [_TimedText(each) for each in whole]


def _is_one(before: str, after: str) -> bool:
    return not (IS_UNSPACED.match(before[-1]) or IS_UNSPACED.match(after[0]))


def _glued(before: Word, after: Word, text: str) -> Word:
    known = [each.confidence for each in (before, after) if each.confidence is not None]
    return replace(
        before,
        end=max(before.end, after.end),
        word=before.word + text,
        confidence=min(known, default=None),
    )


def _utterances(passage: Passage) -> list[_TimedText]:
    given = [
        (each.start, each.end, text)
        for each in passage.utterances
        if (text := clean(each.text)) and _is_time(each.start, each.end)
    ]
    text = clean(passage.text)
    if not given and text and _is_time(passage.start, passage.end):
        given = [(passage.start, passage.end, text)]
    return [_TimedText(_within(passage, *each), is_segment=True) for each in given]


def _is_time(start: float, end: float) -> bool:
    return math.isfinite(start) and math.isfinite(end) and max(start, end) < TIME_LIMIT


def _within(
    passage: Passage, start: float, end: float, text: str, confidence: float | None = None
) -> Word:
    first = max(passage.start, 0.0)
    last = max(passage.end, first)
    start = min(max(start, first), last)
    return Word(start=start, end=min(max(end, start), last), word=text, confidence=confidence)


def _in_order(pieces: Sequence[_TimedText], end: float) -> list[_TimedText]:
    """Each begins at least a millisecond after the one before, so that it is clear which segment
    it is in, and none begins before the last one has ended. `end` is the end of all, unless there
    are more of them than milliseconds."""
    starts = [round(each.word.start * 1000) for each in pieces]
    for number in range(1, len(starts)):
        starts[number] = max(starts[number], starts[number - 1] + 1)
    limit = last = max(round(end * 1000), len(starts))
    for number in reversed(range(len(starts))):
        starts[number] = limit = min(starts[number], limit - 1)
    ends = [*starts[1:], last][: len(starts)]
    return [
        _TimedText(_moved(each.word, start, stop), each.is_segment, each.language)
        for each, start, stop in zip(pieces, starts, ends, strict=True)
    ]


def _moved(word: Word, start: int, stop: int) -> Word:
    end = min(max(round(word.end * 1000), start + 1), stop)
    # Not `replace`, which is slow: there are many.
    return Word(
        start=start / 1000,
        end=end / 1000,
        word=word.word,
        speaker=word.speaker,
        confidence=word.confidence,
    )


def _labelled(pieces: Sequence[_TimedText], turns: Sequence[Turn]) -> list[_TimedText]:
    """A whole segment is no sentence's lone word."""
    words = merge.label([each.word for each in pieces if not each.is_segment], turns)
    intervals = [(each.word.start, each.word.end) for each in pieces if each.is_segment]
    heard = iter(merge.speakers(intervals, turns))
    named = iter(words)
    return [
        replace(each, word=replace(each.word, speaker=next(heard)))
        if each.is_segment
        else replace(each, word=next(named))
        for each in pieces
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    """What is to be a segment. `is_timed`: its words have times of their own."""

    words: Sequence[Word]
    language: str | None
    is_timed: bool


def _runs(pieces: Sequence[_TimedText]) -> Iterator[_Run]:
    run: list[_TimedText] = []
    for each in pieces:
        if run and (each.is_segment or run[-1].is_segment or _is_apart(run[-1], each)):
            yield from _cut(run)
            run = []
        run.append(each)
    if run:
        yield from _cut(run)


def _cut(run: Sequence[_TimedText]) -> Iterator[_Run]:
    for words in _short([each.word for each in run]):
        yield _Run(words, run[0].language, not run[0].is_segment)


def _is_apart(before: _TimedText, after: _TimedText) -> bool:
    return (
        merge.ends_sentence(before.word.word)
        or before.word.speaker != after.word.speaker
        or before.language != after.language
        or after.word.start - before.word.end >= merge.PAUSE_SECONDS
    )


def _short(run: list[Word]) -> Iterator[list[Word]]:
    length = sum(len(each.word) + 1 for each in run) - 1
    is_short = length <= SEGMENT_CHARACTERS and run[-1].end - run[0].start <= SEGMENT_SECONDS
    if is_short or len(run) == 1:
        yield run
        return
    place = _best_cut(run, length)
    yield from _short(run[:place])
    yield from _short(run[place:])


def _best_cut(run: Sequence[Word], length: int) -> int:
    """Not far from the middle, after a comma or where there is a pause."""

    def worth(place: int) -> float:
        pause = min(max(run[place].start - run[place - 1].end, 0.0), 1.0)
        is_clause = bool(CLAUSE_END.search(run[place - 1].word))
        return is_clause + pause - 2 * abs(before[place] / length - 0.5)

    before = list(accumulate((len(each.word) + 1 for each in run), initial=0))
    middle = [place for place in range(1, len(run)) if 0.25 <= before[place] / length <= 0.75]
    return max(middle or [len(run) // 2], key=worth)


def _segment(number: int, run: _Run, language: str | None) -> TranscriptSegment:
    words = run.words
    return TranscriptSegment(
        id=ID.format(number),
        start=words[0].start,
        end=words[-1].end,
        text=joined(each.word for each in words),
        speaker=merge.speaker_of(words),
        language=run.language if run.language != language else None,
    )


def seconds_spoken(passages: Sequence[Passage]) -> dict[str, float]:
    """How long each language is."""
    seconds: dict[str, float] = {}
    for each in passages:
        name = _name(each.language)
        if name and clean(each.text):
            spoken = sum(word.end - word.start for word in each.words) or each.end - each.start
            seconds[name] = seconds.get(name, 0.0) + spoken
    return seconds


def _longest(seconds: Mapping[str, float]) -> str | None:
    return max(seconds, key=lambda name: seconds[name], default=None)


def _name(language: str | None) -> str | None:
    return clean(language or "")[:LANGUAGE_LIMIT] or None


# As JSON


def encode(t: Transcript) -> JsonObject:
    """The canonical document. `speaker` stands only where somebody is known; a `confidence` that
    the engine did not tell is null."""
    return {
        "text": t.text,
        "language": t.language,
        "segments": [
            {
                "id": each.id,
                "start": round(each.start, 3),
                "end": round(each.end, 3),
                **_speaker(each),
                **({} if each.language is None else {"language": each.language}),
                "text": each.text,
            }
            for each in t.segments
        ],
        "words": [
            {
                "start": round(each.start, 3),
                "end": round(each.end, 3),
                "word": each.word,
                **_speaker(each),
                "confidence": None if each.confidence is None else round(each.confidence, 3),
                **({} if each.segment is None else {"segment": each.segment}),
            }
            for each in t.words
        ],
        "engine": t.engine
        and {
            "provider": t.engine.provider,
            "transcription_model": t.engine.transcription_model,
            "diarization_model": t.engine.diarization_model,
        },
    }


def _speaker(of: TranscriptSegment | Word) -> dict[str, str]:
    return {} if of.speaker is None else {"speaker": of.speaker}


def decode(value: Any) -> Transcript:
    """Reads what `encode` wrote, and older and plainer transcripts: a bare text, segments without
    ids, words inside segments. What makes no sense is left out."""
    if isinstance(value, list):
        value = {"segments": value}
    if not isinstance(value, Mapping):
        value = {"text": value}
    entries = [each for each in _list(value.get("segments")) if isinstance(each, Mapping)]
    inside = [word for each in entries for word in _list(each.get("words"))]
    words = _words(_list(value.get("words")) or inside)
    segments = _with_ids([found for each in entries if (found := _read_segment(each))])
    said = _plain(value.get("text")) or joined(
        text for each in entries if (text := _text(each.get("text")))
    )
    if words and not segments:
        said = said or joined(each.word for each in words)
        segments = [_of_words(words, said)]
    language = _text(value.get("language"))
    return Transcript(
        text=said,
        language=language[:LANGUAGE_LIMIT] if language else None,
        segments=segments,
        words=words,
        engine=_read_engine(value.get("engine")),
    )


def _of_words(words: Sequence[Word], text: str) -> TranscriptSegment:
    """Nothing is known of sentences: all of it, at the times of the words."""
    end = max(each.end for each in words)
    return TranscriptSegment(id=ID.format(1), start=words[0].start, end=end, text=clean(text))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return clean(value) if isinstance(value, str) else ""


def _plain(value: Any) -> str:
    """Of several lines, perhaps: a text that has no times has nothing but its paragraphs."""
    if not isinstance(value, str):
        return ""
    return "\n".join(clean(line) for line in value.splitlines()).strip()


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < TIME_LIMIT else None


def _times(entry: Mapping[Any, Any]) -> tuple[float, float] | None:
    start, end = _seconds(entry.get("start")), _seconds(entry.get("end"))
    if start is None:
        return None
    return start, max(start, start if end is None else end)


def _read_segment(entry: Mapping[Any, Any]) -> TranscriptSegment | None:
    """Its id may be missing still."""
    times, text = _times(entry), _text(entry.get("text"))
    if times is None or not text:
        return None
    inside = _words(_list(entry.get("words")))
    start = min([times[0], *(word.start for word in inside)])
    id = entry.get("id")
    return TranscriptSegment(
        id=clean(id)[:ID_LIMIT] if isinstance(id, str) else "",
        start=start,
        end=times[1],
        text=text,
        speaker=_text(entry.get("speaker"))[:SPEAKER_LIMIT] or None,
        language=_text(entry.get("language"))[:LANGUAGE_LIMIT] or None,
    )


def _with_ids(segments: Sequence[TranscriptSegment]) -> list[TranscriptSegment]:
    """Those that are missing, or there twice, are new ones."""
    ordered = sorted(segments, key=lambda each: each.start)
    taken = {each.id for each in ordered}
    fresh = (id for number in count(1) if (id := ID.format(number)) not in taken)
    seen = {""}
    made = []
    for each in ordered:
        id = next(fresh) if each.id in seen else each.id
        seen.add(id)
        made.append(replace(each, id=id))
    return made


def _words(entries: Sequence[Any]) -> list[Word]:
    found = [word for each in entries if isinstance(each, Mapping) and (word := _read_word(each))]
    return sorted(found, key=lambda word: word.start)


def _read_word(entry: Mapping[Any, Any]) -> Word | None:
    times, text = _times(entry), _text(entry.get("word")) or _text(entry.get("text"))
    if times is None or not text:
        return None
    told = [_seconds(entry.get(name)) for name in ("confidence", "probability", "score")]
    return Word(
        start=times[0],
        end=times[1],
        word=text,
        speaker=_text(entry.get("speaker"))[:SPEAKER_LIMIT] or None,
        confidence=next((each for each in told if each is not None and each <= 1), None),
        segment=_text(entry.get("segment"))[:ID_LIMIT] or None,
    )


def _read_engine(value: Any) -> TranscriptEngine | None:
    if not isinstance(value, Mapping):
        return None
    provider, model = _text(value.get("provider")), _text(value.get("transcription_model"))
    if not provider and not model:
        return None
    return TranscriptEngine(
        provider=provider,
        transcription_model=model,
        diarization_model=_text(value.get("diarization_model")) or None,
    )
