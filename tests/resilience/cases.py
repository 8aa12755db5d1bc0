"""Which cases of a slow test run each time; the others are for `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(everything: Iterable[Any], *, each_time: set[Any]) -> list[Any]:
    """For `parametrize`: those that take the same way through the code as others are thorough."""
    return [each if each in each_time else _thorough(each) for each in everything]


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
