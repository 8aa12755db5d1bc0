"""Which engine and which model an attempt worked with.

A job knew its engine alone, and the last one only, so nobody could say what a failed try had used.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0015"


def upgrade() -> None:
    op.execute("ALTER TABLE jobs ADD COLUMN engine_model text")
    op.execute("ALTER TABLE attempts ADD COLUMN engine_id text")
    op.execute("ALTER TABLE attempts ADD COLUMN engine_model text")
