"""What the server adds: accounts, uploads, artifacts, job logs, worker keys, webhooks."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

COLUMNS = {
    "media": """slug text NOT NULL DEFAULT '', title_folded text NOT NULL DEFAULT '',
        kind text, file_name text NOT NULL DEFAULT '',
        content_type text, size_bytes bigint NOT NULL DEFAULT 0, sha256 text, source_key text,
        duration double precision, share_token text, updated_at bigint, purged_at bigint""",
    "versions": "renditions text, size_bytes bigint NOT NULL DEFAULT 0, purged_at bigint",
    "jobs": "detail text",
    "workers": "announced text",
}

TABLES = """
CREATE UNIQUE INDEX media_share_token ON media (share_token) WHERE share_token IS NOT NULL;
CREATE INDEX media_by_user ON media (user_id, id) WHERE deleted_at IS NULL;
CREATE INDEX media_sha256 ON media (sha256) WHERE sha256 IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX media_to_purge ON media (deleted_at)
  WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX media_by_source ON media (source_key) WHERE source_key IS NOT NULL;
CREATE INDEX versions_of_media ON versions (media_id);
CREATE INDEX versions_building ON versions (claim_id) WHERE state = 'building';
CREATE INDEX versions_to_purge ON versions (retired_at) WHERE state IN ('retired','abandoned');
CREATE INDEX jobs_by_user ON jobs (user_id, id);

CREATE TABLE artifacts (
  version_id text NOT NULL REFERENCES versions(id),
  name text NOT NULL,
  key text NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
  sha256 text NOT NULL,
  content_type text NOT NULL,
  recorded_at bigint NOT NULL,
  PRIMARY KEY (version_id, name)
);
CREATE INDEX artifacts_by_key ON artifacts (key);

CREATE TABLE uploads (
  id text PRIMARY KEY,
  user_id text NOT NULL,
  length_bytes bigint CHECK (length_bytes >= 0),
  offset_bytes bigint NOT NULL DEFAULT 0 CHECK (offset_bytes >= 0),
  metadata text NOT NULL,
  concat text CHECK (concat IN ('partial','final')),
  parts text,
  key text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  writer text,
  writer_until bigint,
  finished_at bigint,
  ended_at bigint,
  removed_at bigint,
  media_id text REFERENCES media(id),
  CONSTRAINT never_past_its_length CHECK (length_bytes IS NULL OR offset_bytes <= length_bytes)
);
CREATE INDEX uploads_open ON uploads (expires_at) WHERE media_id IS NULL AND ended_at IS NULL;
CREATE INDEX uploads_by_user ON uploads (user_id) WHERE media_id IS NULL AND ended_at IS NULL;
CREATE INDEX uploads_to_remove ON uploads (id) WHERE ended_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX uploads_by_key ON uploads (key);
CREATE INDEX uploads_closed ON uploads (coalesce(finished_at, ended_at));

CREATE TABLE upload_parts (
  upload_id text NOT NULL REFERENCES uploads(id),
  offset_bytes bigint NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes > 0),
  key text NOT NULL,
  PRIMARY KEY (upload_id, offset_bytes)
);

CREATE TABLE users (
  id text PRIMARY KEY,
  name text NOT NULL,
  role text NOT NULL CHECK (role IN ('admin','user')),
  password_hash text,
  quota_bytes bigint,
  created_at bigint NOT NULL,
  disabled_at bigint
);
CREATE UNIQUE INDEX users_by_name ON users (name);

CREATE TABLE sessions (
  id text PRIMARY KEY,
  hash text NOT NULL UNIQUE,
  user_id text NOT NULL REFERENCES users(id),
  label text NOT NULL,
  created_at bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);

CREATE TABLE tokens (
  id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users(id),
  name text NOT NULL,
  prefix text NOT NULL UNIQUE,
  hash text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  last_used_at bigint,
  revoked_at bigint
);
CREATE INDEX tokens_of_user ON tokens (user_id);

CREATE TABLE signin_links (
  hash text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users(id),
  expires_at bigint NOT NULL,
  used_at bigint
);

CREATE TABLE signin_failures (
  seq {sequence},
  subject text NOT NULL,
  at bigint NOT NULL
);
CREATE INDEX signin_failures_by_subject ON signin_failures (subject, at);

CREATE TABLE worker_keys (
  prefix text PRIMARY KEY,
  worker_id text NOT NULL REFERENCES workers(id),
  hash text NOT NULL,
  created_at bigint NOT NULL,
  last_used_at bigint,
  revoked_at bigint
);
CREATE INDEX worker_keys_of_worker ON worker_keys (worker_id);

CREATE TABLE invites (
  id text PRIMARY KEY,
  hash text NOT NULL UNIQUE,
  name text NOT NULL,
  created_by text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  used_at bigint,
  worker_id text
);

CREATE TABLE idempotency_keys (
  owner text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  body text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE job_logs (
  job_id text NOT NULL,
  number integer NOT NULL,
  epoch integer NOT NULL,
  at bigint NOT NULL,
  line text NOT NULL,
  PRIMARY KEY (job_id, number)
);

CREATE TABLE webhooks (
  id text PRIMARY KEY,
  user_id text NOT NULL,
  url text NOT NULL,
  secret text NOT NULL,
  old_secret text,
  rotated_at bigint,
  types text NOT NULL,
  created_at bigint NOT NULL,
  disabled_at bigint
);
CREATE INDEX webhooks_of_user ON webhooks (user_id);

CREATE TABLE deliveries (
  id text PRIMARY KEY,
  webhook_id text NOT NULL,
  type text NOT NULL,
  body text NOT NULL,
  job_id text,
  created_at bigint NOT NULL,
  tried_at bigint,
  tries integer NOT NULL DEFAULT 0,
  answer integer,
  error_code text,
  delivered_at bigint
);
CREATE INDEX deliveries_of_webhook ON deliveries (webhook_id, id);
CREATE INDEX deliveries_by_age ON deliveries (created_at);

CREATE TABLE webhook_head (id integer PRIMARY KEY CHECK (id = 1), pos bigint NOT NULL);
INSERT INTO webhook_head (id, pos) SELECT 1, pos FROM event_head;

CREATE TABLE alerts (
  type text PRIMARY KEY,
  sent_at bigint NOT NULL,
  held integer NOT NULL DEFAULT 0,
  held_since bigint,
  incidents text NOT NULL
)
"""

SEQUENCE = {
    "postgresql": "bigint GENERATED BY DEFAULT AS IDENTITY",
    "sqlite": "integer PRIMARY KEY",
}


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    for table, columns in COLUMNS.items():
        for column in columns.split(","):
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column.strip()}")
    for statement in TABLES.format(sequence=SEQUENCE[dialect]).split(";\n"):
        op.execute(statement)
