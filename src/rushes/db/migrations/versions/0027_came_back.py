"""An index of the queued jobs that may be older than where a trail begins (`jobs/trails.py`):
there they are found while dead rows are in the way in the other one.
"""

from __future__ import annotations

from alembic import op

from rushes.db.migrations import online

revision = "0027"
down_revision = "0026"
change = "expansion"


def upgrade() -> None:
    # SQLite leaves no dead rows.
    if op.get_bind().dialect.name == "postgresql":
        online.create_index(
            "jobs_came_back",
            "jobs (lane, queued_at, id) WHERE state = 'queued'"
            " AND (claims > 0 OR run_at > queued_at OR division IS NOT NULL)",
        )
