"""What migrations declare about servers from before, which may run on while they are applied.

A migration says `change = "expansion"`, or `change = "contraction"` with `works_with`, the oldest
schema whose servers can go on after it. What it does not say is assumed to be the worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from alembic.script import Script

MIGRATIONS = Path(__file__).parent / "migrations"
# The number that the name of the newest migration begins with.
HEAD = max(each.name[:4] for each in (MIGRATIONS / "versions").glob("[0-9][0-9][0-9][0-9]_*.py"))

Change = Literal["expansion", "contraction"]


@dataclass(frozen=True, slots=True)
class Migration:
    """`works_with`: the oldest schema whose servers can go on once the database is so far."""

    revision: str
    sentence: str
    change: Change
    works_with: str
    # Holds up claims for as long as the size of a table takes.
    long_locks: bool


def declared(directory: Path = MIGRATIONS) -> list[Migration]:
    """In order. None makes an older schema work again, so the newest says it for all."""
    from alembic.script import ScriptDirectory

    found: list[Migration] = []
    for script in reversed([*ScriptDirectory(str(directory)).walk_revisions()]):
        found.append(_declared(script, found[-1].works_with if found else ""))
    return found


def pending(before: str | None, head: str, directory: Path = MIGRATIONS) -> list[Migration]:
    return [each for each in declared(directory) if (before or "") < each.revision <= head]


def _declared(script: Script, works_with: str) -> Migration:
    said = vars(script.module)
    oldest, long_locks = said.get("works_with", ""), bool(said.get("long_locks", False))
    change: Change = "contraction"
    if said.get("change") == "expansion":
        change = "expansion"
    elif said.get("change") != "contraction" or not oldest:
        # Nobody has thought of it: in all from before there was a rule, for example.
        oldest, long_locks = script.revision, True
    return Migration(
        revision=script.revision,
        sentence=" ".join(script.longdoc.split("\n\n")[0].split()),
        change=change,
        works_with=max(works_with, oldest),
        long_locks=long_locks,
    )
