"""The SQL of backups: which objects rows name, which of them somebody needs, and what is known of
the backups that were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from rushes.db.database import Tx
from rushes.records import Row, from_row

PAGE = 2_000
PROBLEMS_KEPT = 20

# Artifacts of versions that are, or may become, what people see.
_OF_VERSION = """artifacts.retired_at IS NULL AND EXISTS (SELECT 1 FROM versions
    JOIN media ON media.id = versions.media_id WHERE versions.id = artifacts.version_id
    AND versions.state IN ('current','building') AND media.purge_started_at IS NULL)"""
_SOURCE = "media.purge_started_at IS NULL AND media.purged_at IS NULL"
_OPEN = "media_id IS NULL AND ended_at IS NULL"


@dataclass(frozen=True, slots=True)
class Named:
    """An object that a row names. `size_bytes`: how much of it counts; more may follow in an upload
    that is not complete. `sha256` is not known of every source."""

    key: str
    size_bytes: int
    sha256: str | None
    media_id: str | None = None


@dataclass(frozen=True, slots=True)
class Playable:
    media_id: str
    version_id: str
    title: str


# Each a page in the order of keys. The same object may be named by several versions.
NAMED = (
    """
    SELECT key, max(artifacts.size_bytes) AS size_bytes, max(artifacts.sha256) AS sha256,
        max(versions.media_id) AS media_id
    FROM artifacts JOIN versions ON versions.id = artifacts.version_id
    WHERE key > :after GROUP BY key ORDER BY key LIMIT :limit""",
    """
    SELECT source_key AS key, max(size_bytes) AS size_bytes, max(sha256) AS sha256,
        max(id) AS media_id
    FROM media WHERE source_key > :after GROUP BY source_key ORDER BY source_key LIMIT :limit""",
    f"""
    SELECT key, offset_bytes AS size_bytes, NULL AS sha256, NULL AS media_id FROM uploads
    WHERE {_OPEN} AND offset_bytes > 0 AND key > :after AND NOT EXISTS (
        SELECT 1 FROM upload_parts WHERE upload_parts.upload_id = uploads.id)
    ORDER BY key LIMIT :limit""",
    f"""
    SELECT upload_parts.key, upload_parts.size_bytes, NULL AS sha256, NULL AS media_id
    FROM upload_parts JOIN uploads ON uploads.id = upload_parts.upload_id
    WHERE {_OPEN} AND upload_parts.key > :after ORDER BY upload_parts.key LIMIT :limit""",
)


def named(tx: Tx) -> Iterator[Named]:
    """Every object that a row names, once."""
    sources: set[str] = set()
    for number, text in enumerate(NAMED):
        after = ""
        while rows := tx.all(text, after=after, limit=PAGE):
            after = rows[-1]["key"]
            for row in rows:
                # An upload that has just become a media is named by both.
                if number and row["key"] in sources:
                    continue
                if number:
                    sources.add(row["key"])
                yield from_row(Named, row)


def needed(tx: Tx, keys: Sequence[str]) -> set[str]:
    """Those without which something that people have would be broken."""
    rows = tx.all(
        f"""
        WITH given AS ({{given:key text}})
        SELECT given.key FROM given
        WHERE EXISTS (SELECT 1 FROM artifacts WHERE artifacts.key = given.key AND {_OF_VERSION})
           OR EXISTS (SELECT 1 FROM media WHERE media.source_key = given.key AND {_SOURCE})
           OR EXISTS (SELECT 1 FROM uploads WHERE uploads.key = given.key AND {_OPEN})
           OR EXISTS (SELECT 1 FROM upload_parts JOIN uploads ON uploads.id = upload_id
                WHERE upload_parts.key = given.key AND {_OPEN})""",
        given=[{"key": key} for key in keys],
    )
    return {row["key"] for row in rows}


def count_media(tx: Tx) -> int:
    row = tx.one("SELECT count(*) AS n FROM media WHERE purged_at IS NULL")
    return int(row["n"]) if row else 0


def playable(tx: Tx, limit: int) -> list[Playable]:
    """The newest media that can be watched."""
    rows = tx.all(
        """
        SELECT media.id AS media_id, versions.id AS version_id, media.title FROM media
        JOIN versions ON versions.id = media.current_version_id
        WHERE media.deleted_at IS NULL AND versions.state = 'current'
        ORDER BY media.id DESC LIMIT :limit""",
        limit=limit,
    )
    return [from_row(Playable, row) for row in rows]


def files(tx: Tx, version_id: str) -> dict[str, str]:
    """Keys of a version's files by their names."""
    rows = tx.all(
        "SELECT name, key FROM artifacts WHERE version_id = :id AND retired_at IS NULL",
        id=version_id,
    )
    return {row["name"]: row["key"] for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord:
    """`problems`: the first of them."""

    id: str
    directory: str
    started_at: int
    finished_at: int | None = None
    failed_at: int | None = None
    verified_at: int | None = None
    result: str | None = None
    media: int = 0
    objects: int = 0
    size_bytes: int = 0
    new_objects: int = 0
    new_bytes: int = 0
    problem_count: int = 0
    problems: tuple[str, ...] = ()


_COLUMNS = """id, directory, started_at, finished_at, failed_at, verified_at, result, media,
    objects, size_bytes, new_objects, new_bytes, problem_count, problems"""


def write(tx: Tx, record: BackupRecord) -> None:
    """The newest word about a backup; what it does not say of its making stays."""
    tx.all(
        f"""
        INSERT INTO backups ({_COLUMNS}) VALUES (:id, :directory, :started_at, :finished_at,
            :failed_at, :verified_at, :result, :media, :objects, :size_bytes, :new_objects,
            :new_bytes, :problem_count, :problems)
        ON CONFLICT (id) DO UPDATE SET directory = excluded.directory,
            finished_at = coalesce(excluded.finished_at, backups.finished_at),
            failed_at = excluded.failed_at, verified_at = excluded.verified_at,
            result = excluded.result, media = excluded.media, objects = excluded.objects,
            size_bytes = excluded.size_bytes, problem_count = excluded.problem_count,
            new_objects = CASE WHEN excluded.new_objects > 0 THEN excluded.new_objects
                ELSE backups.new_objects END,
            new_bytes = CASE WHEN excluded.new_bytes > 0 THEN excluded.new_bytes
                ELSE backups.new_bytes END,
            problems = excluded.problems""",
        id=record.id,
        directory=record.directory,
        started_at=record.started_at,
        finished_at=record.finished_at,
        failed_at=record.failed_at,
        verified_at=record.verified_at,
        result=record.result,
        media=record.media,
        objects=record.objects,
        size_bytes=record.size_bytes,
        new_objects=record.new_objects,
        new_bytes=record.new_bytes,
        problem_count=record.problem_count,
        problems=msgspec.json.encode(record.problems[:PROBLEMS_KEPT]).decode(),
    )


def recent(tx: Tx, limit: int) -> list[BackupRecord]:
    """The newest first."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM backups ORDER BY id DESC LIMIT :limit", limit=limit)
    return [_record(row) for row in rows]


def last_made(tx: Tx) -> BackupRecord | None:
    return _one(tx, "finished_at IS NOT NULL", "finished_at")


def last_good(tx: Tx) -> BackupRecord | None:
    return _one(tx, "result = 'good'", "verified_at")


def forget(tx: Tx, ids: Sequence[str]) -> None:
    tx.all(
        "DELETE FROM backups WHERE id IN (SELECT id FROM ({given:id text}) AS given)",
        given=[{"id": id} for id in ids],
    )


def _one(tx: Tx, where: str, order: str) -> BackupRecord | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM backups WHERE {where} ORDER BY {order} DESC LIMIT 1")
    return _record(row) if row else None


def _record(row: Row) -> BackupRecord:
    problems = tuple(msgspec.json.decode(row["problems"], type=list[str]))
    return from_row(BackupRecord, row, problems=problems)
