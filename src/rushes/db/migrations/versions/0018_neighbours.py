"""What search knows of a moment: the words that are said next.

Words were found together only inside one segment, and captions break in mid sentence. Moments that
were there before have no `following` until the server has indexed them again, a page at a time.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute("ALTER TABLE moments ADD COLUMN following text")
    op.execute(
        "CREATE INDEX moments_without_following ON moments (media_id) WHERE following IS NULL"
    )
