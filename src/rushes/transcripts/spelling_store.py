"""The SQL of words that people have in their media, for finding those that are nearly the same, and
compounds.

A word is kept for each user who has it, so that nobody is shown a word of somebody else's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushes.db.database import Tx

# Somebody may have said very many words that are alike; more are not looked at.
MOST_WORDS, MOST_COMPOUNDS = 10_000, 1000


def new(tx: Tx, user_id: str, words: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of these (a key, a word) that this user does not have yet."""
    rows = tx.all(
        """
        WITH given AS ({given:one_key text, word text})
        SELECT one_key, word FROM given WHERE NOT EXISTS (
          SELECT 1 FROM spellings WHERE spellings.key = given.one_key
          AND spellings.user_id = :user_id AND spellings.word = given.word)""",
        given=[{"one_key": key, "word": word} for key, word in words],
        user_id=user_id,
    )
    return [(row["one_key"], row["word"]) for row in rows]


def add(tx: Tx, user_id: str, spellings: Collection[tuple[str, str]]) -> None:
    """Keys and words. In one order, so that two who add the same do not lock each other out."""
    tx.all(
        """
        WITH given AS ({given:one_key text, word text})
        INSERT INTO spellings (key, user_id, word) SELECT one_key, :user_id, word FROM given
        WHERE true ON CONFLICT DO NOTHING""",
        given=[{"one_key": key, "word": word} for key, word in sorted(spellings)],
        user_id=user_id,
    )


def having(tx: Tx, user_id: str | None, keys: Collection[str]) -> list[str]:
    """Words of this user's (None: of anybody's) that have one of these keys."""
    whose = "" if user_id is None else " AND user_id = :user_id"
    rows = tx.all(
        "WITH given AS ({given:one_key text}) SELECT DISTINCT word FROM spellings"
        f" WHERE key IN (SELECT one_key FROM given){whose} LIMIT :limit",
        given=[{"one_key": key} for key in sorted(keys)],
        user_id=user_id,
        limit=MOST_WORDS,
    )
    return [row["word"] for row in rows]


def containing(tx: Tx, user_id: str | None, parts: Collection[tuple[str, str]]) -> list[str]:
    """Words of this user's (None: of anybody's) with one of these parts; each has a key that such
    words have."""
    whose = "" if user_id is None else " AND user_id = :user_id"
    rows = tx.all(
        "WITH given AS ({given:one_key text, pattern text})"
        " SELECT DISTINCT spellings.word FROM given"
        " JOIN spellings ON spellings.key = given.one_key AND spellings.word LIKE given.pattern"
        f"{whose} LIMIT :limit",
        given=[{"one_key": key, "pattern": f"%{part}%"} for key, part in sorted(parts)],
        user_id=user_id,
        limit=MOST_COMPOUNDS,
    )
    return [row["word"] for row in rows]


def remove(tx: Tx, user_id: str, spellings: Collection[tuple[str, str]]) -> None:
    tx.all(
        """
        WITH given AS ({given:one_key text, word text})
        DELETE FROM spellings WHERE user_id = :user_id
        AND (key, word) IN (SELECT one_key, word FROM given)""",
        given=[{"one_key": key, "word": word} for key, word in sorted(spellings)],
        user_id=user_id,
    )


# Words that may be gone


def doubt(tx: Tx, user_id: str, words: Collection[str]) -> None:
    tx.all(
        """
        WITH given AS ({given:word text})
        INSERT INTO doubtful_words (user_id, word) SELECT :user_id, word FROM given WHERE true
        ON CONFLICT DO NOTHING""",
        given=[{"word": word} for word in sorted(words)],
        user_id=user_id,
    )


def take_doubtful(tx: Tx, limit: int) -> Sequence[tuple[str, str]]:
    """Some users and words, which are no longer in doubt when this is committed."""
    rows = tx.all(
        """
        DELETE FROM doubtful_words WHERE (user_id, word) IN (
          SELECT user_id, word FROM doubtful_words ORDER BY user_id, word LIMIT :limit)
        RETURNING user_id, word""",
        limit=limit,
    )
    return [(row["user_id"], row["word"]) for row in rows]
