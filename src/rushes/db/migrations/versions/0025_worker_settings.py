"""How a worker is to work: what it brings itself, what an admin says, and what it tells of it."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
change = "expansion"


def upgrade() -> None:
    for column in (
        # JSON of WorkerSettings: said by an admin, and by the worker itself.
        "settings text",
        "own_settings text",
        # Which version of the protocol it speaks; none: the first.
        "protocol text",
        # One word for each job that may run at once: a kind, or *; none: one job.
        "slots text",
        # Until when it takes no work because of its schedule.
        "resting_until bigint",
        # The kinds that it does not take now, and why; what else it tells of itself.
        "declines text",
        "standing text",
    ):
        op.execute(f"ALTER TABLE workers ADD COLUMN {column}")
