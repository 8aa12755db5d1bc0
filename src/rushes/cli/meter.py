"""Progress on stderr: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rushes.cli import output

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

LINE_SECONDS = 10.0
NAME_WIDTH = 40
# Those that have ended make room for the next.
SHOWN = 12


class Task(Protocol):
    """One bar."""

    def at(self, done: float, stage: str = "") -> None: ...

    def say(self, line: str) -> None: ...

    def end(self) -> None: ...


class Meter(Protocol):
    def task(self, name: str, total: float) -> Task: ...


@contextmanager
def bytes_sent(verb: str = "sending") -> Iterator[Meter]:
    """Totals are bytes; tells speed and time left."""
    if not sys.stderr.isatty():
        yield _Lines(verb)
        return
    from rich import progress

    columns = (
        progress.BarColumn(bar_width=None),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with _bars(*columns) as bars:
        yield _Bars(bars)


@contextmanager
def work_done() -> Iterator[Meter]:
    """Totals are 1; tells the stage."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich import progress

    columns = (
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.fields[stage]}", markup=False),
    )
    with _bars(*columns) as bars:
        yield _Bars(bars)


def _bars(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    name = TextColumn("{task.description}", markup=False)
    return Progress(name, *columns, console=Console(stderr=True))


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._shown: set[TaskID] = set()
        self._hidden: list[TaskID] = []

    def task(self, name: str, total: float) -> Task:
        short = output.one_line(name)
        if len(short) > NAME_WIDTH:
            short = f"{short[: NAME_WIDTH - 1]}…"
        id = self._progress.add_task(short, total=total, stage="", visible=False)
        self._hidden.append(id)
        self._show_next()
        return _Bar(self._progress, id, name, self._ended)

    def _ended(self, id: TaskID) -> None:
        self._progress.update(id, visible=False)
        self._shown.discard(id)
        self._hidden = [each for each in self._hidden if each != id]
        self._show_next()

    def _show_next(self) -> None:
        if self._hidden and len(self._shown) < SHOWN:
            id = self._hidden.pop(0)
            self._shown.add(id)
            self._progress.update(id, visible=True)


class _Bar:
    def __init__(
        self, progress: Progress, id: TaskID, name: str, ended: Callable[[TaskID], None]
    ) -> None:
        self._progress = progress
        self._id = id
        self._name = name
        self._ended = ended

    def at(self, done: float, stage: str = "") -> None:
        self._progress.update(self._id, completed=done, stage=output.one_line(stage))

    def say(self, line: str) -> None:
        said = output.one_line(f"{self._name}: {line}")
        self._progress.console.print(said, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        self._ended(self._id)


class _Lines:
    def __init__(self, verb: str = "") -> None:
        """With a verb, totals are bytes."""
        self._verb = verb

    def task(self, name: str, total: float) -> Task:
        line = _Line(name, total)
        line.say(f"{self._verb} {output.size(total)}" if self._verb else "waiting")
        return line


class _Line:
    def __init__(self, name: str, total: float) -> None:
        self._name = name
        self._total = total
        self._said_at = time.monotonic()
        self._stage = ""

    def at(self, done: float, stage: str = "") -> None:
        now = time.monotonic()
        # What comes after the dot changes all the time.
        name = stage.partition(" · ")[0]
        if now - self._said_at > LINE_SECONDS or name != self._stage:
            self._said_at, self._stage = now, name
            share = f"{done / self._total:.0%}" if self._total else ""
            self.say(f"{share} {stage}".strip())

    def say(self, line: str) -> None:
        output.note(f"{self._name}: {line}")

    def end(self) -> None:
        pass
