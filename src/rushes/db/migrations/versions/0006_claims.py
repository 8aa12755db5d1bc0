"""What the sweep has to know of a claim to tell a loss that is the job's fault from one that is
not, and which process of a worker holds it."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

COLUMNS = {
    # When the worker last spoke of this claim, and when the job last got on under it.
    "jobs": ("heard_at bigint", "progressed_at bigint", "claim_boot text", "claim_request text"),
    # The process that said hello last, and when it did so first.
    "workers": ("boot_id text", "boot_at bigint"),
    # When the sweep last ran before the time that nobody was there to run it.
    "service_beat": ("away_since bigint NOT NULL DEFAULT 0",),
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
