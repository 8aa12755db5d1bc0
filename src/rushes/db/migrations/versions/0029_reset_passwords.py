"""Until when a session that a link has opened may set a password without the old one."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
change = "expansion"


def upgrade() -> None:
    op.execute("ALTER TABLE sessions ADD COLUMN reset_until bigint")
