"""What attempts worked with, how often they were lost; slugs; profiles of transcriptions.

A job knew its engine alone, and the last one only, so nobody could say what a failed try had used.
Incidents are counted as the ends of jobs are, when their events get their positions.
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"

INCIDENT_COUNTS = """
CREATE TABLE incident_counts (
  type text NOT NULL,
  kind text NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (type, kind)
)"""

TRANSCRIPTION_PROFILES = """
CREATE TABLE transcription_profiles (
  name text PRIMARY KEY,
  settings text NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
)"""


def upgrade() -> None:
    op.execute("ALTER TABLE jobs ADD COLUMN engine_model text")
    op.execute("ALTER TABLE attempts ADD COLUMN engine_id text")
    op.execute("ALTER TABLE attempts ADD COLUMN engine_model text")
    op.execute(INCIDENT_COUNTS)
    op.execute(TRANSCRIPTION_PROFILES)
    op.execute("CREATE INDEX media_by_slug ON media (slug)")
