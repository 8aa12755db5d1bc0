"""The SQL of outputs: what jobs of one's own kinds have made of media, or are about to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes import kinds
from rushes.db.database import Tx
from rushes.jobs.job import Job
from rushes.media.media import StoredFile
from rushes.records import from_row

# So many files of an output are listed; it may have any number.
FILES_LIMIT = 100
_OURS = ", ".join(f"'{name}'" for name in kinds.TABLE)
_ELSEWHERE = f"'{kinds.WATCH}', '{kinds.TRANSCRIPT}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What is published in a slot."""

    id: str
    media_id: str
    slot: str
    kind: str
    job_id: str
    size_bytes: int
    published_at: int


def published(tx: Tx, media_ids: Sequence[str]) -> list[Version]:
    """But for what is watched and read, which has addresses of its own."""
    rows = tx.all(
        f"""
        SELECT versions.id, versions.media_id, slot, kind, job_id, size_bytes, published_at
        FROM versions JOIN jobs ON jobs.id = versions.job_id
        WHERE versions.state = 'current' AND slot NOT IN ({_ELSEWHERE}) AND kind NOT IN ({_OURS})
        AND versions.media_id IN ({{given:media_id text}}) ORDER BY slot""",
        given=[{"media_id": id} for id in media_ids],
    )
    return [Version(**row) for row in rows]


def files(tx: Tx, version_ids: Sequence[str]) -> list[StoredFile]:
    """The first of each, by name."""
    rows = tx.all(
        """
        SELECT * FROM (
          SELECT artifacts.*, row_number() OVER (PARTITION BY version_id ORDER BY name) AS number
          FROM artifacts WHERE version_id IN ({given:version_id text})) AS numbered
        WHERE number <= :limit ORDER BY version_id, name""",
        given=[{"version_id": id} for id in version_ids],
        limit=FILES_LIMIT,
    )
    return [from_row(StoredFile, row) for row in rows]


def file(tx: Tx, media_id: str, slot: str, name: str) -> tuple[StoredFile, str] | None:
    """Of what is published in the slot now, and the kind that has made it."""
    row = tx.one(
        """
        SELECT artifacts.*, jobs.kind FROM artifacts
        JOIN versions ON versions.id = version_id JOIN jobs ON jobs.id = versions.job_id
        WHERE versions.media_id = :media_id AND slot = :slot AND versions.state = 'current'
        AND name = :name""",
        media_id=media_id,
        slot=slot,
        name=name,
    )
    return (from_row(StoredFile, row), row["kind"]) if row else None


def newest_jobs(tx: Tx, media_ids: Sequence[str]) -> list[Job]:
    """The last one of each of one's own kinds on each of these media, oldest first."""
    rows = tx.all(
        f"""
        SELECT * FROM jobs WHERE id IN (
          SELECT max(id) FROM jobs WHERE kind NOT IN ({_OURS}) AND division IS NULL
          AND media_id IN ({{given:media_id text}}) GROUP BY media_id, kind)
        ORDER BY id""",
        given=[{"media_id": id} for id in media_ids],
    )
    return [Job.from_row(row) for row in rows]
