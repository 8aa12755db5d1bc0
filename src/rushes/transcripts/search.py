"""Finding the second at which something was said, and the media whose title says it.

The index knows words and their stems, of a moment and of what is said next, and returns candidates
from the newest on; which of them are meant, and in which order they are shown, is decided here, the
same for every database.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from types import MappingProxyType
from typing import Literal

from rushes import errors
from rushes.db.database import Tx
from rushes.transcripts import lexemes, matching, spelling, tokens, vocabulary
from rushes.transcripts import search_store as store
from rushes.transcripts.lexemes import PREFIX_LETTERS, Lexemes
from rushes.transcripts.matching import Fit
from rushes.transcripts.search_store import FoundMoment, IndexedMoment, Moment, StoredMoment
from rushes.transcripts.tokens import Query, TextToken
from rushes.transcripts.transcript import Transcript, TranscriptSegment
from rushes.transcripts.vocabulary import Known

# So many are ranked together; older ones come on later pages.
CANDIDATES = 100
# Pages without a hit that are passed over before it returns.
MOST_WINDOWS = 5
# Of what is longer the beginning is searched.
LONGEST_TEXT = 10_000
PUT_PAGE = 500
NOTHING_KNOWN: Mapping[str, Lexemes] = MappingProxyType({})
CATCH_UP_PAGE = 500
# So many compounds of all words together are looked for, the shortest first.
MOST_COMPOUNDS = 100
# So many words may be wrong, so many others are tried for each, so many together.
MOST_WRONG, MOST_SPELLINGS, MOST_CORRECTIONS = 3, 3, 5


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
    """`corrected` is what was looked for instead, since nothing says what was typed."""

    hits: Sequence[Hit]
    next_cursor: str | None
    corrected: str | None = None


# Looking


def search(
    tx: Tx, q: str, *, user_id: str | None, limit: int = 20, cursor: str | None = None
) -> HitPage:
    """What of this user's (None: of anybody's) says `q`; the best of the newest first. If nothing
    does, what says it in words that are nearly the same."""
    looking = _Looking(tx, user_id, store.languages(tx))
    page = looking.page(q, limit, cursor)
    if page.hits or page.next_cursor is not None:
        return page
    if cursor is not None and looking.is_found(q):
        return page
    for corrected in looking.corrections(q):
        other = looking.page(corrected, limit, cursor)
        if other.hits or other.next_cursor is not None:
            return replace(other, corrected=corrected)
        if cursor is not None and looking.is_found(corrected):
            return replace(other, corrected=corrected)
    return page


@dataclass(frozen=True, slots=True)
class _Looking:
    """By one user, who sees only what is theirs (None: everything)."""

    tx: Tx
    user_id: str | None
    languages: Sequence[str]
    # Compounds of words that were looked for.
    known: dict[str, Sequence[str]] = field(default_factory=dict)

    def page(self, q: str, limit: int, cursor: str | None) -> HitPage:
        query = _settled(tokens.parse_query(q))
        wanted = self._wanted(query)
        upto, skip = _read_cursor(cursor)
        for _ in range(MOST_WINDOWS):
            ids = store.newest(self.tx, wanted, upto=upto, limit=CANDIDATES)
            ranked = _ranked(query, store.read(self.tx, ids, self.user_id)) if ids else []
            shown = [_hit(query, *each) for each in ranked[skip : skip + limit]]
            if skip + limit < len(ranked):
                return HitPage(shown, f"{ids[0]}.{skip + limit}")
            older = f"{ids[-1] - 1}.0" if len(ids) == CANDIDATES else None
            if shown or older is None:
                return HitPage(shown, older)
            upto, skip = ids[-1] - 1, 0
        return HitPage([], older)

    def is_found(self, q: str) -> bool:
        page = self.page(q, 1, None)
        return bool(page.hits) or page.next_cursor is not None

    def corrections(self, q: str) -> Iterator[str]:
        """`q` with other words for those that nobody says; the most likely ones first."""
        unknown = (each for each in _spelled(q) if self._is_unknown(*each))
        wrong = list(islice(unknown, MOST_WRONG + 1))
        if not wrong or len(wrong) > MOST_WRONG:
            return
        others = [
            vocabulary.nearest(self.tx, self.user_id, each.word)[:MOST_SPELLINGS]
            for each, _ in wrong
        ]
        for chosen in islice(product(*others), MOST_CORRECTIONS):
            made, last = "", 0
            for (token, _), word in zip(wrong, chosen, strict=True):
                made += q[last : token.start] + word
                last = token.end
            yield made + q[last:]

    def _wanted(self, query: Query) -> list[Sequence[Sequence[str]]]:
        whose = [] if self.user_id is None else [[[lexemes.of_owner(self.user_id)]]]
        return [*_wanted(query, self.languages, self._compounds(query)), *whose]

    def _compounds(self, query: Query) -> Mapping[str, Sequence[str]]:
        words = list(matching.words(query))
        new = [word for word in words if word not in self.known]
        if new:
            self.known.update(vocabulary.containing(self.tx, self.user_id, new, self.languages))
        return {word: self.known[word][: MOST_COMPOUNDS // len(words)] for word in words}

    def _is_unknown(self, token: TextToken, is_typed: bool) -> bool:
        query = Query(prefix=token.word) if is_typed else Query(terms=(token.word,))
        return not store.newest(self.tx, self._wanted(query), upto=store.NEWEST, limit=1)


def _spelled(q: str) -> list[tuple[TextToken, bool]]:
    """The words of it that may be misspelt, and whether one is still being typed. What is in quotes
    is meant just so."""
    return [
        (TextToken(each.start + match.start(), each.end + match.start(), each.word), is_last)
        for match in tokens.QUOTED.finditer(q)
        if match[1] is None
        for each in tokens.tokens(match[0])
        for is_last in [each.end + match.start() == len(q)]
        if spelling.is_word(each.word)
    ]


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


def _wanted(
    query: Query, languages: Sequence[str], compounds: Mapping[str, Sequence[str]]
) -> Iterator[Sequence[Sequence[str]]]:
    """What the index is asked for: never less than is meant, sometimes a little more."""
    is_several = matching.is_several(query)
    is_alone = not query.terms and not query.prefix and len(query.phrases) == 1

    def anywhere(each: Iterable[str]) -> list[list[str]]:
        own = list(each)
        return [[each] for each in (*own, *(map(lexemes.of_next, own) if is_several else ()))]

    def forms(word: str) -> dict[str, None]:
        others = dict.fromkeys(map(lexemes.of_word, compounds.get(word, ())))
        return lexemes.of_forms(word, languages) | others

    for term in query.terms:
        yield anywhere(forms(term))
    for phrase in query.phrases:
        yield _cuts([lexemes.of_word(word) for word in phrase], is_alone=is_alone)
    if query.prefix is not None and len(query.prefix) >= PREFIX_LETTERS:
        if len(query.prefix) == PREFIX_LETTERS:
            yield anywhere([*forms(query.prefix), lexemes.of_start(query.prefix)])
        else:
            starts = dict.fromkeys((lexemes.of_word(query.prefix), lexemes.coded(query.prefix)))
            yield anywhere([*forms(query.prefix), *(f"{each}*" for each in starts)])


def _cuts(phrase: Sequence[str], *, is_alone: bool) -> list[list[str]]:
    """A phrase may be said in a segment, from it into the next ones, or only there."""
    later = [*map(lexemes.of_next, phrase)]
    return [
        [*phrase[:cut], *later[cut : cut + matching.NEXT_WORDS]]
        for cut in range(len(phrase), 0 if is_alone else -1, -1)
    ]


def _ranked(query: Query, found: Sequence[FoundMoment]) -> list[tuple[FoundMoment, Fit]]:
    """Those that are meant: said in just these words before other forms of them, in a title
    before in speech, close together before far apart, new before old."""
    scored = []
    for each in found:
        said = each.said
        fit = matching.fit(query, said.text, said.following or "", said.language)
        if fit is not None:
            is_speech = said.segment_id is not None
            scored.append(((fit.loose, is_speech, fit.apart, -each.id), (each, fit)))
    return [each for _, each in sorted(scored, key=lambda each: each[0])]


def _hit(query: Query, found: FoundMoment, fit: Fit) -> Hit:
    said = found.said
    snippet, marks = matching.snippet(
        query, said.text, said.following or "", said.language, crosses=fit.crosses
    )
    return Hit(
        media_id=found.media_id,
        title=found.title,
        kind="title" if said.segment_id is None else "speech",
        segment_id=said.segment_id,
        start=said.start_seconds,
        end=said.end_seconds,
        speaker=found.names.get(said.speaker, said.speaker) if said.speaker else None,
        snippet=snippet,
        marks=marks,
    )


# Keeping it true


def keep_title(tx: Tx, media_id: str, user_id: str, title: str) -> None:
    before = store.title(tx, media_id)
    if before is not None and before.said.text == title:
        return
    if before is not None:
        store.remove(tx, [before.id])
    id = before.id if before is not None else store.new_ids(tx, 1)[0]
    words = _put(tx, [_moment(id, media_id, user_id, Moment(text=_storable(title)))])
    _replaced(tx, media_id, user_id, words, [before] if before is not None else [])


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
    """All segments of the current transcript, and nothing else; or (`only`) those of these ids,
    and those before them, which are found by what follows. Those that were changed stay where
    they are among the others. `known` is what `prepare` has made of them."""
    before = _by_segment(store.speech(tx, media_id, only))
    numbers: Sequence[int] = range(len(transcript.segments))
    if only is not None:
        places = [each.said.start_seconds for each in before.values()]
        numbers = _touched(transcript.segments, frozenset(only), places)
        others = [
            transcript.segments[n].id for n in numbers if transcript.segments[n].id not in only
        ]
        before |= _by_segment(store.speech(tx, media_id, others))
    wanted = {
        each.id: _said(each, transcript, transcript_id, next)
        for each, next in _with_following(transcript, numbers, known)
    }
    kept = {
        id
        for id, row in before.items()
        if id in wanted and _sounds(row.said) == _sounds(wanted[id])
    }
    moved = [id for id in kept if before[id].said != wanted[id]]
    store.move(tx, {before[id].id: wanted[id] for id in moved})
    changed = [id for id in wanted if id not in kept]
    old = {id: row.id for id, row in before.items() if row.said.transcript_id == transcript_id}
    fresh = [id for id in changed if id not in old]
    ids = {**old, **dict(zip(fresh, store.new_ids(tx, len(fresh)), strict=True))}
    store.remove(tx, [row.id for id, row in before.items() if id not in kept])
    words: set[Known] = set()
    for first in range(0, len(changed), PUT_PAGE):
        page = changed[first : first + PUT_PAGE]
        words |= _put(
            tx, [_moment(ids[id], media_id, user_id, wanted[id], known.get(id)) for id in page]
        )
    gone = [row for id, row in before.items() if id not in kept]
    _replaced(tx, media_id, user_id, words, gone)


def _by_segment(moments: Iterable[StoredMoment]) -> dict[str, StoredMoment]:
    return {each.said.segment_id: each for each in moments if each.said.segment_id is not None}


def _said(
    segment: TranscriptSegment, transcript: Transcript, transcript_id: str, following: str
) -> Moment:
    return Moment(
        text=_storable(segment.text),
        following=following,
        transcript_id=transcript_id,
        segment_id=segment.id,
        start_seconds=segment.start,
        end_seconds=segment.end,
        speaker=segment.speaker,
        language=segment.language or transcript.language,
    )


def _touched(
    segments: Sequence[TranscriptSegment], ids: frozenset[str], gone: Sequence[float]
) -> list[int]:
    """These, where they are or were, and as many before as may know of them."""
    starts = [each.start for each in segments]
    own = [n for n, each in enumerate(segments) if each.id in ids]
    places = [*own, *(bisect_right(starts, start) for start in gone)]
    before = {n for place in places for n in range(place - matching.NEXT_SEGMENTS, place)}
    return sorted({*own, *(n for n in before if n >= 0)})


def _with_following(
    transcript: Transcript, numbers: Sequence[int], known: Mapping[str, Lexemes] = NOTHING_KNOWN
) -> Iterator[tuple[TranscriptSegment, str]]:
    if known:
        for number in numbers:
            segment = transcript.segments[number]
            yield segment, known[segment.id].following
        return
    following = matching.following(transcript.segments, numbers)
    for number, next in zip(numbers, following, strict=True):
        segment = transcript.segments[number]
        # Of a page-long one the end is not searched.
        yield segment, _storable(next) if len(segment.text) <= LONGEST_TEXT else ""


def prepare(transcript: Transcript) -> dict[str, Lexemes]:
    """By segment: what takes longest of `keep_speech`, and needs no database."""
    return {
        each.id: lexemes.of(_storable(each.text), next, each.language or transcript.language)
        for each, next in _with_following(transcript, range(len(transcript.segments)))
    }


def forget_speech(tx: Tx, media_id: str) -> None:
    _remove(tx, store.speech(tx, media_id))


def forget(tx: Tx, media_id: str) -> None:
    title = store.title(tx, media_id)
    _remove(tx, [*store.speech(tx, media_id), *([title] if title is not None else [])])


def catch_up(tx: Tx) -> int:
    """Titles from before there was a search, some at a time; returns how many."""
    rows = store.without_title(tx, CATCH_UP_PAGE)
    ids = store.new_ids(tx, len(rows))
    _put_again(
        tx,
        [
            _moment(id, row.id, row.user_id, Moment(text=_storable(row.title)))
            for id, row in zip(ids, rows, strict=True)
        ],
    )
    return len(rows)


def catch_up_speech(tx: Tx) -> bool:
    """Moments from before they were found by what is said next, some at a time; returns whether
    there are more."""
    media_id = store.without_following(tx)
    if media_id is not None:
        title = store.title(tx, media_id)
        rows = store.speech(tx, media_id)
        segments = [_segment(row.said) for row in rows]
        numbers = [n for n, row in enumerate(rows) if row.said.following is None][:CATCH_UP_PAGE]
        spoken = Transcript(text="", language=None, segments=segments, words=[])
        following = [next for _, next in _with_following(spoken, numbers)]
        old = [
            replace(rows[n], said=replace(rows[n].said, following=next))
            for n, next in zip(numbers, following, strict=True)
        ]
        old += [title] if title is not None and title.said.following is None else []
        store.remove(tx, [row.id for row in old])
        _put_again(tx, [_moment(row.id, media_id, row.user_id, row.said) for row in old])
    return store.is_without_following(tx)


def index_again(tx: Tx, after: int) -> int | None:
    """Some moments of a database that came without its index, behind this one; returns the last
    of them, None when that was all."""
    rows = store.after(tx, after, CATCH_UP_PAGE)
    store.index_again(
        tx, [_moment(row.id, media_id, row.user_id, row.said) for media_id, row in rows]
    )
    return rows[-1][1].id if rows else None


def _put(tx: Tx, moments: Sequence[IndexedMoment]) -> set[Known]:
    """Returns the words in them."""
    store.put(tx, moments)
    return vocabulary.of(moments)


def _put_again(tx: Tx, moments: Sequence[IndexedMoment]) -> None:
    for user_id in sorted({each.user_id for each in moments}):
        words = _put(tx, [each for each in moments if each.user_id == user_id])
        vocabulary.learn(tx, user_id, words)


def _replaced(
    tx: Tx, media_id: str, user_id: str, words: set[Known], gone: Sequence[StoredMoment]
) -> None:
    """Nothing is learned of what is forgotten after its answer."""
    if not store.is_forgotten_soon(tx, media_id):
        vocabulary.learn(tx, user_id, words)
    vocabulary.doubt(tx, user_id, gone, words)


def _remove(tx: Tx, rows: Sequence[StoredMoment]) -> None:
    store.remove(tx, [row.id for row in rows])
    for user_id in sorted({row.user_id for row in rows}):
        vocabulary.doubt(tx, user_id, [row for row in rows if row.user_id == user_id])


def _segment(said: Moment) -> TranscriptSegment:
    return TranscriptSegment(
        id=said.segment_id or "", start=said.start_seconds, end=said.end_seconds, text=said.text
    )


def _sounds(said: Moment) -> tuple[str | None, ...]:
    """What the index knows of it."""
    return said.transcript_id, said.language, said.text, said.following


def _moment(
    id: int, media_id: str, user_id: str, said: Moment, known: Lexemes | None = None
) -> IndexedMoment:
    following = said.following or ""
    found_by = known or lexemes.of(said.text, following, said.language)
    return IndexedMoment(
        id=id,
        media_id=media_id,
        user_id=user_id,
        transcript_id=said.transcript_id,
        segment_id=said.segment_id,
        start=said.start_seconds,
        end=said.end_seconds,
        speaker=said.speaker,
        language=said.language,
        text=said.text,
        following=following,
        words=found_by.words,
        others=[*found_by.others, lexemes.of_owner(user_id)],
    )


def _storable(text: str) -> str:
    """Of a page-long segment the beginning is searched; and PostgreSQL cannot keep a NUL."""
    return text[:LONGEST_TEXT].replace("\0", " ")
