"""The SQL of removing bytes: what is due, what is still referred to, what is gone."""

from __future__ import annotations

from collections.abc import Sequence

from rushes.db.database import Tx


def due_versions(tx: Tx, *, grace_ms: int, abandoned: bool, limit: int) -> list[str]:
    """Replaced or given up long enough ago. What a job left behind is kept while it may be tried
    again, and for good if `abandoned` is false."""
    rows = tx.all(
        """
        SELECT id FROM versions WHERE retired_at <= {now} - :grace_ms
        AND (state = 'retired' OR (state = 'abandoned' AND :abandoned = 1
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = versions.job_id
            AND jobs.state IN ('blocked','queued','processing'))
          AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.retry_of = versions.job_id
            AND jobs.state IN ('blocked','queued','processing'))))
        ORDER BY retired_at LIMIT :limit""",
        grace_ms=grace_ms,
        abandoned=int(abandoned),
        limit=limit,
    )
    return [row["id"] for row in rows]


def due_media(tx: Tx, *, grace_ms: int, limit: int) -> list[str]:
    """Deleted long enough ago, and nobody works on it any more."""
    rows = tx.all(
        """
        SELECT id FROM media WHERE deleted_at <= {now} - :grace_ms AND purged_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.media_id = media.id
                        AND jobs.state = 'processing')
        ORDER BY deleted_at LIMIT :limit""",
        grace_ms=grace_ms,
        limit=limit,
    )
    return [row["id"] for row in rows]


def was_planned(tx: Tx, dedupe_key: str, *, within_ms: int) -> bool:
    row = tx.one(
        "SELECT 1 AS one FROM jobs WHERE dedupe_key = :dedupe_key"
        " AND created_at > {now} - :within_ms LIMIT 1",
        dedupe_key=dedupe_key,
        within_ms=within_ms,
    )
    return row is not None


def keys_of_version(tx: Tx, id: str) -> list[str] | None:
    """The objects that only this version refers to; None when it must not be touched."""
    row = tx.one(
        """
        SELECT id FROM versions WHERE id = :id AND state IN ('retired','abandoned')
        AND NOT EXISTS (SELECT 1 FROM media WHERE media.current_version_id = versions.id)
        {for_update}""",
        id=id,
    )
    if row is None:
        return None
    rows = tx.all(
        """
        SELECT key FROM artifacts WHERE version_id = :id AND NOT EXISTS (
          SELECT 1 FROM artifacts AS other WHERE other.key = artifacts.key
          AND other.version_id <> :id)""",
        id=id,
    )
    return [row["key"] for row in rows]


def mark_version_purged(tx: Tx, id: str) -> None:
    row = tx.one(
        "UPDATE versions SET state = 'purged', purged_at = {now}"
        " WHERE id = :id AND state IN ('retired','abandoned') RETURNING id",
        id=id,
    )
    if row is not None:
        tx.all("DELETE FROM artifacts WHERE version_id = :id", id=id)


def versions_of_media(tx: Tx, id: str) -> list[str]:
    rows = tx.all(
        "SELECT id FROM versions WHERE media_id = :id AND state IN ('retired','abandoned')", id=id
    )
    return [row["id"] for row in rows]


def source_of_deleted(tx: Tx, id: str) -> str | None:
    row = tx.one(
        "SELECT source_key FROM media WHERE id = :id AND deleted_at IS NOT NULL"
        " AND purged_at IS NULL",
        id=id,
    )
    return row["source_key"] if row else None


def mark_media_purged(tx: Tx, id: str) -> None:
    tx.all(
        "UPDATE media SET purged_at = {now}, source_key = NULL"
        " WHERE id = :id AND deleted_at IS NOT NULL",
        id=id,
    )


def known_keys(tx: Tx, keys: Sequence[str]) -> set[str]:
    """Those that a row refers to."""
    rows = tx.all(
        """
        WITH given AS ({given:key text})
        SELECT given.key FROM given
        WHERE EXISTS (SELECT 1 FROM artifacts WHERE artifacts.key = given.key)
           OR EXISTS (SELECT 1 FROM media WHERE media.source_key = given.key)
           OR EXISTS (SELECT 1 FROM uploads WHERE uploads.key = given.key)""",
        given=[{"key": key} for key in keys],
    )
    return {row["key"] for row in rows}
