"""Whether a moment says what is looked for, and how well: the same for every database. Pure.

Captions break in mid sentence, so a moment is read together with the words that are said next. It
is meant only if what is looked for begins in it: else the next one is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rushes.transcripts import tokens, transcript
from rushes.transcripts.tokens import Query
from rushes.transcripts.transcript import TranscriptSegment

# So many words of what is said next, in so many segments at most; behind a longer silence
# something else is talked about.
NEXT_WORDS, NEXT_SEGMENTS, NEXT_SECONDS = 12, 6, 5.0


# How much worse than the word itself: one that is a part of another is worse than any number of
# other forms.
FORM, PART = 1, 100


@dataclass(frozen=True, slots=True, order=True)
class Fit:
    """How far what is said is from the words that are looked for, how far apart all of it is, and
    whether some of it is said next only. Less is better."""

    loose: int
    apart: int
    crosses: bool


def fit(query: Query, text: str, following: str, language: str | None) -> Fit | None:
    """None when something is missing."""
    own = tokens.words(text)
    places = [_places(query, word, own, language) for word in words(query)]
    inside = _inside(query, own, places)
    if inside is not None or not following or not is_several(query):
        return inside
    later = tokens.words(following)
    for word, said in zip(words(query), places, strict=True):
        next = _places(query, word, later, language)
        said |= {len(own) + at: how for at, how in next.items()}
    return _across(query, own, later, places)


def is_several(query: Query) -> bool:
    """Words, so that they may be said in several segments."""
    count = len(query.terms) + sum(map(len, query.phrases)) + (query.prefix is not None)
    return count > 1


def snippet(
    query: Query, text: str, following: str, language: str | None, *, crosses: bool
) -> tuple[str, list[tuple[int, int]]]:
    """Where it is said, and what to mark in it."""
    if not crosses:
        return tokens.snippet(query, text, language)
    begun = replace(query, phrases=[each[: NEXT_WORDS + 1] for each in query.phrases])
    return tokens.snippet(begun, transcript.joined((text, following)), language)


def following(segments: Sequence[TranscriptSegment], numbers: Sequence[int]) -> Iterator[str]:
    """What is said next, for each of these."""
    heads: dict[int, list[int]] = {}
    for number in numbers:
        texts: list[str] = []
        room = NEXT_WORDS
        for at in range(number + 1, min(number + 1 + NEXT_SEGMENTS, len(segments))):
            if segments[at].start - segments[at - 1].end > NEXT_SECONDS or not room:
                break
            text = segments[at].text
            if at not in heads:
                heads[at] = tokens.ends(text, NEXT_WORDS + 1)
            is_cut = len(heads[at]) > room
            texts.append(text[: heads[at][room - 1]] + tokens.ELLIPSIS if is_cut else text)
            room -= min(room, len(heads[at]))
        yield transcript.joined(each for each in texts if each)


def _inside(query: Query, own: Sequence[str], places: Sequence[Mapping[int, int]]) -> Fit | None:
    best = [min(said.values(), default=0) for said in places]
    chosen = [
        [at for at, how in said.items() if how == least]
        for said, least in zip(places, best, strict=True)
    ]
    chosen += [_said(phrase, own) for phrase in query.phrases]
    if not all(chosen):
        return None
    first, *others = chosen
    apart = min(max((_distance(each, at) for each in others), default=0) for at in first)
    return Fit(sum(best), apart, crosses=False)


def _across(
    query: Query,
    own: Sequence[str],
    later: Sequence[str],
    places: Sequence[Mapping[int, int]],
) -> Fit | None:
    """From the moment's words into those that follow, by the closest that are together."""
    cut_from = len(own) if len(later) >= NEXT_WORDS else 0
    found = [*own, *later]
    phrases = [_said(phrase, found, cut_from=cut_from) for phrase in query.phrases]
    parts = [*places, *(dict.fromkeys(each, 0) for each in phrases)]
    said: dict[int, list[int]] = {}
    for part, there in enumerate(parts):
        for at in there:
            said.setdefault(at, []).append(part)
    last: dict[int, int] = {}
    fits: list[Fit] = []
    for at in sorted(said):
        last |= dict.fromkeys(said[at], at)
        if len(last) == len(parts) and (first := min(last.values())) < len(own):
            loose = sum(parts[each][place] for each, place in last.items())
            fits.append(Fit(loose, at - first, crosses=True))
    return min(fits, default=None)


def words(query: Query) -> Iterator[str]:
    """Those that may be there in other forms."""
    yield from query.terms
    if query.prefix:
        yield query.prefix


def _places(query: Query, word: str, found: Sequence[str], language: str | None) -> dict[int, int]:
    """Where it is said, in order, and how much worse than itself."""
    is_prefix = word == query.prefix
    stem, parts = tokens.stem(word, language), tokens.parts(word, language)
    places: dict[int, int] = {}
    for at, each in enumerate(found):
        if each == word:
            places[at] = 0
        elif (is_prefix and each.startswith(word)) or tokens.stem(each, language) == stem:
            places[at] = FORM
        elif parts and tokens.is_compound_of(each, parts):
            places[at] = PART
    return places


def _said(phrase: Sequence[str], found: Sequence[str], *, cut_from: int = 0) -> list[int]:
    """Where it begins. What begins before `cut_from` may go on behind all that is known here: then
    that must do."""
    words, wanted = list(found), list(phrase)
    last = len(words) - len(wanted)
    return [
        at
        for at in range(max(last + 1, cut_from))
        if words[at : at + len(wanted)] == wanted[: len(words) - at]
    ]


def _distance(places: Sequence[int], to: int) -> int:
    """To the nearest one; they are in order."""
    after = bisect_left(places, to)
    return min(abs(at - to) for at in places[max(after - 1, 0) : after + 1])
