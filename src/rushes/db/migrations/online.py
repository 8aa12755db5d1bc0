"""What a migration does to tables that are large and in use: servers go on meanwhile."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from alembic import op

log = logging.getLogger("rushes.db")

# Left behind by a build that was interrupted.
INVALID = """
SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid"""


def create_index(name: str, on: str, *, unique: bool = False) -> None:
    """`on`: what follows ON, such as `jobs (kind) WHERE kind <> ''`.

    On PostgreSQL it is built outside a transaction, so what the migration has done before is
    committed already: it may be applied again from its start, and must bear that.
    """
    kind = "UNIQUE INDEX" if unique else "INDEX"
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"CREATE {kind} IF NOT EXISTS {name} ON {on}")
        return
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        limit = connection.scalar(sa.text("SHOW lock_timeout"))
        # It waits for all transactions that have begun before; nobody waits for it meanwhile.
        connection.execute(sa.text("SET lock_timeout = 0"))
        if connection.scalar(sa.text(INVALID), {"name": name}):
            connection.execute(sa.text(f"DROP INDEX CONCURRENTLY IF EXISTS {name}"))
        log.info("building the index %s", name)
        connection.execute(sa.text(f"CREATE {kind} CONCURRENTLY IF NOT EXISTS {name} ON {on}"))
        connection.execute(sa.text(f"SET lock_timeout = '{limit}'"))
