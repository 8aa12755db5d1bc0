"""The SQL of what was asked for before."""

from __future__ import annotations

from collections.abc import Sequence

from rushes.db.database import Tx


def lock(tx: Tx, media_id: str) -> None:
    """Whoever else asks for work on this media waits, and then sees what was asked here."""
    tx.all("SELECT id FROM media WHERE id = :id {for_update}", id=media_id)


def last_args(tx: Tx, media_id: str, kinds: Sequence[str]) -> str | None:
    """The arguments of the newest job of these kinds for a media."""
    row = tx.one(
        "SELECT args FROM jobs WHERE media_id = :media_id AND kind IN ({given:kind text})"
        " ORDER BY id DESC LIMIT 1",
        given=[{"kind": kind} for kind in kinds],
        media_id=media_id,
    )
    return row["args"] if row else None
