"""Who speaks: given to words that are there already, and the same people in two texts. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, groupby, pairwise

from rushes.transcripts import merge
from rushes.transcripts.transcript import (
    ID,
    Transcript,
    TranscriptSegment,
    Turn,
    Word,
    in_time,
    joined,
    spelled,
    words_of,
)

LABEL = "SPEAKER_{:02d}"


def labels(t: Transcript) -> list[str]:
    """In the order in which they are first heard."""
    return list(dict.fromkeys(each.speaker for each in t.segments if each.speaker))


def turns_of(t: Transcript) -> list[Turn]:
    return [
        Turn(start=each.start, end=each.end, speaker=each.speaker)
        for each in t.segments
        if each.speaker
    ]


def labelled(t: Transcript, turns: Sequence[Turn]) -> Transcript:
    """The same text, said by these: a segment in which several speak becomes several. What has no
    words with times stays whole."""
    if not turns:
        return t
    own = words_of(t)
    named = _named(t, own, turns)
    wordless = [each for each in t.segments if not own[each.id]]
    spans = [(each.start, each.end) for each in wordless]
    said = dict(zip((each.id for each in wordless), merge.speakers(spans, turns), strict=True))
    taken = {each.id for each in t.segments}
    fresh = (id for number in count(1) if (id := ID.format(number)) not in taken)
    segments: list[TranscriptSegment] = []
    words: dict[str, Sequence[Word]] = {}
    for segment in t.segments:
        if mine := named[segment.id]:
            parts = _split(segment, mine, fresh)
            segments += [part for part, _ in parts]
            words |= {part.id: run for part, run in parts}
        else:
            segments.append(replace(segment, speaker=said[segment.id]))
            words[segment.id] = ()
    segments.sort(key=lambda each: each.start)
    text = joined(each.text for each in segments) if segments else t.text
    return replace(t, text=text, segments=segments, words=in_time(segments, words))


def _named(
    t: Transcript, own: Mapping[str, Sequence[Word]], turns: Sequence[Turn]
) -> dict[str, list[Word]]:
    """The words of each segment with their speakers, who are found in the order of time."""
    placed = [(each.id, word) for each in t.segments for word in own[each.id]]
    placed.sort(key=lambda each: each[1].start)
    found: dict[str, list[Word]] = {each.id: [] for each in t.segments}
    labelled = merge.label([word for _, word in placed], turns)
    for (id, _), word in zip(placed, labelled, strict=True):
        found[id].append(word)
    return found


def _split(
    segment: TranscriptSegment, words: Sequence[Word], fresh: Iterator[str]
) -> list[tuple[TranscriptSegment, Sequence[Word]]]:
    runs = [list(run) for _, run in groupby(words, key=lambda word: word.speaker)]
    texts = _texts(segment, runs)
    if texts is None:
        speaker = merge.speaker_of(words)
        return [
            (replace(segment, speaker=speaker), [replace(each, speaker=speaker) for each in words])
        ]
    made: list[tuple[TranscriptSegment, Sequence[Word]]] = []
    for number, (run, text) in enumerate(zip(runs, texts, strict=True)):
        part = replace(
            segment,
            id=next(fresh) if number else segment.id,
            start=run[0].start if number else segment.start,
            end=run[-1].end if number + 1 < len(runs) else segment.end,
            text=text,
            speaker=run[0].speaker,
        )
        made.append((part, run))
    return made


def _texts(segment: TranscriptSegment, runs: Sequence[Sequence[Word]]) -> list[str] | None:
    """What each run is of the text; None if the words are not those of the text, or begin at one
    moment, so that nobody could tell which segment they are in."""
    if len(runs) == 1:
        return [segment.text]
    pieces = spelled(segment.text, [word.word for run in runs for word in run])
    is_clear = all(one[-1].start < other[0].start for one, other in pairwise(runs))
    if "".join(pieces) != segment.text or not is_clear:
        return None
    made, place = [], 0
    for run in runs:
        made.append("".join(pieces[place : place + len(run)]).strip())
        place += len(run)
    return made


def same_people(old: Transcript, new: Transcript) -> dict[str, str]:
    """Labels of `old` and those of `new` that speak at the same time, largest overlap first; each
    stands for one. Who is not in `new` gets a label that is free there."""
    shared = _shared_seconds(old, new)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for one, other in sorted(shared, key=lambda pair: (-round(shared[pair], 3), pair)):
        if one not in found and other not in taken:
            found[one] = other
            taken.add(other)
    taken |= set(labels(new))
    for label in labels(old):
        if label not in found:
            names = chain([label], (LABEL.format(number) for number in count()))
            found[label] = next(each for each in names if each not in taken)
            taken.add(found[label])
    return found


def told_apart(t: Transcript, turns: Sequence[Turn], names: Collection[str] = ()) -> Transcript:
    """The same text with speakers anew. Whoever was there already keeps the label, so that names
    stay right; nobody new gets one that was used (or is among `names`)."""
    new = labelled(t, turns)
    shared = same_people(t, new)
    heard = labels(new)
    given = {label: before for before, label in shared.items() if label in heard}
    taken = {*labels(t), *names}
    for label in heard:
        if label not in given:
            fresh = chain([label], (LABEL.format(number) for number in count()))
            given[label] = next(each for each in fresh if each not in taken)
        taken.add(given[label])
    return replace(
        new,
        segments=[replace(each, speaker=given.get(each.speaker or "")) for each in new.segments],
        words=[replace(each, speaker=given.get(each.speaker or "")) for each in new.words],
    )


def _shared_seconds(old: Transcript, new: Transcript) -> dict[tuple[str, str], float]:
    turns = sorted(turns_of(new), key=lambda turn: turn.start)
    starts = [turn.start for turn in turns]
    longest = max((turn.end - turn.start for turn in turns), default=0.0)
    shared: dict[tuple[str, str], float] = {}
    for one in turns_of(old):
        for place in range(bisect_right(starts, one.end) - 1, -1, -1):
            other = turns[place]
            if other.start + longest < one.start:
                break
            seconds = min(one.end, other.end) - max(one.start, other.start)
            if seconds > 0:
                pair = (one.speaker, other.speaker)
                shared[pair] = shared.get(pair, 0.0) + seconds
    return shared
