"""What transcoding adds: divided jobs, versions that outlive an attempt, edits and profiles."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

COLUMNS = {
    "jobs": "divided_at bigint, divided_progress double precision, division integer",
    "artifacts": "claim_id text, seconds double precision",
    "media": "edit text",
}
# `division` is set on a part of a divided job: the epoch of the claim that divided its parent.
CHANGES = """
UPDATE artifacts SET claim_id = (SELECT claim_id FROM versions WHERE versions.id = version_id);
UPDATE versions SET state = 'abandoned', retired_at = created_at
  WHERE state = 'building' AND EXISTS (SELECT 1 FROM versions AS later
    WHERE later.job_id = versions.job_id AND later.state = 'building' AND later.id > versions.id);
CREATE UNIQUE INDEX versions_building_of_job ON versions (job_id) WHERE state = 'building';
CREATE INDEX versions_of_job ON versions (job_id);
CREATE INDEX jobs_parts ON jobs (parent_id, division) WHERE division IS NOT NULL;
CREATE INDEX jobs_live_parts ON jobs (id)
  WHERE division IS NOT NULL AND state IN ('blocked','queued','processing');
CREATE INDEX jobs_divided ON jobs (id) WHERE divided_at IS NOT NULL;
CREATE TABLE profiles (
  name text PRIMARY KEY,
  settings text NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
)
"""

OUTCOMES = """outcome IN
    ('succeeded','failed','lost','stalled','canceled','released','deferred','divided')"""
POSTGRES_OUTCOMES = f"""
ALTER TABLE attempts DROP CONSTRAINT attempts_outcome_check,
  ADD CONSTRAINT attempts_outcome_check CHECK ({OUTCOMES})
"""
# SQLite changes a table's constraints only by making the table anew.
ATTEMPTS = "job_id, epoch, number, claim_id, worker_id, worker_name, started_at, ended_at, outcome"
SQLITE_OUTCOMES = f"""
CREATE TABLE attempts_anew (
  job_id text NOT NULL,
  epoch integer NOT NULL,
  number integer NOT NULL,
  claim_id text NOT NULL UNIQUE,
  worker_id text NOT NULL,
  worker_name text NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  outcome text CHECK ({OUTCOMES}),
  job_state text,
  error_code text,
  error text,
  PRIMARY KEY (job_id, epoch),
  CONSTRAINT closed_whole CHECK (
    (ended_at IS NULL) = (outcome IS NULL) AND (job_state IS NULL) = (outcome IS NULL))
);
INSERT INTO attempts_anew ({ATTEMPTS}, job_state, error_code, error)
  SELECT {ATTEMPTS}, job_state, error_code, error FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempts_anew RENAME TO attempts
"""


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    for table, columns in COLUMNS.items():
        for column in columns.split(","):
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column.strip()}")
    outcomes = POSTGRES_OUTCOMES if postgres else SQLITE_OUTCOMES
    for statement in (outcomes.strip() + ";\n" + CHANGES).split(";\n"):
        op.execute(statement)
