"""Time as integer milliseconds UTC, injected wherever it decides something.

On PostgreSQL the database's clock decides instead; see `db/dialects.py`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


def rfc3339(at: int | None) -> str | None:
    if at is None:
        return None
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
