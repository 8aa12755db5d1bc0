"""Every migration since the rule keeps it; and whoever breaks it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import world as worlds
from db.migration_lint import lint
from migration_trees import Tree
from rushes.db import revisions, schema
from rushes.db.database import Database

# The last one from before the rule.
UNRULED = "0023"
EXPANDS = "change = 'expansion'"
CONTRACTS = "change = 'contraction'\nworks_with = '0001'"


@pytest.fixture
def empty() -> Iterator[Database]:
    with worlds.postgres_database(worlds.EMPTY_DATABASE) as url, closing(Database(url)) as opened:
        yield opened


@pytest.fixture
def tree(tmp_path: Path, empty: Database) -> Tree:
    """With its first migration applied."""
    made = Tree(tmp_path / "migrations")
    made.migrate(empty)
    return made


def test_migrations_of_ours_keep_the_rule(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as then:
        then.setattr(schema, "HEAD", UNRULED)
        schema.migrate(empty)
    found = {
        each.revision: lint(empty, revisions.MIGRATIONS, each.revision)
        for each in revisions.declared()
        if each.revision > UNRULED
    }
    assert {revision: told for revision, told in found.items() if told} == {}


def sql(*statements: str) -> str:
    return "\n".join(f"op.execute({each!r})" for each in statements)


BAD = {
    "says nothing": (sql("CREATE TABLE more (id text)"), "", "does not say change"),
    "a contraction for nobody": (
        sql("CREATE TABLE more (id text)"),
        "change = 'contraction'",
        "says which schema works with it",
    ),
    "another type": (
        sql("ALTER TABLE jobs ALTER COLUMN size TYPE bigint"),
        EXPANDS,
        "rewrites the table jobs",
    ),
    "another type, in a contraction": (
        sql("ALTER TABLE jobs ALTER COLUMN size TYPE bigint"),
        CONTRACTS,
        "rewrites the table jobs",
    ),
    "a type that costs nothing": (
        sql("ALTER TABLE jobs ALTER COLUMN kind TYPE varchar"),
        EXPANDS,
        "jobs.kind was text, and becomes character varying",
    ),
    "a default that differs from row to row": (
        sql("ALTER TABLE jobs ADD COLUMN luck double precision DEFAULT random()"),
        EXPANDS,
        "rewrites the table jobs",
    ),
    "a new column whose values are checked": (
        sql("ALTER TABLE jobs ADD COLUMN tries integer NOT NULL DEFAULT 0 CHECK (tries >= 0)"),
        EXPANDS,
        "reads all of jobs while jobs is locked",
    ),
    "must be there": (
        sql("ALTER TABLE jobs ALTER COLUMN size SET NOT NULL"),
        EXPANDS,
        "jobs.size is wanted of servers that may leave it out",
    ),
    "must be there, which takes a look at all": (
        sql("ALTER TABLE jobs ALTER COLUMN size SET NOT NULL"),
        CONTRACTS,
        "reads all of jobs while jobs is locked",
    ),
    "wanted of those who do not know it": (
        sql("ALTER TABLE pauses ADD COLUMN until bigint NOT NULL"),
        EXPANDS,
        "pauses.until is wanted of servers that do not know it",
    ),
    "a default that is gone": (
        sql("ALTER TABLE jobs ALTER COLUMN state DROP DEFAULT"),
        EXPANDS,
        "jobs.state is wanted of servers that may leave it out",
    ),
    "a column less": (
        sql("ALTER TABLE jobs DROP COLUMN size"),
        EXPANDS,
        "takes away jobs.size",
    ),
    "a column by another name": (
        sql("ALTER TABLE jobs RENAME COLUMN size TO bytes"),
        EXPANDS,
        "takes away jobs.size",
    ),
    "a table less": (sql("DROP TABLE pauses"), EXPANDS, "takes away pauses (tables)"),
    "a table by another name": (
        sql("ALTER TABLE jobs RENAME TO work"),
        EXPANDS,
        "takes away jobs (tables)",
    ),
    "an index less": (sql("DROP INDEX jobs_kind"), EXPANDS, "takes away jobs_kind"),
    "a check less": (
        sql("ALTER TABLE jobs DROP CONSTRAINT known_state"),
        EXPANDS,
        "takes away jobs.known_state",
    ),
    "another check": (
        sql(
            "ALTER TABLE jobs DROP CONSTRAINT known_state",
            "ALTER TABLE jobs ADD CONSTRAINT known_state CHECK (state = 'new') NOT VALID",
        ),
        EXPANDS,
        "jobs.known_state is another one now",
    ),
    "one more check": (
        sql("ALTER TABLE jobs ADD CONSTRAINT large CHECK (size > 0) NOT VALID"),
        EXPANDS,
        "jobs.large forbids what servers from before may write",
    ),
    "a check of all rows": (
        sql("ALTER TABLE jobs ADD CONSTRAINT large CHECK (size >= 0)"),
        CONTRACTS,
        "reads all of jobs while jobs is locked",
    ),
    "no two alike": (
        'online.create_index("jobs_unique", "jobs (size)", unique=True)',
        EXPANDS,
        "jobs_unique forbids",
    ),
    "an index that everybody waits for": (
        sql("CREATE INDEX jobs_size ON jobs (size)"),
        EXPANDS,
        "reads all of jobs while jobs is locked",
    ),
    "rows that are changed": (
        sql("UPDATE jobs SET kind = 'other'"),
        EXPANDS,
        "changes rows of jobs",
    ),
    "rows that are copied under a lock": (
        sql(
            "ALTER TABLE jobs ADD COLUMN note text",
            "CREATE TABLE copies (id text)",
            "INSERT INTO copies SELECT id FROM jobs",
        ),
        EXPANDS,
        "reads all of jobs while jobs is locked",
    ),
    "a whole that is made anew": (
        sql("CLUSTER jobs USING jobs_pkey"),
        EXPANDS,
        "rewrites the table jobs",
    ),
    "not to be done again": (
        sql("ALTER TABLE jobs ADD COLUMN note text")
        + '\nonline.create_index("jobs_note", "jobs (note)")',
        EXPANDS,
        "cannot be applied again after it was interrupted",
    ),
    "locks that last, in an expansion": (
        sql("CREATE TABLE more (id text)"),
        "change = 'expansion'\nlong_locks = True",
        "an expansion takes no long locks",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_breaks_the_rule_is_refused(name: str, tree: Tree, empty: Database) -> None:
    body, says, told = BAD[name]
    revision = tree.add(body, says)
    found = lint(empty, tree.directory, revision)
    assert any(told in each for each in found), found


GOOD = {
    "an expansion": (
        sql(
            "CREATE TABLE more (id text PRIMARY KEY, job_id text REFERENCES jobs(id))",
            "CREATE INDEX more_job ON more (job_id)",
            "ALTER TABLE jobs ADD COLUMN note text",
            "ALTER TABLE jobs ADD COLUMN tries integer NOT NULL DEFAULT 0",
            "ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02)",
            "UPDATE pauses SET kind = 'demo' WHERE kind = 'none'",
            "CREATE INDEX pauses_kind ON pauses (kind)",
        ),
        EXPANDS,
    ),
    "an index": ('online.create_index("jobs_size", "jobs (size)")', EXPANDS),
    "a column and its index": (
        sql("ALTER TABLE jobs ADD COLUMN IF NOT EXISTS note text")
        + '\nonline.create_index("jobs_note", "jobs (note)", unique=True)',
        EXPANDS,
    ),
    "a check that allows more": (
        sql(
            "ALTER TABLE jobs DROP CONSTRAINT known_state",
            "ALTER TABLE jobs ADD CONSTRAINT known_state"
            " CHECK (state IN ('new', 'old', 'older')) NOT VALID",
        ),
        "change = 'expansion'\nwidens = ('known_state',)",
    ),
    "must be there, in steps": (
        sql("ALTER TABLE jobs ADD CONSTRAINT has_size CHECK (size IS NOT NULL) NOT VALID"),
        CONTRACTS,
    ),
    "a column less": (sql("ALTER TABLE jobs DROP COLUMN size"), CONTRACTS),
    "a whole that is made anew, announced": (
        sql("ALTER TABLE jobs ALTER COLUMN size TYPE bigint"),
        "change = 'contraction'\nworks_with = '0001'\nlong_locks = True",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_keeps_the_rule_is_not_held_up(name: str, tree: Tree, empty: Database) -> None:
    body, says = GOOD[name]
    revision = tree.add(body, says)
    assert lint(empty, tree.directory, revision) == []


def test_what_was_checked_before_need_not_be_read_again(tree: Tree, empty: Database) -> None:
    """The way to NOT NULL: a check that is not valid, its validation, then the rest."""
    steps = (
        "ALTER TABLE jobs ADD CONSTRAINT has_size CHECK (size IS NOT NULL) NOT VALID",
        "ALTER TABLE jobs VALIDATE CONSTRAINT has_size",
        "ALTER TABLE jobs ALTER COLUMN size SET NOT NULL",
    )
    for step in steps:
        revision = tree.add(sql(step), CONTRACTS)
        assert lint(empty, tree.directory, revision) == []
