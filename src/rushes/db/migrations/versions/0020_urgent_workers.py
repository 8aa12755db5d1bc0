"""Whether a worker is kept for what is urgent: it was read off the text of its metadata.

Such workers are the server's own, and say so again each time it starts.
"""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute("ALTER TABLE workers ADD COLUMN for_urgent integer NOT NULL DEFAULT 0")
