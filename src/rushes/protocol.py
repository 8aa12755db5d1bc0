"""What a worker and the server say to each other. Plain data; no database, no HTTP.

`Coordinator` is implemented by `dispatch` (in the same process) and by the HTTP client of a
remote worker. Three answers exist: done, `ClaimLost` (stop, never repeat), `Unavailable` (repeat).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

VERSION = 1
ADOPT_LIMIT = 500
PARTS_LIMIT = 2_000
PASSAGES_LIMIT = 100_000
PASSAGE_LIMIT_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a worker can do; said each time it starts."""

    kinds: Sequence[str]
    capabilities: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # Of this process: what another process of the same worker held is freed.
    boot_id: str | None = None


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
class Roll:
    """What makes a heartbeat tell of all that a worker holds. `answered`: the claim requests whose
    answers it has got since the last such heartbeat; of theirs, what is neither renewed nor
    `stalled` is not in its hands. `stalled`: held, but not to be renewed."""

    answered: Sequence[str] = ()
    stalled: Sequence[Claim] = ()


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
    # For people: `renditions` (a list), `speed` (× real time), `eta_seconds`.
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a version, as the server has recorded it. `seconds`: how long a segment plays;
    `claimed`: whether it was put or adopted by the claim that asks."""

    name: str
    size_bytes: int
    sha256: str
    content_type: str
    seconds: float | None = None
    claimed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a job works on. `path` when this process can open it directly."""

    file_name: str
    size_bytes: int
    sha256: str | None
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job that does a share of a divided job's work."""

    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """`manifest` says by name and SHA-256 what the attempt made; None when it made no files."""

    claim: Claim
    result: Any = None
    manifest: Mapping[str, str] | None = None


class Coordinator(Protocol):
    def hello(self, hello: Hello) -> float | None:
        """How many seconds apart heartbeats should be, if the server has a wish."""
        ...

    def claim(
        self, limit: int, wait_seconds: float = 0, request_id: str | None = None
    ) -> list[Assignment]:
        """Up to `limit` jobs; waits for the first one if asked to. To be repeated only with the
        same `request_id`: then the answer is the same jobs, as far as they are still held."""
        ...

    def heartbeat(self, claims: Sequence[Claim], roll: Roll | None = None) -> Pulse: ...

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        """One answer per claim id."""
        ...

    def complete(self, completions: Sequence[Completion]) -> Mapping[str, str]:
        """The job's state after it, or an error's code, for each job id."""
        ...

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> str: ...

    def release(self, claim: Claim) -> str: ...

    def divide(self, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> str:
        """Hand the job's work on to parts; it runs again when all of them have completed."""
        ...

    def source(self, claim: Claim, media_id: str | None = None) -> Source:
        """The job's source, or that of another media which the job's arguments name."""
        ...

    def read_source(self, claim: Claim, start: int, media_id: str | None = None) -> Iterator[bytes]:
        """The source's bytes from `start` on; ask again with another start to resume."""
        ...

    def transcript(self, claim: Claim) -> dict[str, Any] | None:
        """What is said in the job's media, as people read it now; None when nobody knows yet."""
        ...

    def artifacts(self, claim: Claim) -> Sequence[Artifact]:
        """What the job's version holds, whichever attempt or part has put it."""
        ...

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        """Repeating it with the same content is harmless."""
        ...

    def adopt(self, claim: Claim, names: Sequence[str]) -> Sequence[Artifact]:
        """Take over files that others have put, at most `ADOPT_LIMIT` a call. Answers those that
        were found intact; what is damaged is removed."""
        ...

    def discard(self, claim: Claim, names: Sequence[str]) -> None:
        """Remove files of this claim again, at most `ADOPT_LIMIT` a call. Repeating is harmless."""
        ...

    def put_passage(self, claim: Claim, number: int, content: Any) -> None:
        """Keep a part of a result that grows while the job runs; listeners hear of it. Repeating
        it is harmless. Passages outlive the attempt, and a retry of the job begins with them."""
        ...

    def passages(self, claim: Claim) -> Sequence[Any]:
        """What the job's attempts have kept so far, in the order of their numbers."""
        ...

    def log(self, claim: Claim, lines: Sequence[str]) -> None: ...

    def interrupt(self) -> None:
        """End a `claim` that is waiting, from another thread."""
        ...
