"""The kinds that a worker's key, and the invite it came by, are for; none: all that may leave the
server."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    for table in ("worker_keys", "invites"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN kinds text")
