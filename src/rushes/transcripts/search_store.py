"""The SQL of moments, and the index over them: the one place where the two databases differ much.

Python decides what a word is (`tokens.py`) and hands over plain lexemes of a-z, 0-9 and _, so that
FTS5 and tsvector find the same. Either returns the newest moments first, and stops early: words
that are everywhere cost no more than others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from rushes.db.database import Tx
from rushes.records import Row, from_row

_COLUMNS = """id, user_id, transcript_id, segment_id, start_seconds, end_seconds, speaker,
    language, text, following"""
# All of these, of each any of these, each a word or several that follow each other. The beginning
# of a word ends with *.
SearchTerms = Sequence[Sequence[Sequence[str]]]

NEWEST = 2**62
# PostgreSQL's index has no order. So a moment's lexemes tell which blocks of ids it is in, small
# and large ones, and it is asked for one block after the other, from the newest on.
BLOCK_BITS = (10, 13, 16)
# A block that has more than this is too large to begin with.
MOST_AT_ONCE = 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedMoment:
    """`words` in order, those of `following` included, and what else it is to be found by."""

    id: int
    media_id: str
    user_id: str
    transcript_id: str | None
    segment_id: str | None
    start: float
    end: float
    speaker: str | None
    language: str | None
    text: str
    following: str
    words: Sequence[str]
    others: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is said, when and by whom. Of a title only `text`. `following`: what is said next; None
    of one from before that was known."""

    text: str
    following: str | None = None
    transcript_id: str | None = None
    segment_id: str | None = None
    start_seconds: float = 0.0
    end_seconds: float = 0.0
    speaker: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMoment:
    id: int
    user_id: str
    said: Moment


@dataclass(frozen=True, slots=True)
class FoundMoment:
    """With the title of its media, and what people call the speakers."""

    id: int
    media_id: str
    title: str
    names: Mapping[str, str]
    said: Moment


def new_ids(tx: Tx, count: int) -> list[int]:
    """Larger than all before."""
    if _is_postgres(tx):
        rows = tx.all(
            "SELECT nextval(pg_get_serial_sequence('moments', 'id')) AS id"
            " FROM generate_series(1, CAST(:count AS integer))",
            count=count,
        )
        return sorted(row["id"] for row in rows)
    row = tx.one("SELECT coalesce(max(id), 0) AS last FROM moments")
    first = int(row["last"]) + 1 if row else 1
    return list(range(first, first + count))


def put(tx: Tx, moments: Sequence[IndexedMoment]) -> None:
    """New ones, with ids that no other has. A title that somebody else was quicker to put stays."""
    rows = tx.all(
        """
        WITH given AS ({given:id bigint, media_id text, user_id text, transcript_id text,
            segment_id text, start_seconds double precision, end_seconds double precision,
            speaker text, language text, body text, next_words text})
        INSERT INTO moments (id, media_id, user_id, transcript_id, segment_id, start_seconds,
            end_seconds, speaker, language, text, following)
        SELECT id, media_id, user_id, transcript_id, segment_id, start_seconds, end_seconds,
            speaker, language, body, next_words FROM given WHERE true
        ON CONFLICT DO NOTHING RETURNING id""",
        given=[
            {
                "id": each.id,
                "media_id": each.media_id,
                "user_id": each.user_id,
                "transcript_id": each.transcript_id,
                "segment_id": each.segment_id,
                "start_seconds": each.start,
                "end_seconds": each.end,
                "speaker": each.speaker,
                "language": each.language,
                "body": each.text,
                "next_words": each.following,
            }
            for each in moments
        ],
    )
    are_new = {row["id"] for row in rows}
    _index(tx, [each for each in moments if each.id in are_new])


def index_again(tx: Tx, moments: Sequence[IndexedMoment]) -> None:
    """Moments that are there, and of which the index may know nothing."""
    _remove_from_index(tx, [{"id": each.id} for each in moments])
    _index(tx, moments)


def _index(tx: Tx, moments: Sequence[IndexedMoment]) -> None:
    is_postgres = _is_postgres(tx)
    lexemes = "CAST(lexemes AS tsvector)" if is_postgres else "lexemes"
    write = _tsvector if is_postgres else _plain
    tx.all(
        f"""
        WITH given AS ({{given:id bigint, lexemes text}})
        INSERT INTO moment_index ({_key(tx)}, lexemes) SELECT id, {lexemes} FROM given""",
        given=[{"id": each.id, "lexemes": write(each)} for each in moments],
    )


def remove(tx: Tx, ids: Sequence[int]) -> None:
    given = [{"id": id} for id in ids]
    _remove_from_index(tx, given)
    tx.all(
        "WITH given AS ({given:id bigint}) DELETE FROM moments WHERE id IN (SELECT id FROM given)",
        given=given,
    )


def _remove_from_index(tx: Tx, given: Sequence[Mapping[str, int]]) -> None:
    tx.all(
        f"WITH given AS ({{given:id bigint}}) DELETE FROM moment_index"
        f" WHERE {_key(tx)} IN (SELECT id FROM given)",
        given=given,
    )


def after(tx: Tx, id: int, limit: int) -> list[tuple[str, StoredMoment]]:
    """Moments with larger ids, in their order, each with its media."""
    rows = tx.all(
        f"SELECT media_id, {_COLUMNS} FROM moments WHERE id > :id ORDER BY id LIMIT :limit",
        id=id,
        limit=limit,
    )
    return [(row["media_id"], _stored(row)) for row in rows]


def title(tx: Tx, media_id: str) -> StoredMoment | None:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM moments WHERE media_id = :media_id AND segment_id IS NULL",
        media_id=media_id,
    )
    return _stored(row) if row else None


def _stored(row: Row) -> StoredMoment:
    return StoredMoment(row["id"], row["user_id"], from_row(Moment, row))


def speech(tx: Tx, media_id: str, only: Collection[str] | None = None) -> list[StoredMoment]:
    """Of all segments, or of these, in the order of time."""
    chosen = "" if only is None else " AND segment_id IN (SELECT segment_id FROM given)"
    rows = tx.all(
        "WITH given AS ({given:segment_id text})"
        f" SELECT {_COLUMNS} FROM moments WHERE media_id = :media_id AND segment_id IS NOT NULL"
        f"{chosen} ORDER BY start_seconds, id",
        media_id=media_id,
        given=[{"segment_id": each} for each in only or ()],
    )
    return [_stored(row) for row in rows]


def move(tx: Tx, moments: Mapping[int, Moment]) -> None:
    """By id: the same words at another time, or somebody else's."""
    tx.all(
        """
        WITH given AS ({given:id bigint, start_seconds double precision,
            end_seconds double precision, speaker text})
        UPDATE moments SET start_seconds = given.start_seconds, end_seconds = given.end_seconds,
            speaker = given.speaker
        FROM given WHERE moments.id = given.id""",
        given=[
            {
                "id": id,
                "start_seconds": each.start_seconds,
                "end_seconds": each.end_seconds,
                "speaker": each.speaker,
            }
            for id, each in moments.items()
        ],
    )


@dataclass(frozen=True, slots=True)
class Titled:
    """A media, and what it is called."""

    id: str
    user_id: str
    title: str


def without_title(tx: Tx, limit: int) -> list[Titled]:
    """Media whose title is not found yet: they are from before there was a search. Those that
    somebody is at right now are left to them."""
    rows = tx.all(
        """
        SELECT id, user_id, title FROM media WHERE deleted_at IS NULL AND NOT EXISTS (
          SELECT 1 FROM moments WHERE moments.media_id = media.id AND segment_id IS NULL)
        ORDER BY id LIMIT :limit {skip_locked}""",
        limit=limit,
    )
    return [from_row(Titled, row) for row in rows]


def is_forgotten_soon(tx: Tx, media_id: str) -> bool:
    """Whether a media is there only until a request is answered."""
    row = tx.one("SELECT 1 AS one FROM media WHERE id = :id AND forget_at IS NOT NULL", id=media_id)
    return row is not None


def without_following(tx: Tx) -> str | None:
    """A media whose moments do not know yet what is said next; none that somebody is at."""
    row = tx.one(
        """
        SELECT id FROM media
        WHERE id IN (SELECT media_id FROM moments WHERE following IS NULL)
        ORDER BY id LIMIT 1 {skip_locked}"""
    )
    return row["id"] if row else None


def is_without_following(tx: Tx) -> bool:
    return tx.one("SELECT 1 AS one FROM moments WHERE following IS NULL LIMIT 1") is not None


def languages(tx: Tx) -> list[str]:
    """That are spoken in any current transcript."""
    rows = tx.all(
        "SELECT DISTINCT language FROM transcripts WHERE state = 'current'"
        " AND language IS NOT NULL ORDER BY language"
    )
    return [row["language"] for row in rows]


def read(tx: Tx, ids: Sequence[int], user_id: str | None) -> list[FoundMoment]:
    """Those of these that this user may see (None: anybody's)."""
    rows = tx.all(
        """
        WITH given AS ({given:id bigint}), chosen AS MATERIALIZED (
          SELECT * FROM moments WHERE id IN (SELECT id FROM given)
          AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)
        )
        SELECT chosen.*, media.title, speaker_names FROM chosen
        JOIN media ON media.id = chosen.media_id AND media.deleted_at IS NULL
        LEFT JOIN transcripts ON transcripts.id = chosen.transcript_id""",
        given=[{"id": id} for id in ids],
        user_id=user_id,
    )
    return [
        FoundMoment(
            row["id"],
            row["media_id"],
            row["title"],
            msgspec.json.decode(row["speaker_names"]) if row["speaker_names"] else {},
            from_row(Moment, row),
        )
        for row in rows
    ]


def newest(tx: Tx, wanted: SearchTerms, *, upto: int, limit: int) -> list[int]:
    """The ids of moments that may be meant, newest first, from `upto` on."""
    if _is_postgres(tx):
        return _newest_by_blocks(tx, wanted, upto, limit)
    rows = tx.all(
        """
        SELECT rowid AS id FROM moment_index WHERE moment_index MATCH :query AND rowid <= :upto
        ORDER BY rowid DESC LIMIT :limit""",
        query=_match(wanted),
        upto=upto,
        limit=limit,
    )
    return [row["id"] for row in rows]


def _newest_by_blocks(tx: Tx, wanted: SearchTerms, upto: int, limit: int) -> list[int]:
    """Larger blocks while there is little in them, in the end all that is left."""
    last = tx.one("SELECT max(id) AS id FROM moment_index")
    upto = min(upto, (last and last["id"]) or 0)
    found: list[int] = []
    level = 0
    while upto > 0 and len(found) < limit:
        ids = _in_block(tx, wanted, level, upto)
        if len(ids) == MOST_AT_ONCE and level > 0:
            # There may be more than were looked at.
            level -= 1
            continue
        found += ids
        if level == len(BLOCK_BITS):
            break
        upto = (upto >> BLOCK_BITS[level] << BLOCK_BITS[level]) - 1
        level += 1
    return found[:limit]


def _in_block(tx: Tx, wanted: SearchTerms, level: int, upto: int) -> list[int]:
    """In the block that `upto` is in, newest first; above the highest level, everywhere."""
    is_in_block = level < len(BLOCK_BITS)
    # A condition of its own: the index then walks the few of the block, and what is looked for
    # only beside them. Within one query it reads every list to its end.
    block = "AND lexemes @@ CAST(:block AS tsquery)" if is_in_block else ""
    # Not `id <=`: the planner would walk the primary key and look at every moment's lexemes.
    rows = tx.all(
        f"""
        SELECT id FROM moment_index WHERE lexemes @@ CAST(:query AS tsquery)
        {block} AND id + 0 <= :upto LIMIT :limit""",
        query=_tsquery(wanted),
        block=_block_lexeme(level, upto) if is_in_block else None,
        upto=upto,
        limit=MOST_AT_ONCE,
    )
    return sorted((row["id"] for row in rows), reverse=True)


def _block_lexeme(level: int, id: int) -> str:
    return f"__b{level}_{id >> BLOCK_BITS[level]}"


def _match(wanted: SearchTerms) -> str:
    def phrase(words: Sequence[str]) -> str:
        text = " ".join(words)
        return f'"{text[:-1]}" *' if text.endswith("*") else f'"{text}"'

    return " AND ".join(f"({' OR '.join(map(phrase, any_of))})" for any_of in wanted)


def _tsquery(wanted: SearchTerms) -> str:
    def phrase(words: Sequence[str]) -> str:
        return " <-> ".join(
            f"'{word[:-1]}':*" if word.endswith("*") else f"'{word}'" for word in words
        )

    return " & ".join(f"({' | '.join(map(phrase, any_of))})" for any_of in wanted)


def _plain(moment: IndexedMoment) -> str:
    return " ".join([*moment.words, *moment.others])


def _tsvector(moment: IndexedMoment) -> str:
    places: dict[str, list[str]] = {}
    for place, word in enumerate(moment.words, 1):
        places.setdefault(word, []).append(str(place))
    blocks = [_block_lexeme(level, moment.id) for level in range(len(BLOCK_BITS))]
    said = [f"'{word}':{','.join(at)}" for word, at in places.items()]
    return " ".join(said + [f"'{word}'" for word in (*moment.others, *blocks)])


def _key(tx: Tx) -> str:
    return "id" if _is_postgres(tx) else "rowid"


def _is_postgres(tx: Tx) -> bool:
    return tx.dialect.name == "postgresql"
