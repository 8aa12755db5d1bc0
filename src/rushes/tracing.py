"""Spans of OpenTelemetry, if its extra is installed and the OTEL_ variables say where they go.

Otherwise nothing is imported and nothing is done. The trace itself goes through requests, jobs and
workers in any case (`correlation`), so that one who does not record it does not cut it. Spans tell
ids, kinds and words of ours; never a path, a key, a title or an error's message.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rushes import correlation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger("rushes.tracing")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CLOSE_SECONDS = 2.0
Fact = str | int | float | bool


class _Recorder:
    """What is there when spans are recorded: a process has one or none."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self.tracer: Tracer = provider.get_tracer("rushes")


_recorder: _Recorder | None = None


def is_on() -> bool:
    return _recorder is not None


def configure(service: str) -> None:
    """As the environment says. `service`: what it is called there, unless that says otherwise."""
    global _recorder
    if not _is_wanted() or _recorder is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces are sent: pip install 'rushes[otel]'")
        return
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    provider = TracerProvider(
        resource=Resource.create(None if named else {"service.name": service}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _recorder = _Recorder(provider)


def _is_wanted() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def close() -> None:
    """What is recorded is sent, if that takes no more than a moment: a collector that is away would
    be tried again and again, and nobody is to wait for that."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        sending = threading.Thread(target=recorder.provider.shutdown, daemon=True)
        sending.start()
        sending.join(CLOSE_SECONDS)


def span(name: str, *, edge: bool = False, **facts: Fact | None) -> AbstractContextManager[Any]:
    """What is done inside belongs to it. `edge`: it answers another process."""
    if _recorder is None:
        return _NOTHING
    return _Inside(_recorder, name, edge, facts)


def step(name: str, **facts: Fact | None) -> AbstractContextManager[Any]:
    """The same for what is of no interest by itself: only as a part of something."""
    if _recorder is None or correlation.trace() is None:
        return _NOTHING
    return _Inside(_recorder, name, False, facts)


_NOTHING: AbstractContextManager[Any] = nullcontext()


class _Inside(AbstractContextManager["_Inside"]):
    def __init__(
        self, recorder: _Recorder, name: str, edge: bool, facts: Mapping[str, Fact | None]
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._edge = edge
        self._facts = facts
        self._bound: AbstractContextManager[None] = nullcontext()

    def __enter__(self) -> _Inside:
        self._span = _started(self._recorder, self._name, self._facts, edge=self._edge)
        self._bound = correlation.bound(trace=_traceparent(self._span))
        self._bound.__enter__()
        return self

    def describe(self, name: str, facts: Mapping[str, Fact | None]) -> None:
        """When more is known of it than at its beginning."""
        self._span.update_name(name)
        self._span.set_attributes(_attributes(facts))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._bound.__exit__(None, None, None)
        if kind is not None:
            fail(self._span, kind.__name__)
        self._span.end()


def fail(span: Span, code: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def past(name: str, seconds: float, trace: str | None, **facts: Fact | None) -> str | None:
    """A span that ends now and began so long ago, below `trace`; returns what goes on from it."""
    if _recorder is None:
        return trace
    now = time.time_ns()
    began = now - int(seconds * 1e9)
    made = _started(_recorder, name, facts, trace=trace, at=began)
    made.end(now)
    return _traceparent(made)


class Stages:
    """Spans one after the other: the next ends the one before. One thread at a time."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._open: Span | None = None

    def enter(self, name: str, trace: str | None) -> None:
        if _recorder is None or name == self._name:
            return
        self.close()
        # Words of whoever has written the handler, not of its media; but not many of them.
        self._name, shown = name, name[:64]
        self._open = _started(_recorder, f"stage {shown}", {}, trace=trace)

    def close(self) -> None:
        if self._open is not None:
            self._open.end()
        self._name = self._open = None


def _started(
    recorder: _Recorder,
    name: str,
    facts: Mapping[str, Fact | None],
    *,
    trace: str | None = None,
    edge: bool = False,
    at: int | None = None,
) -> Span:
    from opentelemetry.trace import SpanKind

    return recorder.tracer.start_span(
        name,
        context=_context(trace or correlation.trace()),
        kind=SpanKind.SERVER if edge else SpanKind.INTERNAL,
        attributes=_attributes(facts),
        start_time=at,
    )


def _attributes(facts: Mapping[str, Fact | None]) -> dict[str, Fact]:
    """Names of OpenTelemetry's own have a dot; ours begin with what we are called."""
    return {
        name.replace("__", ".") if "__" in name else f"rushes.{name}": value
        for name, value in facts.items()
        if value is not None
    }


def _context(trace: str | None) -> Any:
    from opentelemetry import trace as api
    from opentelemetry.context import Context

    if trace is None:
        return Context()
    _, trace_id, span_id, flags = trace.split("-")
    parent = api.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=api.TraceFlags(int(flags, 16)),
    )
    return api.set_span_in_context(api.NonRecordingSpan(parent), Context())


def _traceparent(span: Span) -> str:
    known = span.get_span_context()
    return f"00-{known.trace_id:032x}-{known.span_id:016x}-{known.trace_flags:02x}"
