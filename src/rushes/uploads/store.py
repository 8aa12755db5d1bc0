"""The SQL of uploads. A writer's change names its token: no row back means it was fenced off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row
from rushes.uploads.upload import Upload, UploadPart

# An upload that may still get bytes, and one whose bytes are nobody's source yet.
RECEIVING = "finished_at IS NULL AND ended_at IS NULL AND expires_at > {now}"
NO_MEDIA = "media_id IS NULL AND ended_at IS NULL"


def insert(tx: Tx, upload: Upload, lasts_ms: int) -> Upload:
    row = tx.one(
        """
        INSERT INTO uploads (id, user_id, length_bytes, offset_bytes, metadata, concat, parts, key,
            created_at, expires_at, writer, writer_until)
        VALUES (:id, :user_id, :length_bytes, 0, :metadata, :concat, :parts, :key,
            {now}, {now} + :lasts_ms, :writer, {now} + :lasts_ms)
        RETURNING *""",
        id=upload.id,
        user_id=upload.user_id,
        length_bytes=upload.length_bytes,
        metadata=upload.metadata,
        concat=upload.concat,
        parts=upload.parts,
        key=upload.key,
        writer=upload.writer,
        lasts_ms=lasts_ms,
    )
    assert row is not None
    return Upload.from_row(row)


def get(tx: Tx, id: str, user_id: str | None) -> Upload | None:
    """`user_id`: only if it is this user's."""
    row = tx.one(
        """
        SELECT uploads.*,
            CASE WHEN expires_at <= {now} AND media_id IS NULL THEN 1 ELSE 0 END AS overdue,
            CASE WHEN writer IS NOT NULL AND writer_until > {now} THEN 1 ELSE 0 END AS held
        FROM uploads WHERE id = :id AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)""",
        id=id,
        user_id=user_id,
    )
    return Upload.from_row(row) if row else None


def get_many(tx: Tx, ids: Sequence[str], user_id: str) -> dict[str, Upload]:
    rows = tx.all(
        "SELECT * FROM uploads WHERE user_id = :user_id AND id IN ({given:id text})"
        f" AND {NO_MEDIA} AND expires_at > {{now}}",
        given=[{"id": id} for id in ids],
        user_id=user_id,
    )
    return {row["id"]: Upload.from_row(row) for row in rows}


def made_of(tx: Tx, parts: str, user_id: str) -> Upload | None:
    """The finished upload that was put together from these."""
    row = tx.one(
        "SELECT * FROM uploads WHERE user_id = :user_id AND concat = 'final' AND parts = :parts"
        " AND media_id IS NOT NULL",
        parts=parts,
        user_id=user_id,
    )
    return Upload.from_row(row) if row else None


def lock_user(tx: Tx, user_id: str) -> int | None:
    """Whoever counts a user's bytes takes turns; returns the quota set for this user."""
    row = tx.one("SELECT quota_bytes FROM users WHERE id = :id {for_update}", id=user_id)
    return row["quota_bytes"] if row else None


def is_disabled(tx: Tx, user_id: str) -> bool:
    row = tx.one("SELECT disabled_at FROM users WHERE id = :id", id=user_id)
    return row is not None and row["disabled_at"] is not None


def count_unfinished(tx: Tx, user_id: str, most: int) -> int:
    """Up to `most`."""
    row = tx.one(
        """
        SELECT count(*) AS unfinished FROM (SELECT 1 FROM uploads WHERE user_id = :user_id
            AND media_id IS NULL AND ended_at IS NULL AND finished_at IS NULL
            LIMIT :most) AS few""",
        user_id=user_id,
        most=most,
    )
    return int(row["unfinished"]) if row else 0


# Writing


def take(
    tx: Tx,
    id: str,
    user_id: str,
    *,
    offset_bytes: int,
    length_bytes: int | None,
    writer: str,
    lease_ms: int,
) -> Upload | None:
    """The right to append at `offset_bytes`, unless somebody has it; says the length if nobody
    has said it yet."""
    row = tx.one(
        f"""
        UPDATE uploads SET writer = :writer, writer_until = {{now}} + :lease_ms,
            length_bytes = coalesce(length_bytes, CAST(:length_bytes AS bigint))
        WHERE id = :id AND user_id = :user_id AND {RECEIVING}
          AND offset_bytes = :offset_bytes AND coalesce(concat, '') <> 'final'
          AND (writer IS NULL OR writer_until <= {{now}})
        RETURNING *""",
        id=id,
        user_id=user_id,
        offset_bytes=offset_bytes,
        length_bytes=length_bytes,
        writer=writer,
        lease_ms=lease_ms,
    )
    return Upload.from_row(row) if row else None


def advance(
    tx: Tx, id: str, writer: str, *, offset_bytes: int, lease_ms: int, lasts_ms: int
) -> bool:
    """These bytes are durable. Also extends the lease (0 gives it up) and the upload's life."""
    row = tx.one(
        """
        UPDATE uploads SET offset_bytes = :offset_bytes, writer_until = {now} + :lease_ms,
            expires_at = {now} + :lasts_ms
        WHERE id = :id AND writer = :writer RETURNING id""",
        id=id,
        writer=writer,
        offset_bytes=offset_bytes,
        lease_ms=lease_ms,
        lasts_ms=lasts_ms,
    )
    return row is not None


def renew(tx: Tx, id: str, writer: str, lease_ms: int) -> bool:
    row = tx.one(
        "UPDATE uploads SET writer_until = {now} + :lease_ms"
        " WHERE id = :id AND writer = :writer RETURNING id",
        id=id,
        writer=writer,
        lease_ms=lease_ms,
    )
    return row is not None


def release(tx: Tx, id: str, writer: str) -> None:
    tx.all(
        "UPDATE uploads SET writer = NULL, writer_until = NULL WHERE id = :id AND writer = :writer",
        id=id,
        writer=writer,
    )


def clear_writers(tx: Tx) -> None:
    tx.all("UPDATE uploads SET writer = NULL, writer_until = NULL WHERE writer IS NOT NULL")


def add_parts(tx: Tx, id: str, parts: Sequence[UploadPart]) -> None:
    tx.all(
        "INSERT INTO upload_parts (upload_id, offset_bytes, size_bytes, key)"
        " SELECT :id, offset_bytes, size_bytes, key FROM"
        " ({given:offset_bytes bigint, size_bytes bigint, key text}) AS new",
        id=id,
        given=parts,
    )


def drop_parts(tx: Tx, id: str, from_bytes: int) -> None:
    tx.all(
        "DELETE FROM upload_parts WHERE upload_id = :id AND offset_bytes >= :from_bytes",
        id=id,
        from_bytes=from_bytes,
    )


def parts_of(tx: Tx, id: str) -> list[UploadPart]:
    rows = tx.all(
        "SELECT offset_bytes, size_bytes, key FROM upload_parts WHERE upload_id = :id"
        " ORDER BY offset_bytes",
        id=id,
    )
    return [UploadPart(**row) for row in rows]


# The end


def finish(
    tx: Tx, id: str, writer: str, *, length_bytes: int, media_id: str | None, lasts_ms: int
) -> Upload | None:
    row = tx.one(
        """
        UPDATE uploads SET offset_bytes = :length_bytes, length_bytes = :length_bytes,
            finished_at = {now}, expires_at = {now} + :lasts_ms, media_id = CAST(:media_id AS text),
            writer = NULL, writer_until = NULL
        WHERE id = :id AND writer = :writer AND finished_at IS NULL RETURNING *""",
        id=id,
        writer=writer,
        length_bytes=length_bytes,
        media_id=media_id,
        lasts_ms=lasts_ms,
    )
    return Upload.from_row(row) if row else None


def end(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Nothing comes of them any more; returns those for which that is new."""
    rows = tx.all(
        "UPDATE uploads SET ended_at = {now}, writer = NULL, writer_until = NULL"
        f" WHERE id IN ({{given:id text}}) AND {NO_MEDIA} RETURNING id",
        given=[{"id": id} for id in ids],
    )
    return [row["id"] for row in rows]


def overdue(tx: Tx, limit: int) -> list[str]:
    rows = tx.all(
        f"SELECT id FROM uploads WHERE {NO_MEDIA} AND expires_at <= {{now}}"
        " AND (writer IS NULL OR writer_until <= {now}) ORDER BY expires_at LIMIT :limit"
        " {skip_locked}",
        limit=limit,
    )
    return [row["id"] for row in rows]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An upload whose bytes may still be there, though nobody needs them."""

    id: str
    key: str


def to_remove(tx: Tx, limit: int) -> list[Leftover]:
    """Of uploads that have ended."""
    rows = tx.all(
        "SELECT id, key FROM uploads WHERE ended_at IS NOT NULL AND removed_at IS NULL"
        " AND media_id IS NULL ORDER BY id LIMIT :limit",
        limit=limit,
    )
    return [from_row(Leftover, row) for row in rows]


def with_leftovers(tx: Tx, limit: int) -> list[Leftover]:
    """Of uploads that are put together, though their parts may still be there."""
    rows = tx.all(
        "SELECT DISTINCT uploads.id, uploads.key FROM uploads JOIN upload_parts"
        " ON upload_parts.upload_id = uploads.id WHERE media_id IS NOT NULL LIMIT :limit",
        limit=limit,
    )
    return [from_row(Leftover, row) for row in rows]


def forget_parts(tx: Tx, id: str) -> None:
    tx.all("DELETE FROM upload_parts WHERE upload_id = :id", id=id)


def mark_removed(tx: Tx, id: str) -> None:
    tx.all(
        "UPDATE uploads SET removed_at = {now}"
        " WHERE id = :id AND ended_at IS NOT NULL AND media_id IS NULL",
        id=id,
    )


def forget(tx: Tx, older_than_ms: int) -> None:
    """Uploads that are over for so long that nobody asks any more; media keep their bytes."""
    tx.all(
        "DELETE FROM uploads WHERE coalesce(finished_at, ended_at) < {now} - :older_than_ms"
        " AND (media_id IS NOT NULL OR removed_at IS NOT NULL)",
        older_than_ms=older_than_ms,
    )
