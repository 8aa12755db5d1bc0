"""What people put a library in order with: tags, collections, descriptions, the date recorded,
where they stopped watching, and filters that they keep; and where each media came from."""

from __future__ import annotations

from alembic import op

from rushes.db.migrations import online

revision = "0031"
down_revision = "0030"
change = "expansion"

TABLES = (
    # A tag or a collection: the owner's name for some of the owner's media.
    """
CREATE TABLE IF NOT EXISTS labels (
  id text PRIMARY KEY,
  user_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('tag','collection')),
  name text NOT NULL,
  name_folded text NOT NULL,
  created_at bigint NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS labeled (
  label_id text NOT NULL REFERENCES labels (id),
  media_id text NOT NULL,
  PRIMARY KEY (label_id, media_id)
)""",
    """
CREATE TABLE IF NOT EXISTS watch_positions (
  user_id text NOT NULL,
  media_id text NOT NULL,
  seconds double precision NOT NULL,
  finished integer NOT NULL,
  updated_at bigint NOT NULL,
  PRIMARY KEY (user_id, media_id)
)""",
    """
CREATE TABLE IF NOT EXISTS saved_filters (
  id text PRIMARY KEY,
  user_id text NOT NULL,
  name text NOT NULL,
  name_folded text NOT NULL,
  filter text NOT NULL,
  created_at bigint NOT NULL
)""",
)
COLUMNS = {
    "description": "text",
    "recorded_at": "bigint",
    "origin": "text NOT NULL DEFAULT 'upload'",
}
SMALL_INDEXES = {
    "labels_by_name": "labels (user_id, kind, name_folded)",
    "saved_filters_by_name": "saved_filters (user_id, name_folded)",
}
INDEXES = {
    "labeled_of_media": "labeled (media_id)",
    "watch_positions_of_media": "watch_positions (media_id)",
    "watch_positions_recent": "watch_positions (user_id, updated_at) WHERE finished = 0",
    # The words of an expression must be those of the statements that are to use it.
    "media_by_recorded": "media (coalesce(recorded_at, created_at), id) WHERE deleted_at IS NULL",
    "media_of_user_by_recorded": "media (user_id, coalesce(recorded_at, created_at), id)"
    " WHERE deleted_at IS NULL",
    # Those of programs may be a hundred thousand between two of people.
    "media_of_people": "media (id) WHERE deleted_at IS NULL AND origin <> 'api'",
    "media_of_people_by_user": "media (user_id, id) WHERE deleted_at IS NULL AND origin <> 'api'",
    "media_by_api": "media (user_id, id) WHERE deleted_at IS NULL AND origin = 'api'",
}


def upgrade() -> None:
    for table in TABLES:
        op.execute(table)
    _add_columns()
    for name, on in SMALL_INDEXES.items():
        op.execute(f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {on}")
    for name, on in INDEXES.items():
        online.create_index(name, on)


def _add_columns() -> None:
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for name, kind in COLUMNS.items():
        if is_postgres:
            op.execute(f"ALTER TABLE media ADD COLUMN IF NOT EXISTS {name} {kind}")
        else:
            op.execute(f"ALTER TABLE media ADD COLUMN {name} {kind}")
