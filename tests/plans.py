"""How a database would answer a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rushes.db.database import Tx
from world import World

# PostgreSQL's ways to an order that no index has. Few rows are as quickly read and sorted as looked
# up, and how many it expects depends on its figures: with these closed the plan tells whether an
# index serves the order. Not for "does it look at everything?": an index can be read whole, too.
SORTING = ("seqscan", "bitmapscan", "sort", "incremental_sort")


def collect(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    wants: Callable[[str], bool],
    closed: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """From now on, of each statement that is wanted: its text and its plan."""
    found: list[tuple[str, str]] = []
    execute = Tx._execute
    sqlite = world.db.dialect.name == "sqlite"

    def explain(tx: Tx, sql: str, params: dict[str, Any]) -> Any:
        if wants(sql):
            if sqlite:
                rows = execute(tx, f"EXPLAIN QUERY PLAN {sql}", dict(params))
            else:
                for way in closed:
                    execute(tx, f"SET enable_{way} = off", {})
                rows = execute(tx, f"EXPLAIN {sql}", dict(params))
                for way in closed:
                    execute(tx, f"RESET enable_{way}", {})
            column = "detail" if sqlite else "QUERY PLAN"
            found.append((sql, "\n".join(str(row[column]) for row in rows)))
        return execute(tx, sql, params)

    monkeypatch.setattr(Tx, "_execute", explain)
    return found
