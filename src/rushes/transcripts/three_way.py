"""People's corrections taken over into a newer transcript of the same recording. Pure.

`base` is what people corrected, `ours` what they made of it, `theirs` the newer one. Words are
aligned by what they are, ignoring case and punctuation, and by when they are heard. A correction is
taken over where the newer transcript has the words that were corrected; where it heard something
else there, it is a conflict, and people's words stay unless somebody chooses otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rushes.transcripts import editing, speakers
from rushes.transcripts.editing import SegmentEdit, split_text, word_key
from rushes.transcripts.transcript import Transcript, Word, joined, words_of

Choice = Literal["ours", "theirs"]

# What is further apart is not the same word heard twice.
NEAR_SECONDS = 5.0
# So many words in a row that are at one place only, on both sides, are taken for the same.
ANCHOR_WORDS = 3
# Of a row of words that is heard more often than this, no place is looked for.
REPEATED = 50
# Longer stretches without an anchor are cut in two, in a pause.
STRETCH_WORDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A stretch that both have changed, each in its own way."""

    number: int
    start: float
    end: float
    base: str
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """`corrections` are all that people made, of words; `kept` those that are taken over without
    a conflict. `names` are by the labels of the result."""

    transcript: Transcript
    names: Mapping[str, str]
    corrections: int
    kept: int
    conflicts: Sequence[Conflict]


def merge(
    base: Transcript,
    ours: Transcript,
    theirs: Transcript,
    *,
    names: Mapping[str, str] | None = None,
    choices: Mapping[int, Choice] | None = None,
) -> Merged:
    """`choices`: by the number of a conflict. Corrections of a text in another language say
    nothing about this one: only the speakers are taken over then."""
    given, chosen = names or {}, choices or {}
    old, mine, new = _tokens(base), _tokens(ours), _tokens(theirs)
    ours_of, theirs_of = _aligned_by_segment(base, ours, old, mine), _aligned(old, new)
    edits = list(_edits(old, mine, ours_of, is_exact=True))
    plan = _Plan(old, mine, new, chosen)
    people: dict[str, str] = {}
    if (theirs.segments, theirs.words) == (base.segments, base.words):
        merged = replace(ours, engine=theirs.engine)
        plan.run(edits, [])
    else:
        if not _is_other_language(base, theirs):
            changed = _edits(old, new, theirs_of)
            plan.run(edits, [part for each in changed for part in _by_segment(old, new, each)])
        votes = _speaker_votes(old, mine, new, ours_of, theirs_of)
        text = _applied(ours, theirs, new, plan.replacements)
        merged, people = _with_speakers(ours, theirs, text, votes)
    there = set(speakers.labels(merged))
    said = {people.get(label, label): name for label, name in given.items()}
    return Merged(
        transcript=merged,
        names={label: name for label, name in said.items() if label in there},
        corrections=len(edits),
        kept=plan.kept,
        conflicts=plan.conflicts,
    )


def _is_other_language(one: Transcript, other: Transcript) -> bool:
    return None not in (one.language, other.language) and one.language != other.language


# Words, and which of them are the same


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, or a character of a script without spaces. Without a time of its own it has its
    segment's. `segment` counts."""

    text: str
    key: str
    start: float
    end: float
    speaker: str | None
    segment: int


def _tokens(t: Transcript) -> list[_Token]:
    words = words_of(t)
    known: dict[str, str] = {}
    made = []
    for number, segment in enumerate(t.segments):
        texts = split_text(segment.text)
        times = _times(texts, words[segment.id]) or [(segment.start, segment.end)] * len(texts)
        known.update((text, word_key(text)) for text in texts if text not in known)
        made += [
            _Token(text, known[text], start, end, segment.speaker, number)
            for text, (start, end) in zip(texts, times, strict=True)
        ]
    return made


def _times(texts: Sequence[str], words: Sequence[Word]) -> list[tuple[float, float]] | None:
    """None if the words are not those of the text."""
    found = [(word.start, word.end) for word in words for _ in split_text(word.word)]
    return found if len(found) == len(texts) else None


def _distance(one: _Token, other: _Token) -> float:
    return max(one.start - other.end, other.start - one.end, 0.0)


def _are_near(old: Sequence[_Token], new: Sequence[_Token]) -> bool:
    return all(_distance(*pair) <= NEAR_SECONDS for pair in zip(old, new, strict=True))


def _aligned_by_segment(
    base: Transcript, ours: Transcript, old: Sequence[_Token], mine: Sequence[_Token]
) -> list[int | None]:
    """What people write in a segment is about that one; what they have cut or joined is aligned as
    any other text."""
    found: list[int | None] = []
    at = place = 0
    for first, end, start, stop in _shared_segments(base, ours, old, mine):
        for here, there in (
            (slice(at, first), slice(place, start)),
            (slice(first, end), slice(start, stop)),
        ):
            pairs = _aligned(old[here], mine[there])
            found += [None if each is None else each + there.start for each in pairs]
        at, place = end, stop
    return found


def _shared_segments(
    base: Transcript, ours: Transcript, old: Sequence[_Token], mine: Sequence[_Token]
) -> Iterator[tuple[int, int, int, int]]:
    """Where the words of each are, on both sides; last of all, where both end."""
    places = {(each.id, each.start, each.end): n for n, each in enumerate(ours.segments)}
    numbers, others = [each.segment for each in old], [each.segment for each in mine]
    last = -1
    for n, each in enumerate(base.segments):
        other = places.get((each.id, each.start, each.end), -1)
        if other > last:
            last = other
            yield (
                bisect_left(numbers, n),
                bisect_right(numbers, n),
                bisect_left(others, other),
                bisect_right(others, other),
            )
    yield len(old), len(old), len(mine), len(mine)


def _aligned(old: Sequence[_Token], new: Sequence[_Token]) -> list[int | None]:
    """For each of `old`, which of `new` is the same word; in order."""
    if [each.key for each in old] == [each.key for each in new] and _are_near(old, new):
        return list(range(len(old)))
    found: list[int | None] = [None] * len(old)
    anchors = [(-1, -1), *_anchors(old, new), (len(old), len(new))]
    for (i, j), (next_i, next_j) in pairwise(anchors):
        if i >= 0:
            found[i] = j
        for one, other in _between(old, new, (i + 1, next_i), (j + 1, next_j)):
            found[one] = other
    return found


def _anchors(old: Sequence[_Token], new: Sequence[_Token]) -> list[tuple[int, int]]:
    """Rows of words that are at one place only, near in time. Of those that cross each other the
    longest chain counts."""
    places: dict[tuple[str, ...], list[int]] = {}
    for j, row in enumerate(_rows(new)):
        places.setdefault(row, []).append(j)
    counts = Counter(_rows(old))
    pairs = []
    for i, row in enumerate(_rows(old)):
        if counts[row] <= REPEATED and len(places.get(row, ())) <= REPEATED:
            near = [j for j in places.get(row, ()) if _distance(old[i], new[j]) <= NEAR_SECONDS]
            if len(near) == 1:
                pairs.append((i, near[0]))
    return _longest_chain(pairs)


def _rows(tokens: Sequence[_Token]) -> Iterator[tuple[str, ...]]:
    keys = [each.key for each in tokens]
    return (
        tuple(keys[at : at + ANCHOR_WORDS]) for at in range(max(len(keys) - ANCHOR_WORDS + 1, 0))
    )


def _longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rising in both; the pairs come in the order of the first."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(ends, j)
        before.append(last[place - 1] if place else -1)
        ends[place : place + 1] = [j]
        last[place : place + 1] = [number]
    chain = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _between(
    old: Sequence[_Token], new: Sequence[_Token], mine: tuple[int, int], others: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    waiting = [(mine, others)]
    while waiting:
        (i, end), (j, stop) = waiting.pop()
        if i < end and j < stop:
            if max(end - i, stop - j) > STRETCH_WORDS and end - i > 1:
                cut = _pause(old, i, end)
                at = next((n for n in range(j, stop) if new[n].start >= old[cut].start), stop)
                waiting += [((i, cut), (j, at)), ((cut, end), (at, stop))]
            else:
                yield from _matches(old, new, (i, end), (j, stop))


def _pause(tokens: Sequence[_Token], first: int, end: int) -> int:
    """The word behind the longest pause, not far from the middle."""
    quarter = (end - first) // 4
    places = range(max(first + quarter, first + 1), max(end - quarter, first + 2))
    return max(places, key=lambda at: tokens[at].start - tokens[at - 1].end)


def _matches(
    old: Sequence[_Token], new: Sequence[_Token], mine: tuple[int, int], others: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    keys = [each.key for each in old[slice(*mine)]]
    for tag, first, end, place, _ in editing.opcodes(
        keys, [each.key for each in new[slice(*others)]]
    ):
        for at in range(end - first) if tag == "equal" else ():
            i, j = mine[0] + first + at, others[0] + place + at
            if _distance(old[i], new[j]) <= NEAR_SECONDS:
                yield i, j


# What each has changed, and what comes of both


@dataclass(frozen=True, slots=True)
class _Edit:
    """[first, end) of the old words became [start, stop) of the new ones."""

    first: int
    end: int
    start: int
    stop: int
    is_ours: bool

    @property
    def growth(self) -> int:
        return (self.stop - self.start) - (self.end - self.first)


def _edits(
    old: Sequence[_Token],
    new: Sequence[_Token],
    found: Sequence[int | None],
    *,
    is_exact: bool = False,
) -> Iterator[_Edit]:
    """`is_exact`: a word in another case, or with other punctuation, is a change, too: what people
    write is meant."""
    first = start = 0
    for at, place in enumerate([*found, len(new)]):
        if place is None:
            continue
        if first < at or start < place:
            yield _Edit(first, at, start, place, is_exact)
        if at < len(old) and is_exact and old[at].text != new[place].text:
            yield _Edit(at, at + 1, place, place + 1, is_exact)
        first, start = at + 1, place + 1


def _by_segment(old: Sequence[_Token], new: Sequence[_Token], edit: _Edit) -> Iterator[_Edit]:
    """By the time of the old segments, so that a conflict is about one sentence, however much is
    heard differently."""
    first, start = edit.first, edit.start
    for at in range(edit.first + 1, edit.end):
        if old[at].segment != old[at - 1].segment:
            stop = start
            while stop < edit.stop and new[stop].start < old[at].start:
                stop += 1
            yield replace(edit, first=first, end=at, start=start, stop=stop)
            first, start = at, stop
    yield replace(edit, first=first, start=start)


def _groups(edits: Sequence[_Edit]) -> Iterator[list[_Edit]]:
    """Those of both that touch the same words. Whoever adds words beside others that were changed
    may have meant those."""
    group: list[_Edit] = []
    until = 0
    for edit in sorted(edits, key=lambda edit: (edit.first, edit.end)):
        is_adding = edit.first == edit.end or any(each.first == each.end == until for each in group)
        if group and (edit.first < until or (edit.first == until and is_adding)):
            group.append(edit)
            until = max(until, edit.end)
        else:
            if group:
                yield group
            group, until = [edit], edit.end
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Replacement:
    """[start, stop) of their words become these of ours. `joins`: they go on in a segment that
    has begun before them."""

    start: int
    stop: int
    tokens: Sequence[_Token]
    joins: bool


class _Plan:
    def __init__(
        self,
        old: Sequence[_Token],
        mine: Sequence[_Token],
        new: Sequence[_Token],
        choices: Mapping[int, Choice],
    ) -> None:
        self._old, self._mine, self._new = old, mine, new
        self._choices = choices
        self.replacements: list[_Replacement] = []
        self.conflicts: list[Conflict] = []
        self.kept = 0

    def run(self, ours: Sequence[_Edit], theirs: Sequence[_Edit]) -> None:
        # By how much each is longer than the old words so far.
        mine = new = 0
        for group in _groups([*ours, *theirs]):
            first, end = group[0].first, max(each.end for each in group)
            start, place = first + mine, first + new
            mine += sum(each.growth for each in group if each.is_ours)
            new += sum(each.growth for each in group if not each.is_ours)
            count = sum(each.is_ours for each in group)
            if count:
                is_both = count < len(group)
                self._decide((first, end), (start, end + mine), (place, end + new), count, is_both)

    def _decide(
        self,
        old: tuple[int, int],
        mine: tuple[int, int],
        new: tuple[int, int],
        count: int,
        is_both: bool,
    ) -> None:
        ours, theirs = self._mine[slice(*mine)], self._new[slice(*new)]
        chosen: Choice = "ours"
        if is_both and [each.key for each in ours] != [each.key for each in theirs]:
            number = len(self.conflicts)
            base = self._old[slice(*old)]
            self.conflicts.append(_conflict(number, base, ours, theirs))
            chosen = self._choices.get(number, "ours")
        else:
            self.kept += count
        if chosen == "ours":
            joins = mine[0] > 0 and bool(ours) and self._joins(mine[0])
            self.replacements.append(_Replacement(*new, ours, joins))

    def _joins(self, at: int) -> bool:
        return self._mine[at].segment == self._mine[at - 1].segment


def _conflict(
    number: int, base: Sequence[_Token], ours: Sequence[_Token], theirs: Sequence[_Token]
) -> Conflict:
    told = [*base, *ours, *theirs]
    return Conflict(
        number=number,
        start=min(each.start for each in told),
        end=max(each.end for each in told),
        base=joined(each.text for each in base),
        ours=joined(each.text for each in ours),
        theirs=joined(each.text for each in theirs),
    )


# The result


def _applied(
    ours: Transcript, theirs: Transcript, new: Sequence[_Token], made: Sequence[_Replacement]
) -> Transcript:
    """In their segments, whose words keep their times."""
    if not theirs.segments:
        return replace(ours, engine=theirs.engine) if made else theirs
    texts: list[list[str]] = [[] for _ in theirs.segments]
    changed: set[int] = set()
    at = 0
    for each in made:
        for token in new[at : each.start]:
            texts[token.segment].append(token.text)
        changed |= {token.segment for token in new[each.start : each.stop]}
        for token, place in zip(each.tokens, _places(theirs, new, each), strict=True):
            texts[place].append(token.text)
            changed.add(place)
        at = each.stop
    for token in new[at:]:
        texts[token.segment].append(token.text)
    edits = [
        SegmentEdit(segment_id=theirs.segments[number].id, text=joined(texts[number]))
        for number in sorted(changed)
    ]
    return editing.edited(theirs, edits)


def _places(theirs: Transcript, new: Sequence[_Token], made: _Replacement) -> list[int]:
    """Which segment each of the words goes to: one of those that it stands for, by its time."""
    if made.start < made.stop:
        first, last = new[made.start].segment, new[made.stop - 1].segment
    else:
        before = new[made.start - 1].segment if made.start else 0
        after = new[made.start].segment if made.start < len(new) else before
        first = last = before if made.joins or not made.start else after
    places = []
    for token in made.tokens:
        while first < last and theirs.segments[first + 1].start <= token.start:
            first += 1
        places.append(first)
    return places


def _speaker_votes(
    old: Sequence[_Token],
    mine: Sequence[_Token],
    new: Sequence[_Token],
    ours_of: Sequence[int | None],
    theirs_of: Sequence[int | None],
) -> dict[int, str]:
    """Their segments of which people said, for most of the words, that somebody else speaks: who,
    or nobody (empty)."""
    lengths = Counter(each.segment for each in new)
    votes: Counter[tuple[int, str]] = Counter()
    for token, i, j in zip(old, ours_of, theirs_of, strict=True):
        if i is not None and j is not None and mine[i].speaker != token.speaker:
            votes[new[j].segment, mine[i].speaker or ""] += 1
    return {
        segment: speaker
        for (segment, speaker), count in votes.items()
        if count > lengths[segment] / 2
    }


def _with_speakers(
    ours: Transcript, theirs: Transcript, merged: Transcript, votes: Mapping[int, str]
) -> tuple[Transcript, dict[str, str]]:
    """And what the labels of ours are there. Where nobody was told apart, people's are given to
    the words that are heard at the same time."""
    if not speakers.labels(theirs):
        return speakers.labelled(merged, speakers.turns_of(ours)), {}
    people = speakers.same_people(ours, theirs)
    there = {each.id for each in merged.segments}
    edits = [
        SegmentEdit(segment_id=id, speaker=people.get(speaker, speaker))
        for number, speaker in votes.items()
        if (id := theirs.segments[number].id) in there
    ]
    return editing.edited(merged, edits), people
