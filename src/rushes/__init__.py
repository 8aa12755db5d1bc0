"""Rushes: self-hosted media processing whose job queue is the database you already have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushes.app import Rushes
    from rushes.errors import Canceled, PermanentFailure, RetryLater
    from rushes.jobs.job import NewJob
    from rushes.kinds import Kind
    from rushes.worker.context import JobContext

__all__ = ["Canceled", "JobContext", "Kind", "NewJob", "PermanentFailure", "RetryLater", "Rushes"]

_HOMES = {
    "Canceled": "rushes.errors",
    "JobContext": "rushes.worker.context",
    "Kind": "rushes.kinds",
    "NewJob": "rushes.jobs.job",
    "PermanentFailure": "rushes.errors",
    "RetryLater": "rushes.errors",
    "Rushes": "rushes.app",
}


def __getattr__(name: str) -> Any:
    """Imported when first used: the command line must not pay for the database to print help."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rushes' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
