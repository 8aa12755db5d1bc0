"""Indexes for lists that people order and look back on: media by more than their age, and jobs by
when they ended."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

# The words of an expression must be those of the statements that are to use it.
MEDIA_ORDERS = {
    "title": "substr(title_folded, 1, 100)",
    "length": "coalesce(duration, -1)",
    "size": "size_bytes",
}
ENDED = """
CREATE INDEX jobs_ended ON jobs (coalesce(completed_at, failed_at, canceled_at))
  WHERE state IN ('completed','failed','canceled')"""


def upgrade() -> None:
    for name, key in MEDIA_ORDERS.items():
        where = "WHERE deleted_at IS NULL"
        op.execute(f"CREATE INDEX media_by_{name} ON media ({key}, id) {where}")
        op.execute(f"CREATE INDEX media_of_user_by_{name} ON media (user_id, {key}, id) {where}")
    op.execute(ENDED)
