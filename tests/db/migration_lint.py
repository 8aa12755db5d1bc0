"""What a migration may not do while servers go on: it is run on PostgreSQL, statement by statement,
with an eye on what it locks, reads, rewrites and takes away.

The rule is in docs/decisions/0018-upgrades.md. What is found is told in sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rushes import errors
from rushes.db import revisions, schema
from rushes.db.database import Database

# Those with a row for each person, worker or setting, or one row at all. Others may be large.
SMALL = frozenset(
    {"alembic_version", "schema_compatibility", "service_beat", "event_head", "webhook_head"}
    | {"job_counts", "live_counts", "failure_counts", "incident_counts", "alerts", "pauses"}
    | {"workers", "worker_keys", "invites", "users", "tokens", "signin_links", "webhooks"}
    | {"profiles", "transcription_profiles"}
)
# From this one on nobody writes to the table meanwhile.
BLOCKS_WRITES = frozenset({"ShareLock", "ShareRowExclusiveLock", "ExclusiveLock"}) | {
    "AccessExclusiveLock"
}
CHANGES_ROWS = "RowExclusiveLock"

LOCKS = """
SELECT DISTINCT relation.relname, lock.mode FROM pg_locks AS lock
JOIN pg_class AS relation ON relation.oid = lock.relation
WHERE lock.pid = pg_backend_pid() AND lock.granted AND relation.relkind IN ('r', 'p')
AND relation.relnamespace = current_schema()::regnamespace"""
SCANS = "SELECT relname, seq_scan FROM pg_stat_xact_user_tables"

TABLES = """
SELECT relname, pg_relation_filenode(oid) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"""
COLUMNS = """
SELECT relation.relname || '.' || attname, format_type(atttypid, atttypmod), attnotnull, atthasdef
FROM pg_attribute JOIN pg_class AS relation ON relation.oid = attrelid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
AND attnum > 0 AND NOT attisdropped"""
# PostgreSQL 18 has NOT NULL among them, too; columns tell it everywhere.
CONSTRAINTS = """
SELECT relation.relname || '.' || conname, relation.relname, pg_get_constraintdef(made.oid),
  (SELECT array_agg(attname::text) FROM pg_attribute
   WHERE attrelid = conrelid AND attnum = ANY (conkey))
FROM pg_constraint AS made JOIN pg_class AS relation ON relation.oid = conrelid
WHERE relnamespace = current_schema()::regnamespace AND contype <> 'n'"""
INDEXES = """
SELECT made.relname, of.relname, pg_get_indexdef(indexrelid), indisunique,
  pg_relation_filenode(indexrelid),
  (SELECT array_agg(attname::text) FROM pg_attribute
   WHERE attrelid = indrelid AND attnum = ANY (indkey))
FROM pg_index JOIN pg_class AS made ON made.oid = indexrelid
JOIN pg_class AS of ON of.oid = indrelid
WHERE made.relnamespace = current_schema()::regnamespace"""
OTHERS = """
SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal"""


@dataclass(frozen=True, slots=True)
class Index:
    table: str
    definition: str
    unique: bool
    file: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """What there is. `columns`: type, whether it must be there, whether it has a default."""

    tables: dict[str, int]
    columns: dict[str, tuple[str, bool, bool]]
    constraints: dict[str, tuple[str, str, tuple[str, ...]]]
    indexes: dict[str, Index]
    others: frozenset[str]

    @classmethod
    def of(cls, db: Database) -> Catalog:
        with psycopg.connect(db.conninfo, autocommit=True) as connection:
            ask = connection.execute
            return cls(
                tables=dict(ask(TABLES).fetchall()),
                columns={name: (kind, must, default) for name, kind, must, default in ask(COLUMNS)},
                constraints={
                    name: (table, text, tuple(columns or ()))
                    for name, table, text, columns in ask(CONSTRAINTS)
                },
                indexes={
                    name: Index(table, text, unique, file, tuple(columns or ()))
                    for name, table, text, unique, file, columns in ask(INDEXES)
                },
                others=frozenset(name for (name,) in ask(OTHERS)),
            )


@dataclass(slots=True)
class Notes:
    """Taken while a migration runs. `large`: tables that were there before, and may be large."""

    large: frozenset[str]
    found: list[str] = field(default_factory=list)
    in_parts: bool = False

    def take(self, statement: str, locks: dict[str, set[str]], scanned: set[str]) -> None:
        words = " ".join(statement.split())[:80]
        self.in_parts |= "CONCURRENTLY" in statement
        held = sorted(name for name, modes in locks.items() if modes & BLOCKS_WRITES)
        if held and scanned and "CONCURRENTLY" not in statement:
            read = ", ".join(sorted(scanned))
            self.found.append(f"reads all of {read} while {', '.join(held)} is locked: {words}")
        for name, modes in locks.items():
            if CHANGES_ROWS in modes and re.match(r"(?i)\s*(update|delete|insert|with)\b", words):
                self.found.append(f"changes rows of {name}, for as long as they take: {words}")


def lint(db: Database, directory: Path, revision: str) -> list[str]:
    """The database has the schema before it, and has this one afterwards."""
    [migration] = [each for each in revisions.declared(directory) if each.revision == revision]
    source = next((directory / "versions").glob(f"{revision}_*.py")).read_text()
    problems = list(_declared(source, migration))
    before = Catalog.of(db)
    notes = Notes(large=frozenset(before.tables.keys() - SMALL))
    with _watched(db, notes):
        _apply(db, directory, revision)
    after = Catalog.of(db)
    if not migration.long_locks:
        problems += [*notes.found, *_rewritten(before, after)]
    if migration.change == "expansion":
        problems += _taken_away(before, after)
        problems += _tightened(before, after, _widened(source))
    if notes.in_parts and not problems:
        problems += _applied_again(db, directory, revision, after)
    return problems


def _declared(source: str, migration: revisions.Migration) -> Iterator[str]:
    said = dict(re.findall(r"^(\w+) = (.+)$", source, re.MULTILINE))
    if "change" not in said:
        yield 'does not say change = "expansion" or change = "contraction"'
    elif migration.change == "contraction" and "works_with" not in said:
        yield "a contraction says which schema works with it: works_with"
    elif migration.change == "expansion" and migration.long_locks:
        yield "an expansion takes no long locks"
    elif migration.works_with > migration.revision:
        yield f"works_with is later than {migration.revision} itself"


def _widened(source: str) -> frozenset[str]:
    found = re.search(r"^widens = (.+)$", source, re.MULTILINE)
    return frozenset(re.findall(r"['\"](\w+)['\"]", found[1]) if found else ())


def _apply(db: Database, directory: Path, revision: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "HEAD", revision)
        schema.migrate(db, directory)


@contextmanager
def _watched(db: Database, notes: Notes) -> Iterator[None]:
    scans: dict[str, int] = {}

    def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        scans.clear()
        scans.update(dict(cursor.connection.execute(SCANS).fetchall()))

    def after(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        driver = cursor.connection
        locks: dict[str, set[str]] = {}
        for table, mode in driver.execute(LOCKS).fetchall():
            if table in notes.large:
                locks.setdefault(table, set()).add(mode)
        now = dict(driver.execute(SCANS).fetchall())
        scanned = {name for name in notes.large if now.get(name, 0) > scans.get(name, 0)}
        notes.take(statement, locks, scanned)

    sa.event.listen(db.engine, "before_cursor_execute", before)
    sa.event.listen(db.engine, "after_cursor_execute", after)
    try:
        yield
    finally:
        sa.event.remove(db.engine, "before_cursor_execute", before)
        sa.event.remove(db.engine, "after_cursor_execute", after)


def _rewritten(before: Catalog, after: Catalog) -> Iterator[str]:
    for name, file in before.tables.items():
        if name not in SMALL and after.tables.get(name, file) != file:
            yield f"rewrites the table {name}"
    for name, index in before.indexes.items():
        if index.table in SMALL or name not in after.indexes:
            continue
        if after.indexes[name].file != index.file:
            yield f"builds the index {name} anew"


def _taken_away(before: Catalog, after: Catalog) -> Iterator[str]:
    for what in ("tables", "columns", "constraints", "indexes"):
        for name in getattr(before, what).keys() - getattr(after, what).keys():
            yield f"takes away {name} ({what}), which servers from before rely on"
    for name in before.others - after.others:
        yield f"takes away the {name}, which servers from before rely on"


def _tightened(before: Catalog, after: Catalog, widened: frozenset[str]) -> Iterator[str]:
    for name, (kind, must, default) in after.columns.items():
        table = name.partition(".")[0]
        if table not in before.tables:
            continue
        if name not in before.columns:
            if must and not default:
                yield f"{name} is wanted of servers that do not know it"
            continue
        was, did, had = before.columns[name]
        if kind != was:
            yield f"{name} was {was}, and becomes {kind}"
        if (must and not did) or (had and not default):
            yield f"{name} is wanted of servers that may leave it out"
    yield from _new_constraints(before, after, widened)
    for name, index in after.indexes.items():
        known = {each.partition(".")[2] for each in before.columns if _of(each) == index.table}
        new = name not in before.indexes and index.table in before.tables
        if new and index.unique and known >= set(index.columns):
            yield f"{name} forbids what servers from before may write"


def _new_constraints(before: Catalog, after: Catalog, widened: frozenset[str]) -> Iterator[str]:
    for name, (table, text, columns) in after.constraints.items():
        if table not in before.tables:
            continue
        known = {each.partition(".")[2] for each in before.columns if _of(each) == table}
        changed = name in before.constraints and before.constraints[name][1] != text
        if changed and name.partition(".")[2] not in widened:
            yield f"{name} is another one now; if it only allows more, say widens = (…)"
        elif name not in before.constraints and known >= set(columns):
            yield f"{name} forbids what servers from before may write"


def _of(column: str) -> str:
    return column.partition(".")[0]


def _applied_again(db: Database, directory: Path, revision: str, after: Catalog) -> Iterator[str]:
    """As after a server that was killed before it could say that it had done it."""
    applied = [each.revision for each in revisions.declared(directory)]
    earlier = applied[applied.index(revision) - 1]
    with db.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :earlier"), {"earlier": earlier}
        )
    try:
        _apply(db, directory, revision)
    except (sa.exc.DBAPIError, errors.RushesError) as error:
        cause = str(getattr(error, "orig", error)).strip().splitlines()[0]
        yield f"cannot be applied again after it was interrupted: {cause}"
    else:
        if Catalog.of(db) != after:
            yield "becomes something else when it is applied again"
