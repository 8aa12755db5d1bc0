"""How commands print: aligned columns for people, JSON for programs. No wrapping, so pipes work."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import cyclopts
import msgspec

from rushes import errors
from rushes.transcripts import formats

STDOUT = "-"
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


def check_printable(format: str, out: str | None) -> None:
    """Before there is any work: a terminal would show what is no text as rubbish."""
    if format in formats.BINARY and out == STDOUT and sys.stdout.isatty():
        raise errors.Invalid(f"{format} is no text: say where to with -o FILE")


def write(content: bytes, format: str, target: Path | None) -> None:
    """Whole, or not at all; without a target to stdout."""
    if format not in formats.BINARY and content and not content.endswith(b"\n"):
        content += b"\n"
    if target is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    draft = target.with_name(f".{target.name}.new")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise errors.DiskFull(f"cannot write {target}: {error.strerror}") from error


def note(text: str) -> None:
    """For people; programs read stdout."""
    print(one_line(text), file=sys.stderr, flush=True)


def read_password() -> str:
    """As somebody types it, unseen; from a script, the first line."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Password: ")
    return sys.stdin.readline().rstrip("\r\n")


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


def seconds(name: str, text: str) -> float:
    """Seconds, or as players show it."""
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if not 1 <= len(parts) <= 3 or not all(0 <= part < math.inf for part in parts):
        raise errors.BadField(name, f"must be a time such as 12.5 or 1:02:03, not {text!r}")
    return sum(part * 60.0**power for power, part in enumerate(reversed(parts)))


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
