"""Which schema this version of Rushes wants, whether the database has it, and how to get there."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from rushes import errors
from rushes.db.database import Database

MIGRATIONS = Path(__file__).parent / "migrations"
# The number that the name of the newest migration begins with.
HEAD = max(each.name[:4] for each in (MIGRATIONS / "versions").glob("[0-9][0-9][0-9][0-9]_*.py"))
# Any constant will do; it keeps two servers that start together from migrating at once.
ADVISORY_LOCK = 7_402_215
# Less than those who look after a server wait for its answer.
QUICKLY_SECONDS = 3.0


def current(db: Database) -> str | None:
    """The database's revision; None for a database without our tables."""
    with db.renamed(), db.engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def check(db: Database) -> None:
    revision = current(db)
    if revision == HEAD:
        return
    if revision is None or revision < HEAD:
        raise errors.SchemaTooOld(
            f"the database has schema {revision or 'none'}, this version of Rushes needs {HEAD}:"
            " run 'rushes migrate'"
        )
    raise errors.SchemaTooNew(
        f"the database has schema {revision}, newer than {HEAD} of this version of Rushes:"
        " upgrade Rushes, nothing was changed"
    )


def check_quickly(db: Database) -> None:
    """As `check`, for a server that has started; a database that is silent is given up."""
    with db.read(QUICKLY_SECONDS) as tx:
        row = tx.one("SELECT version_num FROM alembic_version")
    if row is None or row["version_num"] != HEAD:
        check(db)


def migrate(db: Database) -> tuple[str | None, str]:
    """Bring the database to HEAD; returns the revisions before and after."""
    before = current(db)
    if before != HEAD:
        if before is not None and before > HEAD:
            check(db)
        _upgrade(db)
    return before, HEAD


def _upgrade(db: Database) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with db.renamed(), db.engine.begin() as connection:
        if db.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)
