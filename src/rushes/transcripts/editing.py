"""People's changes to a transcript: words that stay keep their times. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate

from rushes import errors
from rushes.transcripts import tokens
from rushes.transcripts.transcript import (
    IS_UNSPACED,
    SPEAKER_LIMIT,
    Transcript,
    TranscriptSegment,
    Word,
    clean,
    in_time,
    joined,
    words_of,
)

# Of a passage without times for its words, this much must be left for it to be kept.
HEARD_SECONDS = 1.0
# Aligning costs up to as many steps as there are pairs of the same word, for each word. What would
# take longer is one replacement.
ALIGNING_STEPS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEdit:
    """What is None stays. An empty text removes the segment, an empty speaker its speaker."""

    segment_id: str
    text: str | None = None
    speaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One segment before and after; None where it was not there."""

    segment_id: str
    before: TranscriptSegment | None
    after: TranscriptSegment | None
    words_before: Sequence[Word] = ()
    words_after: Sequence[Word] = ()


def edited(t: Transcript, changes: Sequence[SegmentEdit]) -> Transcript:
    """What nobody changed stays as it is, with its ids and times."""
    by_id: dict[str, list[SegmentEdit]] = {}
    for change in changes:
        by_id.setdefault(change.segment_id, []).append(change)
    if unknown := by_id.keys() - {each.id for each in t.segments}:
        raise errors.NotFound(f"no such segment: {min(unknown)}")
    if not changes:
        return t
    words = words_of(t)
    starts = [each.start for each in t.segments[1:]] + [float("inf")]
    segments: list[TranscriptSegment] = []
    for segment, following in zip(t.segments, starts, strict=True):
        # Who talks at the same time is no limit.
        limit = following if following >= segment.end else float("inf")
        kept: TranscriptSegment | None = segment
        for change in by_id.get(segment.id, []):
            if kept is not None:
                kept, words[segment.id] = _changed(kept, words[segment.id], change, limit)
        segments += [kept] if kept is not None else []
    return _made(t, segments, words)


def _made(
    t: Transcript, segments: list[TranscriptSegment], words: dict[str, list[Word]]
) -> Transcript:
    return replace(
        t,
        text=joined(each.text for each in segments),
        segments=segments,
        words=in_time(segments, words),
    )


def _changed(
    segment: TranscriptSegment, words: list[Word], change: SegmentEdit, limit: float
) -> tuple[TranscriptSegment | None, list[Word]]:
    if change.text is not None:
        text = clean(change.text)
        if not text:
            return None, []
        if words and text != segment.text:
            words = _realigned(words, text, segment, limit)
        segment = replace(segment, text=text)
    if change.speaker is not None:
        speaker = clean(change.speaker)[:SPEAKER_LIMIT] or None
        segment = replace(segment, speaker=speaker)
        words = [replace(word, speaker=speaker) for word in words]
    return segment, words


# Words old and new


@dataclass(frozen=True, slots=True)
class _Atom:
    """A word, or one character of a word in a script without spaces. `word` is the one it is a
    part of, and `is_first` and `is_last` say which part."""

    text: str
    start: float
    end: float
    word: Word
    is_first: bool
    is_last: bool

    @property
    def key(self) -> str:
        return word_key(self.text)


def word_key(text: str) -> str:
    """Case and punctuation do not make another word."""
    return "".join(each.word for each in tokens.tokens(text)) or text


def _realigned(
    words: Sequence[Word], text: str, segment: TranscriptSegment, limit: float
) -> list[Word]:
    """Words that stay keep their times, new ones get the time of those that they stand for, and
    what was not there before gets what is between its neighbours."""
    old = [atom for word in words for atom in _atoms(word)]
    new = split_text(text)
    made: list[Word] = []
    found = opcodes([each.key for each in old], [word_key(each) for each in new])
    for tag, first, end, new_first, new_end in found:
        fresh = new[new_first:new_end]
        if tag == "equal":
            made += _kept(old[first:end], fresh)
        elif tag == "replace":
            made += _spread(fresh, old[first].start, old[end - 1].end, segment.speaker)
        elif tag == "insert":
            start, stop = _between(made, old[first:], segment)
            made += _spread(fresh, start, stop, segment.speaker)
    return [_inside(word, limit) for word in made]


def opcodes(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    counts, new_counts = Counter(old), Counter(new)
    pairs = sum(count * new_counts[key] for key, count in counts.items())
    if pairs * min(len(old), len(new)) <= ALIGNING_STEPS:
        return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    end, new_end = len(old) - tail, len(new) - tail
    is_old, is_new = head < end, head < new_end
    tag = "replace" if is_old and is_new else "insert" if is_new else "delete"
    return [
        ("equal", 0, head, 0, head),
        (tag, head, end, head, new_end),
        ("equal", end, len(old), new_end, len(new)),
    ]


def _inside(word: Word, limit: float) -> Word:
    """A word begins before the next segment does."""
    start = min(word.start, round(limit - 0.001, 3))
    return word if start == word.start else replace(word, start=start)


def _atoms(word: Word) -> list[_Atom]:
    texts = split_text(word.word) or [word.word]
    edges = _edges(texts, word.start, word.end)
    last = len(texts) - 1
    return [
        _Atom(text, edges[number], edges[number + 1], word, number == 0, number == last)
        for number, text in enumerate(texts)
    ]


def split_text(text: str) -> list[str]:
    """Words; where there are no spaces, characters with the punctuation that follows them."""
    found: list[str] = []
    for chunk in text.split():
        place = 0
        for number in range(1, len(chunk)):
            is_cut = IS_UNSPACED.match(chunk[number]) or IS_UNSPACED.match(chunk[number - 1])
            if is_cut and chunk[number].isalnum():
                found.append(chunk[place:number])
                place = number
        found.append(chunk[place:])
    return found


def _edges(texts: Sequence[str], start: float, end: float) -> list[float]:
    """Where each begins if all take as long as they are, and where the last one ends."""
    lengths = list(accumulate(map(len, texts), initial=0))
    shares = (start + (end - start) * each / max(lengths[-1], 1) for each in lengths[:-1])
    return [*(round(each, 3) for each in shares), end]


def _kept(atoms: Sequence[_Atom], texts: Sequence[str]) -> list[Word]:
    """Parts of a word are put together again when all of them stay."""
    made: list[Word] = []
    waiting: list[tuple[_Atom, str]] = []
    for atom, text in zip(atoms, texts, strict=True):
        waiting = [(atom, text)] if atom.is_first else [*waiting, (atom, text)]
        if not waiting[0][0].is_first:
            made.append(_part(*waiting.pop()))
        elif atom.is_last:
            made.append(_whole(atom.word, "".join(each for _, each in waiting)))
            waiting = []
    return made + [_part(*each) for each in waiting]


def _whole(word: Word, text: str) -> Word:
    return word if text == word.word else replace(word, word=text, confidence=None)


def _part(atom: _Atom, text: str) -> Word:
    return replace(atom.word, start=atom.start, end=atom.end, word=text, confidence=None)


def _spread(texts: Sequence[str], start: float, end: float, speaker: str | None) -> list[Word]:
    edges = _edges(texts, start, max(start, end))
    return [
        Word(start=edges[number], end=edges[number + 1], word=text, speaker=speaker)
        for number, text in enumerate(texts)
    ]


def _between(
    before: Sequence[Word], after: Sequence[_Atom], segment: TranscriptSegment
) -> tuple[float, float]:
    start = before[-1].end if before else segment.start
    return start, max(start, after[0].start if after else segment.end)


# Cutting


def cut(t: Transcript, *, shift: float, end: float | None) -> Transcript:
    """Moved by so many seconds; only what is then heard between 0 and `end`. A word is heard when
    the middle of it is."""
    last = float("inf") if end is None else max(end, 0.0)
    words = words_of(t)
    segments: list[TranscriptSegment] = []
    for segment in t.segments:
        own = [word for each in words[segment.id] if (word := _moved_word(each, shift, last))]
        moved = _moved_segment(segment, shift, last)
        if words[segment.id]:
            moved = _of_words(segment, moved, own, len(words[segment.id]))
        words[segment.id] = own
        segments += [moved] if moved is not None else []
    return _made(t, segments, words)


def _clip(start: float, end: float, shift: float, last: float) -> tuple[float, float]:
    return (
        round(min(max(start + shift, 0.0), last), 3),
        round(min(max(end + shift, 0.0), last), 3),
    )


def _moved_word(word: Word, shift: float, last: float) -> Word | None:
    middle = (word.start + word.end) / 2 + shift
    if not 0 <= middle <= last:
        return None
    start, end = _clip(word.start, word.end, shift, last)
    # Not `replace`, which is slow: there are many.
    return Word(
        start=start,
        end=end,
        word=word.word,
        speaker=word.speaker,
        confidence=word.confidence,
    )


def _moved_segment(
    segment: TranscriptSegment, shift: float, last: float
) -> TranscriptSegment | None:
    start, end = _clip(segment.start, segment.end, shift, last)
    middle = (segment.start + segment.end) / 2 + shift
    if not 0 <= middle <= last and end - start < HEARD_SECONDS:
        return None
    return replace(segment, start=start, end=end)


def _of_words(
    before: TranscriptSegment, moved: TranscriptSegment | None, kept: Sequence[Word], count: int
) -> TranscriptSegment | None:
    if not kept:
        return None
    if moved is not None and len(kept) == count:
        return moved
    start, end = kept[0].start, max(word.end for word in kept)
    return replace(before, start=start, end=end, text=joined(word.word for word in kept))


# What has changed


def changed_segments(old: Transcript, new: Transcript) -> list[Difference]:
    """All that it takes to get from one to the other and back, in the order of time."""
    before, after = ({each.id: each for each in t.segments} for t in (old, new))
    words_before, words_after = words_of(old), words_of(new)
    order = sorted({**before, **after}.values(), key=lambda each: each.start)
    return [
        Difference(
            segment_id=id,
            before=before.get(id),
            after=after.get(id),
            words_before=tuple(words_before.get(id, ())),
            words_after=tuple(words_after.get(id, ())),
        )
        for id in (each.id for each in order)
        if before.get(id) != after.get(id) or words_before.get(id) != words_after.get(id)
    ]


def undone(t: Transcript, differences: Sequence[Difference]) -> Transcript:
    """As it was before these differences."""
    by_id = {each.segment_id: each for each in differences}
    words = words_of(t)
    segments = [each for each in t.segments if each.id not in by_id]
    for each in differences:
        words[each.segment_id] = list(each.words_before)
        segments += [each.before] if each.before is not None else []
    segments.sort(key=lambda segment: (segment.start, segment.id))
    return _made(t, segments, words)
