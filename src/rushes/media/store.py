"""The SQL of media and versions. A version becomes current by one switch of a pointer."""

from __future__ import annotations

from rushes import events
from rushes.db.database import Tx


def insert(tx: Tx, id: str, *, user_id: str, title: str) -> None:
    tx.all(
        "INSERT INTO media (id, user_id, title, created_at) VALUES (:id, :user_id, :title, {now})",
        id=id,
        user_id=user_id,
        title=title,
    )
    events.append(tx, "media.created", media_id=id, user_id=user_id)


def mark_deleted(tx: Tx, id: str) -> bool:
    """Unpublish at once; the bytes go later."""
    row = tx.one(
        "UPDATE media SET deleted_at = {now}, current_version_id = NULL"
        " WHERE id = :id AND deleted_at IS NULL RETURNING user_id",
        id=id,
    )
    if row is None:
        return False
    tx.all(
        "UPDATE versions SET state = 'retired', retired_at = {now}"
        " WHERE media_id = :id AND state = 'current'",
        id=id,
    )
    events.append(tx, "media.deleted", media_id=id, user_id=row["user_id"])
    return True


def open_version(tx: Tx, id: str, *, media_id: str, job_id: str, claim_id: str) -> None:
    tx.all(
        "INSERT INTO versions (id, media_id, job_id, claim_id, state, created_at)"
        " VALUES (:id, :media_id, :job_id, :claim_id, 'building', {now})",
        id=id,
        media_id=media_id,
        job_id=job_id,
        claim_id=claim_id,
    )


def lock_media_of_job(tx: Tx, job_id: str) -> None:
    tx.all(
        "SELECT id FROM media WHERE id = (SELECT media_id FROM jobs WHERE id = :job_id)"
        " {for_update}",
        job_id=job_id,
    )


def publish(tx: Tx, claim_id: str) -> str | None:
    """Make the version that this claim built the current one. Only in the transaction that
    completes the claim's job; answers the version, or None when the claim built none."""
    row = tx.one(
        "SELECT id, media_id FROM versions WHERE claim_id = :claim_id AND state = 'building'"
        " AND (SELECT deleted_at FROM media WHERE media.id = versions.media_id) IS NULL",
        claim_id=claim_id,
    )
    if row is None:
        return None
    tx.all(
        "UPDATE versions SET state = 'retired', retired_at = {now}"
        " WHERE media_id = :media_id AND state = 'current'",
        media_id=row["media_id"],
    )
    tx.all(
        "UPDATE versions SET state = 'current', published_at = {now} WHERE id = :id", id=row["id"]
    )
    tx.all(
        "UPDATE media SET current_version_id = :id WHERE id = :media_id",
        id=row["id"],
        media_id=row["media_id"],
    )
    events.append(tx, "media.ready", media_id=row["media_id"])
    return str(row["id"])


def current_version(tx: Tx, id: str) -> str | None:
    row = tx.one("SELECT current_version_id FROM media WHERE id = :id", id=id)
    return row["current_version_id"] if row else None
