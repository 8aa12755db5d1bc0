"""Counts of the jobs that ended in each period of time, which the history of the queue is made of.

Whoever asked for it had every job read that ended in the last days.
"""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
change = "expansion"

# `width`: how long the period that begins `at` is. `everybody`: 1 for all users together, without
# a user_id; 0 for one.
TABLE = """
CREATE TABLE ended_counts (
  width bigint NOT NULL,
  everybody integer NOT NULL,
  user_id text NOT NULL,
  at bigint NOT NULL,
  kind text NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  canceled bigint NOT NULL,
  waited bigint NOT NULL,
  wait_ms bigint NOT NULL,
  ran bigint NOT NULL,
  run_ms bigint NOT NULL,
  PRIMARY KEY (width, everybody, user_id, at, kind)
)"""

COLUMNS = (
    # Up to which position ends of jobs were added. Servers from before do not move it.
    "history_pos bigint NOT NULL DEFAULT 0",
    # All that ended since then is in the table; what ended before is yet to be filled in.
    "history_since bigint NOT NULL DEFAULT 9000000000000000000",
)


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("CREATE INDEX ended_counts_oldest ON ended_counts (width, at)")
    for column in COLUMNS:
        op.execute(f"ALTER TABLE event_head ADD COLUMN {column}")
    op.execute("UPDATE event_head SET history_pos = pos")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE ended_counts SET (fillfactor = 50, autovacuum_vacuum_threshold = 500)"
        )
