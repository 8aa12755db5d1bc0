"""Transactions, errors in our words, and what a database must have to be used."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from rushes import errors
from rushes.db import schema
from rushes.db.database import Database, Tx, parse_url
from world import World


def test_a_failed_transaction_leaves_nothing(world: World) -> None:
    with pytest.raises(ZeroDivisionError), world.db.begin() as tx:
        tx.all("INSERT INTO pauses (kind, paused_at) VALUES ('a', 1)")
        _ = 1 / 0
    assert world.rows("SELECT * FROM pauses") == []


def test_hints_are_given_after_the_commit_and_not_after_a_rollback(world: World) -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(len(world.rows("SELECT * FROM pauses")))

    with world.db.begin() as tx:
        tx.all("INSERT INTO pauses (kind, paused_at) VALUES ('a', 1)")
        tx.wake_after_commit(look)
        assert seen == []
    assert seen == [1]
    with pytest.raises(ZeroDivisionError), world.db.begin() as tx:
        tx.wake_after_commit(look)
        _ = 1 / 0
    assert seen == [1]


@pytest.mark.parametrize(
    "url", ["mysql://localhost/x", "duckdb:///x.db", "sqlite://", "sqlite:///:memory:", "nonsense"]
)
def test_an_unsupported_database_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(errors.UnsupportedDatabase, match="sqlite:///"):
        Database(url)


def test_postgres_urls_of_every_spelling_use_one_driver() -> None:
    for url in ("postgres://u@h/d", "postgresql://u@h/d", "postgresql+psycopg2://u@h/d"):
        assert parse_url(url).drivername == "postgresql+psycopg"


def test_a_database_that_cannot_be_reached_is_unavailable() -> None:
    db = Database("postgresql://postgres@127.0.0.1:1/x")
    with pytest.raises(errors.DatabaseDown) as caught, db.begin():
        pass
    assert "127.0.0.1" not in caught.value.message
    db.close()


def test_a_lost_connection_is_replaced(postgres_world: World) -> None:
    world = postgres_world
    with psycopg.connect(world.db.conninfo, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(errors.DatabaseDown):
        world.rows("SELECT 1 AS one")
    assert world.rows("SELECT 1 AS one") == [{"one": 1}]


def test_a_deadlock_is_run_again_and_nobody_hears_of_it(world: World) -> None:
    ids = [world.enqueue() for _ in range(2)]
    met = threading.Barrier(2)
    tries: list[str] = []

    def touch(first: str, second: str) -> None:
        def both(tx: Tx) -> None:
            tries.append(first)
            sql = "UPDATE jobs SET stage = 'touched' WHERE id = :id"
            tx.all(sql, id=first)
            if world.db.dialect.name == "postgresql" and len(tries) <= 2:
                met.wait(timeout=10)
            tx.all(sql, id=second)

        world.db.run(both)

    threads = [threading.Thread(target=touch, args=pair) for pair in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [world.job(id).stage for id in ids] == ["touched", "touched"]
    assert len(tries) >= (3 if world.db.dialect.name == "postgresql" else 2)


def test_migrating_twice_changes_nothing_and_makes_the_head(empty_database_url: str) -> None:
    db = Database(empty_database_url)
    assert schema.current(db) is None
    with pytest.raises(errors.SchemaTooOld, match="rushes migrate"):
        schema.check(db)
    assert schema.migrate(db) == (None, schema.HEAD)
    assert schema.migrate(db) == (schema.HEAD, schema.HEAD)
    schema.check(db)
    db.close()


def test_the_head_we_want_is_the_newest_migration() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_a_database_of_a_newer_schema_is_left_alone(database_url: str) -> None:
    db = Database(database_url)
    with db.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for verb in (schema.check, schema.migrate):
        with pytest.raises(errors.SchemaTooNew, match="upgrade Rushes"):
            verb(db)
    db.close()


def test_two_processes_may_migrate_at_once(empty_database_url: str) -> None:
    program = (
        "import sys; from rushes.db.database import Database; from rushes.db import schema;"
        "schema.migrate(Database(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, empty_database_url]
    crew = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=60) for process in crew] == [0, 0, 0]


def test_a_full_disk_is_told_and_nothing_is_half_written(sqlite_world: World) -> None:
    world = sqlite_world
    world.enqueue()
    pages = world.rows("PRAGMA page_count")[0]["page_count"]
    with pytest.raises(errors.DiskFull), world.db.begin() as tx:
        tx.all(f"PRAGMA max_page_count = {pages}")
        for _ in range(100):
            tx.all("INSERT INTO turns VALUES (hex(randomblob(4000)), 1)")
    with world.db.begin() as tx:
        tx.all("PRAGMA max_page_count = 1000000")
    world.complete(world.claim())
    world.check()


def test_a_database_one_may_not_write_is_told(sqlite_world: World) -> None:
    world = sqlite_world
    with pytest.raises(errors.ReadOnly), world.db.begin() as tx:
        tx.all("PRAGMA query_only = ON")
        tx.all("INSERT INTO pauses VALUES ('a', 1)")


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(errors.ReadOnly):
        Database(f"sqlite:///{tmp_path}/file/rushes.db")


def test_a_read_only_postgres_is_told(postgres_world: World) -> None:
    with pytest.raises(errors.ReadOnly), postgres_world.db.begin() as tx:
        tx.all("SET TRANSACTION READ ONLY")
        tx.all("INSERT INTO pauses VALUES ('a', 1)")


def test_a_thread_that_forgets_its_open_transaction_is_told_at_once(sqlite_world: World) -> None:
    world = sqlite_world
    with world.db.engine.begin(), pytest.raises(errors.DatabaseBusy, match="connection="):
        world.enqueue()
    world.enqueue()


def test_sqlite_is_durable(sqlite_world: World) -> None:
    world = sqlite_world
    settings = [world.rows(f"PRAGMA {name}")[0][name] for name in ("journal_mode", "synchronous")]
    assert settings == ["wal", 2]


def test_a_killed_writer_leaves_the_lock_free(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rushes.db"
    program = (
        "import os, sys; from rushes import Rushes\n"
        "rushes = Rushes(sys.argv[1])\n"
        "with rushes.db.begin() as tx:\n"
        "    tx.all(\"INSERT INTO pauses VALUES ('a', 1)\")\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, url], check=False)
    assert killed.returncode == -9
    db = Database(url)
    with db.begin() as tx:
        assert tx.all("SELECT * FROM pauses") == []
    db.close()


def test_a_database_file_is_nobody_elses_to_read(tmp_path: Path) -> None:
    """Also one that an older version has made, and whatever the umask is."""
    path = tmp_path / "rushes.db"
    before = os.umask(0o022)
    try:
        path.touch()
        for suffix in ("", "-wal"):
            Path(f"{path}{suffix}").touch(0o644)
        db = Database(f"sqlite:///{path}")
        schema.migrate(db)
        modes = {each.name: oct(each.stat().st_mode & 0o077) for each in tmp_path.iterdir()}
        assert set(modes) >= {"rushes.db", "rushes.db-wal", "rushes.db-lock"}
        assert set(modes.values()) == {"0o0"}
        db.close()
    finally:
        os.umask(before)
