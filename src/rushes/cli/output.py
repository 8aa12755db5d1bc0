"""How commands print: aligned columns for people, JSON for programs. No wrapping, so pipes work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import cyclopts
import msgspec

from rushes import errors

FLAG = cyclopts.Parameter(negative="", show_default=False)
Json = Annotated[bool, FLAG, cyclopts.Parameter(help="Print JSON for programs.")]
Yes = Annotated[bool, FLAG, cyclopts.Parameter(help="Do not ask.")]
Priority = Annotated[
    Literal["high", "normal", "low"] | None,
    cyclopts.Parameter(help="Which work comes first; high is for admins."),
]
COLORS = {"dim": "2", "red": "31", "green": "32", "yellow": "33"}


def parsed(option: str, text: str | None) -> dict[str, Any]:
    """An object that was given as JSON; without, an empty one."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        raise errors.Invalid(f"{option} must be JSON, such as '{{\"words\": 100}}'") from None


def print_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [[one_line(cell) for cell in line] for line in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        text = "  ".join(map(str.ljust, line, widths)).rstrip()
        print(paint(text, "dim") if number == 0 else text)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    rows = list(pairs)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{paint(name.ljust(width), 'dim')}  {one_line(value)}")


def note(text: str) -> None:
    """For people; programs read stdout."""
    print(one_line(text), file=sys.stderr, flush=True)


def confirm(question: str, yes: bool) -> None:
    """Asks whoever sits there; a script has to have said --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise errors.Invalid(f"{question} Say --yes if so")
    print(f"{one_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise errors.Conflict("nothing was changed")


def paint(text: str, color: str) -> str:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{COLORS[color]}m{text}\033[0m"


def one_line(text: str) -> str:
    """Errors and names come from strangers: no line breaks, nothing a terminal would obey."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def text(value: Any) -> str:
    """Empty for what is not set, so that it can be left out."""
    if value is None or value in ({}, []):
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def size(size_bytes: float) -> str:
    """As disks and networks are sold: 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def length(seconds: float | None) -> str:
    """As players show it: 1:02:03."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def when(time: str | None) -> str:
    """RFC 3339 as people read it, still UTC."""
    return time[:19].replace("T", " ") if time else ""


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_renditions(renditions: Iterable[dict[str, Any]]) -> None:
    rows = [(each["name"], each["status"], f"{each['progress']:.0%}") for each in renditions]
    print_table(("rendition", "status", "progress"), rows)
