"""The SQL of the trash. What is in it: deleted, and its purge has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes import events
from rushes.db.database import Tx
from rushes.records import from_row

TRASHED = "deleted_at IS NOT NULL AND purge_started_at IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A media that stays as it is until the transaction ends."""

    id: str
    user_id: str
    deleted_at: int | None
    share_token: str | None


def lock(tx: Tx, ids: Sequence[str]) -> list[Locked]:
    """Always in the same order, so that two who take several do not wait for each other."""
    rows = tx.all(
        "SELECT id, user_id, deleted_at, share_token FROM media"
        " WHERE id IN ({given:id text}) ORDER BY id {for_update}",
        given=[{"id": id} for id in ids],
    )
    return [from_row(Locked, row) for row in rows]


def put(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Unseen at once; the bytes and the version stay, the share link does not."""
    return _mark(
        tx,
        ids,
        "deleted_at = {now}, share_token = NULL",
        "deleted_at IS NULL",
        "media.deleted",
    )


def take_back(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Only what is in the trash, and nobody has begun to purge."""
    return _mark(tx, ids, "deleted_at = NULL, updated_at = {now}", TRASHED, "media.updated")


def give_up(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Nobody can take it back any more: it may be purged at once."""
    return _mark(tx, ids, "purge_started_at = {now}", TRASHED, None)


def to_forget(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Those of them that were only taken in to answer a request."""
    rows = tx.all(
        "SELECT id FROM media WHERE id IN ({given:id text}) AND forget_at IS NOT NULL ORDER BY id",
        given=[{"id": id} for id in ids],
    )
    return [row["id"] for row in rows]


def unanswered(tx: Tx, limit: int) -> list[str]:
    """Those that nobody waits for any more, and nobody has forgotten yet."""
    rows = tx.all(
        "SELECT id FROM media WHERE forget_at <= {now} AND forget_at IS NOT NULL"
        " AND deleted_at IS NULL ORDER BY forget_at LIMIT :limit",
        limit=limit,
    )
    return [row["id"] for row in rows]


def _mark(tx: Tx, ids: Sequence[str], sets: str, guard: str, event: str | None) -> list[str]:
    rows = tx.all(
        f"UPDATE media SET {sets} WHERE id IN ({{given:id text}}) AND {guard}"
        " RETURNING id, user_id",
        given=[{"id": id} for id in ids],
    )
    rows.sort(key=lambda row: str(row["id"]))
    for row in rows if event else ():
        events.append(tx, str(event), media_id=row["id"], user_id=row["user_id"])
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True)
class Summary:
    """How many media are in the trash, and the bytes of all that was kept of them."""

    items: int
    size_bytes: int


def summary(tx: Tx, user_id: str | None) -> Summary:
    """Of a user; None: of everybody. What a version has taken over from the one before it is there
    once."""
    row = tx.one(
        f"""
        WITH trashed AS (
            SELECT id, size_bytes FROM media
            WHERE (CAST(:user_id AS text) IS NULL OR user_id = :user_id) AND {TRASHED}
        ), kept AS (
            SELECT versions.id, versions.state, versions.size_bytes
            FROM trashed JOIN versions ON versions.media_id = trashed.id
            WHERE versions.state IN ('current','retired')
        ), replaced AS (
            SELECT DISTINCT artifacts.key, artifacts.size_bytes
            FROM kept JOIN artifacts ON artifacts.version_id = kept.id
            WHERE kept.state = 'retired' AND artifacts.retired_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM artifacts AS other
                JOIN versions AS shown ON shown.id = other.version_id AND shown.state = 'current'
                WHERE other.key = artifacts.key AND other.retired_at IS NULL)
        )
        SELECT (SELECT count(*) FROM trashed) AS items,
            (SELECT coalesce(sum(size_bytes), 0) FROM trashed)
          + (SELECT coalesce(sum(size_bytes), 0) FROM kept WHERE state = 'current')
          + (SELECT coalesce(sum(size_bytes), 0) FROM replaced) AS size_bytes""",
        user_id=user_id,
    )
    assert row is not None
    return Summary(int(row["items"]), int(row["size_bytes"]))
