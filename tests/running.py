"""Servers that tests start: `Running` in a thread, `Process` as a program of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

import world as worlds
from rushes import config, handlers, serving, settings, wakeup
from rushes.accounts import access
from rushes.serving import Server
from rushes.startup import listening
from rushes.web import server
from rushes.web.services import Services
from rushes.worker.loop import Handler
from scanner import Watched, check_database, check_log_file, scanner

ADMIN_TOKEN = "canary-admin-token-4f1d-8a6b0c27e935"
ADMIN_SECRET = "canary-admin-secret-9b2e"
START_SECONDS = 90


def settings_for(**given: Any) -> config.Settings:
    """Quick on its feet, and with known secrets."""
    defaults = {
        "port": 0,
        "admin_token": ADMIN_TOKEN,
        "admin_secret": ADMIN_SECRET,
        "poll_interval": 0.2,
        "sweep_interval": 0.2,
        "min_free_space": 0,
    }
    return config.Settings(**{**defaults, **given})


class Clients:
    """Who may speak to a server at `url`."""

    url: str

    def client(self, token: str | None = ADMIN_TOKEN, **options: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        scanner.know([ADMIN_TOKEN, ADMIN_SECRET])
        return httpx2.Client(
            transport=Watched(options.pop("transport", None)),
            base_url=options.pop("base_url", f"{self.url}/api/v1"),
            headers=headers,
            timeout=30,
            **options,
        )

    def user(self, name: str = "ada", **options: Any) -> httpx2.Client:
        """A new user, signed in by a token of theirs."""
        with self.client() as admin:
            made = admin.post("/users", json={"name": name, **options})
            assert made.status_code == 201, made.text
            link = made.json()["signin_url"].partition("token=")[2]
        with self.client(None) as browser:
            assert browser.post("/session/link", json={"token": link}).status_code == 201
            token = browser.post("/tokens", json={"name": "test", "scopes": ["write"]})
            assert token.status_code == 201, token.text
        return self.client(token.json()["token"])

    def worker_key(self, name: str = "remote") -> str:
        with self.client() as admin:
            made = admin.post("/worker/register", json={"name": name})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])


# Whoever listens to PostgreSQL looks so often whether it is to stop.
setattr(wakeup, "LISTEN_SECONDS", 0.1)  # noqa: B010

# Making an app takes a third of a server's start; it can serve one server after another.
_idle: list[FastAPI] = []


def _app(services: Services) -> FastAPI:
    if _is_own(services) or not _idle:
        return server.create_app(services)
    app = _idle.pop()
    app.state.services = services
    return app


def _is_own(services: Services) -> bool:
    """Whether its headers are not those of all others."""
    is_embedded = bool(services.settings.embed_origins)
    return services.is_https or services.links is not None or is_embedded


setattr(serving, "create_app", _app)  # noqa: B010  it is theirs, not ours to name

# Passwords by the same algorithm with less work; one test looks at the real one.
real_hasher = access._hasher
_quick = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=64, parallelism=1),))
setattr(access, "_hasher", lambda: _quick)  # noqa: B010


class Running(Clients):
    def __init__(
        self,
        handlers_table: Mapping[str, Handler] | None = None,
        *,
        transcodes: bool = False,
        full_crew: bool = False,
        **given: Any,
    ) -> None:
        """Only the kinds that are given are run here; `transcodes` adds those of Rushes. Of its own
        work a server does one thing of a kind at a time, unless it has a `full_crew`: each worker
        of it costs the start some transactions, and on PostgreSQL a connection."""
        self._table = dict(handlers_table or {})
        self._transcodes = transcodes
        self._full_crew = full_crew
        self._given = given
        self._stopped = False

    def __enter__(self) -> Running:
        # Speech takes a model and time: those who want it say so.
        speech = {} if "transcribe" in self._table else {"transcription_workers": 0}
        self.settings = settings_for(**{**speech, **self._given})
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        if "database_url" not in self._given:
            worlds.copy_migrated(self.settings.data_dir / "rushes.db")
        self._listener = listening(self.settings)
        self.settings, sockets = self._listener.__enter__()
        self.server = Server(self.settings)
        self.rushes, self.services = self.server.rushes, self.server.services
        with pytest.MonkeyPatch.context() as patch:
            if not self._transcodes:
                patch.setattr(handlers, "BUILT_IN", ())
            if not self._full_crew:
                patch.setattr(serving, "MESSENGERS", 1)
                patch.setattr(serving, "IMPORTERS", 1)
            patch.setattr(handlers, "table", partial(self._handlers, handlers.table))
            self.server.start()
        self.url = self.services.base_url
        self._thread = threading.Thread(target=self.server.run_http, args=[sockets], daemon=True)
        self._thread.start()
        wait_for_server(self.settings.port)
        return self

    def _handlers(
        self, table: Callable[..., dict[str, Handler]], *args: Any, **given: Any
    ) -> dict[str, Handler]:
        return {**table(*args, **given), **self._table}

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.server.leave()
            http = self.server.http
            if http is not None:
                http.should_exit = True
            self._thread.join(20)
            if http is not None and not _is_own(self.services):
                assert isinstance(http.config.app, FastAPI)
                _idle.append(http.config.app)
            check_database(self.rushes.db)
            self.server.stop()
            self._listener.__exit__(None, None, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class Process(Clients):
    """`rushes serve`, to be killed and started again on the same port."""

    def __init__(self, given: config.Settings) -> None:
        port = given.port or free_port()
        self.environment = {
            settings.variable(name): text(value)
            for name, value in {**given_values(given), "port": port}.items()
        }
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.data_dir = given.data_dir

    def __enter__(self) -> Process:
        self.start()
        return self

    def start(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log = self.data_dir / "test-server.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rushes", "serve"],
                env={**clean_environment(), **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
            )
        try:
            wait_for_server(self.port, self.process, self.log)
        except BaseException:
            # Nobody else will.
            self.kill()
            raise

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self, seconds: float = 20) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        check_log_file(self.log)


def clean_environment() -> dict[str, str]:
    tests = str(Path(__file__).parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RUSHES_")}
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    # A server that is asked for speech must not fetch a model meanwhile.
    return {**kept, "PYTHONPATH": path, "RUSHES_ENGINE_AUTO_DOWNLOAD": "false"}


def given_values(given: config.Settings) -> dict[str, Any]:
    """What differs from the defaults and must be said in the environment."""
    plain = config.Settings(data_dir=given.data_dir)
    return {
        name: getattr(given, name)
        for name in settings.FIELDS
        if getattr(given, name) != getattr(plain, name) and name != "base_url"
    } | {"data_dir": given.data_dir}


def text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_server(
    port: int, process: subprocess.Popen[bytes] | None = None, log: Path | None = None
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(httpx2.HTTPError):
            # Loading certificates would cost more than the question.
            if httpx2.get(f"http://127.0.0.1:{port}/livez", timeout=5, verify=False).is_success:
                return
        if (process and process.poll() is not None) or time.monotonic() > deadline:
            raise AssertionError(f"no server: {log.read_text() if log else ''}")
        time.sleep(0.02)


def events_of(response: httpx2.Response) -> Any:
    """The frames of a stream of server-sent events, as (id, type, data)."""
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            if "event" in frame:
                yield frame.get("id"), frame["event"], json.loads(frame["data"])
            frame = {}
