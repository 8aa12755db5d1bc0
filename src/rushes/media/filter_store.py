"""The SQL of filters that people keep under a name."""

from __future__ import annotations

from dataclasses import dataclass

from rushes import ids
from rushes.db.database import Tx
from rushes.records import from_row
from rushes.text_match import folded


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFilter:
    """`filter`: JSON."""

    id: str
    name: str
    filter: str
    created_at: int


def of_user(tx: Tx, user_id: str) -> list[SavedFilter]:
    rows = tx.all(
        "SELECT * FROM saved_filters WHERE user_id = :user_id ORDER BY name_folded",
        user_id=user_id,
    )
    return [from_row(SavedFilter, row) for row in rows]


def keep(tx: Tx, user_id: str, name: str, filter: str) -> SavedFilter:
    """In the place of the one that has the name."""
    row = tx.one(
        """
        INSERT INTO saved_filters (id, user_id, name, name_folded, filter, created_at)
        VALUES (:id, :user_id, :name, :folded, :filter, {now})
        ON CONFLICT (user_id, name_folded) DO UPDATE SET name = excluded.name,
            filter = excluded.filter
        RETURNING *""",
        id=ids.new("flt"),
        user_id=user_id,
        name=name,
        folded=folded(name),
        filter=filter,
    )
    assert row is not None
    return from_row(SavedFilter, row)


def remove(tx: Tx, id: str, user_id: str) -> bool:
    row = tx.one(
        "DELETE FROM saved_filters WHERE id = :id AND user_id = :user_id RETURNING id",
        id=id,
        user_id=user_id,
    )
    return row is not None
