"""The SQL of removing bytes: what is due, what is still referred to, what is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row

_IS_LEFT = """state = 'building' AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE jobs.id = versions.job_id
    AND jobs.state IN ('blocked','queued','processing'))"""


def abandon_versions(tx: Tx) -> int:
    """What a job was building that has ended without publishing it stays unseen."""
    # Locked first, then looked at again: PostgreSQL would decide about a version that a retry has
    # taken over meanwhile by the job it had before.
    left = tx.all(f"SELECT id FROM versions WHERE {_IS_LEFT} ORDER BY id {{for_update}}")
    if not left:
        return 0
    rows = tx.all(
        "UPDATE versions SET state = 'abandoned', retired_at = {now}"
        f" WHERE id IN ({{given:id text}}) AND {_IS_LEFT} RETURNING id",
        given=left,
    )
    return len(rows)


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


def due_files(tx: Tx, *, grace_ms: int, limit: int) -> list[str]:
    """Versions with files that have been no part of them for long enough."""
    rows = tx.all(
        "SELECT DISTINCT version_id FROM artifacts WHERE retired_at <= {now} - :grace_ms"
        " ORDER BY version_id LIMIT :limit",
        grace_ms=grace_ms,
        limit=limit,
    )
    return [row["version_id"] for row in rows]


def retired_files(tx: Tx, version_id: str) -> list[str]:
    """The objects of files that are no part of their version any more."""
    rows = tx.all(
        """
        SELECT key FROM artifacts WHERE version_id = :id AND retired_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM artifacts AS other WHERE other.key = artifacts.key
          AND (other.version_id <> :id OR other.retired_at IS NULL))""",
        id=version_id,
    )
    return [row["key"] for row in rows]


def forget_retired_files(tx: Tx, version_id: str) -> None:
    tx.all("DELETE FROM artifacts WHERE version_id = :id AND retired_at IS NOT NULL", id=version_id)


# In the trash for long enough or given up by its owner, and nobody works on it any more.
MEDIA_DUE = """deleted_at IS NOT NULL AND purged_at IS NULL
    AND (purge_started_at IS NOT NULL OR deleted_at <= {now} - :trash_ms)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.media_id = media.id
                    AND jobs.state = 'processing')"""


def due_media(tx: Tx, *, trash_ms: int, limit: int) -> list[str]:
    rows = tx.all(
        f"SELECT id FROM media WHERE {MEDIA_DUE} ORDER BY deleted_at LIMIT :limit",
        trash_ms=trash_ms,
        limit=limit,
    )
    return [row["id"] for row in rows]


def start_media(tx: Tx, id: str, *, trash_ms: int) -> tuple[list[str], str | None] | None:
    """Mark that its purge has begun, and return its versions and its source; None when it must
    not be purged, whoever has asked for it. Committed before the first byte goes: a restore does
    nothing from then on, and one that was quicker leaves nothing to mark."""
    row = tx.one(
        "UPDATE media SET purge_started_at = coalesce(purge_started_at, {now}),"
        " current_version_id = NULL, share_token = NULL"
        f" WHERE id = :id AND {MEDIA_DUE} RETURNING source_key",
        id=id,
        trash_ms=trash_ms,
    )
    if row is None:
        return None
    tx.all(
        "UPDATE versions SET state = 'retired', retired_at = {now}"
        " WHERE media_id = :id AND state = 'current'",
        id=id,
    )
    return _versions_of_media(tx, id), row["source_key"]


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


def _versions_of_media(tx: Tx, id: str) -> list[str]:
    rows = tx.all(
        "SELECT id FROM versions WHERE media_id = :id AND state IN ('retired','abandoned')", id=id
    )
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True)
class PurgedMedia:
    id: str
    # None: it was here to stay.
    forget_at: int | None


def mark_media_purged(tx: Tx, id: str) -> PurgedMedia | None:
    """None when its purge has not begun, or is over."""
    row = tx.one(
        "UPDATE media SET purged_at = {now}, source_key = NULL"
        " WHERE id = :id AND purge_started_at IS NOT NULL AND purged_at IS NULL"
        " RETURNING id, forget_at",
        id=id,
    )
    return from_row(PurgedMedia, row) if row else None


def scrub(tx: Tx, media_id: str) -> None:
    """Of a media that was to be forgotten only ids and times are left: events and figures of the
    queue count on them."""
    of_media = "(SELECT id FROM jobs WHERE media_id = :media_id)"
    for statement in (
        "UPDATE media SET sha256 = NULL, kind = NULL, content_type = NULL, size_bytes = 0,"
        " duration = NULL WHERE id = :media_id",
        "UPDATE jobs SET args = :nothing, checkpoint = NULL, result = NULL, last_error = NULL,"
        " detail = NULL WHERE media_id = :media_id",
        f"UPDATE attempts SET error = NULL WHERE job_id IN {of_media}",
        f"DELETE FROM job_logs WHERE job_id IN {of_media}",
        "UPDATE events SET data = NULL WHERE type = 'transcription.passage'"
        f" AND data IS NOT NULL AND job_id IN {of_media}",
    ):
        tx.all(statement, media_id=media_id, nothing="{}")


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
