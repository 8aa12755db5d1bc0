"""How many jobs may run at once that have something in common: a user, a kind, or a key they name.

A server from before gives jobs no key of their own, and keeps to no limit.
"""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
change = "expansion"

LIMITS = """
CREATE TABLE limits (
  key text NOT NULL PRIMARY KEY,
  most bigint NOT NULL CHECK (most >= 1),
  changed_at bigint NOT NULL
)"""


def upgrade() -> None:
    op.execute(LIMITS)
    op.execute("ALTER TABLE jobs ADD COLUMN limit_key text")
