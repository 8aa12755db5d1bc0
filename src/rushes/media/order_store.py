"""The SQL of what was asked for before."""

from __future__ import annotations

from collections.abc import Sequence

from rushes.db.database import Tx


def lock(tx: Tx, media_id: str) -> None:
    """Whoever else asks for work on this media waits, and then sees what was asked here."""
    tx.all("SELECT id FROM media WHERE id = :id {for_update}", id=media_id)


def stopped(tx: Tx, media_id: str, *, since: int, besides: Sequence[str]) -> list[str]:
    """Jobs that were canceled then or later, or will be when their worker stops, and that nobody
    has tried again; oldest first."""
    rows = tx.all(
        """
        SELECT id FROM jobs WHERE media_id = :media_id AND division IS NULL
        AND cancel_requested_at >= :since AND state IN ('processing','canceled')
        AND kind NOT IN ({given:kind text})
        AND NOT EXISTS (SELECT 1 FROM jobs AS again WHERE again.retry_of = jobs.id)
        ORDER BY id""",
        given=[{"kind": kind} for kind in besides],
        media_id=media_id,
        since=since,
    )
    return [row["id"] for row in rows]


def last_args(tx: Tx, media_id: str, kinds: Sequence[str]) -> str | None:
    """The arguments of the newest job of these kinds for a media."""
    row = tx.one(
        "SELECT args FROM jobs WHERE media_id = :media_id AND kind IN ({given:kind text})"
        " ORDER BY id DESC LIMIT 1",
        given=[{"kind": kind} for kind in kinds],
        media_id=media_id,
    )
    return row["args"] if row else None
