"""Who said which word: speakers' turns laid over words. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushes.transcripts.transcript import Turn, Word

# A word this far from any turn goes with its neighbours instead.
NEAR_SECONDS = 1.0
# No more than so many words of a sentence are heard on the wrong side of a turn's edge.
SPILLED_WORDS = 2
# So long a silence ends a sentence, whatever stands there.
PAUSE_SECONDS = 1.0

CLOSING = "\"'”’»›)\\]}」』）】"
SENTENCE_END = re.compile(rf"[.?!…‥。？！．؟۔।]+[{CLOSING}]*$")
# What ends in a full stop without ending anything: initials, and titles before a name.
ABBREVIATION = re.compile(
    r"(?i)(?!I\.$)(?:[^\W\d_]\.)+|(?:mr|mrs|ms|dr|st|vs|prof|gen|col|sgt|lt|jr|sr|ca|bzw|mme)\."
)


def ends_sentence(word: str) -> bool:
    return bool(SENTENCE_END.search(word)) and not ABBREVIATION.fullmatch(word)


def label(words: Sequence[Word], turns: Sequence[Turn]) -> list[Word]:
    """The speaker of the turn that a word overlaps most. A word or two that only spill over the
    edge of a turn go with their sentence."""
    if not words or not turns:
        return list(words)
    heard = speakers([(word.start, word.end) for word in words], turns)
    for first, end in _sentences(words):
        _gather(heard, first, end)
    return [replace(word, speaker=speaker) for word, speaker in zip(words, heard, strict=True)]


def speaker_of(words: Sequence[Word]) -> str | None:
    """Who speaks most of the time; the first of those who speak as long as each other."""
    seconds: dict[str, float] = {}
    for word in words:
        if word.speaker is not None:
            # A word without a length counts, too.
            spoken = max(word.end - word.start, 0.001)
            seconds[word.speaker] = seconds.get(word.speaker, 0.0) + spoken
    return max(seconds, key=lambda name: round(seconds[name], 6), default=None)


def speakers(intervals: Sequence[tuple[float, float]], turns: Sequence[Turn]) -> list[str]:
    """Of each interval (in the order of time): by largest overlap, else whoever is near, else as
    the neighbours. Every interval gets a speaker when there is any turn."""
    ordered = sorted(turns, key=lambda turn: (turn.start, turn.end))
    found = _by_overlap(intervals, ordered)
    if None in found:
        found = _by_distance(intervals, ordered, found, NEAR_SECONDS)
    if None in found and any(found):
        found = _as_neighbours(intervals, found)
    if None in found:
        found = _by_distance(intervals, ordered, found, float("inf"))
    return [each for each in found if each is not None]


def _by_overlap(
    intervals: Sequence[tuple[float, float]], ordered: Sequence[Turn]
) -> list[str | None]:
    found: list[str | None] = []
    current: list[Turn] = []
    following = 0
    for start, end in intervals:
        while following < len(ordered) and ordered[following].start < end:
            current.append(ordered[following])
            following += 1
        current = [turn for turn in current if turn.end > start]
        shared: dict[str, float] = {}
        for turn in current:
            seconds = min(end, turn.end) - max(start, turn.start)
            if seconds > 0:
                shared[turn.speaker] = shared.get(turn.speaker, 0.0) + seconds
        found.append(max(shared, key=lambda name: round(shared[name], 6), default=None))
    return found


def _by_distance(
    intervals: Sequence[tuple[float, float]],
    ordered: Sequence[Turn],
    found: Sequence[str | None],
    limit: float,
) -> list[str | None]:
    starts = [turn.start for turn in ordered]
    # Of all turns that begin up to here, the one that lasts longest.
    longest = list(accumulate(ordered, _longer))
    nearest = list(found)
    for number, (start, end) in enumerate(intervals):
        if nearest[number] is None:
            middle = (start + end) / 2
            place = bisect_right(starts, middle)
            near = [*longest[max(place - 1, 0) : place], *ordered[place : place + 1]]
            turn = min(near, key=lambda each: _distance(each, middle))
            nearest[number] = turn.speaker if _distance(turn, middle) <= limit else None
    return nearest


def _longer(one: Turn, other: Turn) -> Turn:
    return other if other.end > one.end else one


def _distance(turn: Turn, moment: float) -> float:
    return max(turn.start - moment, moment - turn.end, 0.0)


def _as_neighbours(
    intervals: Sequence[tuple[float, float]], found: Sequence[str | None]
) -> list[str | None]:
    """The closer one of the known intervals before and after."""
    known = [number for number, speaker in enumerate(found) if speaker is not None]
    filled = list(found)
    for number, (start, end) in enumerate(intervals):
        if filled[number] is None:
            place = bisect_right(known, number)
            before, after = known[max(place - 1, 0)], known[min(place, len(known) - 1)]
            is_later = intervals[after][0] - end < start - intervals[before][1]
            filled[number] = found[after if is_later or before > number else before]
    return filled


def _sentences(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    first = 0
    for number, (word, following) in enumerate(pairwise(words), start=1):
        if ends_sentence(word.word) or following.start - word.end >= PAUSE_SECONDS:
            yield first, number
            first = number
    yield first, len(words)


def _gather(heard: list[str], first: int, end: int) -> None:
    """Only words that run on from another sentence of their speaker: those that have a turn of
    their own were heard as such."""
    limit = min(SPILLED_WORDS, (end - first) // 3)
    if first > 0:
        _give(heard, range(first, end), heard[first - 1], limit)
    if end < len(heard):
        _give(heard, range(end - 1, first - 1, -1), heard[end], limit)


def _give(heard: list[str], places: range, speaker: str, limit: int) -> None:
    """What `speaker` seems to say of a sentence that others say, seen from the turn's edge."""
    spilled = next((n for n, place in enumerate(places) if heard[place] != speaker), 0)
    if not 0 < spilled <= limit:
        return
    owners = {heard[place] for place in places[spilled : 2 * spilled + 1]}
    if len(owners) == 1:
        for place in places[:spilled]:
            heard[place] = heard[places[spilled]]
