"""What is said of a share link beyond its token, which stays with its media.

A link without a row has neither end nor password, as those that servers from before make.
"""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
change = "expansion"

# `token`: the link that this is said of. A media that is shared anew has another, and begins anew.
TABLE = """
CREATE TABLE share_links (
  media_id text PRIMARY KEY,
  token text NOT NULL,
  expires_at bigint,
  password_hash text,
  allow_download integer NOT NULL DEFAULT 0 CHECK (allow_download IN (0, 1)),
  views bigint NOT NULL DEFAULT 0,
  last_viewed_at bigint
)"""


def upgrade() -> None:
    op.execute(TABLE)
