"""What this thread works for: the request, the worker, the job, the media and the trace.

Set at the edges, and read by whoever writes a line of the log or makes a job. Threads begin with
nothing: `carried` takes it along.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token, copy_context
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# As W3C has it, of the one version there is; neither number may be nothing.
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
# What a request may be called by whoever sends it.
REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Correlation(NamedTuple):
    request_id: str | None = None
    worker_id: str | None = None
    job_id: str | None = None
    media_id: str | None = None
    # A traceparent.
    trace: str | None = None

    @property
    def trace_id(self) -> str | None:
        return self.trace[3:35] if self.trace else None


NOTHING = Correlation()
_here: ContextVar[Correlation] = ContextVar("correlation", default=NOTHING)
NAMES = Correlation._fields


def here() -> Correlation:
    return _here.get()


def trace() -> str | None:
    return _here.get().trace


def bound(
    *,
    request_id: str | None = None,
    worker_id: str | None = None,
    job_id: str | None = None,
    media_id: str | None = None,
    trace: str | None = None,
) -> AbstractContextManager[None]:
    """Inside, this is known, too; what is None leaves what is known."""
    return _Bound(Correlation(request_id, worker_id, job_id, media_id, trace))


class _Bound(AbstractContextManager[None]):
    """Around every job, however small: a generator would cost as much again."""

    __slots__ = ("_before", "_known")

    def __init__(self, known: Correlation) -> None:
        self._known = known

    def __enter__(self) -> None:
        outside = _here.get()
        both = zip(self._known, outside, strict=True)
        told = Correlation(*[was if new is None else new for new, was in both])
        self._before: Token[Correlation] = _here.set(told)

    def __exit__(self, *error: object) -> None:
        _here.reset(self._before)


def begin(known: Correlation) -> None:
    """For the rest of a task or thread of its own."""
    _here.set(known)


def carried(call: Callable[P, T]) -> Callable[P, T]:
    """The same for another thread, which then knows what is known here. To be called once."""
    context = copy_context()

    def run(*args: P.args, **named: P.kwargs) -> T:
        return context.run(call, *args, **named)

    return run


def traceparent(header: str | None) -> str | None:
    """What a stranger says of the trace, if it can be one."""
    return header if header and TRACEPARENT.fullmatch(header) else None


def request_id(header: str | None) -> str | None:
    """How a stranger calls a request, if it is a plain word of some length."""
    return header if header and REQUEST_ID.fullmatch(header) else None
