"""The statements of a Rushes worker on SQLite, in a loop by hand on the bare driver."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from typing import Any

import msgspec
from benchmarks.contestants import recorded, rushes_any
from benchmarks.contestants.rushes_any import fill
from benchmarks.contestants.tally import Tally

TITLE = "raw sqlite3, same SQL"
DATABASE = "sqlite"
SHARE = 1.0
DONE = rushes_any.DONE
LEFT = rushes_any.LEFT

__all__ = ["drain", "fill", "prepare"]

encode = msgspec.json.Encoder().encode


def connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def prepare(url: str) -> None:
    rows = recorded.record(url)
    connection = connect(url)
    connection.execute(recorded.TABLE)
    connection.executemany("INSERT INTO recorded VALUES (?, ?, ?)", rows)
    connection.close()


def drain(url: str, tally: Tally) -> None:
    connection = connect(url)
    statements = recorded.by_verb(connection.execute(recorded.READ).fetchall())
    numbering = threading.Event()
    numberer = threading.Thread(target=number, args=(url, statements["number"], numbering))
    tally.start()
    numberer.start()
    work(connection, statements, tally)
    numbering.set()
    numberer.join()
    connection.close()


def work(
    connection: sqlite3.Connection, statements: dict[str, list[recorded.Statement]], tally: Tally
) -> None:
    lanes, *claim = statements["claim"]
    ids = recorded.claim_ids(os.getpid())
    while not tally.enough:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(lanes[0], lanes[1] | {"now": now()}).fetchall()
        rows = change(connection, claim, claim_id=next(ids))
        connection.execute("COMMIT")
        if not rows:
            return
        results = [{"id": row["id"], "claim_id": row["claim_id"], "result": None} for row in rows]
        connection.execute("BEGIN IMMEDIATE")
        rows = change(connection, statements["complete"], given=encode(results).decode())
        connection.execute("COMMIT")
        tally.add(len(rows))


def change(
    connection: sqlite3.Connection, statements: list[recorded.Statement], **fresh: Any
) -> list[dict[str, Any]]:
    """One guarded change, then what follows from the rows that it changed."""
    (sql, params), *then = statements
    fresh["now"] = now()
    cursor = connection.execute(sql, params | fresh)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if rows:
        fresh["changed"] = encode([row["id"] for row in rows]).decode()
        for sql, params in then:
            connection.execute(sql, params | fresh)
    return rows


def number(path: str, statements: list[recorded.Statement], over: threading.Event) -> None:
    """The events' positions, as the chores of Rushes give them."""
    [(lock, _), (assign, assign_params), (head, _)] = statements
    connection = connect(path)
    while not over.is_set():
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(lock)
        connection.execute(assign, assign_params)
        connection.execute(head)
        connection.execute("COMMIT")
        over.wait(recorded.NUMBER_EVERY_SECONDS)
    connection.close()


def now() -> int:
    return time.time_ns() // 1_000_000
