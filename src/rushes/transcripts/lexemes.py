"""What the index is given of a text, and asked for: plain words of a-z, 0-9 and _. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rushes.transcripts import tokens

# The beginning of a word counts from so many letters on, and is in the index.
PREFIX_LETTERS = 3
# What is longer is cut, in the index and in what is looked for.
LONGEST_WORD = tokens.LONGEST_KNOWN


@dataclass(frozen=True, slots=True)
class Lexemes:
    """Of a moment: what is said next (as text), all words in order, and what else it is found by:
    stems that are none of them, and how longer words begin."""

    following: str
    words: Sequence[str]
    others: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Word:
    """What is kept of a word; the second time as one that is said next."""

    own: str
    others: Sequence[str]
    next: str
    next_others: Sequence[str]


def of(text: str, following: str, language: str | None) -> Lexemes:
    words = [_kept(word, language) for word in _cut(text)]
    later = [_kept(word, language) for word in _cut(following)]
    own = [*(each.own for each in words), *(each.next for each in later)]
    others = dict.fromkeys(other for each in words for other in each.others)
    others |= dict.fromkeys(other for each in later for other in each.next_others)
    for known in own:
        others.pop(known, None)
    return Lexemes(following, own, tuple(others))


def _cut(text: str) -> list[str]:
    return [word[:LONGEST_WORD] for word in tokens.words(text)]


# The same words are said again and again.
@lru_cache(maxsize=50_000)
def _kept(word: str, language: str | None) -> _Word:
    own, others = of_word(word), tuple(_others(word, language))
    return _Word(own, others, of_next(own), tuple(map(of_next, others)))


def _others(word: str, language: str | None) -> Iterator[str]:
    stem = tokens.stem(word, language)
    if stem not in ("", word):
        yield of_word(stem)
    if len(word) > PREFIX_LETTERS:
        yield of_start(word[:PREFIX_LETTERS])


def of_word(word: str) -> str:
    cut = word[:LONGEST_WORD]
    return cut if cut.isascii() and cut.isalnum() else coded(cut)


def coded(word: str) -> str:
    return f"0x{word[:LONGEST_WORD].encode().hex()}"


def of_start(start: str) -> str:
    return f"_{of_word(start)}"


def of_next(lexeme: str) -> str:
    """Of what is said next: a single word is not looked for there."""
    return f"n_{lexeme}"


def of_owner(user_id: str) -> str:
    """Only to look in the right place; who may see what is asked of the rows."""
    return f"__u{hashlib.sha256(user_id.encode()).hexdigest()[:12]}"


def of_forms(term: str, languages: Sequence[str]) -> dict[str, None]:
    """The word and its stem in every language that is spoken here."""
    stems = (tokens.stem(term, language) for language in languages)
    return dict.fromkeys(of_word(each) for each in (term, *stems))


def words_of(lexemes: Iterable[str]) -> set[str]:
    """What they were made of, those that are a word's own."""
    return {_word(each) for each in lexemes} - {""}


def _word(lexeme: str) -> str:
    if not lexeme.startswith("0x"):
        return "" if lexeme.startswith("n_") else lexeme
    try:
        return bytes.fromhex(lexeme[2:]).decode()
    except ValueError:
        return ""
