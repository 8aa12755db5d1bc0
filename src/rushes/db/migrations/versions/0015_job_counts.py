"""How many jobs have ended, and how long they took, counted as their events are numbered.

Whoever asked for the figures of the queue had every job there ever was read for it.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"

TABLE = """
CREATE TABLE job_counts (
  kind text NOT NULL,
  user_id text NOT NULL,
  state text NOT NULL CHECK (state IN ('completed','failed','canceled')),
  count bigint NOT NULL,
  waited bigint NOT NULL,
  wait_ms bigint NOT NULL,
  ran bigint NOT NULL,
  run_ms bigint NOT NULL,
  PRIMARY KEY (kind, user_id, state)
)"""

# Those whose end has no number yet are counted when it gets one.
COUNTED = """
INSERT INTO job_counts (kind, user_id, state, count, waited, wait_ms, ran, run_ms)
SELECT kind, user_id, state, count(*),
  count(started_at - queued_at), CAST(coalesce(sum(started_at - queued_at), 0) AS bigint),
  count(completed_at - started_at), CAST(coalesce(sum(completed_at - started_at), 0) AS bigint)
FROM jobs WHERE state IN ('completed','failed','canceled')
AND id NOT IN (SELECT job_id FROM events WHERE pos IS NULL AND job_id IS NOT NULL
  AND state IN ('completed','failed','canceled'))
GROUP BY kind, user_id, state"""


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("ALTER TABLE event_head ADD COLUMN counted_pos bigint NOT NULL DEFAULT 0")
    # Nobody gives positions meanwhile. A server from before, that does later, counts nothing: that
    # is made up for by whoever gives the next ones.
    op.execute("UPDATE event_head SET counted_pos = pos")
    op.execute(COUNTED)
