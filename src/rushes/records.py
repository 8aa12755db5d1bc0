"""Data on its way between modules: records that are made of rows, and JSON that is free. Pure.

A row of a database stays in the store that has read it: what leaves is a frozen record, so that a
name that is spelled wrong is found by the type checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

Row = Mapping[str, Any]
# What has no fields that Rushes knows, by contract: arguments, checkpoints, details and results of
# jobs, what workers tell of themselves, documents on their way to and from JSON.
JsonObject = Mapping[str, Any]


def from_row(record: type[T], row: Row, **made: Any) -> T:
    """A dataclass of the columns that are called as its fields; `made` stand in for columns."""
    names = getattr(record, "__dataclass_fields__")  # noqa: B009
    return record(**{name: made[name] if name in made else row[name] for name in names})
