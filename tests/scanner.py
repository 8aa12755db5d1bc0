"""What leaves a server in the tests is read: no place on its disk, no key, no raw error (P10).

Always on: clients of `running` look at every answer and frame, a handler at every line of the log,
and a server that stops has its database looked at. What is found fails the test that was running.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

import rushes
from rushes import errors, logs
from rushes.db.database import Database

# In the one answer that makes them.
NEW_SECRETS = ("token", "key", "api_key", "code", "secret", "signin_url")
SHORTEST_SECRET = 16
RAW = ("Traceback (most recent call last)", "ffmpeg version", "libavutil", 'File "/')
# So much of a chunk is looked at again with the next one.
OVERLAP = 300
TEXT = ("text/", "application/json", "application/problem+json", "application/vnd.apple")
# What a table holds because it must: a webhook's secret signs each message.
HOLDS_SECRETS = {"webhooks"}
SHOWN = {"job_logs": "line", "jobs": "last_error", "attempts": "error", "events": "data"}
ROWS = 2_000


class Scanner:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._places = {
            str(Path.home()) + "/",
            tempfile.gettempdir() + "/",
            str(Path(rushes.__file__).parent),
            str(Path(__file__).parent),
            str(Path(sys.prefix)),
            "site-packages",
        }
        self.found: list[str] = []

    def know(self, secrets: Iterable[str]) -> None:
        """They must not be seen from now on."""
        with self._lock:
            self._secrets |= {each for each in secrets if each}

    def take(self) -> list[str]:
        with self._lock:
            found, self.found = self.found, []
        return found

    def check(self, where: str, text: str) -> None:
        self.check_secrets(where, text)
        for each in (*self._places, *RAW):
            if each in text:
                self._note(where, each, text)

    def check_secrets(self, where: str, text: str) -> None:
        with self._lock:
            secrets = list(self._secrets)
        for each in secrets:
            if each in text:
                self._note(where, each, text)

    def _note(self, where: str, what: str, text: str) -> None:
        at = text.find(what)
        with self._lock:
            self.found.append(f"{where} tells {what!r}: …{text[max(0, at - 100) : at + 150]}…")


scanner = Scanner()


class Watched(httpx2.BaseTransport):
    """A transport that looks at all that comes back."""

    def __init__(self, transport: httpx2.BaseTransport | None = None) -> None:
        self._transport = transport or httpx2.HTTPTransport(verify=False)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._transport.handle_request(request)
        where = f"{request.method} {request.url.path} {response.status_code}"
        headers = {name: value for name, value in response.headers.items() if name != "set-cookie"}
        scanner.check(f"{where} (headers)", str(headers))
        if response.headers.get("content-type", "").startswith(TEXT):
            made_new = request.method == "POST" and response.is_success
            assert isinstance(response.stream, httpx2.SyncByteStream)
            response.stream = _Stream(response.stream, where, made_new)
        return response

    def close(self) -> None:
        self._transport.close()


class _Stream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, where: str, made_new: bool) -> None:
        self._stream = stream
        self._where = where
        self._made_new = made_new

    def __iter__(self) -> Iterator[bytes]:
        before, whole = "", b""
        for chunk in self._stream:
            text = before + chunk.decode("utf-8", "replace")
            scanner.check(self._where, text)
            before = text[-OVERLAP:]
            if self._made_new:
                whole += chunk
            yield chunk
        if self._made_new:
            scanner.know(new_secrets(whole))

    def close(self) -> None:
        self._stream.close()


def new_secrets(answer: bytes) -> list[str]:
    """What an answer to its owner shows for the first and last time."""
    with suppress(ValueError):
        said = json.loads(answer)
        if isinstance(said, dict):
            values = [str(said.get(name) or "") for name in NEW_SECRETS]
            bare = [value.rpartition("token=")[2] for value in values]
            return [value for value in bare if len(value) >= SHORTEST_SECRET]
    return []


class LogWatch(logging.Handler):
    """The log may tell places, to those who can read it; never a key."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._json = logs._Json()

    def emit(self, record: logging.LogRecord) -> None:
        scanner.check_secrets(f"the log ({record.name})", self._json.format(record))


_log_watch = LogWatch()


def watch_logs() -> None:
    """Asking twice is harmless."""
    logging.getLogger("rushes").setLevel(logging.INFO)
    logging.getLogger("rushes.http").setLevel(logging.DEBUG)
    for name in ("rushes", "uvicorn"):
        logging.getLogger(name).addHandler(_log_watch)


def check_database(db: Database) -> None:
    """Secrets are nowhere in it, and what people are shown tells no places."""
    with suppress(errors.Unavailable), db.read() as tx:
        for table in tables(tx):
            rows = tx.all(f"SELECT * FROM {table} LIMIT {ROWS}")
            if table not in HOLDS_SECRETS:
                scanner.check_secrets(f"the table {table}", str(rows))
            if column := SHOWN.get(table):
                shown = "\n".join(str(row[column]) for row in rows if row[column])
                scanner.check(f"the table {table}", shown)


def tables(tx: Any) -> list[str]:
    if tx.dialect.name == "sqlite":
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    else:
        sql = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'"
    return sorted(row["name"] for row in tx.all(sql))


def check_log_file(path: Path) -> None:
    """Of a server that was a process of its own. Whoever starts it may see its first link."""
    for line in path.read_text(errors="replace").splitlines():
        if "/sign-in?token=" not in line:
            scanner.check_secrets(f"{path.name}", line)
