"""Two more reasons for a revision of a transcript: corrections that were merged into a newer one,
and speakers that were told apart later."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"

REASONS = "reason IN ('edited','reverted','trimmed','merged','diarized')"
# SQLite cannot change a constraint.
REBUILT = (
    f"""
CREATE TABLE transcript_revisions_new (
  transcript_id text NOT NULL REFERENCES transcripts(id),
  number integer NOT NULL CHECK (number > 0),
  user_id text NOT NULL,
  created_at bigint NOT NULL,
  reason text NOT NULL CHECK ({REASONS}),
  changes text NOT NULL,
  PRIMARY KEY (transcript_id, number)
)""",
    "INSERT INTO transcript_revisions_new"
    " SELECT transcript_id, number, user_id, created_at, reason, changes FROM transcript_revisions",
    "DROP TABLE transcript_revisions",
    "ALTER TABLE transcript_revisions_new RENAME TO transcript_revisions",
)
ALTERED = (
    "ALTER TABLE transcript_revisions DROP CONSTRAINT transcript_revisions_reason_check",
    "ALTER TABLE transcript_revisions ADD CONSTRAINT transcript_revisions_reason_check"
    f" CHECK ({REASONS})",
)


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    for statement in REBUILT if dialect == "sqlite" else ALTERED:
        op.execute(statement)
