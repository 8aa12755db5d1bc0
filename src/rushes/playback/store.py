"""The SQL of watching: what there is of versions still being made, and why others failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rushes import events, kinds, renditions
from rushes.db.database import Tx
from rushes.jobs.job import decode
from rushes.media import edit as edits
from rushes.media.edit import Edit
from rushes.media.pipeline import TRANSCRIBE
from rushes.media.store import MAKING
from rushes.playback import growing
from rushes.playback.growing import Building


def building(tx: Tx, media_ids: Sequence[str]) -> dict[str, Building]:
    """By media: the version that a job which may still complete has begun."""
    rows = tx.all(
        """
        SELECT versions.id, versions.media_id, jobs.args, versions.declared
        FROM versions JOIN jobs ON jobs.id = versions.job_id
        WHERE versions.state = 'building' AND slot = :slot AND jobs.cancel_requested_at IS NULL
        AND jobs.state IN ('blocked','queued','processing')
        AND versions.media_id IN ({given:media_id text}) ORDER BY versions.id""",
        slot=kinds.WATCH,
        given=[{"media_id": id} for id in media_ids],
    )
    return {
        row["media_id"]: Building(
            version_id=row["id"],
            args=decode(row["args"]),
            renditions=renditions.decode(row["declared"]),
        )
        for row in rows
    }


def present(tx: Tx, files: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these artifacts, each by version and name, are there."""
    rows = tx.all(
        "SELECT version_id, name FROM artifacts"
        " WHERE (version_id, name) IN ({given:version_id text, name text})",
        given=[{"version_id": version_id, "name": name} for version_id, name in files],
    )
    return {(row["version_id"], row["name"]) for row in rows}


def edit_of(tx: Tx, version_id: str) -> Edit | None:
    """What people had changed about the source when this version was made; None if there is no
    such version."""
    row = tx.one(
        "SELECT jobs.args FROM versions JOIN jobs ON jobs.id = versions.job_id"
        " WHERE versions.id = :version_id",
        version_id=version_id,
    )
    return edits.read(decode(row["args"]).get("edit")) if row else None


def seconds_of(tx: Tx, version_id: str, folder: str) -> dict[str, float | None]:
    """By name in the folder: the artifacts of one rendition, and how long they are."""
    rows = tx.all(
        "SELECT name, seconds FROM artifacts WHERE version_id = :version_id"
        " AND substr(name, 1, :length) = :prefix",
        version_id=version_id,
        length=len(folder) + 1,
        prefix=f"{folder}/",
    )
    return {row["name"].rpartition("/")[2]: row["seconds"] for row in rows}


def note_watchable(tx: Tx, version_id: str) -> None:
    """Tell, once, that a media which could not be watched before can be watched now. In a
    transaction that holds the job's lock: of files that come at once, one sees all others."""
    row = tx.one(
        """
        SELECT versions.media_id, declared, media.user_id FROM versions
        JOIN media ON media.id = versions.media_id
        WHERE versions.id = :id AND versions.state = 'building' AND slot = :slot
        AND watchable_at IS NULL AND declared IS NOT NULL AND current_version_id IS NULL
        AND deleted_at IS NULL""",
        id=version_id,
        slot=kinds.WATCH,
    )
    if row is None:
        return
    declared = renditions.decode(row["declared"])
    asked = [(version_id, name) for name in growing.first_files(declared)]
    files = {name for _, name in present(tx, asked)} if asked else set()
    if growing.master(declared, files) is not None:
        tx.all("UPDATE versions SET watchable_at = {now} WHERE id = :id", id=version_id)
        media_id, user_id = row["media_id"], row["user_id"]
        events.append(tx, "media.watchable", media_id=media_id, user_id=user_id)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has not made what it should, in words, and as a code if it has failed."""

    reason: str
    code: str | None


def failures(tx: Tx, media_ids: Sequence[str]) -> dict[tuple[str, bool], Failure]:
    """By media and whether it is about speech: the latest job that failed or was canceled."""
    rows = tx.all(
        "SELECT media_id, kind, state, error_code, last_error FROM jobs"
        f" WHERE state IN ('failed','canceled') AND (kind {MAKING} OR kind = :speech)"
        " AND media_id IN ({given:media_id text}) ORDER BY id",
        speech=TRANSCRIBE,
        given=[{"media_id": id} for id in media_ids],
    )
    return {
        (row["media_id"], row["kind"] == TRANSCRIBE): Failure(
            row["last_error"] or row["error_code"] or f"{row['kind']} was canceled",
            row["error_code"] if row["state"] == "failed" else None,
        )
        for row in rows
    }
