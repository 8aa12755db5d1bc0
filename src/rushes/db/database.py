"""Connections and transactions: `Database` opens them, `Tx` runs SQL in one.

Verbs get a `Tx` as their first argument; only the edges open one. On PostgreSQL a verb that is one
statement can run in autocommit (one round trip); on SQLite every write holds the file's lock.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import sqlalchemy as sa

from rushes import clock as clocks
from rushes import errors
from rushes.db import dialects, revisions
from rushes.db.deadline import Deadlines
from rushes.db.filelock import FileLock

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
log = logging.getLogger("rushes.db")

# Unlucky transactions of a deadlock are run again this often before the caller hears of it.
RETRIES = 5
# Longer than any transaction of ours by far; a pause of the machine must not look like an error.
BUSY_SECONDS = 30
POSTGRES_LIMITS = {
    # A paused process must not hold row locks for long, nor wait for ever itself. Every statement
    # of ours has its index, but the planner prefers to scan while a table is small or its figures
    # are old (measured: 25 ms instead of 5 ms per batch, and quadratic numbering of events).
    "options": "-c statement_timeout=30s -c lock_timeout=10s"
    " -c idle_in_transaction_session_timeout=30s -c enable_seqscan=off -c jit=off",
}
# With the schema that we were made for: a migration that we could not bear has to know.
APPLICATION = "rushes "
POSTGRES_OPTIONS = {
    "application_name": APPLICATION + revisions.HEAD,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": 5,
    "tcp_user_timeout": 30_000,
}
# Of a transaction, as this side sees it: the limits above are kept by a server that is alive.
DEADLINE_SECONDS = 60.0
# For a connection, when all of them are in use.
POOL_SECONDS = 10.0
_encode = msgspec.json.Encoder().encode


class Tx:
    """A transaction on one driver connection. Statements are texts of ours, never a caller's."""

    def __init__(self, dialect: dialects.Dialect, cursor: Any, clock: clocks.Clock) -> None:
        self.dialect = dialect
        self._cursor = cursor
        self._clock = clock
        self._after_commit: list[Callable[[], None]] = []
        # Nothing in it is news to anybody: such commits are many, and nobody need look at them.
        self.is_silent = False

    def all(self, sql: str, /, given: Any = None, **params: Any) -> dialects.Rows:
        if given is not None:
            params["given"] = _encode(given).decode()
        return self._execute(sql, params)

    def one(self, sql: str, /, given: Any = None, **params: Any) -> dict[str, Any] | None:
        rows = self.all(sql, given, **params)
        return rows[0] if rows else None

    def change(
        self,
        sql: str,
        /,
        *then: str,
        returning: str = "id",
        of: str = dialects.CHANGED_COLUMNS,
        given: Any = None,
        **params: Any,
    ) -> dialects.Rows:
        """Change `jobs` by one guarded statement; `then` reads the rows as the table `changed`,
        in which there are the columns `of` jobs."""
        if given is not None:
            params["given"] = _encode(given).decode()
        change = dialects.Change(sql, then, returning, of)
        return self.dialect.change(self._execute, change, params)

    def together(self) -> AbstractContextManager[Any]:
        """For statements of a `step` that must be all or nothing."""
        return self.dialect.together(self._cursor.connection)

    def wake_after_commit(self, ring: Callable[[], None]) -> None:
        if ring not in self._after_commit:
            self._after_commit.append(ring)

    def after_commit(self, call: Callable[[], None]) -> None:
        """For what counts only if it has happened. It must be quick, and cannot fail."""
        self._after_commit.append(call)

    def run_after_commit(self) -> None:
        for call in self._after_commit:
            call()

    def _execute(self, sql: str, params: dialects.Params) -> dialects.Rows:
        cursor = self._cursor
        if self.dialect.name == "sqlite":
            params["now"] = self._clock.now()
        text = self.dialect.compile(sql)
        try:
            cursor.execute(text, params)
        except Exception as error:
            if not self.dialect.forget_plans(error, cursor.connection):
                raise
            cursor.execute(text, params)
        if cursor.description is None:
            return []
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class CallersTx(Tx):
    """Inside a transaction that a caller has open, and commits."""

    def wake_after_commit(self, ring: Callable[[], None]) -> None:
        if self.dialect.name == "sqlite":
            self._cursor.connection.after_commit.add(ring)
        else:
            self.all("SELECT pg_notify(:channel, '')", channel=dialects.CHANNEL)

    def after_commit(self, call: Callable[[], None]) -> None:
        """Nobody tells us whether it is."""


@dataclass(slots=True)
class Trouble:
    """How often transactions had to be run again, and connections were waited for in vain."""

    retries: int = 0
    timeouts: int = 0


@dataclass(frozen=True, slots=True)
class Connections:
    """Of the pool: those that somebody has, and those that wait to be used again."""

    in_use: int
    idle: int


class Database:
    """One database, by URL. Tests give a `clock`; on PostgreSQL its own clock decides instead."""

    def __init__(self, url: str, clock: clocks.Clock | None = None) -> None:
        self.url = parse_url(url)
        self.clock = clock or clocks.SystemClock()
        self.dialect: dialects.Dialect
        # Called after every commit of `begin` and `step` in this process, but those that are
        # silent; they must not block.
        self.on_commit: list[Callable[[], None]] = []
        self.trouble = Trouble()
        self._lock: FileLock | None = None
        self.deadlines = Deadlines(DEADLINE_SECONDS)
        if self.url.get_backend_name() == "sqlite":
            self.dialect = dialects.Sqlite()
            self._lock = FileLock(f"{self.url.database}-lock", BUSY_SECONDS)
            _make_private(Path(str(self.url.database)))
            self._engine = self.engine = _sqlite_engine(self.url, self._lock)
        else:
            self.dialect = dialects.Postgres()
            self._engine = _postgres_engine(self.url, "AUTOCOMMIT", POSTGRES_LIMITS)
            self.engine = _postgres_engine(self.url, "READ COMMITTED", {})

    def connect(self) -> psycopg.Connection:
        """A PostgreSQL connection of one's own, in autocommit; it is for the caller to watch it."""
        import psycopg

        options: dict[str, Any] = dict(POSTGRES_OPTIONS)
        return psycopg.connect(self.conninfo, autocommit=True, **options)

    @property
    def conninfo(self) -> str:
        """With the password in it."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """All or nothing, for several statements."""
        with self._connection() as connection:
            tx = Tx(self.dialect, connection.cursor(), self.clock)
            self._begin(connection)
            try:
                yield tx
            except BaseException as error:
                self._rollback(connection, error)
                raise
            self._commit(connection)
        self._committed(tx)

    @contextmanager
    def step(self) -> Iterator[Tx]:
        """On PostgreSQL each statement commits by itself; on SQLite the block does."""
        if self._lock is not None:
            with self.begin() as tx:
                yield tx
        else:
            with self.read() as tx:
                yield tx
            self._committed(tx)

    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[Tx]:
        """`seconds`: how long to wait for a PostgreSQL that is silent, if not as long as usual."""
        with self._connection(seconds) as connection:
            yield Tx(self.dialect, connection.cursor(), self.clock)

    def run(self, verb: Callable[[Tx], T]) -> T:
        """A verb in a transaction, run again when the database undid it because of a deadlock."""
        return self._again(self.begin, verb)

    def run_step(self, verb: Callable[[Tx], T]) -> T:
        """The same for a verb whose statements are each complete in themselves."""
        return self._again(self.step, verb)

    def connections(self) -> Connections:
        pool = self._engine.pool
        assert isinstance(pool, sa.QueuePool)
        return Connections(in_use=pool.checkedout(), idle=pool.checkedin())

    def join(self, connection: sa.Connection) -> Tx:
        """Take part in a caller's transaction; the caller commits."""
        if not connection.in_transaction():
            connection.begin()
        return CallersTx(self.dialect, connection.connection.cursor(), self.clock)

    def close(self) -> None:
        self._engine.dispose()
        self.engine.dispose()
        if self._lock is not None:
            self._lock.close()

    def _again(self, open_tx: Callable[[], Any], verb: Callable[[Tx], T]) -> T:
        for attempt in range(RETRIES):
            try:
                with open_tx() as tx:
                    return verb(tx)
            except errors.DatabaseBusy as error:
                if not self.dialect.may_retry(error):
                    raise
                # A lost count is no harm: it is rare, and nobody needs it to the last one.
                self.trouble.retries += 1
            time.sleep(random.uniform(0, 0.01 * 2**attempt))
        with open_tx() as tx:
            return verb(tx)

    @contextmanager
    def renamed(self) -> Iterator[None]:
        """The driver's errors leave in our words."""
        try:
            yield
        except Exception as error:
            if isinstance(error, sa.exc.TimeoutError):
                self.trouble.timeouts += 1
                raise errors.DatabaseBusy("all connections to the database are in use") from error
            cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
            ours = self.dialect.rename(cause) if isinstance(cause, Exception) else None
            if ours is None:
                raise
            raise ours from error

    @contextmanager
    def _connection(self, seconds: float | None = None) -> Iterator[Any]:
        with self.renamed():
            connection = self._engine.raw_connection()
            try:
                with self._watched(connection.driver_connection, seconds):
                    yield connection
            finally:
                if self.dialect.is_broken(connection.driver_connection):
                    connection.invalidate()
                    # Its neighbours in the pool are from before the restart, too.
                    self._engine.dispose()
                connection.close()

    def _watched(self, driver: Any, seconds: float | None) -> AbstractContextManager[None]:
        if self._lock is not None:
            return nullcontext()
        return self.deadlines.watch(driver.pgconn.socket, seconds)

    def _begin(self, connection: Any) -> None:
        if self._lock is not None:
            connection.driver_connection.begin()
        else:
            connection.driver_connection.execute("BEGIN")

    def _commit(self, connection: Any) -> None:
        if self._lock is not None:
            connection.driver_connection.commit()
        else:
            connection.driver_connection.execute("COMMIT")

    def _committed(self, tx: Tx) -> None:
        tx.run_after_commit()
        for call in () if tx.is_silent else self.on_commit:
            try:
                call()
            except Exception:
                # The caller's change is safe; it must not look as if it had failed.
                log.exception("a listener to commits failed")

    def _rollback(self, connection: Any, error: BaseException) -> None:
        driver = connection.driver_connection
        if self.dialect.is_broken(driver):
            return
        if self._lock is not None:
            driver.rollback()
        else:
            driver.execute("ROLLBACK")
            self.dialect.forget_plans(error, driver)


def parse_url(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise errors.UnsupportedDatabase(
            "the database URL cannot be read; it looks like sqlite:///rushes.db or"
            " postgresql://user:password@host/name"
        ) from None
    match parsed.get_backend_name():
        case "sqlite" if parsed.database in (None, "", ":memory:"):
            raise errors.UnsupportedDatabase(
                "an in-memory SQLite database cannot be shared: name a file, sqlite:///rushes.db"
            )
        case "sqlite":
            return parsed.set(drivername="sqlite")
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg")
        case other:
            raise errors.UnsupportedDatabase(
                f"{other} is not supported: use sqlite:///rushes.db or postgresql://…"
            )


class _LockedConnection(sqlite3.Connection):
    """Holds the file's lock from BEGIN to the end of COMMIT or ROLLBACK."""

    lock: FileLock
    locked = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.after_commit: set[Callable[[], None]] = set()

    def begin(self) -> None:
        self.lock.acquire()
        self.locked = True
        try:
            self.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._unlock()
            raise

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            if not self.in_transaction:
                self._unlock()
        while self.after_commit:
            self.after_commit.pop()()

    def rollback(self) -> None:
        self.after_commit.clear()
        try:
            super().rollback()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self.locked:
            self.locked = False
            self.lock.release()


def _make_private(path: Path) -> None:
    """The file holds keys and everybody's words. SQLite gives those beside it the same mode."""
    beside = [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-lock", "-bell")]
    # What cannot be made or changed here is told by whoever opens it.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for each in (path, *beside):
        with suppress(OSError):
            if (mode := each.stat().st_mode) & 0o077:
                each.chmod(mode & 0o700)


def _sqlite_engine(url: sa.URL, lock: FileLock) -> sa.Engine:
    arguments = {"factory": _LockedConnection, "isolation_level": None, "timeout": BUSY_SECONDS}
    engine = sa.create_engine(
        url, connect_args={**arguments, "check_same_thread": False}, pool_size=16, max_overflow=64
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: _LockedConnection, record: object) -> None:
        connection.lock = lock
        connection.isolation_level = None
        # FULL: with NORMAL the last commits may be gone after a power cut.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, _LockedConnection)
        driver.begin()

    return engine


def _postgres_engine(
    url: sa.URL, isolation: Literal["AUTOCOMMIT", "READ COMMITTED"], limits: dict[str, str]
) -> sa.Engine:
    try:
        return sa.create_engine(
            url,
            connect_args={**POSTGRES_OPTIONS, **limits},
            pool_size=16,
            max_overflow=48,
            pool_timeout=POOL_SECONDS,
            isolation_level=isolation,
        )
    except ModuleNotFoundError:
        raise errors.UnsupportedDatabase(
            "PostgreSQL needs its driver: pip install 'rushes[postgres]'"
        ) from None
