"""When a worker last lost a job by its silence: until it is heard of again, it is not there."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("ALTER TABLE workers ADD COLUMN lost_at bigint")
