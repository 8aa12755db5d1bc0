"""All that differs between SQLite and PostgreSQL: eight fragments, how a change runs, error names.

SQL is written once with `{now}`, `{skip_locked}`, `{for_update}`, `{for_share}`, `{changed}`,
`{of_user}`, `{given:id text, …}` and `{each:column}`; `compile` fills these in and turns `:name`
into the driver's style.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rushes import errors

if TYPE_CHECKING:
    import psycopg

# Where a PostgreSQL transaction tells waiting workers to look again.
CHANNEL = "rushes_jobs"

Params = dict[str, Any]
Rows = list[dict[str, Any]]
Execute = Callable[[str, Params], Rows]


# What events, attempts and answers are made of; a row has twice as many.
CHANGED_COLUMNS = """jobs.id, jobs.kind, jobs.media_id, jobs.user_id, jobs.state, jobs.priority,
    jobs.args, jobs.queued_at, jobs.progress, jobs.stage, jobs.attempt, jobs.max_attempts,
    jobs.claim_id, jobs.claim_epoch, jobs.claimed_by, jobs.claimed_at, jobs.cancel_requested_at,
    jobs.checkpoint, jobs.processed_by_worker_id, jobs.processed_by_worker_name, jobs.error_code,
    jobs.detail, jobs.parent_id, jobs.division, jobs.engine_id, jobs.engine_model, jobs.run_at,
    jobs.trace"""


class Change(NamedTuple):
    """A change of `jobs`: its text, those that read the rows it `changed`, what is returned of
    them, and the columns that all this needs."""

    text: str
    then: tuple[str, ...]
    returning: str = "id"
    of: str = CHANGED_COLUMNS


class Dialect(Protocol):
    name: str
    # Whether rows that were changed or deleted are in the way until nobody can see them any more.
    keeps_the_dead: bool

    def compile(self, sql: str) -> str:
        """The text to hand to the driver."""
        ...

    def change(self, execute: Execute, change: Change, params: Params) -> Rows:
        """Run a change of `jobs`, then the statements that follow from the rows it `changed`."""
        ...

    def rename(self, error: Exception) -> errors.RushesError | None:
        """The driver's error in our words, or None when it is a mistake in a statement."""
        ...

    def together(self, connection: Any) -> AbstractContextManager[Any]:
        """Statements of a step, as one transaction; within one, they are a part of it."""
        ...

    def is_broken(self, connection: Any) -> bool:
        """True when the driver's connection can never be used again."""
        ...

    def may_retry(self, error: Exception) -> bool:
        """True for an error of ours that says: all was undone, run the transaction again."""
        ...

    def forget_plans(self, error: BaseException, connection: Any) -> bool:
        """If a driver's error is of a plan from before a migration, and no transaction is open:
        has it make new ones. True if so, and the same statement works now."""
        ...


class _Given:
    """Formats `{given:id text, n bigint}` as a SELECT over the JSON list in :given."""

    def __init__(self, postgres: bool) -> None:
        self.postgres = postgres

    def __format__(self, spec: str) -> str:
        if self.postgres:
            return f"SELECT * FROM json_to_recordset(CAST(:given AS json)) AS given({spec})"
        names = [column.split()[0] for column in spec.split(",")]
        columns = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
        return f"SELECT {columns} FROM json_each(:given)"


class _Each:
    """Formats `{each:needs}` as a table of the words in that JSON list, in the column `value`."""

    def __init__(self, postgres: bool) -> None:
        self.postgres = postgres

    def __format__(self, spec: str) -> str:
        if self.postgres:
            return f"json_array_elements_text(CAST({spec} AS json)) AS word(value)"
        return f"json_each({spec}) AS word"


# Of a few hundred statements, whichever database they are for: each is filled in once.


@cache
def _for_postgres(sql: str) -> str:
    text = sql.format(
        # As a subselect it is computed once per statement, not once per row.
        now="(SELECT rushes_now())",
        skip_locked="FOR UPDATE SKIP LOCKED",
        for_update="FOR UPDATE",
        for_share="FOR SHARE",
        changed="changed",
        # As a pair, so that it walks along the index of lanes and users: it would sooner read
        # and sort all of a user's jobs.
        of_user="(lane, user_id) >= (:lane, :user_id) AND (lane, user_id) <= (:lane, :user_id)",
        given=_Given(True),
        each=_Each(True),
    )
    return re.sub(r"(?<!:):([a-z_]\w*)", r"%(\1)s", text)


@cache
def _for_sqlite(sql: str) -> str:
    return sql.format(
        now=":now",
        skip_locked="",
        for_update="",
        for_share="",
        changed="jobs",
        of_user="user_id = :user_id",
        given=_Given(False),
        each=_Each(False),
    )


class Postgres:
    name = "postgresql"
    keeps_the_dead = True

    def compile(self, sql: str) -> str:
        return _for_postgres(sql)

    def change(self, execute: Execute, change: Change, params: Params) -> Rows:
        """One statement, so that a verb with its attempts and events is one round trip."""
        return execute(_with_changed(change), params)

    def rename(self, error: Exception) -> errors.RushesError | None:
        import psycopg
        from psycopg import errors as pg

        match error:
            case pg.DeadlockDetected() | pg.SerializationFailure():
                return errors.DatabaseBusy("transactions stood in each other's way")
            case pg.FeatureNotSupported() if _has_stale_plan(error):
                return errors.DatabaseBusy("the schema was changed meanwhile")
            case pg.DiskFull():
                return errors.DiskFull("the database's disk is full", detail=str(error))
            case pg.ReadOnlySqlTransaction():
                return errors.ReadOnly("the database is read-only", detail=str(error))
            case pg.ForeignKeyViolation():
                return errors.NotFound("what this refers to is not there any more")
            case pg.LockNotAvailable() | pg.QueryCanceled():
                return errors.DatabaseBusy("the database did not answer in time", detail=str(error))
            case (
                psycopg.OperationalError()
                | psycopg.InterfaceError()
                | pg.IdleInTransactionSessionTimeout()
            ):
                return errors.DatabaseDown("the database cannot be reached", detail=str(error))
            case _:
                return None

    def together(self, connection: Any) -> AbstractContextManager[Any]:
        return connection.transaction()  # type: ignore[no-any-return]

    def is_broken(self, connection: Any) -> bool:
        return bool(connection.closed)

    def may_retry(self, error: Exception) -> bool:
        from psycopg import errors as pg

        cause = error.__cause__
        return isinstance(cause, pg.DeadlockDetected | pg.SerializationFailure) or (
            isinstance(cause, pg.FeatureNotSupported) and _has_stale_plan(cause)
        )

    def forget_plans(self, error: BaseException, connection: Any) -> bool:
        import psycopg
        from psycopg.pq import TransactionStatus

        if not (isinstance(error, psycopg.Error) and _has_stale_plan(error)):
            return False
        if connection.info.transaction_status != TransactionStatus.IDLE:
            return False
        connection.execute("DEALLOCATE ALL", prepare=False)
        return True


class Sqlite:
    name = "sqlite"
    keeps_the_dead = False

    def compile(self, sql: str) -> str:
        return _for_sqlite(sql)

    def change(self, execute: Execute, change: Change, params: Params) -> Rows:
        """SQLite has no changes inside WITH: the same texts run in turn and find the rows by id."""
        rows = execute(f"{change.text} RETURNING {change.returning}", params)
        if rows:
            ids = "[" + ",".join(f'"{row["id"]}"' for row in rows) + "]"
            for text in change.then:
                execute(CHANGED_BY_ID + text, {**params, "changed": ids})
        return rows

    def rename(self, error: Exception) -> errors.RushesError | None:
        match getattr(error, "sqlite_errorname", "").split("_")[:2]:
            case ["SQLITE", "BUSY" | "LOCKED"]:
                return errors.DatabaseBusy("the database is busy", detail=str(error))
            case ["SQLITE", "FULL"]:
                return errors.DiskFull("the database's disk is full", detail=str(error))
            case ["SQLITE", "READONLY"]:
                return errors.ReadOnly("the database file is read-only", detail=str(error))
            case ["SQLITE", "CANTOPEN" | "IOERR" | "NOTADB" | "CORRUPT"]:
                return errors.DatabaseDown("the database file cannot be used", detail=str(error))
            case _:
                return None

    def together(self, connection: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def is_broken(self, connection: Any) -> bool:
        return False

    def may_retry(self, error: Exception) -> bool:
        return False

    def forget_plans(self, error: BaseException, connection: Any) -> bool:
        return False


def _has_stale_plan(error: psycopg.Error) -> bool:
    """A migration has added a column to a table that a prepared statement reads all columns of."""
    return error.diag.source_function == "RevalidateCachedQuery"


CHANGED_BY_ID = """WITH changed AS (
    SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(:changed))
) """


# In a subselect, so that it is said once and not for every row.
NOTIFY = f"(SELECT pg_notify('{CHANNEL}', ''))"


@cache
def _with_changed(change: Change) -> str:
    follow = "".join(f", then_{n} AS ({text})" for n, text in enumerate(change.then))
    text = f"{change.text} RETURNING {change.of}"
    return f"WITH changed AS ({text}){follow} SELECT {change.returning} FROM changed"
