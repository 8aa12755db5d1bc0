"""How commands print: aligned columns for people, JSON for programs. No wrapping, so pipes work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import cyclopts
import msgspec

from rushes import clock

FLAG = cyclopts.Parameter(negative="", show_default=False)
Json = Annotated[bool, FLAG, cyclopts.Parameter(help="Print JSON for programs.")]
COLORS = {"dim": "2", "red": "31", "green": "32", "yellow": "33"}


def print_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [[_one_line(cell) for cell in line] for line in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        text = "  ".join(map(str.ljust, line, widths)).rstrip()
        print(paint(text, "dim") if number == 0 else text)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    rows = list(pairs)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{paint(name.ljust(width), 'dim')}  {_one_line(value)}")


def paint(text: str, color: str) -> str:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{COLORS[color]}m{text}\033[0m"


def with_times(values: dict[str, Any]) -> dict[str, Any]:
    """The same, with the milliseconds in every `…_at` written as RFC 3339."""
    return {
        name: clock.rfc3339(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in values.items()
    }


def _one_line(text: str) -> str:
    """Errors and names come from strangers: no line breaks, nothing a terminal would obey."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
