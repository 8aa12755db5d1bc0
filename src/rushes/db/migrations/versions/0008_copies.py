"""Files that were of use only until their version was whole go, and versions say what they take."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

KEPT = """(SELECT coalesce(sum(artifacts.size_bytes), 0) FROM artifacts
  WHERE version_id = versions.id AND name LIKE '%/%' AND name"""


def upgrade() -> None:
    op.execute("ALTER TABLE artifacts ADD COLUMN retired_at bigint")
    op.execute(
        "CREATE INDEX artifacts_retired ON artifacts (retired_at) WHERE retired_at IS NOT NULL"
    )
    op.execute("ALTER TABLE versions ADD COLUMN copy_bytes bigint")
    op.execute("ALTER TABLE versions ADD COLUMN rungs_bytes bigint")
    op.execute(
        f"UPDATE versions SET copy_bytes = {KEPT} LIKE 'original/%'),"
        f" rungs_bytes = {KEPT} NOT LIKE 'original/%') WHERE state IN ('current','retired')"
    )
