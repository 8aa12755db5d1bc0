"""What a job makes has a slot of its own in its media, and takes the place of nothing else.

A version of a kind of one's own took the place of what is watched. What was replaced and is still
there is shown again: the newest of each slot that has none.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

SLOT = """
UPDATE versions SET slot = (SELECT CASE kind WHEN 'transcribe' THEN 'transcript' ELSE kind END
    FROM jobs WHERE jobs.id = versions.job_id)
WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.id = versions.job_id
    AND kind NOT IN ('transcode', 'trim', 'composite'))"""

NEWEST = """
UPDATE versions SET state = 'current', retired_at = NULL
WHERE state = 'retired' AND id = (SELECT max(other.id) FROM versions AS other
    WHERE other.media_id = versions.media_id AND other.slot = versions.slot
    AND other.state IN ('current', 'retired'))
AND EXISTS (SELECT 1 FROM media WHERE media.id = versions.media_id AND purge_started_at IS NULL)
AND NOT EXISTS (SELECT 1 FROM versions AS other WHERE other.media_id = versions.media_id
    AND other.slot = versions.slot AND other.state = 'current')
AND NOT EXISTS (SELECT 1 FROM jobs WHERE dedupe_key = 'purge:' || versions.id
    AND jobs.state IN ('blocked', 'queued', 'processing'))"""

POINTER = """
UPDATE media SET current_version_id = (SELECT id FROM versions
    WHERE versions.media_id = media.id AND state = 'current' AND slot = 'watch')
WHERE EXISTS (SELECT 1 FROM versions
    WHERE versions.id = current_version_id AND slot <> 'watch')"""


def upgrade() -> None:
    op.execute("DROP INDEX versions_current")
    op.execute("ALTER TABLE versions ADD COLUMN slot text NOT NULL DEFAULT 'watch'")
    for statement in (SLOT, NEWEST, POINTER):
        op.execute(statement)
    op.execute(
        "CREATE UNIQUE INDEX versions_current ON versions (media_id, slot) WHERE state = 'current'"
    )
