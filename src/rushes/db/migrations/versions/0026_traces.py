"""The trace that a job belongs to, so that whoever runs it can go on with it.

A job is run by another process than the one that was asked for it, and often much later: what one
request has led to could not be told.
"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
change = "expansion"


def upgrade() -> None:
    # As W3C's `traceparent` has it. A server from before writes none.
    op.execute("ALTER TABLE jobs ADD COLUMN trace text")
