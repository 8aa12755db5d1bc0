"""Programs end when they should: at their limits, when told to stop, with all their children."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rushes import errors
from rushes.tools import process
from rushes.tools.process import Limits, ToolFailed

PYTHON = sys.executable


def failing(argv: list[str], limits: Limits) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        process.run(argv, limits=limits)
    return caught.value


def script(text: str) -> list[str]:
    return [PYTHON, "-c", text]


def test_what_a_program_writes_is_answered() -> None:
    assert process.run(script("print('hello')")) == b"hello\n"


def test_a_program_that_fails_is_told_with_its_last_lines() -> None:
    error = failing(script("import sys; print('oh', file=sys.stderr); sys.exit(3)"), process.SHORT)
    assert error.message == "ended with status 3"
    assert error.lines == ["oh"]


def test_a_program_that_is_not_there_is_tried_later() -> None:
    with pytest.raises(errors.RetryLater):
        process.run(["/nonexistent/program"])


def test_too_much_output_ends_it() -> None:
    endless = script("import sys\nwhile True: sys.stdout.write('y' * 1000)")
    assert failing(endless, Limits(output_bytes=100_000)).code == "tool_limit"


def test_too_long_ends_it() -> None:
    talks = script("import time\nwhile True: print('x', flush=True); time.sleep(0.05)")
    assert failing(talks, Limits(wall_seconds=0.5)).code == "tool_timeout"


def test_saying_nothing_for_too_long_ends_it() -> None:
    silent = script("import time; print('x', flush=True); time.sleep(60)")
    assert failing(silent, Limits(stall_seconds=0.5)).code == "tool_stalled"


def test_too_much_memory_ends_it() -> None:
    hungry = script("import sys; sys.stdin.readline(); b = bytearray(3 * 10**9); print(len(b))")
    error = failing(hungry, Limits(memory_bytes=10**9))
    assert "MemoryError" in error.lines


def test_too_much_thinking_ends_it() -> None:
    assert failing(script("while True: pass"), Limits(cpu_seconds=1)).code == "tool_limit"


def test_too_large_a_file_ends_it(tmp_path: Path) -> None:
    dd = shutil.which("dd")
    assert dd is not None
    path = tmp_path / "large"
    argv = [dd, "if=/dev/zero", f"of={path}", "bs=64k", "count=1000"]
    assert failing(argv, Limits(file_bytes=200_000)).code == "tool_limit"
    assert path.stat().st_size <= 200_000


def is_gone(pid: int) -> bool:
    """Soon: a signal needs a moment."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 5)[0])
    finally:
        os.close(descriptor)


FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["time.sleep(600)", ""], ids=["parent waits", "parent is gone"])
def test_whoever_cancels_ends_children_too(then: str) -> None:
    said = bytearray()

    def watch() -> None:
        if b"\n" in said:
            raise errors.Canceled("stop")

    argv = script(FAMILY.format(then=then))
    with (
        pytest.raises(errors.Canceled),
        process.Running(argv, [said.extend], limits=Limits()) as running,
    ):
        running.wait(watch)
    assert is_gone(int(said))


def test_a_program_does_not_outlive_whoever_started_it() -> None:
    """A worker that is killed leaves nothing behind that computes on for nobody."""
    worker = """
import sys
from rushes.tools import process
argv = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
tell = lambda said: (sys.stdout.buffer.write(said), sys.stdout.flush())
with process.Running(argv, [tell], limits=process.Limits()) as running:
    running.wait(lambda: None)
"""
    with subprocess.Popen(script(worker), stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        program = int(started.stdout.readline())
        started.kill()
    assert is_gone(program)


def test_a_program_that_does_not_listen_is_killed() -> None:
    stubborn = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
    said = bytearray()

    def watch() -> None:
        if said:
            raise errors.Canceled("stop")

    with (
        pytest.raises(errors.Canceled),
        process.Running(script(stubborn), [said.extend], limits=Limits()) as running,
    ):
        running.wait(watch)
    assert is_gone(running._process.pid)


def test_a_sink_that_fails_ends_the_program_with_its_error() -> None:
    def sink(chunk: bytes) -> None:
        raise errors.DiskFull("full")

    argv = script("import time; print('x', flush=True); time.sleep(600)")
    with (
        pytest.raises(errors.DiskFull),
        process.Running(argv, [sink], limits=Limits()) as running,
    ):
        running.wait(lambda: None)


def test_a_program_learns_nothing_of_our_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHES_ADMIN_SECRET", "very-secret")
    said = process.run(script("import os; print(dict(os.environ))"))
    assert b"very-secret" not in said
    assert b"RUSHES" not in said


def test_descriptors_of_ours_are_not_inherited(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        said = process.run(script("import os; print(os.listdir('/proc/self/fd'))"))
        assert f"'{file.fileno()}'".encode() not in said or file.fileno() < 4


def test_a_program_has_no_network() -> None:
    if not process._offline():
        pytest.skip("networks cannot be taken away here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        failing(script(f"import socket; socket.create_connection(('127.0.0.1', {port}))"), Limits())


def test_stderr_without_an_end_is_bounded() -> None:
    loud = "import sys\nfor n in range(20000): print('line', n, 'x' * 50, file=sys.stderr)"
    error = failing(script(f"{loud}\nsys.exit(1)"), Limits())
    assert len(error.lines) == process.KEPT_LINES
    assert error.lines[-1].startswith("line 19999")


def test_programs_are_as_nice_as_is_said_also_while_they_run() -> None:
    def niceness(running: process.Running) -> int:
        return os.getpriority(os.PRIO_PGRP, running._process.pid)

    ours = os.getpriority(os.PRIO_PROCESS, 0)
    endless = script("import time\ntime.sleep(60)")
    try:
        assert process.niceness.set(ours + 3) is None
        with process.Running(endless, [lambda chunk: None], limits=process.SHORT) as running:
            assert niceness(running) == ours + 3
            process.niceness.set(ours + 5)
            assert niceness(running) == ours + 5
    finally:
        process.niceness.set(0)


def test_a_nice_level_that_cannot_be_had_is_told() -> None:
    said = process.run(
        script(
            "import os; os.nice(12)\n"
            "from rushes.tools import process\n"
            "print(process.niceness.set(5)); print(process.niceness.set(15))"
        )
    )
    assert said.decode().splitlines() == [
        "nice 5 cannot be had: this process itself runs with 12",
        "None",
    ]
