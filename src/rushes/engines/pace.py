"""How fast this machine was at a step before, so that what is left of it can be told.

Kept in one small file, for the next process. It is only ever a hint: what cannot be read or written
is forgotten.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

# Shorter recordings tell more about starting than about running.
LEAST_SECONDS = 20.0
# How much the newest recording counts.
WEIGHT = 0.5


class Pace:
    """For each step: how many seconds of work a second of a recording takes."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()

    def expect(self, step: str, seconds: float) -> float | None:
        """How long so much of a recording will take; None when it was never done here."""
        with self._lock:
            rate = self._read().get(step)
        return None if rate is None else rate * seconds

    def learn(self, step: str, seconds: float, spent: float) -> None:
        """So much of a recording took so long."""
        if self._file is None or seconds < LEAST_SECONDS or spent <= 0:
            return
        with self._lock:
            known = self._read()
            rate, before = spent / seconds, known.get(step)
            known[step] = rate if before is None else WEIGHT * rate + (1 - WEIGHT) * before
            _write(self._file, known)

    def _read(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            found = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            name: float(rate)
            for name, rate in found.items()
            if isinstance(rate, int | float) and 0 < rate < 1e6
        }


def _write(file: Path, rates: dict[str, float]) -> None:
    fresh = file.with_name(f".{file.name}.{threading.get_native_id()}")
    try:
        fresh.write_text(json.dumps(rates))
        fresh.replace(file)
    except OSError:
        fresh.unlink(missing_ok=True)
