"""Which handler runs which kind of job: a table that modules make, Rushes' own like others'.

A module named in the setting HANDLERS, or one that a package's entry point in `rushes.handlers`
names, adds to it by a table `HANDLERS` of kind → function of one `JobContext` (or `Handler`), and
says by a list `KINDS` what these kinds are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from rushes import errors, kinds
from rushes.engines.registry import Registry
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler

ENTRY_POINTS = "rushes.handlers"
# Not in the metadata of the package, which a checkout that only is on the path does not have.
BUILT_IN = (metadata.EntryPoint("rushes", "rushes.handlers.built_in", ENTRY_POINTS),)


@dataclass(frozen=True, slots=True)
class SpeechHandler:
    """A handler that is also given the speech engines of its process; None if there are none."""

    run: Callable[[JobContext, Registry | None], Any]
    stall_seconds: float | None = None
    scratch_share: float | None = None


def table(modules: str = "", *, engines: Registry | None = None) -> dict[str, Handler]:
    """Everything this process can run. A kind that is claimed twice stops the start."""
    found: dict[str, Handler | SpeechHandler] = {}
    for entry in (*BUILT_IN, *metadata.entry_points(group=ENTRY_POINTS)):
        _add(found, entry.load(), entry.value)
    for name in filter(None, (each.strip() for each in modules.split(","))):
        _add(found, _load(name), name)
    return {kind: _ready(handler, engines) for kind, handler in found.items()}


def _ready(handler: Handler | SpeechHandler, engines: Registry | None) -> Handler:
    if isinstance(handler, Handler):
        return handler
    run = handler.run
    return Handler(lambda job: run(job, engines), handler.stall_seconds, handler.scratch_share)


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.BadSetting(f"RUSHES_HANDLERS: {name} cannot be imported: {error}") from error
    except errors.RushesError as error:
        raise errors.BadSetting(f"RUSHES_HANDLERS: {name}: {error.message}") from None


def _add(found: dict[str, Handler | SpeechHandler], more: Any, origin: str) -> None:
    """`more`: a module, or only its table."""
    table = more if isinstance(more, Mapping) else getattr(more, "HANDLERS", None)
    if not isinstance(table, Mapping):
        raise errors.BadSetting(f"{origin} has no table HANDLERS")
    given = {each.name: each for each in _kinds_of(more, origin)}
    if idle := [each.name for each in given.values() if each.remote and each.name not in table]:
        raise errors.BadSetting(f"{origin}: there is no handler for the kind {idle[0]!r}")
    for name, handler in table.items():
        if name in found:
            raise errors.BadSetting(f"{origin}: {name} has a handler already")
        is_whole = isinstance(handler, Handler | SpeechHandler)
        found[name] = handler if is_whole else Handler(handler)
    try:
        kinds.declare(given.get(name) or kinds.Kind(name=name) for name in table)
    except errors.RushesError as error:
        raise errors.BadSetting(f"{origin}: {error.message}") from None


def _kinds_of(more: Any, origin: str) -> list[kinds.Kind]:
    given = list(getattr(more, "KINDS", ()))
    if wrong := [each for each in given if not isinstance(each, kinds.Kind)]:
        raise errors.BadSetting(f"{origin}: {wrong[0]!r} in KINDS is no rushes.Kind")
    return given
