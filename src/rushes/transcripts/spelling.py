"""Words that are nearly what was typed. Pure.

A word is cut into three pieces, a short one into two: with a letter or two wrong, one of them is
still right. So a word is kept under each of its pieces, and is found by what was typed at about the
same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

# Shorter words have too many neighbours, longer ones are no words.
SHORTEST, LONGEST = 5, 30
# From so many letters on, two may be wrong.
TWO_EDITS = 9


def is_word(word: str) -> bool:
    """One that may be misspelt."""
    return SHORTEST <= len(word) <= LONGEST and word.isalpha()


def keys(word: str) -> list[str]:
    """What a word is kept under."""
    length = len(word)
    return [
        _key(length, number, word[start:end]) for number, (start, end) in enumerate(_pieces(length))
    ]


def first_key(word: str) -> str:
    length = len(word)
    return _key(length, 0, word[: _pieces(length)[0][1]])


def typed_keys(word: str) -> set[str]:
    """What all words that may be meant have one of. Two letters that changed places may be in two
    pieces: so each pair is put right, too."""
    most = _most_edits(word)
    turned = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return {*_about(word, most), *(key for each in turned for key in _about(each, most - 1))}


def _about(word: str, edits: int) -> Iterator[str]:
    """The pieces of words of about its length that are in it at about their place."""
    for length in range(max(len(word) - edits, SHORTEST), min(len(word) + edits, LONGEST) + 1):
        for number, (start, end) in enumerate(_pieces(length)):
            for moved in range(-edits, edits + 1):
                piece = word[max(start + moved, 0) : max(end + moved, 0)]
                if len(piece) == end - start:
                    yield _key(length, number, piece)


@lru_cache(maxsize=LONGEST)
def _pieces(length: int) -> list[tuple[int, int]]:
    """More than there are edits: words from TWO_EDITS - 2 on may be two of them away."""
    count = 2 if length < TWO_EDITS - 2 else 3
    return [(length * n // count, length * (n + 1) // count) for n in range(count)]


def _key(length: int, number: int, piece: str) -> str:
    return f"{length}.{number}.{piece}"


def _most_edits(word: str) -> int:
    return 1 if len(word) < TWO_EDITS else 2


def nearest(word: str, others: Iterable[str]) -> list[str]:
    """Those of the others that may be meant, the best first."""
    most, letters = _most_edits(word), frozenset(word)
    # Whatever is near has nearly the same letters: most of the others are out at once.
    alike = {
        each
        for each in others
        if abs(len(each) - len(word)) <= most
        and len(letters.symmetric_difference(each)) <= 2 * most
    }
    near = sorted((distance(word, each), each[0] != word[0], each) for each in alike)
    return [each for edits, _, each in near if 0 < edits <= most]


def distance(one: str, other: str) -> int:
    """Letters to add, take away, replace, or exchange with the next."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        now = [row]
        for column, theirs in enumerate(other, start=1):
            cost = min(last[column] + 1, now[column - 1] + 1, last[column - 1] + (letter != theirs))
            is_turned = row > 1 and column > 1 and letter == other[column - 2]
            if is_turned and one[row - 2] == theirs:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        before, last = last, now
    return last[-1]
