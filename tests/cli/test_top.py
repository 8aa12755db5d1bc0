"""`rushes top`: once for programs and pipes, live on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from running import ADMIN_TOKEN, Running, clean_environment
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler
from shell import WAIT_SECONDS, Shell, until


@pytest.fixture
def busy(serve: Callable[..., Running]) -> Iterator[Running]:
    """A server that works on one job, while another waits."""
    go_on = threading.Event()

    def slow(job: JobContext) -> None:
        job.progress(0.5, "half way\x1b[2J", speed=2.5, eta_seconds=75)
        while not go_on.is_set():
            job.wait(0.02)

    server = serve(handlers_table={"slow": Handler(slow)})
    held = server.rushes.enqueue("slow").id
    server.rushes.enqueue("nobody")
    until(lambda: server.rushes.job(held).progress == 0.5)
    yield server
    go_on.set()


def test_the_queue_is_printed_once_where_there_is_no_terminal(busy: Running, shell: Shell) -> None:
    shell.set(server=busy.url, token=ADMIN_TOKEN)
    said = shell.text("top")
    assert "1 queued, 0 blocked, 1 processing, 0 failed" in said
    assert re.search(r"^slow +job_\w+ +50% +half way.* +2\.5× +1:15 +\S", said, re.MULTILINE)
    assert re.search(r"^nobody +1 +0 +0 +0$", said, re.MULTILINE)
    assert re.search(r"^\S.* busy +1 ", said, re.MULTILINE)
    assert "\x1b" not in said
    seen = shell.json("top")
    assert seen["queue"]["states"]["processing"] == 1
    assert [each["kind"] for each in seen["jobs"]] == ["slow"]
    assert seen["workers"]
    with busy.user("eve") as eve:
        shell.set(token=eve.headers["authorization"].removeprefix("Bearer "))
        # Who may not see the workers sees the queue, and of it what is theirs.
        assert shell.json("top")["workers"] is None
        assert "0 processing" in shell.text("top")


class Terminal:
    def __init__(self, directory: Path, server: Running, *arguments: str) -> None:
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.said = b""
        there = {"RUSHES_SERVER": server.url, "RUSHES_TOKEN": ADMIN_TOKEN, "TERM": "xterm"}
        size = {"COLUMNS": "100", "LINES": "30"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rushes", *arguments],
            env={**clean_environment(), **there, **size},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=directory,
        )

    def wait_for(self, words: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while words.encode() not in self.said:
            assert time.monotonic() < until, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                self.said += os.read(self.master, 65536)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.mark.parametrize("leave", ["q", signal.SIGINT])
def test_the_terminal_is_as_it_was_when_one_leaves(
    busy: Running, tmp_path: Path, leave: str | signal.Signals
) -> None:
    with closing(Terminal(tmp_path, busy, "top", "-n", "0.2")) as terminal:
        terminal.wait_for("half way")
        terminal.wait_for("1:15")
        assert b"\x1b[2J\x1b" not in terminal.said.partition(b"half way")[2][:20]
        if isinstance(leave, str):
            os.write(terminal.master, leave.encode())
        else:
            terminal.process.send_signal(leave)
        # The usual screen is back.
        terminal.wait_for("\x1b[?1049l")
        assert terminal.process.wait(timeout=WAIT_SECONDS) == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before
