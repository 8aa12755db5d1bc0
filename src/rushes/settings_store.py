"""The SQL of the settings that were changed in the page."""

from __future__ import annotations

from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSetting:
    """`value`: JSON; None: the default. `version` grows with every change."""

    name: str
    value: str | None
    version: int
    changed_at: int
    changed_by: str


def all_settings(tx: Tx) -> list[StoredSetting]:
    rows = tx.all("SELECT * FROM settings ORDER BY name")
    return [from_row(StoredSetting, row) for row in rows]


def put_if_at(tx: Tx, name: str, value: str | None, *, version: int | None, by: str) -> bool:
    """Whether it was still at that version, 0 for one that was never changed; None: whatever it is
    at."""
    row = tx.one(
        """
        INSERT INTO settings (name, value, version, changed_at, changed_by)
        SELECT :name, CAST(:value AS text), 1, {now}, :by WHERE :version <= 0
            OR EXISTS (SELECT 1 FROM settings WHERE name = :name)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, version = settings.version + 1,
            changed_at = excluded.changed_at, changed_by = excluded.changed_by
            WHERE :version < 0 OR settings.version = :version
        RETURNING version""",
        name=name,
        value=value,
        version=-1 if version is None else version,
        by=by,
    )
    return row is not None
