"""The statements of a Rushes worker on PostgreSQL, in a loop by hand on the bare driver."""

from __future__ import annotations

import os
import threading

import msgspec
import psycopg
from benchmarks.contestants import recorded, rushes_any
from benchmarks.contestants.rushes_any import fill
from benchmarks.contestants.tally import Tally

from rushes.db import database

TITLE = "raw psycopg, same SQL"
DATABASE = "postgres"
SHARE = 1.0
DONE = rushes_any.DONE
LEFT = rushes_any.LEFT

__all__ = ["drain", "fill", "prepare"]

encode = msgspec.json.Encoder().encode


def prepare(url: str) -> None:
    rows = recorded.record(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(recorded.TABLE)
        connection.cursor().executemany("INSERT INTO recorded VALUES (%s, %s, %s)", rows)


def drain(url: str, tally: Tally) -> None:
    connection = psycopg.connect(url, autocommit=True, options=database.POSTGRES_LIMITS["options"])
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
    connection: psycopg.Connection, statements: dict[str, list[recorded.Statement]], tally: Tally
) -> None:
    [(lanes, lane_params), (claim, claim_params)] = statements["claim"]
    [(complete, complete_params)] = statements["complete"]
    ids = recorded.claim_ids(os.getpid())
    cursor = connection.cursor()
    while not tally.enough:
        cursor.execute(lanes.encode(), lane_params)
        cursor.fetchall()
        cursor.execute(claim.encode(), claim_params | {"claim_id": next(ids)})
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        job_at, claim_at = names.index("id"), names.index("claim_id")
        rows = cursor.fetchall()
        if not rows:
            return
        results = [{"id": row[job_at], "claim_id": row[claim_at], "result": None} for row in rows]
        cursor.execute(complete.encode(), complete_params | {"given": encode(results).decode()})
        tally.add(len(cursor.fetchall()))


def number(url: str, statements: list[recorded.Statement], over: threading.Event) -> None:
    """The events' positions, as the chores of Rushes give them."""
    [(lock, _), (assign, assign_params), (head, _)] = statements
    with psycopg.connect(url, options=database.POSTGRES_LIMITS["options"]) as connection:
        while not over.is_set():
            connection.execute(lock.encode())
            connection.execute(assign.encode(), assign_params)
            connection.execute(head.encode())
            connection.commit()
            over.wait(recorded.NUMBER_EVERY_SECONDS)
