"""The SQL of profiles: those that people have made or changed."""

from __future__ import annotations

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
