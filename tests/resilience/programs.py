"""`rushes serve` and `rushes worker` as processes to be killed, paused and started again.

They are forked from a process that has imported everything already: importing would be most of
their life. One whose test was killed ends with it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from resilience import breakpoints, crashing_server, demo_handlers
from resilience.breakpoints import Breakpoints
from running import Clients, given_values, settings_for, text, wait_for_server
from rushes import cli, kinds, settings
from rushes.cli import serve, worker
from rushes.db import database
from rushes.worker.remote import Remote
from scanner import check_log_file

END_SECONDS = 30
IMPATIENT = "IMPATIENT"
IMPATIENT_SECONDS = 2.0
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "resilience.programs", "rushes.serving"])


class Program:
    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.environment = dict(environment)
        self._arguments = arguments
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        self._process = _context.Process(
            target=_run, args=(self._arguments, self.environment, str(self.log)), daemon=True
        )
        self._process.start()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> int:
        """Gently; the exit code."""
        self._signal(signal.SIGTERM)
        return self._wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def end(self) -> None:
        if self.is_running:
            self.kill()
        if self.log.exists():
            check_log_file(self.log)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _wait(self) -> int:
        assert self._process is not None
        self._process.join(END_SECONDS)
        assert self._process.exitcode is not None, "it does not end"
        return self._process.exitcode


class Server(Program, Clients):
    def __init__(self, data_dir: Path, *, impatient: bool = False, **given: Any) -> None:
        """`impatient`: it soon gives up a database that does not answer."""
        self.settings = settings_for(data_dir=data_dir, port=_own_port(), **given)
        self.url = f"http://127.0.0.1:{self.settings.port}"
        self.breakpoints = Breakpoints(data_dir / "breakpoints")
        environment = {
            settings.variable(name): text(value)
            for name, value in given_values(self.settings).items()
        }
        environment[breakpoints.VARIABLE] = str(self.breakpoints.directory)
        if impatient:
            environment[IMPATIENT] = "yes"
        super().__init__(["serve"], environment, data_dir / "server.log")

    def set(self, **given: Any) -> None:
        """From the next start on."""
        self.environment |= {settings.variable(name): text(value) for name, value in given.items()}

    def start(self) -> None:
        super().start()
        wait_for_server(self.settings.port, log=self.log)


class WorkerProcess(Program):
    def __init__(self, directory: Path, url: str, key: str) -> None:
        self.breakpoints = Breakpoints(directory / "breakpoints")
        environment = {
            "RUSHES_SERVER": url,
            "RUSHES_WORKER_KEY": key,
            "RUSHES_DATA_DIR": str(directory),
            "RUSHES_HANDLERS": "resilience.demo_handlers",
            breakpoints.VARIABLE: str(self.breakpoints.directory),
        }
        super().__init__(["worker"], environment, directory / "worker.log")


def _own_port() -> int:
    """Not one that connections are given by themselves: it has to be free after a crash, too."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _run(arguments: list[str], environment: Mapping[str, str], log: str) -> None:
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    for name in [name for name in os.environ if name.startswith("RUSHES_")]:
        del os.environ[name]
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(Path(log).parent)
    _show_what_is_made()
    crashing_server.install()
    crashing_server.hurry()
    _mark_worker()
    if os.environ.get(IMPATIENT):
        database.DEADLINE_SECONDS = IMPATIENT_SECONDS
    sys.exit(cli.main(arguments))


def _show_what_is_made() -> None:
    """What the handlers of these tests make is watched, as what an encode makes."""
    names = (demo_handlers.KIND, demo_handlers.WHOLE, demo_handlers.PIECE)
    kinds._declared |= {name: kinds.Kind(name=name, output=kinds.WATCH) for name in names}
    kinds.declare = lambda given: None  # type: ignore[assignment]


def _mark_worker() -> None:
    for step in ("claim", "complete"):
        breakpoints.mark(
            Remote, step, before=f"worker: before {step}", after=f"worker: after {step}"
        )
    original = Remote._send

    def send(self: Remote, method: str, path: str, **options: Any) -> Any:
        if method == "PUT":
            options["content"] = _in_halves(options["content"])
        return original(self, method, path, **options)

    Remote._send = send  # type: ignore[method-assign]


def _in_halves(content: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in content:
        yield chunk[: len(chunk) // 2]
        breakpoints.reach("worker: half sent")
        yield chunk[len(chunk) // 2 :]


def _end_with_the_test() -> None:
    test = multiprocessing.parent_process()
    assert test is not None
    test.join()
    os._exit(1)


# Imported for the fork server, which so has them before it forks.
IMPORTED = (serve, worker)
