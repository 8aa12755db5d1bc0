"""What a worker and the server say to each other over HTTP, as models."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from rushes.jobs.job import WORD
from rushes.protocol import ADOPT_LIMIT, PARTS_LIMIT, PASSAGES_LIMIT, Claim
from rushes.web.models import SHOWN_ONCE, Body

LONGEST_WAIT_SECONDS = 60.0
SHA256 = re.compile(r"[0-9a-f]{64}")

GRANTED = "The kinds that the key is for; null: every kind that may leave the server."

Words = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=256)]
Id = Annotated[str, Field(max_length=100, pattern=r"^[a-z]+_[A-Za-z0-9_]+$")]
RandomId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]
FileName = Annotated[str, Field(max_length=300)]
# How long a segment plays.
Seconds = Annotated[float | None, Field(ge=0, le=1e6, allow_inf_nan=False)]


class WorkerHello(Body):
    takes_nul = True

    kinds: list[Annotated[str, Field(pattern=f"^{WORD.pattern}$")]] = Field(max_length=256)
    capabilities: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    boot_id: RandomId | None = Field(
        None,
        description="Fresh for each process. What another process of this worker held is freed.",
    )


class ClaimRequest(Body):
    limit: int = Field(1, ge=1, le=100)
    wait_seconds: float = Field(0, ge=0, le=LONGEST_WAIT_SECONDS)
    boot_id: RandomId | None = Field(None, description="As given with hello.")
    request_id: RandomId | None = Field(
        None,
        description="Fresh for each request. Repeated, the answer is the same jobs while held.",
    )


class Held(Body):
    job_id: Id
    claim_id: Id

    @property
    def claim(self) -> Claim:
        return Claim(self.job_id, self.claim_id)


class Heartbeat(Body):
    claims: list[Held] = Field([], max_length=1000)
    stalled: list[Held] = Field(
        [], max_length=1000, description="Held, but not to be renewed: it does not move on."
    )
    answered: list[RandomId] = Field(
        [],
        max_length=1000,
        description="Claim requests that were answered since the last such heartbeat. What was"
        " claimed by them, and is in neither list, is freed; the attempt does not count.",
    )


class Report(Held):
    """A handler's words: what cannot be kept or shown of them is cut or left out by `dispatch`,
    and is no reason to refuse the rest."""

    takes_nul = True


class ProgressReport(Report):
    progress: float = Field(0, ge=0, le=1)
    stage: str | None = None
    checkpoint: Any = None
    engine_id: str | None = None
    detail: dict[str, Any] | None = None


class Complete(Report):
    result: Any = None
    manifest: dict[str, str] | None = Field(None, max_length=200_000)


class Fail(Report):
    error_class: str = Field("transient", pattern="^(permanent|transient|resource)$")
    code: str = "failed"
    message: str = ""


class PartRequest(Body):
    kind: str = Field(max_length=64)
    args: dict[str, Any] = Field(default_factory=dict)
    needs: Words = Field(default_factory=list)


class Divide(Report):
    parts: list[PartRequest] = Field(min_length=1, max_length=PARTS_LIMIT)
    checkpoint: Any = None


class Lines(Report):
    lines: list[str]


class PassageReport(Report):
    number: int = Field(ge=0, lt=PASSAGES_LIMIT)
    content: Any


class Register(Body):
    name: str = Field(min_length=1, max_length=100)
    kinds: Words | None = Field(None, description=GRANTED)


class Join(Body):
    code: str = Field(max_length=100)
    name: str = "worker"


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
    kinds: list[str] | None = Field(description=GRANTED)
    key: Annotated[str, SHOWN_ONCE] = Field(description="Shown once; keep it.")
    prefix: str


class StateAnswer(BaseModel):
    state: str


class Terms(BaseModel):
    worker_id: str
    name: str
    kinds: list[str] = Field(description="Of those it has named, the ones its key is for.")
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


class Said(BaseModel):
    transcript: dict[str, Any] | None


class Presigned(BaseModel):
    url: str | None
    ticket: str | None
