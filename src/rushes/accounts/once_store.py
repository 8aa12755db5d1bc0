"""The SQL of idempotency keys: what was answered to a request that may come again."""

from __future__ import annotations

from typing import Any

from rushes.db.database import Tx


def kept(tx: Tx, owner: str, key: str) -> dict[str, Any] | None:
    return tx.one(
        "SELECT fingerprint, body FROM idempotency_keys WHERE owner = :owner AND key = :key",
        owner=owner,
        key=key,
    )


def keep(tx: Tx, owner: str, key: str, fingerprint: str, body: str) -> bool:
    """False when the key is there already."""
    row = tx.one(
        """
        INSERT INTO idempotency_keys (owner, key, fingerprint, body, created_at)
        VALUES (:owner, :key, :fingerprint, :body, {now})
        ON CONFLICT (owner, key) DO NOTHING RETURNING key""",
        owner=owner,
        key=key,
        fingerprint=fingerprint,
        body=body,
    )
    return row is not None
