"""The SQL of transcripts and their revisions. A media has one current and one candidate at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from rushes import events
from rushes.db.database import Tx
from rushes.records import Row, from_row
from rushes.transcripts.revisions import StoredRevision

Origin = Literal["machine", "imported"]
State = Literal["current", "candidate", "retired"]

_SEEN = "EXISTS (SELECT 1 FROM media WHERE media.id = media_id AND deleted_at IS NULL)"
_ABOUT = """id, job_id, state, origin, language, first_revision, revision, speaker_names,
    created_at, updated_at"""
_OUTDATED = (
    "coalesce(timeline, '') <> coalesce((SELECT edit FROM media WHERE media.id = media_id), '')"
    " AS is_outdated"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """All of a transcript but what was said. `is_outdated`: the recording was edited since, so its
    times may be others."""

    id: str
    job_id: str | None
    state: State
    origin: Origin
    language: str | None
    first_revision: int
    revision: int
    names: Mapping[str, str]
    is_outdated: bool
    created_at: int
    updated_at: int

    @property
    def is_edited(self) -> bool:
        return self.revision > self.first_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTranscript(About):
    """With what was said, as JSON: as it came, and as people have made it."""

    media_id: str
    user_id: str
    document: str
    edited: str | None


def touch(tx: Tx, media_id: str) -> str | None:
    """Tell of a change of what was said, and keep others from another until it is done. Returns
    whose it is; None when the media is not there."""
    row = tx.one(
        "UPDATE media SET updated_at = {now} WHERE id = :id AND deleted_at IS NULL"
        " RETURNING id, user_id",
        id=media_id,
    )
    if row is not None:
        events.append(tx, "media.updated", media_id=media_id, user_id=row["user_id"])
    return row["user_id"] if row else None


def insert(tx: Tx, **values: Any) -> None:
    """Its first revision is the next number of the media's."""
    tx.all(
        """
        INSERT INTO transcripts (id, media_id, user_id, job_id, state, origin, language, document,
            timeline, first_revision, revision, created_at, updated_at)
        SELECT :id, :media_id, :user_id, :job_id, :state, :origin, :language, :document,
            (SELECT edit FROM media WHERE id = :media_id),
            coalesce(max(revision) + 1, 0), coalesce(max(revision) + 1, 0), {now}, {now}
        FROM transcripts WHERE media_id = :media_id""",
        **values,
    )


def with_state(tx: Tx, media_id: str, state: str) -> StoredTranscript | None:
    row = tx.one(
        f"SELECT *, {_OUTDATED} FROM transcripts"
        f" WHERE media_id = :media_id AND state = :state AND {_SEEN}",
        media_id=media_id,
        state=state,
    )
    return _made(StoredTranscript, row) if row else None


def about_current(tx: Tx, media_id: str) -> About | None:
    """Which one it is, without what was said, which may be long."""
    row = tx.one(
        f"SELECT {_ABOUT}, {_OUTDATED} FROM transcripts"
        f" WHERE media_id = :media_id AND state = 'current' AND {_SEEN}",
        media_id=media_id,
    )
    return _made(About, row) if row else None


def about(tx: Tx, media_id: str) -> list[About]:
    """All that a media has and ever had, newest first, without what was said."""
    rows = tx.all(
        f"SELECT {_ABOUT}, {_OUTDATED} FROM transcripts WHERE media_id = :media_id AND {_SEEN}"
        " ORDER BY updated_at DESC, id DESC",
        media_id=media_id,
    )
    return [_made(About, row) for row in rows]


def of_job(tx: Tx, job_id: str) -> StoredTranscript | None:
    """Also one that was replaced since."""
    row = tx.one(
        f"SELECT *, {_OUTDATED} FROM transcripts WHERE job_id = :job_id AND {_SEEN}", job_id=job_id
    )
    return _made(StoredTranscript, row) if row else None


A = TypeVar("A", bound=About)


def _made(record: type[A], row: Row) -> A:
    names = msgspec.json.decode(row["speaker_names"])
    return from_row(record, row, names=names, is_outdated=bool(row["is_outdated"]))


def job_ids(tx: Tx) -> set[str]:
    """Of all transcripts that jobs have made, until their media is purged."""
    rows = tx.all("SELECT job_id FROM transcripts WHERE job_id IS NOT NULL")
    return {row["job_id"] for row in rows}


def installation(tx: Tx) -> str | None:
    """What tells this database from those of other installations: its first user, if it has one."""
    row = tx.one("SELECT min(id) AS id FROM users")
    assert row is not None
    return None if row["id"] is None else str(row["id"])


def document_of_job(tx: Tx, job_id: str) -> str | None:
    """As this job heard it; None for what is to be forgotten or purged."""
    row = tx.one(
        "SELECT document FROM transcripts JOIN media ON media.id = media_id WHERE job_id = :job_id"
        " AND forget_at IS NULL AND purge_started_at IS NULL",
        job_id=job_id,
    )
    return row["document"] if row else None


def set_state(tx: Tx, media_id: str, before: str, after: str) -> bool:
    rows = tx.all(
        "UPDATE transcripts SET state = :after, updated_at = {now}"
        " WHERE media_id = :media_id AND state = :before RETURNING id",
        media_id=media_id,
        before=before,
        after=after,
    )
    return bool(rows)


def promote_candidate(tx: Tx, media_id: str) -> None:
    """What was numbered when it came gets the next number now that it is read."""
    tx.all(
        """
        UPDATE transcripts SET state = 'current', updated_at = {now},
            first_revision = 1 + (SELECT max(revision) FROM transcripts AS other
                                  WHERE other.media_id = :media_id),
            revision = 1 + (SELECT max(revision) FROM transcripts AS other
                            WHERE other.media_id = :media_id)
        WHERE media_id = :media_id AND state = 'candidate'""",
        media_id=media_id,
    )


def fit(tx: Tx, media_id: str) -> None:
    """What is read has the times of today's edit."""
    tx.all(
        "UPDATE transcripts SET timeline = (SELECT edit FROM media WHERE media.id = :media_id)"
        " WHERE media_id = :media_id AND state IN ('current','candidate')",
        media_id=media_id,
    )


def promote(tx: Tx, media_id: str, id: str) -> bool:
    """One that was put away, with the numbers it has always had."""
    rows = tx.all(
        """
        UPDATE transcripts SET state = 'current', updated_at = {now}
        WHERE id = :id AND media_id = :media_id AND state = 'retired' RETURNING id""",
        id=id,
        media_id=media_id,
    )
    return bool(rows)


def set_names(tx: Tx, id: str, names: str) -> None:
    tx.all(
        "UPDATE transcripts SET speaker_names = :names, updated_at = {now} WHERE id = :id",
        id=id,
        names=names,
    )


# Revisions


@dataclass(frozen=True, slots=True)
class Written:
    """The newest revision of a transcript, and when that was."""

    revision: int
    updated_at: int


def add_revision(
    tx: Tx,
    media_id: str,
    id: str,
    *,
    revision: int,
    user_id: str,
    reason: str,
    edited: str,
    changes: str,
) -> Written | None:
    """The next of the media's, on top of `revision`; None if that is not the newest any more."""
    row = tx.one(
        """
        UPDATE transcripts SET edited = :edited, updated_at = {now},
            revision = 1 + (SELECT max(revision) FROM transcripts AS other
                            WHERE other.media_id = :media_id)
        WHERE id = :id AND revision = :revision AND state = 'current'
        RETURNING revision, updated_at""",
        media_id=media_id,
        id=id,
        revision=revision,
        edited=edited,
    )
    if row is None:
        return None
    tx.all(
        """
        INSERT INTO transcript_revisions (transcript_id, number, user_id, created_at, reason,
            changes)
        VALUES (:id, :number, :user_id, {now}, :reason, :changes)""",
        id=id,
        number=row["revision"],
        user_id=user_id,
        reason=reason,
        changes=changes,
    )
    return from_row(Written, row)


def revisions(tx: Tx, id: str, *, after: int) -> list[StoredRevision]:
    """Newest first."""
    rows = tx.all(
        """
        SELECT number, user_id, created_at, reason, changes FROM transcript_revisions
        WHERE transcript_id = :id AND number > :after ORDER BY number DESC""",
        id=id,
        after=after,
    )
    return [from_row(StoredRevision, row) for row in rows]


def numbers(tx: Tx, id: str) -> list[int]:
    rows = tx.all("SELECT number FROM transcript_revisions WHERE transcript_id = :id", id=id)
    return [row["number"] for row in rows]


def history(tx: Tx, id: str, limit: int) -> list[StoredRevision]:
    """Newest first; of a trim, not what it changed, which is everything."""
    rows = tx.all(
        """
        SELECT number, user_id, created_at, reason,
            CASE reason WHEN 'trimmed' THEN '[]' ELSE changes END AS changes
        FROM transcript_revisions WHERE transcript_id = :id ORDER BY number DESC LIMIT :limit""",
        id=id,
        limit=limit,
    )
    return [from_row(StoredRevision, row) for row in rows]


def last_trims(tx: Tx, id: str) -> list[str]:
    """What they changed, as JSON: those since people have changed something, oldest first."""
    rows = tx.all(
        """
        SELECT changes FROM transcript_revisions WHERE transcript_id = :id AND number > coalesce(
          (SELECT max(number) FROM transcript_revisions
           WHERE transcript_id = :id AND reason <> 'trimmed'), -1)
        ORDER BY number""",
        id=id,
    )
    return [row["changes"] for row in rows]


def is_edited(tx: Tx, id: str) -> bool:
    """By people, not by a trim or an engine."""
    row = tx.one(
        "SELECT 1 AS one FROM transcript_revisions WHERE transcript_id = :id"
        " AND reason IN ('edited','reverted','merged') LIMIT 1",
        id=id,
    )
    return row is not None


# Later


def purge(tx: Tx, media_id: str) -> None:
    """All that was ever said in a media."""
    tx.all(
        "DELETE FROM transcript_revisions WHERE transcript_id IN"
        " (SELECT id FROM transcripts WHERE media_id = :media_id)",
        media_id=media_id,
    )
    tx.all("DELETE FROM transcripts WHERE media_id = :media_id", media_id=media_id)
    tx.all(
        "DELETE FROM passages WHERE job_id IN (SELECT id FROM jobs WHERE media_id = :media_id)",
        media_id=media_id,
    )


def forget_passages(tx: Tx, *, keep_ms: int, limit: int = 10_000) -> int:
    """Of jobs that have ended, once nobody will go on behind them."""
    rows = tx.all(
        """
        DELETE FROM passages WHERE (job_id, number) IN (
          SELECT job_id, number FROM passages
          WHERE recorded_at <= {now} - :keep_ms AND NOT EXISTS (
            SELECT 1 FROM jobs WHERE jobs.id = passages.job_id
            AND jobs.state IN ('blocked','queued','processing'))
          ORDER BY recorded_at LIMIT :limit)
        RETURNING job_id""",
        keep_ms=keep_ms,
        limit=limit,
    )
    return len(rows)
