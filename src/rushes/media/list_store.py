"""The SQL of listing media, in each order. A page begins behind a place, not at a number, so that
nothing is shown twice or left out when others come and go meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushes.db.database import Tx
from rushes.jobs.job import encode
from rushes.media.media import (
    TITLE_KEY_LENGTH,
    ListPosition,
    Media,
    Origin,
    Sort,
    Status,
    TranscriptStatus,
)
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
    Sort.RECORDED: "coalesce(recorded_at, created_at)",
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
OF_USER, OF_ANY_USER = "user_id = :user_id", "coalesce(user_id, '') = :user_id"
# So few are sooner sorted than found among all others.
FEW = 500
# Literally, as the indexes have it.
ORIGINS = {
    "library": "origin <> 'api'",
    **{each.value: f"origin = '{each.value}'" for each in Origin},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFilter:
    """Which media; what is None does not matter. `q` is a part of the title. `labels`: of each of
    these, it has one. `origin`: a word of `ORIGINS`."""

    user_id: str | None = None
    status: str | None = None
    transcript: TranscriptStatus | None = None
    kind: str | None = None
    q: str | None = None
    labels: tuple[tuple[str, ...], ...] = ()
    origin: str | None = None


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
    wanted = wanted or MediaFilter()
    source, key = "media", KEYS[sort]
    direction, beyond, within = ("ASC", ">", "<=") if sort in UPWARD else ("DESC", "<", ">=")
    is_by_id = key == "id"
    label = _first_label(tx, wanted, is_by_id)
    guards, given = _guards(wanted, besides=label)
    if label is not None:
        # In this order, which is the one that SQLite keeps to.
        source, key = "labeled CROSS JOIN media", "labeled.media_id" if is_by_id else key
        guards = ["labeled.label_id = :label", "media.id = labeled.media_id", *guards]
        # Each is found by its id: nothing else must look like a way to it.
        guards = [OF_ANY_USER if each == OF_USER else each for each in guards]
        given["label"] = label
    if after is not None and is_by_id:
        guards.append(f"{key} {beyond} :after_id")
        given["after_id"] = after.id
    elif after is not None and label is not None:
        guards.append(f"NOT ({key}, id) {within} (:after_key, :after_id)")
        given |= {"after_key": after.key, "after_id": after.id}
    elif after is not None:
        # The first says nothing new, but SQLite finds the place in the index only by it.
        guards += [f"{key} {beyond}= :after_key", f"({key}, id) {beyond} (:after_key, :after_id)"]
        given |= {"after_key": after.key, "after_id": after.id}
    order = f"{key} {direction}" if is_by_id else f"{key} {direction}, id {direction}"
    rows = tx.all(
        f"SELECT {WHOLE} FROM {source} WHERE {' AND '.join(guards)} ORDER BY {order} LIMIT :limit",
        limit=limit,
        **given,
    )
    return [Media.from_row(row) for row in rows]


def _first_label(tx: Tx, wanted: MediaFilter, is_by_id: bool) -> str | None:
    """The label whose media are walked, if that is the short way: in the order of their ids it
    always is, in another one if they are few. None: walk all in their order, and look which have
    it."""
    for label in (each[0] for each in wanted.labels if len(each) == 1):
        if is_by_id or _count(tx, label) <= FEW:
            return label
    return None


def _count(tx: Tx, label: str) -> int:
    row = tx.one(
        "SELECT count(*) AS count FROM"
        " (SELECT 1 FROM labeled WHERE label_id = :label LIMIT :most) AS counted",
        label=label,
        most=FEW + 1,
    )
    return int(row["count"]) if row else 0


def _guards(wanted: MediaFilter, besides: str | None = None) -> tuple[list[str], dict[str, Any]]:
    """SQL text without anything of the caller's in it, and what it refers to. `besides`: a label
    that is seen to already."""
    is_trash = wanted.status == Status.TRASHED
    known = {
        "user_id": OF_USER,
        **({} if is_trash else {"status": f"{STATUS} = :status"}),
        "transcript": f"{TRANSCRIPT_STATUS} = :transcript",
        "kind": "kind = :kind",
    }
    given = {name: getattr(wanted, name) for name in known if getattr(wanted, name) is not None}
    guards = [TRASHED if is_trash else "deleted_at IS NULL", *(known[name] for name in given)]
    if wanted.transcript in LEAST:
        guards.insert(1, LEAST[wanted.transcript])
    if wanted.origin is not None:
        guards.append(ORIGINS[wanted.origin])
    for number, labels in enumerate(wanted.labels):
        if labels != (besides,):
            meant = f"SELECT value FROM {{each:CAST(:labels_{number} AS text)}}"
            guards.append(
                "EXISTS (SELECT 1 FROM labeled WHERE labeled.media_id = media.id"
                f" AND labeled.label_id IN ({meant}))"
            )
            given[f"labels_{number}"] = encode(list(labels))
    if wanted.q:
        guards.append("title_folded LIKE :pattern ESCAPE '!'")
        given["pattern"] = pattern(folded(wanted.q))
    return guards, given
