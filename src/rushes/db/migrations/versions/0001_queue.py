"""Media and their versions, jobs, attempts, workers, events and the queue's few controls."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

TABLES = """
CREATE TABLE media (
  id text PRIMARY KEY,
  user_id text NOT NULL,
  title text NOT NULL,
  created_at bigint NOT NULL,
  deleted_at bigint,
  current_version_id text
);

CREATE TABLE versions (
  id text PRIMARY KEY,
  media_id text NOT NULL REFERENCES media(id),
  job_id text NOT NULL,
  claim_id text NOT NULL UNIQUE,
  state text NOT NULL CHECK (state IN ('building','current','retired','abandoned','purged')),
  created_at bigint NOT NULL,
  published_at bigint,
  retired_at bigint
);
CREATE UNIQUE INDEX versions_current ON versions (media_id) WHERE state = 'current';

CREATE TABLE jobs (
  id text PRIMARY KEY,
  kind text NOT NULL,
  media_id text REFERENCES media(id),
  user_id text NOT NULL,
  state text NOT NULL
    CHECK (state IN ('blocked','queued','processing','completed','failed','canceled')),
  priority smallint NOT NULL CHECK (priority IN (1, 2, 3)),
  lane text NOT NULL,
  args text NOT NULL,
  needs text NOT NULL,
  dedupe_key text,
  parent_id text REFERENCES jobs(id),
  retry_of text REFERENCES jobs(id),
  created_at bigint NOT NULL,
  queued_at bigint,
  run_at bigint NOT NULL,
  started_at bigint,
  completed_at bigint,
  failed_at bigint,
  canceled_at bigint,
  progress double precision NOT NULL DEFAULT 0 CHECK (progress >= 0 AND progress <= 1),
  stage text,
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL CHECK (max_attempts >= 1),
  claims integer NOT NULL DEFAULT 0,
  losses integer NOT NULL DEFAULT 0,
  claim_id text,
  claim_epoch integer NOT NULL DEFAULT 0,
  claimed_by text,
  claimed_at bigint,
  claim_expires_at bigint,
  timeout_ms bigint,
  deadline_at bigint,
  cancel_requested_at bigint,
  checkpoint text,
  result text,
  engine_id text,
  processed_by_worker_id text,
  processed_by_worker_name text,
  error_code text,
  last_error text,
  CONSTRAINT attempts_within_limit CHECK (attempt >= 0 AND attempt <= max_attempts),
  CONSTRAINT queued_is_claimable CHECK (state <> 'queued' OR attempt < max_attempts),
  CONSTRAINT queued_has_its_place CHECK (state IN ('blocked','canceled') OR queued_at IS NOT NULL),
  CONSTRAINT processing_is_claimed CHECK (
    CASE WHEN state = 'processing'
    THEN claim_id IS NOT NULL AND claimed_by IS NOT NULL AND claimed_at IS NOT NULL
      AND claim_expires_at IS NOT NULL AND deadline_at IS NOT NULL
    ELSE claim_id IS NULL AND claimed_by IS NULL AND claimed_at IS NULL
      AND claim_expires_at IS NULL AND deadline_at IS NULL END),
  CONSTRAINT ended_has_a_time CHECK (
    (state = 'completed') = (completed_at IS NOT NULL)
    AND (state = 'failed') = (failed_at IS NOT NULL)
    AND (state = 'canceled') = (canceled_at IS NOT NULL))
);
CREATE INDEX jobs_queued ON jobs (lane, queued_at, id) WHERE state = 'queued';
CREATE INDEX jobs_queued_by_user ON jobs (lane, user_id, queued_at, id) WHERE state = 'queued';
CREATE INDEX jobs_processing ON jobs (id) WHERE state = 'processing';
CREATE INDEX jobs_blocked ON jobs (parent_id) WHERE state = 'blocked';
CREATE UNIQUE INDEX jobs_live_dedupe_key ON jobs (dedupe_key)
  WHERE dedupe_key IS NOT NULL AND state IN ('blocked','queued','processing');
CREATE UNIQUE INDEX jobs_live_retry ON jobs (retry_of)
  WHERE retry_of IS NOT NULL AND state IN ('blocked','queued','processing');
CREATE INDEX jobs_of_media ON jobs (media_id) WHERE media_id IS NOT NULL;

CREATE TABLE attempts (
  job_id text NOT NULL,
  epoch integer NOT NULL,
  number integer NOT NULL,
  claim_id text NOT NULL UNIQUE,
  worker_id text NOT NULL,
  worker_name text NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  outcome text CHECK (outcome IN
    ('succeeded','failed','lost','stalled','canceled','released','deferred')),
  job_state text,
  error_code text,
  error text,
  PRIMARY KEY (job_id, epoch),
  CONSTRAINT closed_whole CHECK (
    (ended_at IS NULL) = (outcome IS NULL) AND (job_state IS NULL) = (outcome IS NULL))
){room_to_update};

CREATE TABLE workers (
  id text PRIMARY KEY,
  name text NOT NULL,
  state text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled','draining','disabled')),
  state_changed_at bigint,
  kinds text NOT NULL,
  capabilities text NOT NULL,
  metadata text NOT NULL,
  registered_at bigint NOT NULL,
  last_seen_at bigint
);

CREATE TABLE turns (user_id text PRIMARY KEY, turn bigint NOT NULL);

CREATE TABLE pauses (kind text PRIMARY KEY, paused_at bigint NOT NULL);

CREATE TABLE service_beat (
  id integer PRIMARY KEY CHECK (id = 1),
  beat_at bigint NOT NULL,
  grace_until bigint NOT NULL
);
INSERT INTO service_beat (id, beat_at, grace_until) VALUES (1, 0, 0);

CREATE TABLE events (
  seq {sequence},
  pos bigint,
  at bigint NOT NULL,
  type text NOT NULL,
  media_id text,
  job_id text,
  worker_id text,
  user_id text,
  state text,
  attempt integer,
  epoch integer,
  progress double precision,
  stage text,
  error_code text,
  data text
);
CREATE UNIQUE INDEX events_by_position ON events (pos) WHERE pos IS NOT NULL;
CREATE INDEX events_without_position ON events (seq) WHERE pos IS NULL;

CREATE TABLE event_head (
  id integer PRIMARY KEY CHECK (id = 1),
  pos bigint NOT NULL,
  pruned_pos bigint NOT NULL,
  pruned_before bigint NOT NULL
);
INSERT INTO event_head (id, pos, pruned_pos, pruned_before) VALUES (1, 0, 0, 0);
"""

# statement_timestamp() stands still within a statement but not within a transaction.
POSTGRES_CLOCK = """
CREATE FUNCTION rushes_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
  'SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000 AS bigint)'
"""


# Room on each page lets PostgreSQL close an attempt without touching its indexes.
POSTGRES = {
    "sequence": "bigint GENERATED BY DEFAULT AS IDENTITY",
    "room_to_update": " WITH (fillfactor = 60)",
}
SQLITE = {"sequence": "integer PRIMARY KEY", "room_to_update": ""}


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    for statement in TABLES.format(**(POSTGRES if postgres else SQLITE)).split(";\n"):
        if statement.strip():
            op.execute(statement)
    if postgres:
        op.execute(POSTGRES_CLOCK)
