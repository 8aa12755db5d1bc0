"""What is known of backups: when each was made, and what its verification has found."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
change = "expansion"

# `problems`: JSON, the first of them; `problem_count`: of all. Without `finished_at` it failed, or
# is still being made.
TABLE = """
CREATE TABLE IF NOT EXISTS backups (
  id text PRIMARY KEY,
  directory text NOT NULL,
  started_at bigint NOT NULL,
  finished_at bigint,
  failed_at bigint,
  verified_at bigint,
  result text CHECK (result IN ('good','bad')),
  media bigint NOT NULL DEFAULT 0,
  objects bigint NOT NULL DEFAULT 0,
  size_bytes bigint NOT NULL DEFAULT 0,
  new_objects bigint NOT NULL DEFAULT 0,
  new_bytes bigint NOT NULL DEFAULT 0,
  problem_count bigint NOT NULL DEFAULT 0,
  problems text NOT NULL DEFAULT '[]'
)"""


def upgrade() -> None:
    op.execute(TABLE)
