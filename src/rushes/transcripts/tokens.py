"""Words as searching sees them: the same for every database, and for what is typed. Pure."""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from rushes import errors
from rushes.transcripts import compounds

MAX_QUERY_WORDS = 32
# What is longer is no word, and not worth to be remembered.
LONGEST_KNOWN = 60
ELLIPSIS = "…"

# Scripts that put no spaces between words, and Korean, whose particles hang on its words.
SINGLE = (
    "\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2-\u0eb3\u0ec0-\u0edf"
    "\u1000-\u102a\u1780-\u17b3\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30ff\u3105-\u312f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d"
    "\U00020000-\U0003ffff"
)


def _marks() -> str:
    """Accents, vowel signs and joiners, which belong to the letter before them."""
    places = [range(0x300, 0x1E00), range(0x20D0, 0x20F1), range(0xA66F, 0xABF0)]
    found = [chr(code) for place in places for code in place if _is_mark(chr(code))]
    return "".join(found) + (
        "\u200c\u200d\u302a-\u302f\u3099\u309a\uff9e\uff9f\ufe00-\ufe0f\ufe20-\ufe2f"
    )


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M")


MARKS = _marks()
APOSTROPHES = "'’‘ʼ＇`"
# In French and Italian a word may lean on the next one; what is looked for is the next one.
LEANING = re.compile(
    rf"(?i)(?:[ldjmtsnc]|qu|jusqu|lorsqu|puisqu|dell|all|nell|sull|dall|un)[{APOSTROPHES}](?=\w\w)"
)
APOSTROPHE = re.compile(f"[{APOSTROPHES}]")
# Thousands are written in many ways, and typed without.
NUMBER = r"[0-9]{1,3}(?:[.,][0-9]{3})+(?![^\W_])"
WORD = re.compile(
    rf"{NUMBER}|[{SINGLE}][{MARKS}]*"
    rf"|[^\W_{SINGLE}](?:[^\W_{SINGLE}]|[{MARKS}]|[{APOSTROPHES}](?=[^\W_{SINGLE}]))*"
)
# Letters that only look like another one with an accent.
ALIKE = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)
UNSEEN = str.maketrans(dict.fromkeys(APOSTROPHES + ".,\u200c\u200d\xad"))
QUOTED = re.compile(r'["“”„«»]([^"“”„«»]*)["“”„«»]|[^\s"“”„«»]+')

LANGUAGES = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "nb": "norwegian",
    "nn": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


class TextToken(NamedTuple):
    """`word` is folded; it was said at text[start:end]."""

    start: int
    end: int
    word: str


def tokens(text: str, most: int | None = None) -> list[TextToken]:
    """All of them, or the first ones."""
    return list(islice(_tokens(text), most))


def words(text: str) -> list[str]:
    """The same without their places, in half the time."""
    if APOSTROPHE.search(text):
        return [each.word for each in _tokens(text)]
    return [
        word
        for each in WORD.findall(text)
        if (word := each.lower() if each.isascii() and each.isalnum() else fold(each))
    ]


def ends(text: str, most: int) -> list[int]:
    """Where the first of them end."""
    if APOSTROPHE.search(text) or not text.isascii():
        return [each.end for each in islice(_tokens(text), most)]
    return [each.end() for each in islice(WORD.finditer(text), most)]


def _tokens(text: str) -> Iterator[TextToken]:
    leans = APOSTROPHE.search(text)
    for match in WORD.finditer(text):
        for start, end in _parts(text, match) if leans else (match.span(),):
            said = text[start:end]
            if word := said.lower() if said.isascii() and said.isalnum() else fold(said):
                yield TextToken(start, end, word)


def _parts(text: str, match: re.Match[str]) -> list[tuple[int, int]]:
    start, end = match.span()
    if leaning := LEANING.match(text, start, end):
        return [(start, leaning.end() - 1), (leaning.end(), end)]
    return [(start, end)]


def fold(word: str) -> str:
    """Without case, apostrophes, accents and the points of numbers. Vowel signs of other scripts
    are no accents."""
    if word.isascii():
        return word.lower().translate(UNSEEN)
    return _folded(word) if len(word) <= LONGEST_KNOWN else _fold(word)


def _fold(word: str) -> str:
    spread = unicodedata.normalize("NFKD", word.casefold().translate(UNSEEN)).casefold()
    kept: list[str] = []
    base = ""
    for char in spread:
        if not _is_mark(char):
            base = char
        elif _is_accent(base, char):
            continue
        kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept).translate(ALIKE))


_folded = lru_cache(maxsize=50_000)(_fold)


def _is_accent(base: str, mark: str) -> bool:
    """й is a letter of its own, not и with an accent."""
    is_alphabet = base < "\u0780" or "\u1e00" <= base < "\u2100"
    return is_alphabet and not (base == "и" and mark == "\u0306")


# One of each for every thread: they keep the word they work on.
_stemmers = threading.local()


def stem(word: str, language: str | None) -> str:
    """What a folded word has in common with its other forms; itself in a language that is not
    known, or when it is too long for a word. `language` is a code or an English name."""
    return stemmed(word, language) if len(word) <= LONGEST_KNOWN else word


@lru_cache(maxsize=100_000)
def stemmed(word: str, language: str | None) -> str:
    made = _stemmer((language or "").lower())
    return word if made is None else fold(made.stemWord(word))


def _stemmer(language: str) -> Any:
    # Most commands look for nothing.
    import Stemmer

    name = _algorithm(language)
    if name is not None and not hasattr(_stemmers, name):
        setattr(_stemmers, name, Stemmer.Stemmer(name))
    return None if name is None else getattr(_stemmers, name)


@lru_cache(maxsize=1000)
def _algorithm(language: str) -> str | None:
    import Stemmer

    code = re.split("[-_]", language)[0]
    name = LANGUAGES.get(code, code)
    return name if name in Stemmer.algorithms() else None


def parts(word: str, language: str | None) -> set[str]:
    """What words have of it that are written together with others: itself, or its stem."""
    if not compounds.are_in(language):
        return set()
    return set(filter(compounds.is_part, (word, stem(word, language))))


def is_compound_of(word: str, parts: Iterable[str]) -> bool:
    return compounds.is_word(word) and any(compounds.has_part(word, each) for each in parts)


# What is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """All of it must be there. `terms` are folded words, found in any of their forms and as parts
    of compounds; `phrases`
    are folded words that must follow each other just so; `prefix`, the word that is still being
    typed, is found in any of its forms and as the beginning of a longer word."""

    terms: Sequence[str] = ()
    phrases: Sequence[Sequence[str]] = ()
    prefix: str | None = None


def parse_query(q: str) -> Query:
    """There are no operators but quotes; whatever else is typed is words, or nothing."""
    terms: list[str] = []
    phrases: list[tuple[str, ...]] = []
    prefix: str | None = None
    for match in QUOTED.finditer(q):
        is_quoted = match[1] is not None
        words = [each.word for each in tokens(match[1] if is_quoted else match[0])]
        is_typed = not is_quoted and match.end() == len(q)
        if is_quoted or _is_single(words):
            phrases += [tuple(words)] if words else []
        elif is_typed and words:
            *before, prefix = words
            terms += before
        elif len(words) > 1:
            phrases.append(tuple(words))
        else:
            terms += words
    count = len(terms) + sum(map(len, phrases)) + (prefix is not None)
    if not count:
        raise errors.BadField("q", "has no word to look for")
    if count > MAX_QUERY_WORDS:
        raise errors.BadField("q", f"has more than {MAX_QUERY_WORDS} words")
    return Query(terms=tuple(dict.fromkeys(terms)), phrases=tuple(phrases), prefix=prefix)


def _is_single(words: Sequence[str]) -> bool:
    """Characters that are tokens each are only found next to each other."""
    return len(words) > 1 and all(re.match(f"[{SINGLE}]", word) for word in words)


def matches(query: Query, text: str, language: str | None) -> list[tuple[int, int]]:
    """What to mark: [start, end) of the text, in order and apart. Parts of the query that the
    text does not have are not asked for."""
    found = tokens(text)
    wanted = [*query.terms, *([query.prefix] if query.prefix else [])]
    stems = {stem(each, language) for each in wanted}
    inner = {part for each in wanted for part in parts(each, language)}

    def is_meant(word: str) -> bool:
        is_begun = query.prefix is not None and word.startswith(query.prefix)
        is_form = is_begun or word in wanted or stem(word, language) in stems
        return is_form or is_compound_of(word, inner)

    ranges = [(each.start, each.end) for each in found if is_meant(each.word)]
    ranges += (each for phrase in query.phrases for each in _said(phrase, found))
    return _apart(ranges)


def _said(phrase: Sequence[str], found: Sequence[TextToken]) -> Iterator[tuple[int, int]]:
    words = list(phrase)
    for first in range(len(found) - len(words) + 1):
        run = found[first : first + len(words)]
        if [each.word for each in run] == words:
            yield run[0].start, run[-1].end


def _apart(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def snippet(
    query: Query, text: str, language: str | None, width: int = 160
) -> tuple[str, list[tuple[int, int]]]:
    """About `width` characters where most of it is said, and what to mark in them."""
    ranges = matches(query, text, language)
    if len(text) <= width:
        return text, ranges
    start, end = _window(text, ranges, width)
    before = ELLIPSIS if start else ""
    after = ELLIPSIS if end < len(text) else ""
    moved = len(before) - start
    inside = [
        (max(a, start) + moved, min(b, end) + moved) for a, b in ranges if a < end and b > start
    ]
    return before + text[start:end] + after, inside


def _window(text: str, ranges: Sequence[tuple[int, int]], width: int) -> tuple[int, int]:
    """From a word's beginning to a word's end, with a little of what was said before the marks."""
    ends = [end for _, end in ranges]
    first = max(
        range(len(ranges)),
        key=lambda n: bisect_right(ends, ranges[n][0] + width) - n,
        default=None,
    )
    best = 0 if first is None else ranges[first][0]
    start = max(0, min(best - width // 4, len(text) - width))
    end = min(len(text), start + width)
    found = [each for each in tokens(text) if each.start >= start and each.end <= end]
    if not found:
        return start, end
    # Punctuation behind the last word belongs to it.
    last = end if end == len(text) else found[-1].end
    return (0 if start == 0 else found[0].start), last
