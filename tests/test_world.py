"""Databases of the tests: one that is used again must be as new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import world as worlds
from running import Running
from web import library


def everything(url: str) -> dict[str, Any]:
    """All rows, where numbering goes on, and what the planner knows."""
    found: dict[str, Any] = {}
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for relation, kind, tuples in connection.execute(
            "SELECT oid::regclass::text, relkind, reltuples FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')"
        ).fetchall():
            rows = connection.execute(f"SELECT * FROM {relation}").fetchall()
            if kind == "S":
                found[relation] = [(row[0], row[2]) for row in rows]
            else:
                found[relation] = (rows, tuples if not rows else None)
    return found


@pytest.fixture(autouse=True)
def none_idle(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    idle: list[str] = []
    monkeypatch.setattr(worlds, "_idle", idle)
    return idle


def test_a_database_that_is_used_again_is_as_new(serve: Callable[..., Running]) -> None:
    with worlds.postgres_database() as first:
        new = everything(first)
        server = serve(database_url=first)
        library.enqueue(server, "ada")
        library.claim(server, "demo")
        server.rushes.chores.tick()
        server.stop()
        used = everything(first)
        assert {name for name in new if used[name] != new[name]} > {"jobs", "events", "event_head"}
        # Somebody stays.
        left = psycopg.connect(first.replace("+psycopg", ""), autocommit=True)
        left.execute("ANALYZE")
    with worlds.postgres_database() as second:
        assert everything(second) == new
        assert second != first
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(first.replace("+psycopg", ""))
    left.close()
    worlds.drop_idle()


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE mine (id integer)",
        "ALTER TABLE jobs ADD COLUMN mine integer",
        "ALTER TABLE jobs DROP CONSTRAINT processing_is_claimed",
        "UPDATE alembic_version SET version_num = '9999'",
        "CREATE OR REPLACE FUNCTION rushes_now() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
    ],
)
def test_one_whose_schema_was_changed_is_not(none_idle: list[str], change: str) -> None:
    with (
        worlds.postgres_database() as url,
        psycopg.connect(url.replace("+psycopg", "")) as connection,
    ):
        connection.execute(change)
    assert none_idle == []
