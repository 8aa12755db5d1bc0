"""The SQL of where people stopped watching."""

from __future__ import annotations

from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row

# Nobody needs to be brought back to the first moments, or to the last.
FIRST_SECONDS = 5.0
LAST_SECONDS, LAST_SHARE = 10.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    media_id: str
    seconds: float
    finished: int
    updated_at: int


def is_finished(seconds: float, duration: float | None) -> bool:
    """Nearly counts."""
    if duration is None:
        return False
    return seconds >= duration - max(LAST_SECONDS, duration * LAST_SHARE)


def keep(tx: Tx, user_id: str, media_id: str, seconds: float, *, finished: bool) -> Position:
    row = tx.one(
        """
        INSERT INTO watch_positions (user_id, media_id, seconds, finished, updated_at)
        VALUES (:user_id, :media_id, :seconds, :finished, {now})
        ON CONFLICT (user_id, media_id) DO UPDATE SET seconds = excluded.seconds,
            finished = excluded.finished, updated_at = excluded.updated_at
        RETURNING *""",
        user_id=user_id,
        media_id=media_id,
        seconds=seconds,
        finished=int(finished),
    )
    assert row is not None
    return from_row(Position, row)


def get(tx: Tx, user_id: str, media_id: str) -> Position | None:
    row = tx.one(
        "SELECT * FROM watch_positions WHERE user_id = :user_id AND media_id = :media_id",
        user_id=user_id,
        media_id=media_id,
    )
    return from_row(Position, row) if row else None


def drop(tx: Tx, user_id: str, media_id: str) -> None:
    tx.all(
        "DELETE FROM watch_positions WHERE user_id = :user_id AND media_id = :media_id",
        user_id=user_id,
        media_id=media_id,
    )


def unfinished(tx: Tx, user_id: str, *, sees: str | None, limit: int) -> list[Position]:
    """What was watched last comes first; only what the user still may see."""
    rows = tx.all(
        """
        SELECT watch_positions.* FROM watch_positions
        JOIN media ON media.id = watch_positions.media_id
        WHERE watch_positions.user_id = :user_id AND finished = 0 AND seconds >= :first
        AND media.deleted_at IS NULL
        AND (CAST(:sees AS text) IS NULL OR media.user_id = :sees)
        ORDER BY watch_positions.updated_at DESC LIMIT :limit""",
        user_id=user_id,
        sees=sees,
        first=FIRST_SECONDS,
        limit=limit,
    )
    return [from_row(Position, row) for row in rows]


def forget(tx: Tx, media_id: str) -> None:
    """Of a media whose bytes are gone."""
    tx.all("DELETE FROM watch_positions WHERE media_id = :media_id", media_id=media_id)
