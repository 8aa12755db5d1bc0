"""The words that people have in their media: those that are nearly the same as what was typed, and
those that what was typed is a part of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rushes.db.database import Tx
from rushes.transcripts import compounds, lexemes, spelling, spelling_store, tokens
from rushes.transcripts import search_store as store
from rushes.transcripts.search_store import IndexedMoment, StoredMoment

CHECK_PAGE = 100

# A word with the first of its keys. It has those for spelling, and those of compounds if somebody
# says it in a language that has them: all of either or none, so that the first one tells.
Known = tuple[str, str]


def of(moments: Iterable[IndexedMoment]) -> set[Known]:
    """What is to be learned of them."""
    said: dict[bool, set[str]] = {False: set(), True: set()}
    for moment in moments:
        said[compounds.are_in(moment.language)].update(moment.words)
    together = lexemes.words_of(said[True])
    return _spelled(lexemes.words_of(said[False]) | together) | _compounds(together)


def learn(tx: Tx, user_id: str, words: Collection[Known]) -> None:
    """Words that are said, so that they are found."""
    new = spelling_store.new(tx, user_id, words)
    spelling_store.add(
        tx, user_id, {(key, word) for each, word in new for key in _keys(each, word)}
    )


def doubt(tx: Tx, user_id: str, gone: Iterable[StoredMoment], words: Iterable[Known] = ()) -> None:
    """Of the words that were learned, those that only texts say which are gone."""
    old = {word for row in gone for word in tokens.words(row.said.text)}
    old.difference_update(word for _, word in words)
    doubtful = _spelled(old) | _compounds(old)
    known = doubtful.difference(spelling_store.new(tx, user_id, doubtful))
    spelling_store.doubt(tx, user_id, {word for _, word in known})


def check(tx: Tx) -> int:
    """Whether people still have words of texts that are gone, some at a time; returns how many
    were looked for."""
    doubtful = spelling_store.take_doubtful(tx, CHECK_PAGE)
    for user_id, word in doubtful:
        wanted = [[[lexemes.of_word(word)]], [[lexemes.of_owner(user_id)]]]
        if not store.newest(tx, wanted, upto=store.NEWEST, limit=1):
            keys = {*spelling.keys(word), *compounds.keys(word)}
            spelling_store.remove(tx, user_id, [(key, word) for key in keys])
    return len(doubtful)


def nearest(tx: Tx, user_id: str | None, word: str) -> list[str]:
    """Words of this user's (None: of anybody's) that may be meant by it, the best first."""
    near = spelling_store.having(tx, user_id, spelling.typed_keys(word))
    return spelling.nearest(word, near)


def containing(
    tx: Tx, user_id: str | None, words: Sequence[str], languages: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Compounds of this user's (None: of anybody's) with each of these words as a part, the
    shortest first."""
    spoken = [each for each in languages if compounds.are_in(each)]
    parts = {word: {part for each in spoken for part in tokens.parts(word, each)} for word in words}
    every = {part for own in parts.values() for part in own}
    if not every:
        return dict.fromkeys(words, ())
    keys = [(key, part) for part in every for key in compounds.part_keys(part)]
    having = spelling_store.containing(tx, user_id, keys)
    having.sort(key=lambda each: (len(each), each))
    return {
        word: [each for each in having if any(compounds.has_part(each, part) for part in own)]
        for word, own in parts.items()
    }


def _spelled(words: Iterable[str]) -> set[Known]:
    return {(spelling.first_key(word), word) for word in filter(spelling.is_word, words)}


def _compounds(words: Iterable[str]) -> set[Known]:
    return {(compounds.first_key(word), word) for word in filter(compounds.is_word, words)}


def _keys(first: str, word: str) -> list[str]:
    return compounds.keys(word) if first == compounds.first_key(word) else spelling.keys(word)
