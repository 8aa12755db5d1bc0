"""The SQL of listing media, in each order. A page begins behind a place, not at a number, so that
nothing is shown twice or left out when others come and go meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushes.db.database import Tx
from rushes.jobs.job import encode
from rushes.media.media import TITLE_KEY_LENGTH, ListPosition, Media, Sort, Status, TranscriptStatus
from rushes.media.store import SPEECH, STATUS, TRANSCRIPT_STATUS, WHOLE, has_job
from rushes.media.trash_store import TRASHED
from rushes.text_match import folded, pattern

# Each has its indexes, but for the trash, of which little is there at a time: the same words are
# in the migration that makes them.
KEYS = {
    Sort.NEWEST: "id",
    Sort.OLDEST: "id",
    Sort.TITLE: f"substr(title_folded, 1, {TITLE_KEY_LENGTH})",
    # What has no length yet comes last.
    Sort.LONGEST: "coalesce(duration, -1)",
    Sort.LARGEST: "size_bytes",
    Sort.DELETED: "deleted_at",
}
UPWARD = (Sort.OLDEST, Sort.TITLE)
# What is so at least, and known sooner: most of a large library need not be looked at closely.
LEAST = {
    TranscriptStatus.NONE: f"NOT {has_job(SPEECH)}",
    TranscriptStatus.PENDING: has_job(SPEECH, "'blocked','queued'"),
    TranscriptStatus.PROCESSING: has_job(SPEECH, "'processing'"),
    TranscriptStatus.FAILED: has_job(SPEECH, "'failed','canceled'"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFilter:
    """Which media; what is None does not matter. `q` is a part of the title."""

    user_id: str | None = None
    status: str | None = None
    transcript: TranscriptStatus | None = None
    kind: str | None = None
    q: str | None = None


def matching(
    tx: Tx, wanted: MediaFilter, *, ids: Sequence[str] | None = None, limit: int
) -> list[str]:
    """Those of `ids`, or of all, that are meant; oldest first."""
    guards, given = _guards(wanted)
    if ids is not None:
        guards.append("id IN (SELECT value FROM {each:CAST(:ids AS text)})")
        given["ids"] = encode(list(ids))
    rows = tx.all(
        f"SELECT id FROM media WHERE {' AND '.join(guards)} ORDER BY id LIMIT :limit",
        limit=limit,
        **given,
    )
    return [row["id"] for row in rows]


def list_media(
    tx: Tx,
    wanted: MediaFilter | None = None,
    *,
    sort: Sort = Sort.NEWEST,
    after: ListPosition | None = None,
    limit: int,
) -> list[Media]:
    """`after` is the place of the last one of the page before."""
    guards, given = _guards(wanted or MediaFilter())
    key, direction, beyond = KEYS[sort], "DESC", "<"
    if sort in UPWARD:
        direction, beyond = "ASC", ">"
    if after is not None and key == "id":
        guards.append(f"id {beyond} :after_id")
        given["after_id"] = after.id
    elif after is not None:
        # The first says nothing new, but SQLite finds the place in the index only by it.
        guards += [f"{key} {beyond}= :after_key", f"({key}, id) {beyond} (:after_key, :after_id)"]
        given |= {"after_key": after.key, "after_id": after.id}
    order = f"id {direction}" if key == "id" else f"{key} {direction}, id {direction}"
    rows = tx.all(
        f"SELECT {WHOLE} FROM media WHERE {' AND '.join(guards)} ORDER BY {order} LIMIT :limit",
        limit=limit,
        **given,
    )
    return [Media.from_row(row) for row in rows]


def _guards(wanted: MediaFilter) -> tuple[list[str], dict[str, Any]]:
    """SQL text without anything of the caller's in it, and what it refers to."""
    is_trash = wanted.status == Status.TRASHED
    known = {
        "user_id": "user_id = :user_id",
        **({} if is_trash else {"status": f"{STATUS} = :status"}),
        "transcript": f"{TRANSCRIPT_STATUS} = :transcript",
        "kind": "kind = :kind",
    }
    given = {name: getattr(wanted, name) for name in known if getattr(wanted, name) is not None}
    guards = [TRASHED if is_trash else "deleted_at IS NULL", *(known[name] for name in given)]
    if wanted.transcript in LEAST:
        guards.insert(1, LEAST[wanted.transcript])
    if wanted.q:
        guards.append("title_folded LIKE :pattern ESCAPE '!'")
        given["pattern"] = pattern(folded(wanted.q))
    return guards, given
