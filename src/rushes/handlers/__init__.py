"""Which handler runs which kind of job: a plain table, with room for kinds of your own.

A module named in the setting HANDLERS, or one that a package's entry point in `rushes.handlers`
names, adds to it by a table `HANDLERS` of kind → function of one `JobContext` (or `Handler`), and
says by a list `KINDS` what these kinds are.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from typing import Any

from rushes import errors, kinds
from rushes.engines.engine import EngineUnavailable
from rushes.engines.registry import Registry
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler

ENTRY_POINTS = "rushes.handlers"
# Tools that stand still are ended by themselves; this is for what hangs beside them.
STALL_SECONDS = 900.0


def _transcode(job: JobContext) -> Any:
    # Here: whoever only lists kinds need not wait for it.
    from rushes.handlers.transcode import steps as transcode

    return transcode.transcode(job, keep=job.keep_completed_qualities)


def _span(job: JobContext) -> Any:
    from rushes.handlers.transcode import steps as transcode

    return transcode.span(job)


def _transcribe(job: JobContext, engines: Registry | None = None) -> Any:
    from rushes.handlers.transcribe import steps as transcribe

    if engines is None:
        raise EngineUnavailable("this worker has no speech engine")
    return transcribe.transcribe(job, engines)


_VERSION = Handler(_transcode, STALL_SECONDS)
_SPEECH = Handler(_transcribe, STALL_SECONDS)
BUILT_IN: dict[str, Handler] = {
    "transcode": _VERSION,
    "trim": _VERSION,
    "composite": _VERSION,
    "span": Handler(_span, STALL_SECONDS),
    "transcribe": _SPEECH,
}


def check(table: Mapping[str, Handler]) -> None:
    """Raises when a kind of Rushes' own that workers run has no handler here, or the reverse."""
    known = {each.name for each in kinds.TABLE.values() if each.remote}
    if idle := known - table.keys():
        raise errors.BadSetting(f"there is no handler for the kind {min(idle)!r}")
    if unknown := table.keys() - known:
        raise errors.BadSetting(f"there is a handler, but no kind {min(unknown)!r}")


check(BUILT_IN)


def table(modules: str = "", *, engines: Registry | None = None) -> dict[str, Handler]:
    """Everything this process can run. A kind that is claimed twice stops the start."""
    found = dict(BUILT_IN)
    for kind in [kind for kind, handler in found.items() if handler is _SPEECH]:
        found[kind] = Handler(partial(_transcribe, engines=engines), STALL_SECONDS)
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        _add(found, entry.load(), entry.value)
    for name in filter(None, (each.strip() for each in modules.split(","))):
        _add(found, _load(name), name)
    return found


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.BadSetting(f"RUSHES_HANDLERS: {name} cannot be imported: {error}") from error
    except errors.RushesError as error:
        raise errors.BadSetting(f"RUSHES_HANDLERS: {name}: {error.message}") from None


def _add(found: dict[str, Handler], more: Any, origin: str) -> None:
    """`more`: a module, or only its table."""
    table = more if isinstance(more, Mapping) else getattr(more, "HANDLERS", None)
    if not isinstance(table, Mapping):
        raise errors.BadSetting(f"{origin} has no table HANDLERS")
    given = {each.name: each for each in _kinds_of(more, origin)}
    if idle := [name for name in given if name not in table]:
        raise errors.BadSetting(f"{origin}: there is no handler for the kind {idle[0]!r}")
    for name, handler in table.items():
        if name in found:
            raise errors.BadSetting(f"{origin}: {name} has a handler already")
        found[name] = handler if isinstance(handler, Handler) else Handler(handler)
    try:
        kinds.declare(given.get(name) or kinds.Kind(name=name) for name in table)
    except errors.RushesError as error:
        raise errors.BadSetting(f"{origin}: {error.message}") from None


def _kinds_of(more: Any, origin: str) -> list[kinds.Kind]:
    given = list(getattr(more, "KINDS", ()))
    if wrong := [each for each in given if not isinstance(each, kinds.Kind)]:
        raise errors.BadSetting(f"{origin}: {wrong[0]!r} in KINDS is no rushes.Kind")
    return given
