"""How migrations are applied while other servers go on using the database.

On SQLite all of them are one transaction. On PostgreSQL each is one, because locks on tables are
held until the end; whoever waits for a lock has everybody else wait behind it, so it waits for a
moment only, and tries again. Each writes down which servers may go on (`TABLE`).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rushes import errors
from rushes.db import revisions
from rushes.db.database import APPLICATION, Database

log = logging.getLogger("rushes.db")

FIRST = "0001"
# For each schema that the database has had, the oldest schema whose servers can use it.
TABLE = "schema_compatibility"
COLUMNS = "version_num text PRIMARY KEY, works_with text NOT NULL"
# Any constant will do; it keeps two servers that start together from migrating at once.
ADVISORY_LOCK = 7_402_215
LOOK_SECONDS = 0.2
# How long to wait for a table, in turn. PostgreSQL ends an autovacuum that is in somebody's way
# after a second, so now and then it is more than that.
LOCK_MS = (500, 500, 1500)
# Between two tries: claims that waited behind us go first.
PAUSE_SECONDS = (0.5, 1.5)
PATIENCE_SECONDS = 60.0

# Transactions of others that are older than what we wait for.
# Whoever was in the way has been so for as long as a lock was waited for.
LONG_TRANSACTIONS = """
SELECT pid, application_name, CAST(extract(epoch FROM now() - xact_start) AS bigint) AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND xact_start < now() - interval '400 milliseconds'
ORDER BY xact_start LIMIT 3"""

CONNECTED = """
SELECT substr(application_name, length(:prefix) + 1) AS revision, count(*) AS connections
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND application_name LIKE :prefix || '____'
GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Connected:
    """Servers, and other programs of ours, that were made for this schema."""

    revision: str
    connections: int


def connected(db: Database) -> list[Connected]:
    """Nothing is known of those on SQLite, nor of those from before the rule."""
    if db.dialect.name == "sqlite":
        return []
    with db.read() as tx:
        rows = tx.all(CONNECTED, prefix=APPLICATION)
    return [Connected(row["revision"], row["connections"]) for row in rows]


def in_the_way(
    pending: Sequence[revisions.Migration], servers: Sequence[Connected]
) -> list[Connected]:
    """Who could not go on after these migrations."""
    oldest = max((each.works_with for each in pending), default="")
    return [each for each in servers if each.revision < oldest]


@contextmanager
def alone(db: Database) -> Iterator[sa.Connection]:
    """The connection to run migrations on: of all servers, one at a time has it."""
    with db.renamed():
        if db.dialect.name == "sqlite":
            with db.engine.begin() as connection:
                yield connection
            return
        with db.engine.connect() as connection:
            try:
                _lock(connection)
                yield connection
            finally:
                # It goes away, and what was set and locked with it.
                connection.invalidate()


def run(
    db: Database,
    connection: sa.Connection,
    pending: Sequence[revisions.Migration],
    directory: Path,
) -> None:
    if db.dialect.name == "sqlite":
        _run(connection, pending, directory)
        return
    _refuse_old_servers(db, pending)
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    for lock_ms in cycle(LOCK_MS):
        try:
            _set(connection, lock_timeout=lock_ms, statement_timeout=0)
            _run(connection, pending, directory)
            return
        except sa.exc.DBAPIError as error:
            connection.rollback()
            if not _is_in_use(error):
                raise
            who = _who_is_in_the_way(connection)
            if time.monotonic() >= give_up_at:
                raise errors.SchemaInUse(
                    f"the schema cannot be changed: a table is in use{who}. Servers go on"
                    " meanwhile; end that transaction, or run 'rushes migrate' later"
                ) from error
        log.warning("the schema cannot be changed yet: a table is in use%s; trying again", who)
        time.sleep(random.uniform(*PAUSE_SECONDS))


def _lock(connection: sa.Connection) -> None:
    """Asks again and again. Who waits inside a statement is waited for by whoever builds an index
    concurrently, which is the one that has the lock."""
    said = False
    asked = sa.text(f"SELECT pg_try_advisory_lock({ADVISORY_LOCK})")
    while not connection.scalar(asked):
        connection.rollback()
        if not said:
            log.info("another server is changing the schema: waiting until it has")
        said = True
        time.sleep(LOOK_SECONDS)
    connection.commit()


def _run(
    connection: sa.Connection, pending: Sequence[revisions.Migration], directory: Path
) -> None:
    from alembic import command
    from alembic.config import Config

    works_with = {each.revision: each.works_with for each in pending}
    # A new database gets them all at once, and nobody has to know of each.
    told = {pending[-1].revision} if pending[0].revision == FIRST else set(works_with)

    def applied(step: Any, **_: Any) -> None:
        """In the transaction of the migration."""
        said = {"revision": step.up_revision_id, "oldest": works_with[step.up_revision_id]}
        connection.execute(sa.text(f"DELETE FROM {TABLE} WHERE version_num = :revision"), said)
        connection.execute(sa.text(f"INSERT INTO {TABLE} VALUES (:revision, :oldest)"), said)
        if step.up_revision_id in told:
            log.info("the database has schema %s now", step.up_revision_id)

    connection.execute(sa.text(f"CREATE TABLE IF NOT EXISTS {TABLE} ({COLUMNS})"))
    if connection.dialect.name == "postgresql":
        connection.commit()
    config = Config()
    config.set_main_option("script_location", str(directory))
    config.attributes.update(connection=connection, applied=applied)
    try:
        command.upgrade(config, pending[-1].revision)
    except sa.exc.PendingRollbackError as error:
        # Alembic tidies up on a connection that is gone, which hides why it is.
        raise (error.__context__ or error) from None


def _refuse_old_servers(db: Database, pending: Sequence[revisions.Migration]) -> None:
    if old := in_the_way(pending, connected(db)):
        oldest = pending[-1].works_with
        named = ", ".join(each.revision for each in old)
        raise errors.SchemaInUse(
            f"servers of schema {named} are running, and could not go on: the new schema works with"
            f" {oldest} and newer. Stop them first; nothing was changed"
        )


def _set(connection: sa.Connection, **limits: int) -> None:
    for name, milliseconds in limits.items():
        connection.execute(sa.text(f"SET {name} = {milliseconds}"))
    connection.commit()


def _is_in_use(error: sa.exc.DBAPIError) -> bool:
    from psycopg import errors as pg

    return isinstance(error.orig, pg.LockNotAvailable | pg.DeadlockDetected)


def _who_is_in_the_way(connection: sa.Connection) -> str:
    rows = connection.execute(sa.text(LONG_TRANSACTIONS)).all()
    connection.commit()
    named = [
        f"process {row.pid} of PostgreSQL ({row.application_name or 'unnamed'}), whose transaction"
        f" has been open for {row.seconds} s"
        for row in rows
    ]
    return " by " + ", and ".join(named) if named else ""
