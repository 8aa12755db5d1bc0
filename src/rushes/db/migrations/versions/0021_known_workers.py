"""When something about a worker last changed, for servers that remember it."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.execute("ALTER TABLE workers ADD COLUMN changed_at bigint")
    op.execute("CREATE INDEX workers_changed ON workers (changed_at)")
