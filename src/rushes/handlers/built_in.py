"""Rushes' own kinds and the handlers that workers run, in the shape that others' packages have.

The server alone runs the kinds that are missing here: see `serving.py`.
"""

from __future__ import annotations

from typing import Any

from rushes import kinds
from rushes.engines.engine import EngineUnavailable
from rushes.engines.registry import Registry
from rushes.handlers import SpeechHandler
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler

# Tools that stand still are ended by themselves; this is for what hangs beside them.
STALL_SECONDS = 900.0


def _transcode(job: JobContext) -> Any:
    # Here: whoever only lists kinds need not wait for it.
    from rushes.handlers.transcode import steps as transcode

    return transcode.transcode(job, keep=job.keep_completed_qualities)


def _prepare(job: JobContext) -> Any:
    from rushes.handlers.transcode import steps as transcode

    return transcode.prepare(job)


def _span(job: JobContext) -> Any:
    from rushes.handlers.transcode import steps as transcode

    return transcode.span(job)


def _transcribe(job: JobContext, engines: Registry | None) -> Any:
    from rushes.handlers.transcribe import steps as transcribe

    if engines is None:
        raise EngineUnavailable("this worker has no speech engine")
    return transcribe.transcribe(job, engines)


def _export(job: JobContext) -> Any:
    from rushes.handlers import export

    return export.export(job)


# Segments are handed in as they are cut; what stays is one small rendition to take pictures of.
_VERSION = Handler(_transcode, STALL_SECONDS, scratch_share=0.25)
# They are written in `kinds.py`, because those who know nothing of handlers have to know them.
KINDS = tuple(kinds.TABLE.values())
HANDLERS: dict[str, Handler | SpeechHandler] = {
    "transcode": _VERSION,
    "trim": _VERSION,
    "composite": _VERSION,
    "prepare": Handler(_prepare, STALL_SECONDS, scratch_share=0.05),
    "span": Handler(_span, STALL_SECONDS, scratch_share=0.05),
    # It asks for the room that it needs itself: what it works on is not the source.
    "export": Handler(_export, STALL_SECONDS),
    "transcribe": SpeechHandler(_transcribe, STALL_SECONDS, scratch_share=0.0),
}
