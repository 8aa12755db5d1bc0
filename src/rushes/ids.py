"""Ids are text made in Python: a prefix that says what it is, and a time-sortable UUIDv7."""

from __future__ import annotations

import os
import threading
import time

# The first digit of the random part says which kind of UUID it is.
VARIANT = {digit: "89ab"[number & 3] for number, digit in enumerate("0123456789abcdef")}

_lock = threading.Lock()
_last = 0


def new(prefix: str) -> str:
    """`job_` and 32 hexadecimal digits. Ids of one process sort in the order they were made."""
    return many(prefix, 1)[0]


def many(prefix: str, count: int) -> list[str]:
    """The same so often, in one go."""
    first, dice = _ticks(count), os.urandom(8 * count).hex()
    made = []
    for number in range(count):
        tick, random = f"{first + number:015x}", dice[16 * number : 16 * number + 16]
        made.append(f"{prefix}_{tick[:12]}7{tick[12:]}{VARIANT[random[0]]}{random[1:]}")
    return made


def _ticks(count: int) -> int:
    """Milliseconds and a 12-bit counter in one number that only grows: the first of so many."""
    global _last
    with _lock:
        first = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        _last = first + count - 1
        return first
