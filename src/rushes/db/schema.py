"""Which schema this version of Rushes wants, whether it may use the one that the database has, and
how to get there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rushes import errors
from rushes.db import revisions, upgrade
from rushes.db.database import Database, Tx

HEAD = revisions.HEAD
# Less than those who look after a server wait for its answer.
QUICKLY_SECONDS = 3.0

HAS_TABLE = {
    "sqlite": "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = :name",
    "postgresql": "SELECT 1 AS found WHERE to_regclass(:name) IS NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a database says of itself. `works_with`: the oldest schema whose servers can use it;
    None where nobody has said."""

    revision: str | None
    works_with: str | None = None

    @property
    def is_newer(self) -> bool:
        return self.revision is not None and self.revision > HEAD


@dataclass(frozen=True, slots=True)
class Plan:
    """What `migrate` would do; `servers`: those that are connected, by their schema."""

    found: Found
    pending: list[revisions.Migration]
    servers: list[upgrade.Connected]

    @property
    def in_the_way(self) -> list[upgrade.Connected]:
        return upgrade.in_the_way(self.pending, self.servers)

    @property
    def servers_may_go_on(self) -> bool:
        """Those that are known, and those of the schema that the database has."""
        before = self.found.revision
        oldest = self.pending[-1].works_with if self.pending else ""
        return not self.in_the_way and (before is None or oldest <= before)


def look(db: Database, seconds: float | None = None) -> Found:
    """`seconds`: how long to wait for a PostgreSQL that is silent, if not as long as usual."""
    with db.read(seconds) as tx:
        if not _has_table(tx, "alembic_version"):
            return Found(None)
        row = tx.one("SELECT version_num FROM alembic_version")
        revision = row["version_num"] if row else None
        if not _has_table(tx, upgrade.TABLE):
            return Found(revision)
        row = tx.one(
            f"SELECT works_with FROM {upgrade.TABLE} WHERE version_num = :revision",
            revision=revision,
        )
        return Found(revision, row["works_with"] if row else None)


def current(db: Database) -> str | None:
    """The database's revision; None for a database without our tables."""
    return look(db).revision


def check(db: Database, seconds: float | None = None) -> Found:
    """Raises unless this version of Rushes may use the database."""
    found = look(db, seconds)
    if found.revision is None or found.revision < HEAD:
        raise errors.SchemaTooOld(
            f"the database has schema {found.revision or 'none'}, this version of Rushes needs"
            f" {HEAD}: run 'rushes migrate'"
        )
    if found.is_newer and not (found.works_with is not None and found.works_with <= HEAD):
        raise errors.SchemaTooNew(
            f"the database has schema {found.revision}, newer than {HEAD} of this version of"
            " Rushes: upgrade Rushes, nothing was changed"
        )
    return found


def check_quickly(db: Database) -> None:
    """As `check`, for a server that has started; a database that is silent is given up."""
    with db.read(QUICKLY_SECONDS) as tx:
        row = tx.one("SELECT version_num FROM alembic_version")
    if row is None or row["version_num"] != HEAD:
        check(db, QUICKLY_SECONDS)


def plan(db: Database) -> Plan:
    found = look(db)
    if found.is_newer:
        check(db)
    return Plan(found, revisions.pending(found.revision, HEAD), upgrade.connected(db))


def migrate(db: Database, directory: Path = revisions.MIGRATIONS) -> tuple[str | None, str]:
    """Bring the database to HEAD; returns the revisions before and after. One that is newer stays
    as it is."""
    before = look(db).revision
    if before is None or before < HEAD:
        with upgrade.alone(db) as connection:
            # Somebody else may have been quicker.
            pending = revisions.pending(look(db).revision, HEAD, directory)
            if pending:
                upgrade.run(db, connection, pending, directory)
    after = check(db).revision
    assert after is not None
    return before, after


def _has_table(tx: Tx, name: str) -> bool:
    return tx.one(HAS_TABLE[tx.dialect.name], name=name) is not None
