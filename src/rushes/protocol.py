"""What a worker and the server say to each other. Plain data; no database, no HTTP.

`Coordinator` is implemented by `dispatch` (in the same process) and by the HTTP client of a
remote worker. Three answers exist: done, `ClaimLost` (stop, never repeat), `Unavailable` (repeat).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a worker can do; said each time it starts."""

    kinds: Sequence[str]
    capabilities: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One job, held by the worker that gets this until `lease_seconds` after it asked."""

    job_id: str
    claim_id: str
    kind: str
    args: dict[str, Any]
    media_id: str | None
    user_id: str
    epoch: int
    attempt: int
    max_attempts: int
    checkpoint: Any
    lease_seconds: float

    @property
    def claim(self) -> Claim:
        return Claim(self.job_id, self.claim_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """Which job, and the proof of holding it."""

    job_id: str
    claim_id: str


@dataclass(frozen=True, slots=True)
class Beat:
    """`held` false: stop at once. `cancel`: stop and acknowledge with fail or release."""

    held: bool
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer to a heartbeat, by claim id. `drain`: finish what you hold, claim nothing new."""

    beats: Mapping[str, Beat]
    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a worker says of a job it holds. `checkpoint` replaces the one before."""

    claim: Claim
    progress: float = 0.0
    stage: str | None = None
    checkpoint: Any = None
    engine_id: str | None = None


class Coordinator(Protocol):
    def hello(self, hello: Hello) -> None: ...

    def claim(self, limit: int, wait_seconds: float = 0) -> list[Assignment]:
        """Up to `limit` jobs; waits for the first one if asked to. Never to be repeated blindly."""
        ...

    def heartbeat(self, claims: Sequence[Claim]) -> Pulse: ...

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        """One answer per claim id."""
        ...

    def complete(self, results: Sequence[tuple[Claim, Any]]) -> Mapping[str, str]:
        """The job's state after it, or an error's code, for each job id."""
        ...

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> str: ...

    def release(self, claim: Claim) -> str: ...

    def interrupt(self) -> None:
        """End a `claim` that is waiting, from another thread."""
        ...
