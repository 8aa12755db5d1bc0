"""Who has got in, from where, and what was changed about who may: for admins to read."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

TABLES = """
CREATE TABLE known_addresses (
  user_id text NOT NULL REFERENCES users(id),
  network text NOT NULL,
  seen_at bigint NOT NULL,
  PRIMARY KEY (user_id, network)
);
CREATE INDEX known_addresses_by_age ON known_addresses (seen_at);

CREATE TABLE security_log (
  id text PRIMARY KEY,
  at bigint NOT NULL,
  type text NOT NULL,
  user_id text,
  user_name text,
  address text,
  request_id text,
  subject text NOT NULL DEFAULT '',
  detail text NOT NULL DEFAULT '{}'
);
CREATE INDEX security_log_by_age ON security_log (at);
CREATE INDEX security_log_by_type ON security_log (type, id);
CREATE INDEX security_log_of_user ON security_log (user_id, id);
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, TABLES.split(";"))):
        op.execute(statement)
