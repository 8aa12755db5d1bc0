"""Words for spelling are kept under their pieces, a tenth of the keys they had, compounds under
what is in them, and PostgreSQL's index takes many moments at once.

Words are learned again when the server indexes all moments in the background, as after 0018.
"""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"

# A moment has some sixty lexemes. Sorted together with those of others they cost half; a search
# reads what is not sorted yet, so that it must be little (measured: 64 kB save a quarter only).
SORTED_TOGETHER = "fastupdate = on, gin_pending_list_limit = 256"


def upgrade() -> None:
    op.execute("DELETE FROM spellings")
    op.execute("UPDATE moments SET following = NULL")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX moment_index_lexemes SET ({SORTED_TOGETHER})")
