"""Words that are nearly what was typed. Pure.

Two words are near if they are the same after a letter or two were left out of each. So a word is
kept under all that is left of its beginning then, and is found by the same of what was typed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

# Shorter words have too many neighbours, longer ones are no words.
SHORTEST, LONGEST = 5, 30
# From so many letters on, two may be wrong.
TWO_EDITS = 9
# So many letters of the beginning are enough to find a word.
KEY_LETTERS = 7


def is_word(word: str) -> bool:
    """One that may be misspelt."""
    return SHORTEST <= len(word) <= LONGEST and word.isalpha()


def keys(word: str) -> set[str]:
    """What a word is kept under, and found by. Two letters may be left out of those that are near
    to one of TWO_EDITS."""
    start = first_key(word)
    most = 1 if len(word) < TWO_EDITS - 2 else 2
    return {
        "".join(letter for at, letter in enumerate(start) if at not in left_out)
        for count in range(most + 1)
        for left_out in combinations(range(len(start)), count)
    }


def first_key(word: str) -> str:
    """The one with all letters."""
    return word[:KEY_LETTERS]


def nearest(word: str, others: Iterable[str]) -> list[str]:
    """Those of the others that may be meant, the best first."""
    most = 1 if len(word) < TWO_EDITS else 2
    alike = {each for each in others if abs(len(each) - len(word)) <= most}
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
