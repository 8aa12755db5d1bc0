"""The trash. What is deleted keeps its current version until its purge has begun; the mark of that
beginning is set once, before the first byte goes, and rules out a restore."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

MARK = """
ALTER TABLE media ADD COLUMN purge_started_at bigint
  CHECK (purge_started_at IS NULL OR deleted_at IS NOT NULL)"""
TRASH = """
CREATE INDEX media_trashed ON media (user_id, id)
  WHERE deleted_at IS NOT NULL AND purge_started_at IS NULL"""

# So far a deleted media lost its version at once and its bytes a day later. Whatever of it may be
# gone already stays gone; all else is in the trash from now on, with the version it had.
_PURGING = """EXISTS (SELECT 1 FROM jobs WHERE jobs.dedupe_key = 'purge:' || {id}
    AND jobs.state IN ('blocked','queued','processing'))"""
BEGUN = f"""
UPDATE media SET purge_started_at = deleted_at WHERE deleted_at IS NOT NULL AND (
  purged_at IS NOT NULL OR {_PURGING.format(id="media.id")}
  OR EXISTS (SELECT 1 FROM versions WHERE versions.media_id = media.id
    AND versions.retired_at >= media.deleted_at
    AND (versions.state = 'purged' OR {_PURGING.format(id="versions.id")})))"""
VERSIONS = """
UPDATE versions SET state = 'current', retired_at = NULL WHERE state = 'retired' AND id = (
  SELECT last.id FROM versions AS last JOIN media ON media.id = last.media_id
  WHERE last.media_id = versions.media_id AND last.state = 'retired'
  AND media.deleted_at IS NOT NULL AND media.purge_started_at IS NULL
  AND last.retired_at >= media.deleted_at ORDER BY last.published_at DESC, last.id DESC LIMIT 1)"""
POINTERS = """
UPDATE media SET current_version_id = (
  SELECT id FROM versions WHERE versions.media_id = media.id AND versions.state = 'current')
WHERE deleted_at IS NOT NULL AND purge_started_at IS NULL"""


def upgrade() -> None:
    for statement in (MARK, BEGUN, VERSIONS, POINTERS, TRASH):
        op.execute(statement)
