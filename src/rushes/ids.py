"""Ids are text made in Python: a prefix that says what it is, and a time-sortable UUIDv7."""

from __future__ import annotations

import os
import threading
import time

VERSION_7 = 0x7 << 76
VARIANT = 0x2 << 62

_lock = threading.Lock()
_last = 0


def new(prefix: str) -> str:
    """`job_` and 32 hexadecimal digits. Ids of one process sort in the order they were made."""
    tick = _tick()
    random = int.from_bytes(os.urandom(8)) >> 2
    value = (tick >> 12) << 80 | VERSION_7 | (tick & 0xFFF) << 64 | VARIANT | random
    return f"{prefix}_{value:032x}"


def _tick() -> int:
    """Milliseconds and a 12-bit counter in one number that only grows."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        return _last
