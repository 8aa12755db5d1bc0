"""How a transcript is cut into captions: short lines, sensible places, time to read. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType

from rushes.transcripts import merge, tokens
from rushes.transcripts.transcript import (
    CLAUSE_END,
    IS_UNSPACED,
    UNSPACED,
    Transcript,
    Word,
    words_of,
)

NOBODY: Mapping[str, str] = MappingProxyType({})

# In tenths of a character: 42 of most scripts to a line, or 20 of those that are twice as wide.
LINE, NARROW, WIDE = 420, 10, 21
LONGEST_SECONDS, SHORTEST_SECONDS = 7.0, 0.8
CHARACTERS_A_SECOND = 20
# A shorter gap between two captions is only seen as a flicker.
FLICKER_SECONDS = 0.2
# Sentences this short, and this near to each other, share a caption.
BRIEF_SECONDS, NEAR_SECONDS = 1.0, 0.3
# People who talk at once for longer than this are shown at once.
OVERLAP_SECONDS = 0.2

OPENING = "「『【〈《（［｛“‘"
FOLLOWING = "。、，．！？：；」』】〉》）］｝”’…‥ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
# What may stand on a line by itself: a word, or a character where there are no spaces.
ATOM = re.compile(
    rf"[{OPENING}]*(?:[{UNSPACED}][{tokens.MARKS}]*|[^\s{UNSPACED}]+)[{FOLLOWING}]*|\S"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """`speaker` is the name to show."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class _CuePiece:
    text: str
    start: float
    end: float
    has_space: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """What is said in one go. `is_exact`: its times are somebody's own and are left alone."""

    pieces: Sequence[_CuePiece]
    speaker: str | None
    is_exact: bool = False

    @property
    def start(self) -> float:
        return self.pieces[0].start

    @property
    def end(self) -> float:
        return self.pieces[-1].end


def cues(
    t: Transcript,
    *,
    names: Mapping[str, str] = NOBODY,
    end: float | None = None,
    is_labelled: bool = False,
) -> list[Cue]:
    """Every word once, and in order unless people talk at once. A segment without words that fits
    is one cue of its own times; of a longer one each cue gets the share of its time that the text
    has. `end` is the media's, if known; `is_labelled` writes the names into the lines."""
    runs = list(_together(_runs(t, names)))
    if is_labelled:
        runs = list(_labelled(list(_by_time(runs))))
    made = [cue for number, run in enumerate(runs) for cue in _cut(run, number)]
    made.sort(key=lambda each: each.cue.start)
    return _timed(made, end)


def _runs(t: Transcript, names: Mapping[str, str]) -> Iterator[_Run]:
    words = words_of(t)
    for segment in t.segments:
        speaker = None
        if segment.speaker is not None:
            speaker = names.get(segment.speaker) or segment.speaker
        if own := words[segment.id]:
            yield _Run(_spoken(own), speaker)
        elif pieces := _shared(segment.text, segment.start, segment.end):
            yield _Run(pieces, speaker, is_exact=True)


def _spoken(words: Sequence[Word]) -> list[_CuePiece]:
    pieces: list[_CuePiece] = []
    for word in words:
        own = _shared(word.word, word.start, word.end) if _is_long(word.word) else []
        own = own or [_CuePiece(word.word, word.start, word.end, False)]
        last = pieces[-1].text[-1] if pieces else "。"
        has_space = not (IS_UNSPACED.match(last) or IS_UNSPACED.match(word.word[0]))
        pieces += [replace(own[0], has_space=has_space), *own[1:]]
    return pieces


def _is_long(word: str) -> bool:
    return " " in word or _width(word) > LINE


def _shared(text: str, start: float, end: float) -> list[_CuePiece]:
    """Each piece gets as much of the time as it has of the text."""
    found = [
        (part, begin, has_space)
        for match in ATOM.finditer(text)
        for part, begin, has_space in _narrow(match, text)
    ]
    scale = (end - start) / max(len(text), 1)
    begins = [start + begin * scale for _, begin, _ in found] + [end]
    return [
        _CuePiece(part, begins[number], begins[number + 1], has_space)
        for number, (part, _, has_space) in enumerate(found)
    ]


def _narrow(match: re.Match[str], text: str) -> Iterator[tuple[str, int, bool]]:
    """A word that is longer than a line is cut where the line is full."""
    begin, end = match.span()
    has_space = begin > 0 and text[begin - 1].isspace()
    width = 0
    for place in range(begin, end):
        width += _width(text[place])
        if width > LINE:
            yield text[begin:place], begin, has_space
            begin, has_space, width = place, False, _width(text[place])
    yield text[begin:end], begin, has_space


def _width(text: str) -> int:
    if text.isascii():
        return NARROW * len(text)
    return sum(map(_width_of, text))


def _width_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return WIDE if unicodedata.east_asian_width(char) in "WF" else NARROW


def _together(runs: Iterator[_Run]) -> Iterator[_Run]:
    """Sentences that would only flash by are shown with their neighbours."""
    held: _Run | None = None
    for run in runs:
        if held is not None and _may_join(held, run):
            first = replace(run.pieces[0], has_space=_is_spaced(held, run))
            held = replace(held, pieces=[*held.pieces, first, *run.pieces[1:]])
        else:
            if held is not None:
                yield held
            held = run
    if held is not None:
        yield held


def _may_join(one: _Run, other: _Run) -> bool:
    if one.is_exact or other.is_exact or one.speaker != other.speaker:
        return False
    is_near = 0 <= other.start - one.end <= NEAR_SECONDS
    is_brief = min(one.end - one.start, other.end - other.start) < BRIEF_SECONDS
    if not is_near or not is_brief or other.end - one.start > LONGEST_SECONDS:
        return False
    both = [*one.pieces, *other.pieces]
    return _Measure(both).fits(0, len(both))


def _is_spaced(one: _Run, other: _Run) -> bool:
    touching = one.pieces[-1].text[-1], other.pieces[0].text[0]
    return not any(IS_UNSPACED.match(char) for char in touching)


def _by_time(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Cut where their captions will be if somebody else talks meanwhile, so that each can be given
    a name."""
    ends = list(accumulate((run.end for run in runs), max))
    cut: list[_Run] = []
    for number, run in enumerate(runs):
        is_over = number > 0 and ends[number - 1] > run.start
        is_under = number + 1 < len(runs) and runs[number + 1].start < run.end
        if not (is_over or is_under) or run.is_exact:
            cut.append(run)
            continue
        cut += [replace(run, pieces=run.pieces[first:end]) for first, end in pairwise(_ends(run))]
    yield from sorted(cut, key=lambda run: run.start)


def _labelled(runs: Sequence[_Run]) -> Iterator[_Run]:
    before: str | None = None
    for run in runs:
        if run.speaker is not None and run.speaker != before:
            label = _shared(f"{run.speaker}:", run.start, run.start)
            first = replace(run.pieces[0], has_space=True)
            yield replace(run, pieces=[*label, first, *run.pieces[1:]])
        else:
            yield run
        before = run.speaker


# Where to cut


class _Measure:
    """How wide any row of pieces is."""

    def __init__(self, pieces: Sequence[_CuePiece]) -> None:
        self.spaces = [NARROW if each.has_space else 0 for each in pieces]
        wide = (space + _width(each.text) for space, each in zip(self.spaces, pieces, strict=True))
        self.sums = list(accumulate(wide, initial=0))

    def width(self, first: int, end: int) -> int:
        return self.sums[end] - self.sums[first] - self.spaces[first]

    def full(self, first: int, end: int) -> int:
        """Where the line that begins here has to end."""
        return min(bisect_right(self.sums, self.sums[first] + self.spaces[first] + LINE) - 1, end)

    def fits(self, first: int, end: int) -> bool:
        place = self.full(first, end)
        return place == end or self.width(place, end) <= LINE


@dataclass(frozen=True, slots=True)
class _MadeCue:
    """`run`: the number of the one that it is cut from."""

    cue: Cue
    is_exact: bool
    run: int


def _cut(run: _Run, number: int) -> Iterator[_MadeCue]:
    measure = _Measure(run.pieces)
    ends = _ends(run)
    is_exact = run.is_exact and len(ends) == 2
    for first, end in pairwise(ends):
        yield _MadeCue(_cue(run, measure, first, end), is_exact, number)


def _ends(run: _Run) -> list[int]:
    """The cheapest places to cut it, with its begin and its end, by what `_cost` says of each cue
    and `_roughness` of its end."""
    measure = _Measure(run.pieces)
    count = len(run.pieces)
    if measure.fits(0, count) and (run.is_exact or run.end - run.start <= LONGEST_SECONDS):
        return [0, count]
    rough = [0.0, *(_roughness(run.pieces, place) for place in range(1, count)), 0.0]
    best = [0.0, *([float("inf")] * count)]
    origin = [0] * (count + 1)
    for end in range(1, count + 1):
        for first in range(end - 1, -1, -1):
            seconds = run.pieces[end - 1].end - run.pieces[first].start
            is_one = first == end - 1
            if not is_one and (seconds > LONGEST_SECONDS or not measure.fits(first, end)):
                break
            price = best[first] + _cost(measure.width(first, end), seconds) + rough[end]
            if price < best[end]:
                best[end], origin[end] = price, first
    ends = [count]
    while ends[-1]:
        ends.append(origin[ends[-1]])
    return ends[::-1]


def _cost(width: int, seconds: float) -> float:
    """Few cues, about as long as each other, with time to read them."""
    empty = 1 - width / (2 * LINE)
    hurry = max(width / NARROW / CHARACTERS_A_SECOND - seconds, 0.0)
    flash = max(SHORTEST_SECONDS - seconds, 0.0)
    return 100 + 40 * empty * empty + 20 * min(hurry, 2.0) + 50 * flash


def _roughness(pieces: Sequence[_CuePiece], place: int) -> float:
    """What it costs to stop before this piece: little where one would take a breath."""
    before, after = pieces[place - 1], pieces[place]
    if merge.ends_sentence(before.text):
        return 0.0
    if CLAUSE_END.search(before.text):
        return 10.0
    pause = min(max(after.start - before.end, 0.0), 0.5)
    inside = 0.0 if after.has_space or IS_UNSPACED.match(after.text) else 100.0
    return 45 - 60 * pause + inside


def _cue(run: _Run, measure: _Measure, first: int, end: int) -> Cue:
    places = [first, end]
    if measure.width(first, end) > LINE:
        places.insert(1, _break(run.pieces, measure, first, end))
    return Cue(
        start=run.pieces[first].start,
        end=run.pieces[end - 1].end,
        lines=tuple(_line(run.pieces[a:b]) for a, b in pairwise(places)),
        speaker=run.speaker,
    )


def _break(pieces: Sequence[_CuePiece], measure: _Measure, first: int, end: int) -> int:
    """Two lines of about the same length, the first ending a clause if it can."""

    def price(place: int) -> float:
        uneven = abs(measure.width(first, place) - measure.width(place, end)) / NARROW
        return uneven + _roughness(pieces, place) / 3

    last = measure.full(first, end)
    return min(
        (place for place in range(first + 1, last + 1) if measure.width(place, end) <= LINE),
        key=price,
    )


def _line(pieces: Sequence[_CuePiece]) -> str:
    spaced = "".join(f"{' ' if each.has_space else ''}{each.text}" for each in pieces)
    return spaced.strip()


# When


def _timed(made: Sequence[_MadeCue], end: float | None) -> list[Cue]:
    """Long enough to be read, where the silence behind allows it. In whole milliseconds, of which
    every cue lasts at least one."""
    starts: list[int] = []
    before = 0.0
    for each in made:
        # Exact ones may begin together, but only if they do: not by rounding.
        is_later = not each.is_exact or each.cue.start > before
        first = starts[-1] + 1 if starts and is_later else 0
        starts.append(max(round(each.cue.start * 1000), first))
        before = each.cue.start
    timed: list[Cue] = []
    for number, (each, start) in enumerate(zip(made, starts, strict=True)):
        stop = max(round(each.cue.end * 1000), start + 1)
        if not each.is_exact:
            following = _following(made, number)
            limit = None if end is None else round(end * 1000)
            if following is not None:
                limit = starts[following]
            stop = _stop(each.cue, start, stop, limit, is_last=following is None)
        timed.append(replace(each.cue, start=start / 1000, end=stop / 1000))
    return timed


def _following(made: Sequence[_MadeCue], number: int) -> int | None:
    """The cue before which this one is gone: not one of somebody who talks at the same time."""
    this = made[number]
    for place in range(number + 1, len(made)):
        other = made[place]
        if other.run == this.run or this.cue.end - other.cue.start <= OVERLAP_SECONDS:
            return place
    return None


def _stop(cue: Cue, start: int, stop: int, limit: int | None, *, is_last: bool) -> int:
    longest = start + round(LONGEST_SECONDS * 1000)
    if limit is None or limit <= start:
        return min(stop, longest)
    letters = sum(map(_width, cue.lines)) / NARROW
    readable = max(SHORTEST_SECONDS, letters / CHARACTERS_A_SECOND)
    stop = min(max(stop, start + round(readable * 1000)), longest, limit)
    is_flicker = not is_last and limit - stop < FLICKER_SECONDS * 1000
    return min(limit, longest) if is_flicker else stop
