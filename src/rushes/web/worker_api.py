"""The worker protocol over HTTP: the other transport of `dispatch.Dispatch`. Worker keys only."""

from __future__ import annotations

import asyncio
import queue as queues
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel, Field

from rushes import errors
from rushes.accounts import access, keys
from rushes.fleet.worker import Worker
from rushes.jobs.queue import Claimant
from rushes.protocol import Assignment, Beat, Claim, Completion, Hello, Progress
from rushes.web import auth, ranges
from rushes.web.models import Body
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(prefix="/worker", tags=["worker protocol"], responses=documented(401, 409, 422))

LONGEST_WAIT_SECONDS = 60.0
SHA256 = re.compile(r"[0-9a-f]{64}")
# So many chunks may wait between the connection and the disk.
CHUNKS_AHEAD = 8
END = b""
# Their own: senders and disks that are slow must not take the threads of all other requests.
_writers = ThreadPoolExecutor(64, thread_name_prefix="artifact")
OCTETS: dict[str, Any] = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
}

Words = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=256)]
Id = Annotated[str, Field(max_length=100, pattern=r"^[a-z]+_[A-Za-z0-9_]+$")]
ClaimHeader = Annotated[str, Header(alias="Rushes-Claim", max_length=100)]
JobId = Annotated[str, Path(max_length=100)]


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


class Lines(Report):
    lines: list[Annotated[str, Field(max_length=10_000)]] = Field(max_length=1000)


class Register(Body):
    name: str = Field(min_length=1, max_length=100)


class Join(Body):
    code: str = Field(max_length=100)
    name: str = Field("worker", min_length=1, max_length=100)


class PresignRequest(Body):
    name: str = Field(max_length=300)


class Confirm(PresignRequest):
    ticket: Id
    size_bytes: int = Field(ge=0)
    sha256: str = Field(pattern=SHA256.pattern)
    md5: str = Field(pattern=r"[0-9a-f]{32}")


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


class Files(BaseModel):
    items: list[File]


class Presigned(BaseModel):
    url: str | None
    ticket: str | None


@router.post(
    "/register", status_code=201, dependencies=[auth.Public], responses=documented(403, 429)
)
def register(
    body: Register,
    request: Request,
    site: Here,
    bearer: auth.Bearer,
    api_key: auth.ApiKey,
    cookie: auth.Cookie,
    secret: Annotated[str | None, Header(alias="X-Admin-Secret")] = None,
) -> Registered:
    """Add a worker: by the admin secret of the settings, or as an admin."""
    if secret is not None:
        with access.throttled(site.db, auth.address_of(request)):
            if not keys.same(secret, site.settings.admin_secret):
                raise errors.Unauthorized("the admin secret is wrong, or none is set")
    else:
        key = bearer.credentials if bearer else api_key
        if not auth.recognise(site, request, key, cookie).is_admin:
            raise errors.Denied("only an admin may register workers")
    worker_id, made = site.db.run(lambda tx: access.register_worker(tx, body.name))
    return Registered(worker_id=worker_id, name=body.name, key=made.text, prefix=made.prefix)


@router.post("/join", status_code=201, dependencies=[auth.Public], responses=documented(429))
def join(body: Join, request: Request, site: Here) -> Registered:
    """Use an invite's code up."""
    with access.throttled(site.db, auth.address_of(request)):
        worker_id, name, made = site.db.run(lambda tx: access.join(tx, body.code, body.name))
    return Registered(worker_id=worker_id, name=name, key=made.text, prefix=made.prefix)


@router.post("/hello")
def hello(body: WorkerHello, worker: auth.WorkerKey, site: Here) -> Terms:
    """What the worker can do, each time it starts; the answer says on what terms it works."""
    site.dispatch.hello(worker.id, Hello(**body.model_dump()))
    settings = site.settings
    return Terms(
        worker_id=worker.id,
        name=worker.name,
        heartbeat_seconds=settings.heartbeat_interval,
        lease_seconds=settings.claim_duration,
    )


@router.post("/claim", response_model=Claimed)
async def claim(
    body: ClaimRequest, request: Request, worker: auth.WorkerKey, site: Here
) -> Response:
    """Up to `limit` jobs; with `wait_seconds` answered the moment one fits."""
    me = Claimant(
        id=worker.id, name=worker.name, kinds=worker.kinds, capabilities=worker.capabilities
    )
    if site.stopping.is_set():
        raise errors.Unavailable("the server is stopping: ask again in a moment")
    until = time.monotonic() + body.wait_seconds
    while True:
        mark = site.bell.mark()
        jobs: list[Assignment] = []
        if not site.stopping.is_set():
            jobs = await asyncio.to_thread(site.dispatch.claim, me, body.limit)
        left = until - time.monotonic()
        if await request.is_disconnected():
            # Nobody is there to take them; otherwise they would wait for their lease to run out.
            for job in jobs:
                await asyncio.to_thread(site.dispatch.release, job.claim)
            jobs, left = [], 0
        if jobs or left <= 0 or site.stopping.is_set():
            return _json({"jobs": jobs})
        poll = site.settings.poll_interval * random.uniform(0.75, 1.25)
        await site.doorbell.wait(mark, min(left, poll))


@router.post("/heartbeat", response_model=HeartbeatAnswer)
def heartbeat(body: Heartbeat, worker: auth.WorkerKey, site: Here) -> Response:
    """Renew what is held. `held` false: stop at once; `cancel`: stop and say so."""
    claims = [each.claim for each in body.claims]
    pulse = site.dispatch.heartbeat(worker.id, site.dispatch.owned(worker.id, claims))
    beats = {each.claim_id: pulse.beats.get(each.claim_id, Beat(False)) for each in claims}
    lease = site.settings.claim_duration
    return _json({"claims": beats, "drain": pulse.drain, "lease_seconds": lease})


@router.post("/progress")
def progress(body: ProgressReport, worker: auth.WorkerKey, site: Here) -> ProgressAnswer:
    """How far it is; renews the lease, too."""
    _mine(site, worker, body)
    report = Progress(claim=body.claim, **body.model_dump(exclude={"job_id", "claim_id"}))
    beat = site.dispatch.progress([report])[body.claim_id]
    if not beat.held:
        raise errors.ClaimLost("the claim is not held any more")
    lease = site.settings.claim_duration
    return ProgressAnswer(held=True, cancel=beat.cancel, lease_seconds=lease)


@router.post("/complete")
def complete(body: Complete, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """Publish and complete. Repeating it is harmless and answers the same."""
    _mine(site, worker, body)
    completion = Completion(body.claim, body.result, body.manifest)
    return StateAnswer(state=site.dispatch.complete(completion))


@router.post("/fail")
def fail(body: Fail, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """The attempt has failed; the answer says what becomes of the job."""
    _mine(site, worker, body)
    state = site.dispatch.fail(body.claim, body.error_class, body.code, body.message)
    return StateAnswer(state=state)


@router.post("/release")
def release(body: Held, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """Give the job back; the attempt does not count."""
    _mine(site, worker, body)
    return StateAnswer(state=site.dispatch.release(body.claim))


@router.post("/logs", status_code=202)
def logs(body: Lines, worker: auth.WorkerKey, site: Here) -> Logged:
    """Lines for people who look at the job; sanitized before they are kept."""
    _mine(site, worker, body)
    site.dispatch.log(worker.id, body.claim, body.lines)
    return Logged(lines=len(body.lines))


@router.get(
    "/source",
    response_class=Response,
    responses={200: {"content": OCTETS}, 206: {"content": OCTETS}, **documented(404, 416)},
)
@router.head("/source", include_in_schema=False)
def source(
    request: Request,
    worker: auth.WorkerKey,
    site: Here,
    job_id: Annotated[str, Query(max_length=100)],
    claim_id: ClaimHeader,
) -> Response:
    """The source's bytes, with ranges; a redirect when the storage can give them itself."""
    held = Claim(job_id, claim_id)
    site.dispatch.check_owner(worker.id, held)
    key, source = site.dispatch.source(held)
    facts = {"Rushes-Source-Size": str(source.size_bytes)}
    if source.sha256:
        facts["Rushes-Source-SHA256"] = source.sha256
    if request.method == "HEAD":
        return Response(headers=facts)
    if address := site.storage.presign("GET", key, expires_seconds=3600):
        return RedirectResponse(address, 307, headers=facts)
    return ranges.from_storage(request, site.storage, key, source.size_bytes, headers=facts)


@router.get("/artifacts/{job_id}", response_model=Files)
def artifacts(job_id: JobId, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader) -> Response:
    """What this claim has put already."""
    held = Claim(job_id, claim_id)
    site.dispatch.check_owner(worker.id, held)
    return _json({"items": site.dispatch.artifacts(held)})


@router.post("/artifacts/{job_id}/presign")
def presign(
    job_id: JobId, body: PresignRequest, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Presigned:
    """Where to PUT a file past the server; `url` is null when that cannot be."""
    held = Claim(job_id, claim_id)
    site.dispatch.check_owner(worker.id, held)
    found = site.dispatch.presign(held, body.name)
    return Presigned(url=found.url if found else None, ticket=found.ticket if found else None)


@router.post("/artifacts/{job_id}/confirm", response_model=File)
def confirm(
    job_id: JobId, body: Confirm, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Response:
    """A file that was PUT past the server is there."""
    held = Claim(job_id, claim_id)
    site.dispatch.check_owner(worker.id, held)
    artifact = site.dispatch.confirm(
        held,
        body.name,
        body.ticket,
        size_bytes=body.size_bytes,
        sha256=body.sha256,
        md5=body.md5,
    )
    return _json(artifact)


@router.put(
    "/artifacts/{job_id}/{name:path}",
    response_model=File,
    responses=documented(413, 507),
    openapi_extra={"requestBody": {"required": True, "content": OCTETS}},
)
async def put_artifact(
    job_id: JobId,
    name: Annotated[str, Path(max_length=300)],
    request: Request,
    worker: auth.WorkerKey,
    site: Here,
    claim_id: ClaimHeader,
    sha256: Annotated[str, Header(alias="Rushes-SHA256", pattern=f"^{SHA256.pattern}$")],
) -> Response:
    """One finished file. Repeating it with the same content is harmless."""
    held = Claim(job_id, claim_id)
    await asyncio.to_thread(site.dispatch.check_owner, worker.id, held)
    pipe = _Pipe()
    saving = asyncio.get_running_loop().run_in_executor(
        _writers, site.dispatch.put_artifact, held, name, pipe, sha256
    )
    saving.add_done_callback(pipe.close)
    try:
        async for chunk in request.stream():
            if chunk and not await pipe.put(chunk):
                break
        await pipe.put(END)
    except BaseException:
        # The client left half way: what was written is dropped, not kept as if it were whole.
        pipe.abort()
        await asyncio.shield(asyncio.wait([saving]))
        raise
    return _json(await asyncio.shield(saving))


class _Pipe:
    """From the connection to a thread that writes, with little in between. Only the writer has a
    thread: if the connection's side needed one too, enough writers would leave it none."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: queues.SimpleQueue[bytes] = queues.SimpleQueue()
        self._room = asyncio.Semaphore(CHUNKS_AHEAD)
        self._closed = False
        self._aborted = False

    async def put(self, chunk: bytes) -> bool:
        """False when nobody reads any more."""
        await self._room.acquire()
        if self._closed:
            self._room.release()
            return False
        self._chunks.put(chunk)
        return True

    def abort(self) -> None:
        self._aborted = True
        self._chunks.put(END)

    def close(self, saved: asyncio.Future[Any]) -> None:
        self._closed = True
        self._room.release()
        if not saved.cancelled():
            # Looked at, or the loop would complain when nobody is left to be told.
            saved.exception()

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._chunks.get()) != END:
            self._loop.call_soon_threadsafe(self._room.release)
            yield chunk
        if self._aborted:
            raise errors.Invalid("the file did not arrive whole")


def _mine(site: Site, worker: Worker, body: Held) -> None:
    site.dispatch.check_owner(worker.id, body.claim)


def _json(value: Any) -> JSONResponse:
    return _Encoded(value)


class _Encoded(JSONResponse):
    """The hot routes' answers, without a model's detour."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)
