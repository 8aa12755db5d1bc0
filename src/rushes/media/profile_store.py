"""The SQL of profiles: those that people have made or changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushes.db.database import Tx

Row = dict[str, Any]


def list_profiles(tx: Tx) -> list[Row]:
    return tx.all("SELECT * FROM profiles ORDER BY name")


def get(tx: Tx, name: str) -> Row | None:
    return tx.one("SELECT * FROM profiles WHERE name = :name", name=name)


def insert(tx: Tx, name: str, settings: str) -> Row | None:
    """None when the name is taken."""
    return tx.one(
        "INSERT INTO profiles (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now}) ON CONFLICT (name) DO NOTHING RETURNING *",
        name=name,
        settings=settings,
    )


def upsert(tx: Tx, name: str, settings: str) -> Row:
    row = tx.one(
        "INSERT INTO profiles (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now})"
        " ON CONFLICT (name) DO UPDATE SET settings = excluded.settings,"
        " updated_at = excluded.updated_at RETURNING *",
        name=name,
        settings=settings,
    )
    assert row is not None
    return row


def delete(tx: Tx, name: str) -> bool:
    return tx.one("DELETE FROM profiles WHERE name = :name RETURNING name", name=name) is not None


def last_args(tx: Tx, media_id: str, kinds: Sequence[str]) -> str | None:
    """The arguments of the newest job of these kinds for a media."""
    row = tx.one(
        "SELECT args FROM jobs WHERE media_id = :media_id AND kind IN ({given:kind text})"
        " ORDER BY id DESC LIMIT 1",
        given=[{"kind": kind} for kind in kinds],
        media_id=media_id,
    )
    return row["args"] if row else None
