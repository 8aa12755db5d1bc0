"""Walls that the import contracts do not see."""

from __future__ import annotations

import re
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
