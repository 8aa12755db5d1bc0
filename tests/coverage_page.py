"""Writes `docs/coverage.md` of what `coverage json` says: a table, and each branch not taken.

python tests/coverage_page.py build/coverage/coverage.json docs/coverage.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HEAD = """# Coverage

Made by `make coverage`: the lines and branches of the queue (`jobs/`, `dispatch.py`) and of the
storage that its tests take, in all processes that they start. What a process had not written down
when it was killed is missing. A branch not taken is a question, not a fault: either a test is
missing, or nothing can lead there.
"""


def page(files: Mapping[str, Any], source: Callable[[str], list[str]]) -> str:
    """`files` as coverage.py tells them; `source`: the lines of a file."""
    rows = ["| file | lines | branches |", "|---|---:|---:|"]
    missing: list[str] = []
    sums = dict.fromkeys(COUNTED, 0)
    for name, told in sorted(files.items()):
        figures = told["summary"]
        sums = {each: sums[each] + figures[each] for each in COUNTED}
        rows.append(_row(f"`{_short(name)}`", figures))
        missing += _missing(name, told, source(name))
    rows.append(_row("all", sums))
    named = "\n".join(missing) or "None."
    return f"{HEAD}\n" + "\n".join(rows) + f"\n\n## Not taken\n\n{named}\n"


COUNTED = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def _row(name: str, figures: Mapping[str, int]) -> str:
    lines, branches = (_share(figures, *pair) for pair in (COUNTED[:2], COUNTED[2:]))
    return f"| {name} | {lines} | {branches} |"


def _share(figures: Mapping[str, int], covered: str, all: str) -> str:
    return f"{figures[covered]} of {figures[all]}" if figures[all] else "–"


def _missing(name: str, told: Mapping[str, Any], lines: list[str]) -> list[str]:
    found = []
    unseen = set(told["missing_lines"])
    for begin, end in sorted(told["missing_branches"]):
        # Of what was never reached its first line is enough.
        if begin not in unseen:
            where = f"`{_short(name)}:{begin}`"
            found.append(f"- {where} {_quoted(lines, begin)} → {_target(lines, end)}")
    told_already = {end for begin, end in told["missing_branches"] if begin not in unseen}
    for line in sorted(unseen - told_already):
        if line - 1 not in unseen:
            found.append(f"- `{_short(name)}:{line}` {_quoted(lines, line)} is never reached")
    return sorted(found, key=_place)


def _place(row: str) -> int:
    return int(row.partition("`")[2].partition("`")[0].rpartition(":")[2])


def _target(lines: list[str], end: int) -> str:
    return f"{end} {_quoted(lines, end)}" if end > 0 else "the end of the function"


def _quoted(lines: list[str], number: int) -> str:
    return f"`{lines[number - 1].strip().replace('`', '')}`"


def _short(name: str) -> str:
    return name.partition("src/rushes/")[2] or name


def main(told: str, target: str) -> None:
    files = json.loads(Path(told).read_text())["files"]
    text = page(files, lambda name: (ROOT / name).read_text().splitlines())
    Path(target).write_text(text)
    print(text.partition("## Not taken")[2].strip())
    print(f"{target} is written")


if __name__ == "__main__":
    main(*sys.argv[1:])
