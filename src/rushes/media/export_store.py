"""The SQL of exports: files that were asked for of what is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes import events, kinds
from rushes.db.database import Tx
from rushes.jobs.job import Job
from rushes.media.media import StoredFile
from rushes.records import from_row

_KIND = kinds.EXPORT.name
# All slots of exports: the name, and behind it the key of each.
_SLOTS = f"slot >= '{_KIND}:' AND slot < '{_KIND};'"


@dataclass(frozen=True, slots=True)
class Made:
    slot: str
    published_at: int
    file: StoredFile


def rendition_files(tx: Tx, media_id: str, version_id: str, rendition: str) -> list[StoredFile]:
    """Of what is or was watched: how its segments begin, and these in their order."""
    rows = tx.all(
        """
        SELECT artifacts.* FROM artifacts JOIN versions ON versions.id = version_id
        WHERE version_id = :version_id AND media_id = :media_id AND slot = :slot
        AND state IN ('current','retired') AND artifacts.retired_at IS NULL
        AND (name = :init OR name LIKE :segment ESCAPE '!') ORDER BY name""",
        version_id=version_id,
        media_id=media_id,
        slot=kinds.WATCH,
        init=f"{rendition}/init.mp4",
        segment=f"{rendition.replace('!', '!!').replace('_', '!_').replace('%', '!%')}/seg!_%.m4s",
    )
    return [from_row(StoredFile, row) for row in rows]


def jobs(tx: Tx, media_id: str, *, before: str | None, limit: int) -> list[Job]:
    """Those that wait, run or have made something that is still there, and those that have failed
    and were not asked for again; newest first."""
    rows = tx.all(
        f"""
        SELECT * FROM jobs WHERE media_id = :media_id AND kind = '{_KIND}'
        AND (CAST(:before AS text) IS NULL OR id < :before)
        AND (state IN ('blocked','queued','processing')
          OR (state = 'completed' AND EXISTS (SELECT 1 FROM versions
            WHERE versions.job_id = jobs.id AND versions.state = 'current'))
          OR (state = 'failed' AND NOT EXISTS (SELECT 1 FROM jobs AS later
            WHERE later.media_id = jobs.media_id AND later.kind = jobs.kind
            AND later.dedupe_key = jobs.dedupe_key AND later.id > jobs.id)))
        ORDER BY id DESC LIMIT :limit""",
        media_id=media_id,
        before=before,
        limit=limit,
    )
    return [Job.from_row(row) for row in rows]


def made(tx: Tx, job_ids: Sequence[str]) -> dict[str, Made]:
    """By job, what is there of it."""
    rows = tx.all(
        """
        SELECT artifacts.*, versions.job_id, slot, published_at FROM versions
        JOIN artifacts ON artifacts.version_id = versions.id
        WHERE versions.state = 'current' AND versions.job_id IN ({given:id text})""",
        given=[{"id": id} for id in job_ids],
    )
    return {
        row["job_id"]: Made(row["slot"], row["published_at"], from_row(StoredFile, row))
        for row in rows
    }


def retire(tx: Tx, media_id: str, job_id: str) -> bool:
    """Nobody gets it any more; its bytes go later, as those of other versions do."""
    row = tx.one(
        f"UPDATE versions SET state = 'retired', retired_at = {{now}} WHERE media_id = :media_id"
        f" AND job_id = :job_id AND state = 'current' AND {_SLOTS} RETURNING id",
        media_id=media_id,
        job_id=job_id,
    )
    if row is not None:
        _tell(tx, [media_id])
    return row is not None


def expire(tx: Tx, *, keep_ms: int, limit: int) -> int:
    """Those that were made so long ago, a few at a time; returns how many."""
    rows = tx.all(
        f"""
        WITH old AS MATERIALIZED (SELECT id FROM versions WHERE state = 'current' AND {_SLOTS}
          AND published_at <= {{now}} - :keep_ms ORDER BY published_at LIMIT :limit)
        UPDATE versions SET state = 'retired', retired_at = {{now}}
        WHERE id IN (SELECT id FROM old) AND state = 'current' RETURNING media_id""",
        keep_ms=keep_ms,
        limit=limit,
    )
    _tell(tx, sorted({row["media_id"] for row in rows}))
    return len(rows)


def _tell(tx: Tx, media_ids: Sequence[str]) -> None:
    for id in media_ids:
        row = tx.one("SELECT user_id FROM media WHERE id = :id", id=id)
        events.append(tx, "media.updated", media_id=id, user_id=row["user_id"] if row else None)
