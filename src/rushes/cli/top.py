"""`rushes top`: the queue and the workers, live on a terminal; elsewhere once, as they are."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from rushes.client.api import Api
    from rushes.client.shapes import Document

SHOWN_JOBS = 200
# Of workers; those that nobody looks for come last.
ORDER = {"busy": 0, "active": 1, "idle": 2, "disabled": 3, "offline": 4}
STATES = ("queued", "blocked", "processing", "failed")
JOB_COLUMNS = ("job", "what", "progress", "stage", "speed", "left", "worker")
WORKER_COLUMNS = ("worker", "status", "jobs", "kinds")
KIND_COLUMNS = ("kind", *STATES)
BAR_CELLS = 12
# Lines that are there beside those of jobs and workers.
FRAME_LINES = 9
Seconds = Annotated[
    float,
    cyclopts.Parameter(
        name=["--interval", "-n"],
        validator=cyclopts.validators.Number(gte=0.2, lte=3600),
        help="How many seconds until it looks again.",
    ),
]
Once = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Print how it is now, and end; no live view.")
]


def run(*, interval: Seconds = 1.0, once: Once = False, json: output.Json = False) -> None:
    """Show what waits and runs, and who works, until q or Ctrl-C. Prints it once if stdout is no
    terminal."""
    with client.connect() as api:
        if json:
            output.print_json(snapshot(api))
        elif once or not sys.stdout.isatty():
            _print(snapshot(api))
        else:
            _watch(api, interval)


def snapshot(api: Api) -> Document:
    """`workers` is null for who may not see them."""
    return {
        "queue": api.get("/queue/stats"),
        "jobs": api.items("/jobs", SHOWN_JOBS, state="processing"),
        "workers": _workers(api),
    }


def _workers(api: Api) -> list[Document] | None:
    try:
        found: list[Document] = api.get("/workers")["items"]
    except errors.Denied:
        return None
    return sorted(found, key=lambda each: ORDER.get(each["status"], len(ORDER)))


# What is said of each


def counts(queue: Document) -> str:
    said = [f"{queue['states'].get(state, 0)} {state}" for state in STATES]
    if queue["paused"]:
        said.append(f"paused: {', '.join(each or 'all' for each in queue['paused'])}")
    return ", ".join(said)


def kind_rows(queue: Document) -> list[tuple[str, ...]]:
    """Of kinds that have anything to do, or to worry about."""
    return [
        (kind, *(str(states.get(each, 0)) for each in STATES))
        for kind, states in sorted(queue["kinds"].items())
        if any(states.get(each) for each in STATES)
    ]


def job_row(job: Document) -> tuple[str, ...]:
    left = job["eta_seconds"]
    return (
        job["kind"],
        job["media_title"] or job["media_id"] or job["id"],
        f"{job['progress']:4.0%}",
        ("stopping" if job["cancel_requested_at"] else job["stage"]) or "",
        f"{job['speed']:.1f}×" if job["speed"] else "",
        "" if left is None else output.length(left),
        job["worker_name"] or "",
    )


def worker_row(worker: Document) -> tuple[str, ...]:
    return (worker["name"], worker["status"], str(worker["holds"]), " ".join(worker["kinds"]))


def _print(seen: Document) -> None:
    print(counts(seen["queue"]))
    tables = [
        (KIND_COLUMNS, kind_rows(seen["queue"])),
        (JOB_COLUMNS, [job_row(each) for each in seen["jobs"]]),
        (WORKER_COLUMNS, [worker_row(each) for each in seen["workers"] or ()]),
    ]
    for columns, rows in tables:
        if rows:
            print()
            output.print_table(columns, rows)


# Live


def _watch(api: Api, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    seen, trouble = snapshot(api), ""
    with (
        _ended_by_signals(),
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(view(seen, trouble, api.where, console), refresh=True)
            if _wants_to_leave(pressed, interval):
                return
            try:
                seen, trouble = snapshot(api), ""
            except errors.Unavailable as error:
                trouble = f"{error.message}; trying again"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """So that the terminal is as it was before."""

    def leave(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Where pressed keys can be read at once; None if nobody has a keyboard."""
    if not sys.stdin.isatty():
        yield None
        return
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _wants_to_leave(fd: int | None, seconds: float) -> bool:
    """Waits; a key ends the waiting."""
    if fd is None:
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([fd], [], [], seconds)
    if not ready:
        return False
    keys = os.read(fd, 100)
    # Nothing to read: the terminal is gone.
    return not keys or b"q" in keys.lower() or b"\x04" in keys


def view(seen: Document, trouble: str, where: str, console: Console) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    workers = seen["workers"] or []
    room = max(3, console.height - FRAME_LINES - min(len(workers), console.height // 3))
    jobs = seen["jobs"]
    head = Text.assemble(
        ("Rushes", "bold"), f" {where}  {time.strftime('%H:%M:%S')}  ", ("q: leave", "dim")
    )
    parts: list[RenderableType] = [head, _counts(seen["queue"])]
    if trouble:
        parts.append(Text(output.one_line(trouble), style="red"))
    parts += [Text(""), _jobs_table(jobs[:room])]
    if len(jobs) > room:
        parts.append(Text(f"and {len(jobs) - room} more", style="dim"))
    if not jobs:
        parts.append(Text("nothing is being worked on", style="dim"))
    if workers:
        rows = [worker_row(each) for each in workers[: max(3, console.height // 3)]]
        parts += [Text(""), _table(WORKER_COLUMNS, rows, flexible="kinds")]
    return Group(*parts)


COLORS = {"queued": "yellow", "processing": "green", "failed": "red", "blocked": "dim"}


def _counts(queue: Document) -> Any:
    from rich.text import Text

    said = Text()
    for state in STATES:
        number = queue["states"].get(state, 0)
        said.append(f"{number} {state}   ", style=COLORS[state] if number else "dim")
    if queue["paused"]:
        said.append("paused: " + ", ".join(each or "all" for each in queue["paused"]), "red")
    return said


def _jobs_table(jobs: list[Document]) -> Table:
    rows = []
    for job in jobs:
        row = list(job_row(job))
        filled = round(job["progress"] * BAR_CELLS)
        row[2] = f"{'━' * filled}{'─' * (BAR_CELLS - filled)} {row[2]}"
        rows.append(row)
    return _table(JOB_COLUMNS, rows, flexible="what")


def _table(columns: tuple[str, ...], rows: Any, *, flexible: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in columns:
        made.add_column(
            name, no_wrap=True, overflow="ellipsis", ratio=1 if name == flexible else None
        )
    for row in rows:
        made.add_row(*(Text(output.one_line(cell)) for cell in row))
    return made
