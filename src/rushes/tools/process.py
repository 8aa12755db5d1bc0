"""The one place that runs programs: limited, watched, in a group of their own, and without network
unless that is what they are for.

What a program says on stderr is kept for the log of the attempt, sanitized there; it is never
shown as it is.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from rushes import correlation, errors, tracing

try:
    import resource
except ImportError:  # pragma: no cover  no such limits here
    resource = None  # type: ignore[assignment]

KEPT_LINES = 60
CHUNK = 256 * 1024
POLL_SECONDS = 0.1
GENTLE_SECONDS = 2.0
# A program that only computes may take so many times longer than one that stands still.
BUSY_FACTOR = 20
GIB = 1024**3
# GCONV_PATH: builds that bring their own C library crash when they load this machine's character
# sets, as every MPEG-TS makes them do.
ENVIRONMENT = {"LC_ALL": "C", "HOME": "/nonexistent", "GCONV_PATH": "/nonexistent"}

Sink = Callable[[bytes], None]
Watch = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a program may use before it is ended. `stall_seconds`: without any output."""

    wall_seconds: float = 24 * 3600.0
    cpu_seconds: int = 7 * 86400
    memory_bytes: int = 16 * GIB
    file_bytes: int = 64 * GIB
    output_bytes: int = 1024 * GIB
    stall_seconds: float = 120.0


class Niceness:
    """How much the programs that this process runs leave to others, now and from now on."""

    def __init__(self) -> None:
        self._level = 0
        self._running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
        self._lock = threading.Lock()

    def set(self, level: int) -> str | None:
        """From 0 to 19. Returns what is to be told of it: nobody can be less nice than this process
        is itself, nor, without being allowed to, than it was before."""
        with self._lock:
            self._level = level
            running = list(self._running)
        for program in running:
            self._apply(program)
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        if level and level < ours:
            return f"nice {level} cannot be had: this process itself runs with {ours}"
        return None

    def adopt(self, program: subprocess.Popen[bytes]) -> None:
        """One that has just been started, as the first of its group."""
        with self._lock:
            self._running.add(program)
        if self._level:
            self._apply(program)

    def _apply(self, program: subprocess.Popen[bytes]) -> None:
        if program.returncode is None:
            # The group, since a process would be only the first of its threads.
            with suppress(OSError):
                os.setpriority(os.PRIO_PGRP, program.pid, self._level)


niceness = Niceness()

SHORT = Limits(wall_seconds=60, cpu_seconds=60, stall_seconds=60)


class ToolFailed(errors.TransientFailure):
    """It ended with an error; `lines` is the last it said. `gave_up`: by itself, neither ended nor
    crashed."""

    CODE = "tool_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str = CODE,
        lines: Sequence[str] = (),
        gave_up: bool = False,
    ):
        super().__init__(message, code=code)
        self.lines = list(lines)
        self.gave_up = gave_up


def run(
    argv: Sequence[str],
    *,
    limits: Limits = SHORT,
    watch: Watch = lambda: None,
    cwd: Path | None = None,
    network: Mapping[str, str] | None = None,
) -> bytes:
    """What it wrote to stdout; ToolFailed when it did not end well. With `network` (and what that
    adds to the environment) it may use the network, as this machine is set up for it."""
    said = bytearray()
    with Running(argv, [said.extend], limits=limits, cwd=cwd, network=network) as running:
        running.wait(watch)
    return bytes(said)


class Running:
    """A program whose outputs go to `sinks`: the first is its stdout, the others read from
    `more_fds`. A sink runs in a thread of its own; if it raises, the program is ended and
    `wait` raises the same."""

    def __init__(
        self,
        argv: Sequence[str],
        sinks: Sequence[Sink],
        *,
        limits: Limits,
        cwd: Path | None = None,
        more_fds: Sequence[tuple[int, int]] = (),
        chatty: bool = False,
        network: Mapping[str, str] | None = None,
    ) -> None:
        """`chatty`: what it says on stdout is no sign that it moves on."""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._limits = limits
        self._program = Path(argv[0]).name
        self._error: BaseException | None = None
        self._changed = threading.Event()
        self._written = 0
        self._active_at = self._told_at = time.monotonic()
        self._spent = 0.0
        self._sinking = 0
        try:
            self._process = _spawn(argv, limits, cwd, [write for _, write in more_fds], network)
        except BaseException:
            for read, _ in more_fds:
                os.close(read)
            raise
        finally:
            for _, write in more_fds:
                os.close(write)
        _limit(self._process.pid, limits)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        pipes: list[IO[bytes]] = [self._process.stdout]
        pipes += [os.fdopen(read, "rb", buffering=0) for read, _ in more_fds]
        self._threads = [
            threading.Thread(
                target=correlation.carried(self._pump),
                args=(pipe, sink, not chatty or number > 0),
                daemon=True,
            )
            for number, (pipe, sink) in enumerate(zip(pipes, sinks, strict=True))
        ]
        self._threads.append(
            threading.Thread(target=self._listen, args=[self._process.stderr], daemon=True)
        )
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def alive(self) -> None:
        """It has moved on, though nothing was written."""
        self._active_at = self._told_at = time.monotonic()

    def wait(self, watch: Watch) -> None:
        """Until it has ended and all it wrote is handed on. `watch` may raise to end it."""
        with tracing.step(f"tool {self._program}"):
            self._wait(watch)

    def _wait(self, watch: Watch) -> None:
        until = time.monotonic() + self._limits.wall_seconds
        while any(thread.is_alive() for thread in self._threads):
            self._changed.wait(POLL_SECONDS)
            self._changed.clear()
            until += self._held_up(watch)
            self._check(until)
        status = self._process.wait()
        if self._error is not None:
            raise self._error
        if status != 0:
            raise self._failure(status)

    def _held_up(self, watch: Watch) -> float:
        """How long whoever watches has kept us: no time that the program has wasted."""
        begun = time.monotonic()
        watch()
        spent = time.monotonic() - begun
        self._active_at += spent
        self._told_at += spent
        return spent

    def kill(self) -> None:
        """Its whole group, gently first. Returns when it is gone."""
        if self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(GENTLE_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(self._process.pid, signal.SIGKILL)
                self._process.wait()
        # Children that it left behind would keep the pipes open.
        _signal_group(self._process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(GENTLE_SECONDS)

    def _check(self, until: float) -> None:
        if self._error is not None:
            raise self._error
        now = time.monotonic()
        if now > until:
            raise ToolFailed("took too long", code="tool_timeout", lines=self.lines)
        if self._sinking or self._is_busy(now):
            self._active_at = max(self._active_at, now - self._limits.stall_seconds / 2)
        if now - self._active_at > self._limits.stall_seconds:
            raise ToolFailed("does not move any more", code="tool_stalled", lines=self.lines)

    def _is_busy(self, now: float) -> bool:
        """Whether it computes: it may decode a lot before the first frame that is asked for. Not
        for ever, as it may also turn in circles."""
        spent = _cpu_seconds(self._process.pid)
        moved, self._spent = spent > self._spent + POLL_SECONDS / 4, spent
        return moved and now - self._told_at < BUSY_FACTOR * self._limits.stall_seconds

    def _failure(self, status: int) -> ToolFailed:
        if status == -signal.SIGXFSZ or status == -signal.SIGXCPU:
            return ToolFailed("used more than it may", code="tool_limit", lines=self.lines)
        # A shell's words for a program that cannot be started.
        gave_up = status > 0 and status not in (126, 127)
        return ToolFailed(f"ended with status {status}", lines=self.lines, gave_up=gave_up)

    def _pump(self, pipe: IO[bytes], sink: Sink, shows_life: bool) -> None:
        try:
            with pipe:
                while chunk := pipe.read(CHUNK):
                    if shows_life:
                        self.alive()
                    self._written += len(chunk)
                    if self._written > self._limits.output_bytes:
                        raise ToolFailed("wrote more than it may", code="tool_limit")
                    # Waiting for us is no standing still.
                    self._sinking += 1
                    sink(chunk)
                    self._sinking -= 1
        except BaseException as error:  # noqa: BLE001  raised again by whoever waits
            self._error = self._error or error
        self._changed.set()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            # In large pieces: damaged files make tools very talkative.
            buffered = io.BufferedReader(cast(io.RawIOBase, pipe), CHUNK)
            for line in iter(lambda: buffered.readline(4096), b""):
                text = line.decode(errors="replace").strip()
                if text:
                    self.lines.append(text)
        self._changed.set()


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pipes(count: int) -> list[tuple[int, int]]:
    """(read, write) of pipes that a program inherits."""
    return [os.pipe() for _ in range(count)]


def _spawn(
    argv: Sequence[str],
    limits: Limits,
    cwd: Path | None,
    inherited: Sequence[int],
    network: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    around = _offline() if network is None else ()
    if network is None:
        environment = {"PATH": os.environ.get("PATH", ""), **ENVIRONMENT}
    else:
        environment = {**_ours_left_out(), **network}
    try:
        # Those that start it for us could not tell.
        if shutil.which(argv[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        program = subprocess.Popen(
            [*_limited(limits), *around, *_mortal(), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env=environment,
            pass_fds=inherited,
            start_new_session=True,
        )
        niceness.adopt(program)
        return program
    except OSError as error:
        raise errors.RetryLater(
            f"{Path(argv[0]).name} cannot be started: {error.strerror}", code="tool_missing"
        ) from error


def _ours_left_out() -> dict[str, str]:
    """The environment without our settings, and where our traces go: some are secret."""
    ours = ("RUSHES_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


class Helper:
    """A process that runs a module of ours, to keep what may crash or take all memory out of this
    one. It inherits `descriptors`, and one more that ends with this process; their numbers are its
    arguments, the last one last. `say` gets what it prints, line by line, in a thread."""

    def __init__(self, module: str, descriptors: Sequence[int], say: Callable[[str], None]) -> None:
        lifeline, held = os.pipe()
        try:
            self._process = subprocess.Popen(
                # -P: nothing is imported from the directory that we happen to be in.
                [sys.executable, "-P", "-m", module, *map(str, (*descriptors, lifeline))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_ours_left_out(),
                pass_fds=(*descriptors, lifeline),
                # A terminal's Ctrl-C is for us alone.
                start_new_session=True,
            )
        except OSError as error:
            os.close(held)
            raise errors.RetryLater(
                f"a helper process cannot be started: {error.strerror}", code="tool_missing"
            ) from error
        finally:
            os.close(lifeline)
        niceness.adopt(self._process)
        # Closed when this is forgotten, or when this process ends.
        self._held = os.fdopen(held, "wb", buffering=0)
        assert self._process.stdout is not None
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout, say), daemon=True
        )
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> int:
        """Returns when it is gone: its exit status, negative for a signal."""
        self._process.kill()
        status = self._process.wait()
        self._held.close()
        self._listener.join(GENTLE_SECONDS)
        return status

    @staticmethod
    def _listen(pipe: IO[bytes], say: Callable[[str], None]) -> None:
        with pipe:
            for line in iter(lambda: pipe.readline(4096), b""):
                if text := line.decode(errors="replace").strip():
                    say(text)


@lru_cache
def _offline() -> tuple[str, ...]:
    """What takes the network away from a program, where that is allowed."""
    unshare, nothing = shutil.which("unshare"), shutil.which("true")
    if unshare is None or nothing is None:
        return ()
    for flags in (("--net",), ("--user", "--map-current-user", "--net")):
        tried = subprocess.run([unshare, *flags, "--", nothing], capture_output=True, check=False)
        if tried.returncode == 0:
            return (unshare, *flags, "--")
    return ()


@lru_cache
def _mortal() -> tuple[str, ...]:
    """What ends a program with the thread that has started it, and so with us, however we end.
    The last of those before it: whatever changes who it is would forget it."""
    setpriv, nothing = shutil.which("setpriv"), shutil.which("true")
    if setpriv is None or nothing is None:
        return ()
    bound = (setpriv, "--pdeathsig", "KILL", "--")
    tried = subprocess.run([*bound, nothing], capture_output=True, check=False)
    return bound if tried.returncode == 0 else ()


@lru_cache
def _limited(limits: Limits) -> tuple[str, ...]:
    """What limits a program before it begins."""
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        return ()
    cpu = f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 5}"
    sizes = (f"--as={limits.memory_bytes}", f"--fsize={limits.file_bytes}")
    return (prlimit, cpu, *sizes, "--core=0", "--")


def _limit(pid: int, limits: Limits) -> None:
    """A moment late, for machines on which nothing else can do it."""
    if not hasattr(resource, "prlimit") or _limited(limits):
        return
    for which, value in (
        # The first number ends it with a signal that tells why, the second with any.
        (resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 5)),
        (resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes)),
        (resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes)),
        (resource.RLIMIT_CORE, (0, 0)),
    ):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, which, value)


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
