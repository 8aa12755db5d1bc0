"""Counts of live and of failed jobs that are kept, and what it takes to forget old jobs.

Health, metrics and the figures of the queue read every live job and every failed one. Jobs, their
attempts and their logs were never deleted.
"""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"

LIVE_COUNTS = """
CREATE TABLE live_counts (
  user_id text NOT NULL,
  kind text NOT NULL,
  state text NOT NULL CHECK (state IN ('blocked','queued','processing')),
  count bigint NOT NULL,
  PRIMARY KEY (user_id, kind, state)
)"""

FAILURE_COUNTS = """
CREATE TABLE failure_counts (
  user_id text NOT NULL,
  kind text NOT NULL,
  error_code text NOT NULL,
  count bigint NOT NULL,
  last_failed_at bigint NOT NULL,
  last_job_id text NOT NULL,
  PRIMARY KEY (user_id, kind, error_code)
)"""

COLUMNS = {
    # What a job was before an event. A server from before leaves both out: see `recount_due`.
    "events": ("job_kind text", "job_was text"),
    # Up to which position live and failed jobs are counted; and, unless it is 0, that they have to
    # be counted again, which the first server does after its start.
    "event_head": (
        "live_pos bigint NOT NULL DEFAULT 0",
        "recount_due bigint NOT NULL DEFAULT 1",
    ),
    "job_counts": ("pruned bigint NOT NULL DEFAULT 0",),
}

INDEXES = (
    "CREATE INDEX job_counts_of_user ON job_counts (user_id)",
    # People look for these first.
    "CREATE INDEX jobs_failed ON jobs (id) WHERE state = 'failed'",
    # Whoever deletes a job has to know who refers to it.
    "CREATE INDEX jobs_children ON jobs (parent_id) WHERE parent_id IS NOT NULL",
    "CREATE INDEX jobs_retries ON jobs (retry_of) WHERE retry_of IS NOT NULL",
)

# By default a table is vacuumed when a fifth of it is dead, which is late for a large one; the
# small ones are written all the time.
AUTOVACUUM = {
    "jobs": "autovacuum_vacuum_scale_factor = 0.02",
    "attempts": "autovacuum_vacuum_scale_factor = 0.02",
    "job_logs": "autovacuum_vacuum_scale_factor = 0.02",
    "events": "autovacuum_vacuum_scale_factor = 0.02",
    "job_counts": "fillfactor = 50, autovacuum_vacuum_threshold = 500",
    "live_counts": "fillfactor = 50, autovacuum_vacuum_threshold = 500",
    "event_head": "fillfactor = 50, autovacuum_vacuum_threshold = 500",
}


def upgrade() -> None:
    op.execute(LIVE_COUNTS)
    op.execute(FAILURE_COUNTS)
    for table, columns in COLUMNS.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    for index in INDEXES:
        op.execute(index)
    op.execute("UPDATE event_head SET recount_due = 0 WHERE NOT EXISTS (SELECT 1 FROM jobs)")
    if op.get_bind().dialect.name == "postgresql":
        for table, options in AUTOVACUUM.items():
            op.execute(f"ALTER TABLE {table} SET ({options})")
