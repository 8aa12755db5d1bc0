"""Finding the second at which something was said, and the media whose title says it.

The index knows words and their stems, and returns candidates from the newest on; which of them are
meant, and in which order they are shown, is decided here, the same for every database.
"""

from __future__ import annotations

import hashlib
import html
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from rushes import errors
from rushes.db.database import Tx
from rushes.transcripts import search_store as store
from rushes.transcripts import tokens
from rushes.transcripts.search_store import IndexedMoment
from rushes.transcripts.tokens import Query, TextToken
from rushes.transcripts.transcript import Transcript

# So many are ranked together; older ones come on later pages.
CANDIDATES = 100
# Pages without a hit that are passed over before it returns.
MOST_WINDOWS = 5
# The beginning of a word counts from so many letters on, and is in the index.
PREFIX_LETTERS = 3
# What is longer is cut, in the index and in what is looked for.
LONGEST_WORD = 60
LONGEST_TEXT = 10_000
PUT_PAGE = 500
# The words of a moment in order, and what else it is found by.
Lexemes = tuple[Sequence[str], Sequence[str]]
NOTHING_KNOWN: Mapping[str, Lexemes] = MappingProxyType({})
CATCH_UP_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """`marks` are the [start, end) of `snippet` that were looked for."""

    media_id: str
    title: str
    kind: Literal["title", "speech"]
    segment_id: str | None
    start: float
    end: float
    speaker: str | None
    snippet: str
    marks: Sequence[tuple[int, int]]

    @property
    def html(self) -> str:
        """The snippet with <mark> around the marks; all else in it is text."""
        made, last = "", 0
        for start, end in self.marks:
            made += html.escape(self.snippet[last:start])
            made += f"<mark>{html.escape(self.snippet[start:end])}</mark>"
            last = end
        return made + html.escape(self.snippet[last:])


@dataclass(frozen=True, slots=True)
class HitPage:
    hits: Sequence[Hit]
    next_cursor: str | None


# Looking


def search(
    tx: Tx, q: str, *, user_id: str | None, limit: int = 20, cursor: str | None = None
) -> HitPage:
    """What of this user's (None: of anybody's) says `q`; the best of the newest first."""
    query = _settled(tokens.parse_query(q))
    wanted = [*_wanted(query, store.languages(tx))]
    if user_id is not None:
        wanted.append([[_owner_lexeme(user_id)]])
    upto, skip = _read_cursor(cursor)
    for _ in range(MOST_WINDOWS):
        ids = store.newest(tx, wanted, upto=upto, limit=CANDIDATES)
        ranked = _ranked(query, store.read(tx, ids, user_id)) if ids else []
        shown = ranked[skip : skip + limit]
        if skip + limit < len(ranked):
            return HitPage([_hit(query, row) for row in shown], f"{ids[0]}.{skip + limit}")
        older = f"{ids[-1] - 1}.0" if len(ids) == CANDIDATES else None
        if shown or older is None:
            return HitPage([_hit(query, row) for row in shown], older)
        upto, skip = ids[-1] - 1, 0
    return HitPage([], older)


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return store.NEWEST, 0
    upto, _, skip = cursor.partition(".")
    if not (upto.isascii() and upto.isdigit() and skip.isascii() and skip.isdigit()):
        raise errors.BadField("cursor", "is not one of ours")
    return min(int(upto), store.NEWEST), min(int(skip), CANDIDATES)


def _settled(query: Query) -> Query:
    """Two letters are the beginning of too many words: alone they are a word of their own. And
    what must be there as a word need not be there as a beginning, too."""
    if query.prefix in query.terms:
        return replace(query, prefix=None)
    is_alone = not query.terms and not query.phrases
    if query.prefix is None or len(query.prefix) >= PREFIX_LETTERS or not is_alone:
        return query
    return replace(query, terms=(*query.terms, query.prefix), prefix=None)


def _wanted(query: Query, languages: Sequence[str]) -> Iterator[Sequence[Sequence[str]]]:
    """What the index is asked for: never less than is meant, sometimes a little more."""
    for term in query.terms:
        yield [[each] for each in _forms(term, languages)]
    for phrase in query.phrases:
        yield [[_lexeme(word) for word in phrase]]
    if query.prefix is not None and len(query.prefix) >= PREFIX_LETTERS:
        forms = _forms(query.prefix, languages)
        if len(query.prefix) == PREFIX_LETTERS:
            forms[_prefix_lexeme(query.prefix)] = None
            yield [[each] for each in forms]
        else:
            starts = dict.fromkeys((_lexeme(query.prefix), _coded(query.prefix)))
            yield [*([each] for each in forms), *([f"{each}*"] for each in starts)]


def _forms(term: str, languages: Sequence[str]) -> dict[str, None]:
    """The word and its stem in every language that is spoken here."""
    stems = (tokens.stem(term, language) for language in languages)
    return dict.fromkeys(_lexeme(each) for each in (term, *stems))


def _ranked(query: Query, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are meant: said in just these words before other forms of them, in a title
    before in speech, close together before far apart, new before old."""
    scored = []
    for row in rows:
        fit = _fit(query, row["text"], row["language"])
        if fit is not None:
            loose, apart = fit
            is_speech = row["segment_id"] is not None
            scored.append(((loose, is_speech, apart, -row["id"]), row))
    return [row for _, row in sorted(scored, key=lambda each: each[0])]


def _fit(query: Query, text: str, language: str | None) -> tuple[int, int] | None:
    """How many words are only there in another form, and how far apart all of it is; None when
    something is missing."""
    found = tokens.tokens(text)
    places, loose = [], 0
    for word in (*query.terms, *([query.prefix] if query.prefix else [])):
        exact = [at for at, each in enumerate(found) if each.word == word]
        there = exact or _other_forms(word, word == query.prefix, found, language)
        places.append(there)
        loose += not exact
    places += [_said(phrase, found) for phrase in query.phrases]
    if not all(places):
        return None
    first, *others = places
    apart = min(max((_distance(each, at) for each in others), default=0) for at in first)
    return loose, apart


def _other_forms(
    word: str, is_prefix: bool, found: Sequence[TextToken], language: str | None
) -> list[int]:
    stem = tokens.stem(word, language)
    return [
        at
        for at, each in enumerate(found)
        if (is_prefix and each.word.startswith(word)) or tokens.stem(each.word, language) == stem
    ]


def _said(phrase: Sequence[str], found: Sequence[TextToken]) -> list[int]:
    words = [each.word for each in found]
    return [
        at
        for at in range(len(words) - len(phrase) + 1)
        if words[at : at + len(phrase)] == list(phrase)
    ]


def _distance(places: Sequence[int], to: int) -> int:
    """To the nearest one; they are in order."""
    after = bisect_left(places, to)
    return min(abs(at - to) for at in places[max(after - 1, 0) : after + 1])


def _hit(query: Query, row: dict[str, Any]) -> Hit:
    snippet, marks = tokens.snippet(query, row["text"], row["language"])
    names = msgspec.json.decode(row["speaker_names"]) if row["speaker_names"] else {}
    return Hit(
        media_id=row["media_id"],
        title=row["title"],
        kind="title" if row["segment_id"] is None else "speech",
        segment_id=row["segment_id"],
        start=row["start_seconds"],
        end=row["end_seconds"],
        speaker=names.get(row["speaker"], row["speaker"]),
        snippet=snippet,
        marks=marks,
    )


# Keeping it true


def keep_title(tx: Tx, media_id: str, user_id: str, title: str) -> None:
    before = store.title(tx, media_id)
    if before is not None and before["text"] == title:
        return
    if before is not None:
        store.remove(tx, [before["id"]])
    id = before["id"] if before is not None else store.new_ids(tx, 1)[0]
    store.put(tx, [_moment(id, media_id, user_id, {"text": _storable(title)})])


def keep_speech(
    tx: Tx,
    media_id: str,
    user_id: str,
    transcript_id: str,
    transcript: Transcript,
    *,
    only: Collection[str] | None = None,
    known: Mapping[str, Lexemes] = NOTHING_KNOWN,
) -> None:
    """All segments of the current transcript, and nothing else; or (`only`) those of these ids.
    Those that were changed stay where they are among the others. `known` is what `lexemes` has
    said of them."""
    chosen = frozenset(only or ())
    wanted = {
        each.id: {
            "transcript_id": transcript_id,
            "segment_id": each.id,
            "start_seconds": each.start,
            "end_seconds": each.end,
            "speaker": each.speaker,
            "language": each.language or transcript.language,
            "text": _storable(each.text),
        }
        for each in transcript.segments
        if only is None or each.id in chosen
    }
    before = {row["segment_id"]: row for row in store.speech(tx, media_id, only)}
    kept = {
        id for id, row in before.items() if id in wanted and _sounds(row) == _sounds(wanted[id])
    }
    moved = [id for id in kept if _facts(before[id]) != wanted[id]]
    store.move(tx, [{"id": before[id]["id"], **_moving(wanted[id])} for id in moved])
    changed = [id for id in wanted if id not in kept]
    old = {id: row["id"] for id, row in before.items() if row["transcript_id"] == transcript_id}
    fresh = [id for id in changed if id not in old]
    numbers = {**old, **dict(zip(fresh, store.new_ids(tx, len(fresh)), strict=True))}
    store.remove(tx, [row["id"] for id, row in before.items() if id not in kept])
    for first in range(0, len(changed), PUT_PAGE):
        page = changed[first : first + PUT_PAGE]
        store.put(
            tx,
            [
                _moment(numbers[id], media_id, user_id, wanted[id], known=known.get(id))
                for id in page
            ],
        )


def lexemes(transcript: Transcript) -> dict[str, Lexemes]:
    """By segment: what takes longest of `keep_speech`, and needs no database."""
    return {
        each.id: _lexemes(_storable(each.text), each.language or transcript.language)
        for each in transcript.segments
    }


def forget_speech(tx: Tx, media_id: str) -> None:
    store.remove(tx, [row["id"] for row in store.speech(tx, media_id)])


def forget(tx: Tx, media_id: str) -> None:
    forget_speech(tx, media_id)
    title = store.title(tx, media_id)
    if title is not None:
        store.remove(tx, [title["id"]])


def catch_up(tx: Tx) -> int:
    """Titles from before there was a search, some at a time; returns how many."""
    rows = store.without_title(tx, CATCH_UP_PAGE)
    ids = store.new_ids(tx, len(rows))
    store.put(
        tx,
        [
            _moment(id, row["id"], row["user_id"], {"text": _storable(row["title"])})
            for id, row in zip(ids, rows, strict=True)
        ],
    )
    return len(rows)


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


def _moving(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("start_seconds", "end_seconds", "speaker")}


def _sounds(row: dict[str, Any]) -> tuple[Any, ...]:
    """What the index knows of it."""
    return row["transcript_id"], row["language"], row["text"]


def _moment(
    id: int, media_id: str, user_id: str, facts: dict[str, Any], known: Lexemes | None = None
) -> IndexedMoment:
    language = facts.get("language")
    words, others = known or _lexemes(facts["text"], language)
    return IndexedMoment(
        id=id,
        media_id=media_id,
        user_id=user_id,
        transcript_id=facts.get("transcript_id"),
        segment_id=facts.get("segment_id"),
        start=facts.get("start_seconds", 0.0),
        end=facts.get("end_seconds", 0.0),
        speaker=facts.get("speaker"),
        language=language,
        text=facts["text"],
        words=words,
        others=[*others, _owner_lexeme(user_id)],
    )


def _lexemes(text: str, language: str | None) -> Lexemes:
    words = [each.word for each in tokens.tokens(text)]
    return [_lexeme(word) for word in words], _others(words, language)


def _others(words: Sequence[str], language: str | None) -> list[str]:
    """What a moment is found by besides the words in it: stems that are none of them, and how
    longer words begin."""
    known = set(words)
    stems = {tokens.stem(word, language) for word in known} - known - {""}
    starts = {word[:PREFIX_LETTERS] for word in known if len(word) > PREFIX_LETTERS}
    return sorted({_lexeme(each) for each in stems} | {_prefix_lexeme(each) for each in starts})


def _lexeme(word: str) -> str:
    cut = word[:LONGEST_WORD]
    return cut if cut.isascii() and cut.isalnum() else _coded(cut)


def _coded(word: str) -> str:
    return f"0x{word[:LONGEST_WORD].encode().hex()}"


def _prefix_lexeme(start: str) -> str:
    return f"_{_lexeme(start)}"


def _owner_lexeme(user_id: str) -> str:
    """Only to look in the right place; who may see what is asked of the rows."""
    return f"__u{hashlib.sha256(user_id.encode()).hexdigest()[:12]}"


def _storable(text: str) -> str:
    """Of a page-long segment the beginning is searched; and PostgreSQL cannot keep a NUL."""
    return text[:LONGEST_TEXT].replace("\0", " ")
