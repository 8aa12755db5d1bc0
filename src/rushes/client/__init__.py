"""The official Python client: `Client`, what it answers, and the errors it raises."""

from __future__ import annotations

from rushes.client.client import Client, StillWorking
from rushes.client.shapes import (
    Event,
    Job,
    Media,
    Moment,
    Reason,
    Rendition,
    Segment,
    Transcript,
    Word,
)
from rushes.errors import RushesError

__all__ = [
    "Client",
    "Event",
    "Job",
    "Media",
    "Moment",
    "Reason",
    "Rendition",
    "RushesError",
    "Segment",
    "StillWorking",
    "Transcript",
    "Word",
]
