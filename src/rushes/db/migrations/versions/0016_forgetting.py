"""Media that were only taken in to answer a request, and until when they are waited for."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"

DUE = """
CREATE INDEX media_to_forget ON media (forget_at)
  WHERE forget_at IS NOT NULL AND deleted_at IS NULL"""
# The only events that tell what was said.
WORDS = """
CREATE INDEX events_with_words ON events (job_id)
  WHERE type = 'transcription.passage' AND data IS NOT NULL"""


def upgrade() -> None:
    op.execute("ALTER TABLE media ADD COLUMN forget_at bigint")
    op.execute(DUE)
    op.execute(WORDS)
