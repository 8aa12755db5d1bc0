"""Rushes on PostgreSQL: batches of 100, with the chores running beside the worker."""

from __future__ import annotations

from benchmarks.contestants import rushes_any
from benchmarks.contestants.rushes_any import (
    drain,
    enqueue_in_batches,
    enqueue_one_by_one,
    fill,
    prepare,
    send,
    serve,
    write,
)

TITLE = "Rushes (PostgreSQL)"
DATABASE = "postgres"
SHARE = 1.0
DONE = rushes_any.DONE
LEFT = rushes_any.LEFT

__all__ = [
    "drain",
    "enqueue_in_batches",
    "enqueue_one_by_one",
    "fill",
    "prepare",
    "send",
    "serve",
    "write",
]
