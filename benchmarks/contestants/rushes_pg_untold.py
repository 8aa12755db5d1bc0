"""Rushes on PostgreSQL, and nobody is told of new jobs: what telling costs those who enqueue."""

from __future__ import annotations

from benchmarks.contestants import rushes_any
from benchmarks.contestants.rushes_any import prepare

from rushes import wakeup

TITLE = "Rushes (PostgreSQL, without hints)"
DATABASE = "postgres"
SHARE = 1.0

__all__ = ["prepare", "write"]


def write(url: str, jobs: int) -> float:
    silent = wakeup.InProcessWakeup
    wakeup.PostgresWakeup = lambda *args, **options: silent()  # type: ignore[assignment, misc]
    return rushes_any.write(url, jobs)
