"""What a worker and the server say to each other over HTTP, as models."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from rushes.protocol import ADOPT_LIMIT, PARTS_LIMIT, PASSAGES_LIMIT, Claim
from rushes.web.models import Body

LONGEST_WAIT_SECONDS = 60.0
SHA256 = re.compile(r"[0-9a-f]{64}")

Words = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=256)]
Id = Annotated[str, Field(max_length=100, pattern=r"^[a-z]+_[A-Za-z0-9_]+$")]
FileName = Annotated[str, Field(max_length=300)]
# How long a segment plays.
Seconds = Annotated[float | None, Field(ge=0, le=1e6, allow_inf_nan=False)]


class WorkerHello(Body):
    kinds: Words
    capabilities: Words = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


class ClaimRequest(Body):
    limit: int = Field(1, ge=1, le=100)
    wait_seconds: float = Field(0, ge=0, le=LONGEST_WAIT_SECONDS)


class Held(Body):
    job_id: Id
    claim_id: Id

    @property
    def claim(self) -> Claim:
        return Claim(self.job_id, self.claim_id)


class Heartbeat(Body):
    claims: list[Held] = Field([], max_length=1000)


class Report(Held):
    """A handler's words: what cannot be kept of them is left out later, and is no reason to
    refuse the rest."""

    takes_nul = True


class ProgressReport(Report):
    progress: float = Field(0, ge=0, le=1)
    stage: str | None = Field(None, max_length=100)
    checkpoint: Any = None
    engine_id: str | None = Field(None, max_length=100)
    detail: dict[str, Any] | None = None


class Complete(Report):
    result: Any = None
    manifest: dict[str, str] | None = Field(None, max_length=200_000)


class Fail(Report):
    error_class: str = Field("transient", pattern="^(permanent|transient|resource)$")
    code: str = Field("failed", max_length=100)
    message: str = Field("", max_length=4000)


class PartRequest(Body):
    kind: str = Field(max_length=64)
    args: dict[str, Any] = Field(default_factory=dict)
    needs: Words = Field(default_factory=list)


class Divide(Report):
    parts: list[PartRequest] = Field(min_length=1, max_length=PARTS_LIMIT)
    checkpoint: Any = None


class Lines(Report):
    lines: list[Annotated[str, Field(max_length=10_000)]] = Field(max_length=1000)


class PassageReport(Report):
    number: int = Field(ge=0, lt=PASSAGES_LIMIT)
    content: Any


class Register(Body):
    name: str = Field(min_length=1, max_length=100)


class Join(Body):
    code: str = Field(max_length=100)
    name: str = Field("worker", min_length=1, max_length=100)


class FileNames(Body):
    names: list[FileName] = Field(max_length=ADOPT_LIMIT)


class PresignRequest(Body):
    name: FileName


class Confirm(PresignRequest):
    ticket: Id
    size_bytes: int = Field(ge=0)
    sha256: str = Field(pattern=SHA256.pattern)
    md5: str = Field(pattern=r"[0-9a-f]{32}")
    seconds: Seconds = None


class Registered(BaseModel):
    worker_id: str
    name: str
    key: str = Field(description="Shown once; keep it.")
    prefix: str


class StateAnswer(BaseModel):
    state: str


class Terms(BaseModel):
    worker_id: str
    name: str
    heartbeat_seconds: float
    lease_seconds: float


class Job(BaseModel):
    """What is known of a job by whoever holds it."""

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


class Claimed(BaseModel):
    jobs: list[Job]


class HeldAnswer(BaseModel):
    held: bool
    cancel: bool


class HeartbeatAnswer(BaseModel):
    claims: dict[str, HeldAnswer]
    drain: bool
    lease_seconds: float


class ProgressAnswer(HeldAnswer):
    lease_seconds: float


class Logged(BaseModel):
    lines: int


class File(BaseModel):
    name: str
    size_bytes: int
    sha256: str
    content_type: str
    seconds: float | None = Field(None, description="How long a segment plays.")
    claimed: bool = Field(True, description="Whether this claim has put or adopted it.")


class Files(BaseModel):
    items: list[File]


class Kept(BaseModel):
    number: int


class Passages(BaseModel):
    items: list[Any]


class Presigned(BaseModel):
    url: str | None
    ticket: str | None
