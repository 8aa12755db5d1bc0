"""Migrations are applied while servers from before go on, and whatever happens meanwhile."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import world as worlds
from migration_trees import Tree
from resilience.breakpoints import until
from rushes import errors
from rushes.db import database, schema, upgrade
from rushes.db.database import Database, Tx

# Tells where it is, and waits there for somebody to kill it.
HOLDS = """
Path({mark!r}).touch()
while True:
    time.sleep(0.01)
"""
ADDS_A_COLUMN = 'op.execute("ALTER TABLE jobs ADD COLUMN note text")'
ADDS_AN_INDEX = 'online.create_index("jobs_by_size", "jobs (size)")'


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "migrations")


@pytest.fixture
def db(empty_database_url: str) -> Iterator[Database]:
    with closing(Database(empty_database_url)) as opened:
        yield opened


@pytest.fixture
def postgres() -> Iterator[Database]:
    with worlds.postgres_database(worlds.EMPTY_DATABASE) as url, closing(Database(url)) as opened:
        yield opened


def columns(db: Database, table: str = "jobs") -> list[str]:
    return [each["name"] for each in sa.inspect(db.engine).get_columns(table)]


def indexes(db: Database) -> list[str]:
    return [str(each["name"]) for each in sa.inspect(db.engine).get_indexes("jobs")]


# Who may use which schema


def test_an_older_version_uses_a_database_that_was_expanded(tree: Tree, db: Database) -> None:
    tree.add(ADDS_A_COLUMN)
    assert tree.migrate(db) == (None, "0002")
    with tree.being_head("0001"):
        assert schema.check(db).is_newer
        schema.check_quickly(db)
        assert schema.migrate(db, tree.directory) == ("0002", "0002")
        assert schema.plan(db).pending == []


def test_each_migration_is_told_but_a_new_database_only_once(
    tree: Tree, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        tree.add("pass")
    with caplog.at_level(logging.INFO, "rushes.db"):
        tree.migrate(db, to="0002")
        tree.migrate(db)
    schemas = [re.findall(r"\d{4}", each.message) for each in caplog.records]
    assert schemas == [["0002"], ["0003"], ["0004"]]


def test_an_older_version_leaves_a_database_alone_that_was_contracted(
    tree: Tree, db: Database
) -> None:
    tree.add(ADDS_A_COLUMN)
    tree.add(
        'op.execute("ALTER TABLE jobs DROP COLUMN size")',
        says="change = 'contraction'; works_with = '0002'",
    )
    tree.add('op.execute("CREATE TABLE more (id text)")')
    assert tree.migrate(db) == (None, "0004")
    with tree.being_head("0002"):
        schema.check(db)
    with tree.being_head("0001"):
        for verb in (schema.check, schema.check_quickly, schema.migrate, schema.plan):
            with pytest.raises(errors.SchemaTooNew, match=r"0004, newer than 0001.*upgrade"):
                verb(db)


def test_a_migration_that_says_nothing_lets_nobody_go_on(tree: Tree, db: Database) -> None:
    tree.add(ADDS_A_COLUMN, says="")
    tree.migrate(db)
    with tree.being_head("0001"), pytest.raises(errors.SchemaTooNew):
        schema.check(db)


@pytest.mark.parametrize(
    "lost", [f"DROP TABLE {upgrade.TABLE}", "UPDATE alembic_version SET version_num = '0009'"]
)
def test_a_newer_database_that_does_not_say_so_works_with_nobody_else(
    lost: str, tree: Tree, db: Database
) -> None:
    tree.add(ADDS_A_COLUMN)
    tree.migrate(db)
    with db.engine.begin() as connection:
        connection.execute(sa.text(lost))
    with tree.being_head("0001"), pytest.raises(errors.SchemaTooNew):
        schema.check(db)


def test_every_schema_since_the_rule_says_whom_it_works_with(empty_database_url: str) -> None:
    with closing(Database(empty_database_url)) as db:
        schema.migrate(db)
        with db.read() as tx:
            said = tx.all(f"SELECT * FROM {upgrade.TABLE} ORDER BY version_num")
    assert said[-1]["version_num"] == schema.HEAD
    assert said[-1]["works_with"] <= schema.HEAD
    assert all(row["works_with"] >= "0023" for row in said if row["version_num"] >= "0023")


# Whoever still needs the old schema


@contextmanager
def server_of(schema_number: str, db: Database) -> Iterator[None]:
    """Connected, as a server that was made for that schema is."""
    name = database.APPLICATION + schema_number
    with psycopg.connect(db.conninfo, autocommit=True, application_name=name):
        yield


def test_what_an_old_server_needs_is_kept_until_it_is_gone(tree: Tree, postgres: Database) -> None:
    tree.migrate(postgres)
    tree.add(ADDS_A_COLUMN)
    tree.add(
        'op.execute("ALTER TABLE jobs DROP COLUMN size")',
        says="change = 'contraction'; works_with = '0002'",
    )
    with server_of("0001", postgres), server_of("0002", postgres):
        with pytest.raises(errors.SchemaInUse, match="servers of schema 0001 are running"):
            tree.migrate(postgres)
        assert schema.current(postgres) == "0001"
        assert tree.migrate(postgres, to="0002") == ("0001", "0002")
    until(lambda: not [each for each in upgrade.connected(postgres) if each.revision == "0001"])
    with server_of("0002", postgres):
        assert tree.migrate(postgres) == ("0002", "0003")


def test_our_connections_tell_what_they_were_made_for(postgres: Database) -> None:
    with closing(Database(postgres.conninfo)) as server, server.read() as tx:
        tx.all("SELECT 1 AS one")
        [found] = upgrade.connected(postgres)
    assert found.revision == schema.HEAD


# Locks


@contextmanager
def long_transaction(db: Database) -> Iterator[psycopg.Connection]:
    """Somebody has read the jobs, and went for a coffee."""
    with psycopg.connect(db.conninfo, application_name="psql") as connection:
        connection.execute("SELECT count(*) FROM jobs")
        yield connection


def test_a_long_transaction_does_not_stop_the_others(
    tree: Tree, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "PATIENCE_SECONDS", 0.6)
    monkeypatch.setattr(upgrade, "PAUSE_SECONDS", (0.1, 0.1))
    tree.migrate(postgres)
    tree.add(ADDS_A_COLUMN)
    with ThreadPoolExecutor(1) as other, long_transaction(postgres) as somebody:
        waiting = other.submit(tree.migrate, postgres)
        slowest = 0.0
        while not waiting.done():
            before = time.monotonic()
            with postgres.begin() as tx:
                tx.all("UPDATE jobs SET size = size + 1 WHERE id = 'job_1'")
            slowest = max(slowest, time.monotonic() - before)
        with pytest.raises(errors.SchemaInUse, match=rf"{somebody.info.backend_pid}.*\(psql\)"):
            waiting.result()
    assert slowest < 1
    assert columns(postgres) == ["id", "kind", "size", "state"]
    assert tree.migrate(postgres) == ("0001", "0002")


def test_it_is_tried_again_until_the_table_is_free(tree: Tree, postgres: Database) -> None:
    tree.migrate(postgres)
    tree.add(ADDS_A_COLUMN)
    with ThreadPoolExecutor(1) as other:
        with long_transaction(postgres):
            waiting = other.submit(tree.migrate, postgres)
            with postgres.read() as tx:
                until(lambda: tx.all("SELECT 1 AS x FROM pg_locks WHERE NOT granted"))
                until(lambda: not tx.all("SELECT 1 AS x FROM pg_locks WHERE NOT granted"))
        assert waiting.result(30) == ("0001", "0002")


# What was prepared before


def test_statements_that_were_prepared_before_a_migration_work_after_it(
    tree: Tree, postgres: Database
) -> None:
    """PostgreSQL refuses those that read all columns of a table that has got one more."""
    tree.migrate(postgres)
    read = "SELECT * FROM jobs WHERE id = 'job_1'"
    changed = "UPDATE jobs SET size = size + 1 WHERE id = 'job_1' RETURNING *"

    def both(tx: Tx) -> dict[str, Any]:
        tx.all(changed)
        return tx.all(changed)[0]

    for _ in range(10):
        with postgres.read() as tx:
            tx.all(read)
        size = postgres.run(both)["size"]
    tree.add(ADDS_A_COLUMN)
    tree.migrate(postgres)
    with postgres.read() as tx:
        assert tx.all(read)[0]["note"] is None
    assert postgres.run(both)["size"] == size + 2
    with postgres.read() as tx:
        assert tx.all(read)[0]["size"] == size + 2


# Several at once


def test_servers_that_start_together_build_an_index_once(tree: Tree, postgres: Database) -> None:
    tree.migrate(postgres)
    tree.add(ADDS_AN_INDEX)
    url = postgres.conninfo
    crew = [subprocess.Popen(tree.command(url), stdout=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in crew]
    assert [process.returncode for process in crew] == [0, 0]
    assert b"('0001', '0002')" in b"".join(said)
    assert sorted(indexes(postgres)) == ["jobs_by_size", "jobs_kind"]


# Interrupted


def test_killed_in_the_middle_it_is_done_again(
    tree: Tree, db: Database, empty_database_url: str, tmp_path: Path
) -> None:
    tree.migrate(db)
    tree.add(ADDS_A_COLUMN)
    mark = tmp_path / "reached"
    half = 'op.execute("ALTER TABLE jobs ADD COLUMN half text")'
    tree.add(f"{half}\nif not Path({str(mark)!r}).exists():{_indented(HOLDS, mark)}")
    process = subprocess.Popen(tree.command(empty_database_url))
    until(mark.exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: _is_still(db))
    # PostgreSQL has the first of the two, SQLite none; half of one is nowhere.
    assert schema.current(db) == ("0001" if db.dialect.name == "sqlite" else "0002")
    assert "half" not in columns(db)
    with tree.being_head("0001"):
        schema.check(db)
    assert tree.migrate(db)[1] == "0003"
    assert columns(db) == ["id", "kind", "size", "state", "note", "half"]


def _indented(text: str, mark: Path) -> str:
    return text.format(mark=str(mark)).replace("\n", "\n    ")


def _is_still(db: Database) -> bool:
    """What was killed has left the database."""
    if db.dialect.name == "sqlite":
        return True
    with db.read() as tx:
        return not tx.all("SELECT 1 AS x FROM pg_locks WHERE locktype = 'advisory'")


def test_an_index_that_was_left_half_built_is_built_again(tree: Tree, postgres: Database) -> None:
    tree.migrate(postgres)
    tree.add(ADDS_AN_INDEX)
    with ThreadPoolExecutor(1) as other, long_transaction(postgres) as somebody:
        # It waits for that transaction, which has seen the table without the index.
        somebody.execute("UPDATE jobs SET size = 0 WHERE id = 'job_1'")
        building = other.submit(tree.migrate, postgres)
        with postgres.read() as tx:
            until(lambda: tx.all("SELECT 1 AS x FROM pg_index WHERE NOT indisvalid"))
            waits = "SELECT 1 AS x FROM pg_locks WHERE NOT granted"
            until(lambda: tx.all(waits))
            tx.all(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        with pytest.raises(errors.DatabaseDown):
            building.result(30)
    assert schema.current(postgres) == "0001"
    assert tree.migrate(postgres) == ("0001", "0002")
    with postgres.read() as tx:
        assert not tx.all("SELECT 1 AS x FROM pg_index WHERE NOT indisvalid")
    assert sorted(indexes(postgres)) == ["jobs_by_size", "jobs_kind"]


def test_claims_go_on_while_an_index_is_built(tree: Tree, postgres: Database) -> None:
    tree.migrate(postgres)
    tree.add(ADDS_AN_INDEX)
    done = threading.Event()
    with ThreadPoolExecutor(1) as other, long_transaction(postgres) as somebody:
        somebody.execute("UPDATE jobs SET size = 0 WHERE id = 'job_2'")
        building = other.submit(tree.migrate, postgres)
        with postgres.read() as tx:
            until(lambda: tx.all("SELECT 1 AS x FROM pg_locks WHERE NOT granted"))
        with postgres.begin() as tx:
            tx.all("UPDATE jobs SET size = 7 WHERE id = 'job_1'")
            done.set()
        assert not building.done()
    assert done.is_set()
    assert building.result(30) == ("0001", "0002")
