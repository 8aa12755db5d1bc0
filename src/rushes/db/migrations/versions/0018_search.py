"""What search knows of a moment: the words that are said next, and words that are nearly the same.

Words were found together only inside one segment, and captions break in mid sentence. Moments that
were there before have no `following` until the server has indexed them again, a page at a time;
their words are kept for spelling then, too. A word of a text that is gone is doubtful until
somebody has looked whether the user has it elsewhere.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


SPELLINGS = """
CREATE TABLE spellings (
  key text NOT NULL,
  user_id text NOT NULL,
  word text NOT NULL,
  PRIMARY KEY (key, user_id, word)
){without_rowid}"""

DOUBTFUL_WORDS = """
CREATE TABLE doubtful_words (
  user_id text NOT NULL,
  word text NOT NULL,
  PRIMARY KEY (user_id, word)
)"""


def upgrade() -> None:
    op.execute("ALTER TABLE moments ADD COLUMN following text")
    op.execute(
        "CREATE INDEX moments_without_following ON moments (media_id) WHERE following IS NULL"
    )
    # All of it is in the key; SQLite would keep it twice.
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(SPELLINGS.format(without_rowid=" WITHOUT ROWID" if is_sqlite else ""))
    op.execute(DOUBTFUL_WORDS)
