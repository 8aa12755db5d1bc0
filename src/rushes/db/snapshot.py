"""All rows of a database as of one moment, read while servers go on; and put into a new one.

Rows are read as plain values, so that they may come from one kind of database and go to the other.
The index of the search is left out: it is made anew from the moments that it is of.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushes import errors
from rushes.db import revisions, upgrade
from rushes.db.database import Database, Tx

if TYPE_CHECKING:
    import psycopg

Value = str | int | float | None
# Made by migrations, or of other tables.
LEFT_OUT = ("alembic_version", upgrade.TABLE)
DERIVED = "moment_index"
# Says which backup is on its way into this database; there is none in one that is whole.
MARKER = "restore_in_progress"
# Whoever has one of these has begun to use the database.
IN_USE = ("users", "media", "uploads", "jobs", "workers")
PAGE = 2_000

TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "postgresql": "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()",
}
COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(:table) ORDER BY cid",
    "postgresql": """SELECT column_name AS name FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = :table ORDER BY ordinal_position""",
}
FOREIGN_KEYS = """
SELECT conrelid::regclass::text AS of, conname AS name, pg_get_constraintdef(oid) AS rule
FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"""
NUMBERED = """
SELECT table_name AS table, column_name AS column FROM information_schema.columns
WHERE table_schema = current_schema() AND is_identity = 'YES'"""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Of one table, read once."""

    table: Table
    rows: Iterable[Sequence[Value]]


class Snapshot:
    """One moment of a database. `tx` reads of it as of any other."""

    def __init__(self, tx: Tx, connection: Any) -> None:
        self.tx = tx
        self._connection = connection
        row = tx.one("SELECT version_num FROM alembic_version")
        self.revision = str(row["version_num"]) if row else ""

    def tables(self) -> list[Table]:
        """Ours, as migrations make them: others may keep theirs in the same database."""
        if self.revision > revisions.HEAD:
            raise errors.SchemaTooNew(
                f"the database has schema {self.revision}, newer than {revisions.HEAD} of this"
                " version of Rushes: make backups with the newest version that uses it"
            )
        ours = _names_at(self.revision)
        return [table for table in _tables(self.tx) if table.name in ours]

    def rows(self, table: Table) -> Iterator[Sequence[Value]]:
        text = f"SELECT {', '.join(map(_quoted, table.columns))} FROM {_quoted(table.name)}"
        if self.tx.dialect.name == "sqlite":
            cursor = self._connection.cursor()
            cursor.arraysize = PAGE
        else:
            # On the server's side: a table may be larger than our memory.
            cursor = self._connection.cursor(name=f"snapshot_{table.name}")
        cursor.execute(text)
        while page := cursor.fetchmany(PAGE):
            yield from page
        cursor.close()


@contextmanager
def read(db: Database) -> Iterator[Snapshot]:
    """Nobody has to wait for it. As long as it is open, SQLite's log grows, and PostgreSQL keeps
    rows that were changed since."""
    with db.renamed():
        if db.dialect.name == "sqlite":
            pooled = db.engine.raw_connection()
            driver = pooled.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            try:
                driver.execute("BEGIN")
                yield Snapshot(Tx(db.dialect, driver.cursor(), db.clock), driver)
            finally:
                driver.rollback()
                pooled.close()
        else:
            with db.connect() as connection:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield Snapshot(Tx(db.dialect, connection.cursor(), db.clock), connection)
                connection.rollback()


def marked(db: Database) -> str | None:
    """The backup that somebody began to restore here."""
    with db.read() as tx:
        if MARKER not in _all_tables(tx):
            return None
        row = tx.one(f"SELECT backup_id FROM {MARKER}")
        return str(row["backup_id"]) if row else None


def is_loaded(db: Database) -> bool:
    """Whether the rows of the backup that it is marked with are there."""
    with db.read() as tx:
        row = tx.one(f"SELECT loaded FROM {MARKER}")
        return bool(row and row["loaded"])


def mark(db: Database, backup_id: str) -> None:
    """From here on only a restore of this backup may use the database. It has to be empty."""

    def note(tx: Tx) -> None:
        if found := _all_tables(tx):
            raise errors.Conflict(
                f"the database is not empty: it has the table {sorted(found)[0]}. A backup is"
                " restored into a new database only; name one in RUSHES_DATABASE_URL"
            )
        tx.all(f"CREATE TABLE {MARKER} (backup_id text NOT NULL, loaded integer NOT NULL)")
        tx.all(f"INSERT INTO {MARKER} VALUES (:id, 0)", id=backup_id)

    db.run(note)


def unmark(db: Database) -> None:
    db.run(lambda tx: tx.all(f"DROP TABLE {MARKER}"))


def prepare(db: Database, revision: str) -> list[Table]:
    """Tables as they were at `revision`, without anybody's rows; harmless to repeat."""
    with upgrade.alone(db) as connection:
        before = _revision(db)
        if before is None or before < revision:
            pending = revisions.pending(before, revision)
            upgrade.run(db, connection, pending, revisions.MIGRATIONS)
    with db.read() as tx:
        row = tx.one("SELECT version_num FROM alembic_version")
        if row is None or row["version_num"] != revision:
            raise errors.Conflict(
                "a server has changed the schema meanwhile: stop it, and begin again with a new"
                " database"
            )
        return _tables(tx)


def _names_at(revision: str) -> set[str]:
    with (
        tempfile.TemporaryDirectory(prefix="rushes-schema-") as scratch,
        closing(Database(f"sqlite:///{scratch}/schema.db")) as empty,
    ):
        return {table.name for table in prepare(empty, revision)}


def load(db: Database, given: Iterable[Rows]) -> None:
    """All rows or none; those that migrations have made give way."""
    with db.renamed():
        if db.dialect.name == "sqlite":
            _load_sqlite(db, given)
        else:
            _load_postgres(db, given)


def _load_sqlite(db: Database, given: Iterable[Rows]) -> None:
    pooled = db.engine.raw_connection()
    driver: Any = pooled.driver_connection
    try:
        # Rows come in the order of tables, not of what they refer to; all are looked at below.
        driver.execute("PRAGMA foreign_keys = OFF")
        driver.begin()
        try:
            _refuse_used(Tx(db.dialect, driver.cursor(), db.clock))
            for each in given:
                driver.execute(f"DELETE FROM {_quoted(each.table.name)}")
                marks = ", ".join("?" * len(each.table.columns))
                driver.executemany(f"{_insert(each.table)} VALUES ({marks})", each.rows)
            if broken := driver.execute("PRAGMA foreign_key_check").fetchone():
                raise errors.Conflict(f"a row of {broken[0]} refers to one that is not there")
            driver.execute(f"UPDATE {MARKER} SET loaded = 1")
            driver.commit()
        except BaseException:
            driver.rollback()
            raise
    except sqlite3.IntegrityError as error:
        raise errors.Conflict("a row breaks a rule of its table", detail=str(error)) from error
    finally:
        driver.execute("PRAGMA foreign_keys = ON")
        pooled.close()


def _load_postgres(db: Database, given: Iterable[Rows]) -> None:
    import psycopg

    try:
        with db.connect() as connection, connection.transaction():
            _refuse_used(Tx(db.dialect, connection.cursor(), db.clock))
            keys = connection.execute(FOREIGN_KEYS).fetchall()
            for table, name, _ in keys:
                _run(connection, f"ALTER TABLE {table} DROP CONSTRAINT {_quoted(name)}")
            for each in given:
                _copy(connection, each)
            for table, name, rule in keys:
                _run(connection, f"ALTER TABLE {table} ADD CONSTRAINT {_quoted(name)} {rule}")
            for table, column in connection.execute(NUMBERED).fetchall():
                _run(
                    connection,
                    f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
                    f" coalesce((SELECT max({column}) FROM {table}), 0) + 1, false)",
                )
            _run(connection, f"UPDATE {MARKER} SET loaded = 1")
    except (psycopg.IntegrityError, psycopg.DataError) as error:
        raise errors.Conflict("a row breaks a rule of its table", detail=str(error)) from error


def _copy(connection: psycopg.Connection, each: Rows) -> None:
    _run(connection, f"DELETE FROM {_quoted(each.table.name)}")
    names = ", ".join(map(_quoted, each.table.columns))
    text: Any = f"COPY {_quoted(each.table.name)} ({names}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(text) as copy:
        for row in each.rows:
            copy.write_row(row)


def _run(connection: psycopg.Connection, text: Any) -> None:
    connection.execute(text)


def _insert(table: Table) -> str:
    return f"INSERT INTO {_quoted(table.name)} ({', '.join(map(_quoted, table.columns))})"


def _refuse_used(tx: Tx) -> None:
    """A server that was started too early has made it somebody's."""
    for name in IN_USE:
        if tx.one(f"SELECT 1 AS one FROM {name} LIMIT 1"):
            raise errors.Conflict(
                f"the database is in use: it has {name} already. Stop the server, and begin again"
                " with a new database"
            )


def _revision(db: Database) -> str | None:
    with db.read() as tx:
        if "alembic_version" not in _all_tables(tx):
            return None
        row = tx.one("SELECT version_num FROM alembic_version")
        return str(row["version_num"]) if row else None


def _all_tables(tx: Tx) -> set[str]:
    return {str(row["name"]) for row in tx.all(TABLES[tx.dialect.name])}


def _tables(tx: Tx) -> list[Table]:
    names = sorted(
        name
        for name in _all_tables(tx)
        # FTS5 keeps its index in tables of its own.
        if name not in (*LEFT_OUT, MARKER) and not name.startswith(DERIVED)
    )
    return [Table(name, _columns(tx, name)) for name in names]


def _columns(tx: Tx, table: str) -> tuple[str, ...]:
    rows = tx.all(COLUMNS[tx.dialect.name], table=table)
    return tuple(str(row["name"]) for row in rows)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
