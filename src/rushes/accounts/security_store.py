"""The SQL of the security log."""

from __future__ import annotations

from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row

PRUNED_AT_ONCE = 1_000


def add(
    tx: Tx,
    id: str,
    *,
    type: str,
    user_id: str | None,
    user_name: str | None,
    address: str | None,
    request_id: str | None,
    subject: str,
    detail: str,
) -> None:
    tx.all(
        """
        INSERT INTO security_log
            (id, at, type, user_id, user_name, address, request_id, subject, detail)
        VALUES (:id, {now}, :type, :user_id, :user_name, :address, :request_id, :subject, :detail)
        """,
        id=id,
        type=type,
        user_id=user_id,
        user_name=user_name,
        address=address,
        request_id=request_id,
        subject=subject,
        detail=detail,
    )


def is_told(
    tx: Tx,
    *,
    type: str,
    user_id: str | None,
    address: str | None,
    subject: str,
    within_ms: int,
) -> bool:
    """Whether there is such an entry already, not older than that."""
    row = tx.one(
        """
        SELECT 1 AS told FROM security_log
        WHERE at > {now} - :within_ms AND type = :type AND subject = :subject
        AND coalesce(user_id, '') = :user_id AND coalesce(address, '') = :address LIMIT 1""",
        type=type,
        user_id=user_id or "",
        address=address or "",
        subject=subject,
        within_ms=within_ms,
    )
    return row is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`detail`: JSON."""

    id: str
    at: int
    type: str
    user_id: str | None
    user_name: str | None
    address: str | None
    request_id: str | None
    subject: str
    detail: str


def page(
    tx: Tx,
    *,
    type: str | None = None,
    user_id: str | None = None,
    before: str | None = None,
    limit: int,
) -> list[Entry]:
    """Newest first."""
    given = {"type": type, "user_id": user_id, "before": before}
    asked = {name: value for name, value in given.items() if value is not None}
    conditions = {
        "type": "type = :type",
        "user_id": "user_id = :user_id",
        "before": "id < :before",
    }
    where = " AND ".join(conditions[name] for name in asked) or "1 = 1"
    rows = tx.all(
        f"SELECT * FROM security_log WHERE {where} ORDER BY id DESC LIMIT :limit",
        limit=limit,
        **asked,
    )
    return [from_row(Entry, row) for row in rows]


def forget(tx: Tx, *, keep_ms: int) -> int:
    """Some of what is older than that; how many it were."""
    rows = tx.all(
        """
        DELETE FROM security_log WHERE id IN (SELECT id FROM security_log
            WHERE at < {now} - :keep_ms ORDER BY at LIMIT :most) RETURNING id""",
        keep_ms=keep_ms,
        most=PRUNED_AT_ONCE,
    )
    return len(rows)
