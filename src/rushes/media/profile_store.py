"""The SQL of profiles: of versions and of transcriptions, as people have made them."""

from __future__ import annotations

from typing import Any, Literal

from rushes.db.database import Tx

Row = dict[str, Any]
Table = Literal["profiles", "transcription_profiles"]


def list_profiles(tx: Tx, table: Table = "profiles") -> list[Row]:
    return tx.all(f"SELECT * FROM {table} ORDER BY name")


def get(tx: Tx, name: str, table: Table = "profiles") -> Row | None:
    return tx.one(f"SELECT * FROM {table} WHERE name = :name", name=name)


def insert(tx: Tx, name: str, settings: str, table: Table = "profiles") -> Row | None:
    """None when the name is taken."""
    return tx.one(
        f"INSERT INTO {table} (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now}) ON CONFLICT (name) DO NOTHING RETURNING *",
        name=name,
        settings=settings,
    )


def upsert(tx: Tx, name: str, settings: str, table: Table = "profiles") -> Row:
    row = tx.one(
        f"INSERT INTO {table} (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now})"
        " ON CONFLICT (name) DO UPDATE SET settings = excluded.settings,"
        " updated_at = excluded.updated_at RETURNING *",
        name=name,
        settings=settings,
    )
    assert row is not None
    return row


def delete(tx: Tx, name: str, table: Table = "profiles") -> bool:
    return tx.one(f"DELETE FROM {table} WHERE name = :name RETURNING name", name=name) is not None
