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


def _span(job: JobContext) -> Any:
    from rushes.handlers.transcode import steps as transcode

    return transcode.span(job)


def _transcribe(job: JobContext, engines: Registry | None) -> Any:
    from rushes.handlers.transcribe import steps as transcribe

    if engines is None:
        raise EngineUnavailable("this worker has no speech engine")
    return transcribe.transcribe(job, engines)


# Segments are handed in as they are cut; what stays is one small rendition to take pictures of.
_VERSION = Handler(_transcode, STALL_SECONDS, scratch_share=0.25)
# They are written in `kinds.py`, because those who know nothing of handlers have to know them.
KINDS = tuple(kinds.TABLE.values())
HANDLERS: dict[str, Handler | SpeechHandler] = {
    "transcode": _VERSION,
    "trim": _VERSION,
    "composite": _VERSION,
    "span": Handler(_span, STALL_SECONDS, scratch_share=0.05),
    "transcribe": SpeechHandler(_transcribe, STALL_SECONDS, scratch_share=0.0),
}
