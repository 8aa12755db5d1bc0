"""Settings that admins change while the server runs; below the environment and the file."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
change = "expansion"

# `value`: JSON; without one the default holds, and the row stays for its version's sake.
TABLE = """
CREATE TABLE settings (
  name text PRIMARY KEY,
  value text,
  version bigint NOT NULL,
  changed_at bigint NOT NULL,
  changed_by text NOT NULL
)"""


def upgrade() -> None:
    op.execute(TABLE)
