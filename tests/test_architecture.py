"""Walls that the import contracts do not see."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rushes"
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b[^.]*\b(FROM|SET|VALUES|WHERE)\b")
MODULES = sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_sql_is_only_in_stores_events_invariants_and_the_database() -> None:
    allowed = re.compile(r"(.*store\.py|events\.py|jobs/invariants\.py|db/.*)")
    outside = [name(path) for path in MODULES if not allowed.fullmatch(name(path))]
    assert outside
    offenders = [each for each in outside if SQL.search((SOURCE / each).read_text())]
    assert offenders == []


def test_programs_are_started_in_one_place_only() -> None:
    users = [name(path) for path in MODULES if "subprocess" in path.read_text()]
    assert set(users) <= {"tools/process.py"}


def test_no_file_has_outgrown_its_room() -> None:
    long = {name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {each: lines for each, lines in long.items() if lines > 600} == {}


GUIDE = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()


def drawn_modules() -> list[str]:
    """What the tree in ARCHITECTURE.md names below src/rushes. What is deeper than a folder's line
    belongs to that folder."""
    tree = GUIDE.split("src/rushes/\n", 1)[1].split("\ntests/", 1)[0]
    found, folders = [], [(0, "")]
    for line in tree.splitlines():
        depth = len(line) - len(line.lstrip())
        while depth <= folders[-1][0]:
            folders.pop()
        if folder := re.match(r" +(\w+/)(?: |$)", line):
            folders.append((depth, folders[-1][1] + folder[1]))
        found += [folders[-1][1] + each for each in re.findall(r"\b\w+\.py\b", line)]
    return sorted(found)


def test_the_tree_names_every_module_once_and_nothing_else() -> None:
    apart = re.compile(r"(.*__init__|__main__|db/migrations/versions/.*)\.py")
    real = [name(path) for path in MODULES if not apart.fullmatch(name(path))]
    assert drawn_modules() == sorted(real)


def test_the_layers_are_drawn_as_they_are_checked() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    [layers] = [
        each["layers"] for each in project["tool"]["importlinter"]["contracts"] if "layers" in each
    ]
    drawn = GUIDE.split("## Who may import whom")[1].split("```")[1]
    assert [" ".join(each.split()) for each in drawn.split("→")] == layers
