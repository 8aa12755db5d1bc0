"""The SQL of what people say about their media: tags and collections, descriptions, dates.

A tag and a collection are the same here, a label: a name that an owner has for some of the owner's
media. What is in the trash keeps its labels, and is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rushes import events, ids
from rushes.db.database import Tx
from rushes.media.trash_store import TRASHED
from rushes.records import from_row
from rushes.text_match import folded

LabelKind = Literal["tag", "collection"]
PREFIX: dict[LabelKind, str] = {"tag": "tag", "collection": "col"}
_LIVE = """labeled JOIN media ON media.user_id = labels.user_id AND media.id = labeled.media_id
    AND media.deleted_at IS NULL WHERE labeled.label_id = labels.id"""
# All that have it, without the few in the trash, in the order that SQLite keeps to: who counts a
# hundred thousand looks into none of them.
_ITEMS = f"""(SELECT count(*) FROM labeled WHERE label_id = labels.id)
    - (SELECT count(*) FROM media CROSS JOIN labeled WHERE media.user_id = labels.user_id
       AND {TRASHED} AND labeled.label_id = labels.id AND labeled.media_id = media.id)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    id: str
    user_id: str
    kind: LabelKind
    name: str
    name_folded: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLabel:
    """`items`: how many media have it, without those in the trash."""

    id: str
    name: str
    name_folded: str
    created_at: int
    items: int


def add(tx: Tx, user_id: str, kind: LabelKind, name: str) -> Label:
    """The one that is there, if the user has one of this name."""
    tx.all(
        "INSERT INTO labels (id, user_id, kind, name, name_folded, created_at)"
        " VALUES (:id, :user_id, :kind, :name, :folded, {now}) ON CONFLICT DO NOTHING",
        id=ids.new(PREFIX[kind]),
        user_id=user_id,
        kind=kind,
        name=name,
        folded=folded(name),
    )
    [found] = named(tx, user_id, kind, [name])
    return found


def named(tx: Tx, user_id: str | None, kind: LabelKind, names: Sequence[str]) -> list[Label]:
    """`user_id` None: anybody's."""
    rows = tx.all(
        "SELECT * FROM labels WHERE kind = :kind AND name_folded IN ({given:name text})"
        " AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)",
        given=[{"name": folded(name)} for name in names],
        kind=kind,
        user_id=user_id,
    )
    return [from_row(Label, row) for row in rows]


def get(tx: Tx, id: str, kind: LabelKind, user_id: str | None) -> Label | None:
    row = tx.one(
        "SELECT * FROM labels WHERE id = :id AND kind = :kind"
        " AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)",
        id=id,
        kind=kind,
        user_id=user_id,
    )
    return from_row(Label, row) if row else None


def count(tx: Tx, user_id: str, kind: LabelKind) -> int:
    row = tx.one(
        "SELECT count(*) AS count FROM labels WHERE user_id = :user_id AND kind = :kind",
        user_id=user_id,
        kind=kind,
    )
    return int(row["count"]) if row else 0


def counted(tx: Tx, id: str) -> CountedLabel | None:
    row = tx.one(
        f"SELECT labels.*, {_ITEMS} AS items FROM labels WHERE id = :id",
        id=id,
    )
    return from_row(CountedLabel, row) if row else None


def list_labels(
    tx: Tx, user_id: str, kind: LabelKind, *, after: str | None, limit: int
) -> list[CountedLabel]:
    """By name; `after` is the folded name of the last one of the page before. A tag that nothing
    has is no tag."""
    used = f"AND EXISTS (SELECT 1 FROM {_LIVE})" if kind == "tag" else ""
    rows = tx.all(
        f"""
        SELECT labels.*, {_ITEMS} AS items FROM labels
        WHERE user_id = :user_id AND kind = :kind AND name_folded > :after {used}
        ORDER BY name_folded LIMIT :limit""",
        user_id=user_id,
        kind=kind,
        after=after or "",
        limit=limit,
    )
    return [from_row(CountedLabel, row) for row in rows]


def rename(tx: Tx, label: Label, name: str) -> bool:
    """False when another one of the user's has the name."""
    row = tx.one(
        """
        UPDATE labels SET name = :name, name_folded = :folded WHERE id = :id
        AND NOT EXISTS (SELECT 1 FROM labels AS other WHERE other.user_id = :user_id
          AND other.kind = :kind AND other.name_folded = :folded AND other.id <> :id)
        RETURNING id""",
        id=label.id,
        user_id=label.user_id,
        kind=label.kind,
        name=name,
        folded=folded(name),
    )
    return row is not None


def empty(tx: Tx, id: str, limit: int) -> int:
    """Take it off some of its media; how many they were."""
    rows = tx.all(
        "DELETE FROM labeled WHERE label_id = :id AND media_id IN"
        " (SELECT media_id FROM labeled WHERE label_id = :id LIMIT :limit) RETURNING media_id",
        id=id,
        limit=limit,
    )
    return len(rows)


def remove(tx: Tx, id: str) -> None:
    tx.all("DELETE FROM labeled WHERE label_id = :id", id=id)
    tx.all("DELETE FROM labels WHERE id = :id", id=id)


# Media and their labels


def of_media(tx: Tx, media_ids: Sequence[str]) -> dict[str, list[Label]]:
    """By media, each in the order of their names."""
    rows = tx.all(
        """
        SELECT labeled.media_id, labels.* FROM labeled JOIN labels ON labels.id = labeled.label_id
        WHERE labeled.media_id IN ({given:id text}) ORDER BY labels.name_folded""",
        given=[{"id": id} for id in media_ids],
    )
    found: dict[str, list[Label]] = {}
    for row in rows:
        found.setdefault(row["media_id"], []).append(from_row(Label, row))
    return found


def put(tx: Tx, label_id: str, media_ids: Sequence[str]) -> list[str]:
    """Those that did not have it before."""
    rows = tx.all(
        "INSERT INTO labeled (label_id, media_id) SELECT CAST(:label_id AS text), id"
        " FROM ({given:id text}) AS wanted WHERE id IS NOT NULL"
        " ON CONFLICT DO NOTHING RETURNING media_id",
        given=[{"id": id} for id in media_ids],
        label_id=label_id,
    )
    return [row["media_id"] for row in rows]


def take(tx: Tx, label_id: str, media_ids: Sequence[str]) -> list[str]:
    """Those that had it."""
    rows = tx.all(
        "DELETE FROM labeled WHERE label_id = :label_id AND media_id IN ({given:id text})"
        " RETURNING media_id",
        given=[{"id": id} for id in media_ids],
        label_id=label_id,
    )
    return [row["media_id"] for row in rows]


def forget(tx: Tx, media_ids: Sequence[str]) -> None:
    """Of media that nobody can take back any more."""
    given = [{"id": id} for id in media_ids]
    tx.all("DELETE FROM labeled WHERE media_id IN ({given:id text})", given=given)
    tx.all("UPDATE media SET description = NULL WHERE id IN ({given:id text})", given=given)


# What else they say


def describe(tx: Tx, media_id: str, description: str | None) -> None:
    tx.all(
        "UPDATE media SET description = CAST(:description AS text) WHERE id = :id",
        description=description,
        id=media_id,
    )


def set_recorded_at(tx: Tx, media_id: str, recorded_at: int | None) -> None:
    tx.all(
        "UPDATE media SET recorded_at = CAST(:recorded_at AS bigint) WHERE id = :id",
        recorded_at=recorded_at,
        id=media_id,
    )


def tell(tx: Tx, media_ids: Sequence[str]) -> None:
    """Something about these has changed."""
    rows = tx.all(
        "UPDATE media SET updated_at = {now} WHERE id IN ({given:id text})"
        " AND deleted_at IS NULL RETURNING id, user_id",
        given=[{"id": id} for id in media_ids],
    )
    for row in sorted(rows, key=lambda row: str(row["id"])):
        events.append(tx, "media.updated", media_id=row["id"], user_id=row["user_id"])
