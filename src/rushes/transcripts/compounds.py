"""Words that are written together: Vertrag is found in Mietvertrag and Vertragsstrafe. Pure.

No dictionary says where a word may be divided, so what is on either side must only look like a
word. A word is kept under every second run of four letters in it; whatever has five letters or
more holds one of these wherever it stands.
"""

from __future__ import annotations

import re
from functools import lru_cache

CODES = frozenset(
    {"af", "da", "de", "et", "fi", "fo", "fy", "hu", "is", "lb", "nb", "nl", "nn", "no", "sv"}
)
# Some engines say these instead.
NAMES = frozenset({"danish", "dutch", "finnish", "german", "hungarian", "norwegian", "swedish"})
# Shorter parts are in too many words by chance; what is beside a part has some letters, too.
SHORTEST_PART, SHORTEST_REST = 5, 3
SHORTEST, LONGEST = SHORTEST_PART + SHORTEST_REST, 60
VOWEL = re.compile("[aeiouy]")
# What makes another verb of a verb is no word beside it.
PREFIXES = frozenset({"emp", "ent", "for", "ont", "ver", "zer"})
RUN, STEP = 4, 2


@lru_cache(maxsize=1000)
def are_in(language: str | None) -> bool:
    """Whether this language (a code or an English name) writes words together."""
    return re.split("[-_]", (language or "").lower())[0] in CODES | NAMES


def is_word(word: str) -> bool:
    """One that may be a compound."""
    return SHORTEST <= len(word) <= LONGEST and word.isalpha()


def is_part(word: str) -> bool:
    """One that may be looked for in others."""
    return SHORTEST_PART <= len(word) <= LONGEST - SHORTEST_REST and word.isalpha()


def has_part(word: str, part: str) -> bool:
    at = word.find(part)
    while at >= 0:
        if _is_border(word[:at], word[at + len(part) :]):
            return True
        at = word.find(part, at + 1)
    return False


def _is_border(before: str, after: str) -> bool:
    """An ending may follow the last part; alone it makes no compound."""
    if not before:
        return len(after) >= SHORTEST_REST
    is_rest = len(before) >= SHORTEST_REST and before not in PREFIXES
    return is_rest and VOWEL.search(before) is not None


def keys(word: str) -> list[str]:
    """What a compound is kept under."""
    return list(dict.fromkeys(_key(word, at) for at in range(0, len(word) - RUN + 1, STEP)))


def first_key(word: str) -> str:
    return _key(word, 0)


def part_keys(part: str) -> set[str]:
    """What every compound with this part has one of."""
    return {_key(part, at) for at in range(STEP)}


def _key(word: str, at: int) -> str:
    return f"+{word[at : at + RUN]}"
