"""The SQL of profiles: of versions and of transcriptions, as people have made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rushes.db.database import Tx
from rushes.records import from_row

Table = Literal["profiles", "transcription_profiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """`settings`: JSON."""

    name: str
    settings: str
    created_at: int
    updated_at: int


def list_profiles(tx: Tx, table: Table = "profiles") -> list[StoredProfile]:
    return [from_row(StoredProfile, row) for row in tx.all(f"SELECT * FROM {table} ORDER BY name")]


def get(tx: Tx, name: str, table: Table = "profiles") -> StoredProfile | None:
    row = tx.one(f"SELECT * FROM {table} WHERE name = :name", name=name)
    return from_row(StoredProfile, row) if row else None


def insert(tx: Tx, name: str, settings: str, table: Table = "profiles") -> StoredProfile | None:
    """None when the name is taken."""
    row = tx.one(
        f"INSERT INTO {table} (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now}) ON CONFLICT (name) DO NOTHING RETURNING *",
        name=name,
        settings=settings,
    )
    return from_row(StoredProfile, row) if row else None


def upsert(tx: Tx, name: str, settings: str, table: Table = "profiles") -> StoredProfile:
    row = tx.one(
        f"INSERT INTO {table} (name, settings, created_at, updated_at)"
        " VALUES (:name, :settings, {now}, {now})"
        " ON CONFLICT (name) DO UPDATE SET settings = excluded.settings,"
        " updated_at = excluded.updated_at RETURNING *",
        name=name,
        settings=settings,
    )
    assert row is not None
    return from_row(StoredProfile, row)


def delete(tx: Tx, name: str, table: Table = "profiles") -> bool:
    return tx.one(f"DELETE FROM {table} WHERE name = :name RETURNING name", name=name) is not None
