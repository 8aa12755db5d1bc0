"""The worker protocol over HTTP: the other transport of `dispatch.Dispatch`. Worker keys only."""

from __future__ import annotations

import asyncio
import queue as queues
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from rushes import errors, kinds, sanitize
from rushes.accounts import access, keys, security_log, throttle
from rushes.accounts.access import KeyHolder
from rushes.db.database import Tx
from rushes.jobs.queue import Claimant
from rushes.kinds import Grant
from rushes.protocol import (
    Artifact,
    Assignment,
    Beat,
    Claim,
    Completion,
    Hello,
    Part,
    Progress,
    Roll,
)
from rushes.web import auth, idempotency, ranges
from rushes.web.problems import documented
from rushes.web.site import Here, Site
from rushes.web.worker_models import (
    SHA256,
    Claimed,
    ClaimRequest,
    Complete,
    Confirm,
    Divide,
    Fail,
    File,
    FileNames,
    Files,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Join,
    Kept,
    Lines,
    Logged,
    PassageReport,
    Passages,
    Presigned,
    PresignRequest,
    ProgressAnswer,
    ProgressReport,
    Register,
    Registered,
    Said,
    StateAnswer,
    Terms,
    WorkerHello,
)

router = APIRouter(prefix="/worker", tags=["worker protocol"], responses=documented(401, 409, 422))

# So many chunks may wait between the connection and the disk.
CHUNKS_AHEAD = 8
END = b""
# Their own: senders and disks that are slow must not take the threads of all other requests.
_writers = ThreadPoolExecutor(64, thread_name_prefix="artifact")
OCTETS: dict[str, Any] = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
}

ClaimHeader = Annotated[str, Header(alias="Rushes-Claim", max_length=100)]
JobId = Annotated[str, Path(max_length=100)]


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
    once: idempotency.Once,
    secret: Annotated[str | None, Header(alias="X-Admin-Secret")] = None,
) -> Registered:
    """Add a worker: by the admin secret of the settings, or as an admin."""
    if secret is not None:
        with throttle.throttled(site.db, auth.address_of(request), by="admin secret"):
            if not keys.same(secret, site.settings.admin_secret):
                raise errors.Unauthorized("the admin secret is wrong, or none is set")
        if here := security_log.visit.get():
            here.user_name = "admin secret"
        who = access.as_admin(site.db)
    else:
        key = bearer.credentials if bearer else api_key
        who = auth.recognise(site, request, key, cookie)
        auth.only_admin(site, request, who, "only an admin may register workers")
    grant = access.grant_of(body.kinds)

    def add(tx: Tx) -> Registered:
        worker_id, made = access.register_worker(tx, body.name, grant)
        return _registered(worker_id, body.name, grant, made)

    return once.run(site, who, body, Registered, add)


@router.post("/join", status_code=201, dependencies=[auth.Public], responses=documented(429))
def join(body: Join, request: Request, site: Here) -> Registered:
    """Use an invite's code up."""
    name = sanitize.word(body.name) or "worker"
    with throttle.throttled(site.db, auth.address_of(request), by="join code"):
        joined = site.db.run(lambda tx: access.join(tx, body.code, name))
    return _registered(*joined)


def _registered(worker_id: str, name: str, grant: Grant, made: access.NewKey) -> Registered:
    return Registered(
        worker_id=worker_id,
        name=name,
        kinds=None if grant.kinds is None else list(grant.kinds),
        key=made.text,
        prefix=made.prefix,
    )


@router.post("/hello")
def hello(body: WorkerHello, worker: auth.WorkerKey, site: Here) -> Terms:
    """What the worker can do, each time it starts; the answer says on what terms it works. Kinds
    that its key is not for are left out, unless there are no others."""
    kinds.check_remote(body.kinds)
    granted = [kind for kind in body.kinds if worker.grant.covers(kind)]
    worker.grant.check([] if granted else body.kinds)
    site.dispatch.hello(worker.id, Hello(**{**body.model_dump(), "kinds": granted}))
    settings = site.settings
    return Terms(
        worker_id=worker.id,
        name=worker.name,
        kinds=granted,
        heartbeat_seconds=settings.heartbeat_interval,
        lease_seconds=settings.claim_duration,
    )


@router.post("/claim", response_model=Claimed)
async def claim(
    body: ClaimRequest, request: Request, worker: auth.WorkerKey, site: Here
) -> Response:
    """Up to `limit` jobs; with `wait_seconds` answered the moment one fits."""
    me = Claimant(
        id=worker.id,
        name=worker.name,
        kinds=worker.kinds,
        capabilities=worker.worker.capabilities,
        boot_id=body.boot_id,
    )
    if site.stopping.is_set():
        raise errors.Unavailable("the server is stopping: ask again in a moment")
    until = time.monotonic() + body.wait_seconds
    again = await asyncio.to_thread(site.dispatch.claimed_before, me.id, body.request_id)
    if covered := [each for each in again if worker.grant.covers(each.kind)]:
        return _json({"jobs": covered})
    while True:
        mark = site.bell.mark()
        jobs: list[Assignment] = []
        if not site.stopping.is_set():
            jobs = await asyncio.to_thread(site.dispatch.claim, me, body.limit, body.request_id)
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
    roll = Roll(body.answered, [each.claim for each in body.stalled])
    owned = site.dispatch.owned(worker.id, claims, worker.grant)
    pulse = site.dispatch.heartbeat(worker.id, owned, roll)
    beats = {each.claim_id: pulse.beats.get(each.claim_id, Beat(False)) for each in claims}
    lease = site.settings.claim_duration
    return _json({"claims": beats, "drain": pulse.drain, "lease_seconds": lease})


@router.post("/progress")
def progress(body: ProgressReport, worker: auth.WorkerKey, site: Here) -> ProgressAnswer:
    """How far it is; renews the lease, too."""
    _mine(site, worker, body.claim)
    report = Progress(claim=body.claim, **body.model_dump(exclude={"job_id", "claim_id"}))
    beat = site.dispatch.progress([report])[body.claim_id]
    if not beat.held:
        raise errors.ClaimLost("the claim is not held any more")
    lease = site.settings.claim_duration
    return ProgressAnswer(held=True, cancel=beat.cancel, lease_seconds=lease)


@router.post("/complete")
def complete(body: Complete, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """Publish and complete. Repeating it is harmless and answers the same."""
    _mine(site, worker, body.claim)
    # Only here: what a handler of this very process answers is its owner's.
    completion = Completion(body.claim, sanitize.tree(body.result), body.manifest)
    return StateAnswer(state=site.dispatch.complete(completion))


@router.post("/fail")
def fail(body: Fail, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """The attempt has failed; the answer says what becomes of the job."""
    _mine(site, worker, body.claim)
    state = site.dispatch.fail(body.claim, body.error_class, body.code, body.message)
    return StateAnswer(state=state)


@router.post("/release")
def release(body: Held, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """Give the job back; the attempt does not count."""
    _mine(site, worker, body.claim)
    return StateAnswer(state=site.dispatch.release(body.claim))


@router.post("/divide")
def divide(body: Divide, worker: auth.WorkerKey, site: Here) -> StateAnswer:
    """Hand the work on to parts, which are next in line; the job runs again when all of them have
    completed. Repeating it is harmless and answers the same."""
    _mine(site, worker, body.claim)
    worker.grant.check({each.kind for each in body.parts})
    parts = [Part(kind=each.kind, args=each.args, needs=each.needs) for each in body.parts]
    return StateAnswer(state=site.dispatch.divide(body.claim, parts, body.checkpoint))


@router.post("/logs", status_code=202)
def logs(body: Lines, worker: auth.WorkerKey, site: Here) -> Logged:
    """Lines for people who look at the job; sanitized before they are kept."""
    _mine(site, worker, body.claim)
    site.dispatch.log(worker.id, body.claim, body.lines)
    return Logged(lines=len(body.lines))


@router.post("/passages", status_code=202)
def put_passage(body: PassageReport, worker: auth.WorkerKey, site: Here) -> Kept:
    """A finished part of a result that grows while the job runs. Repeating it is harmless."""
    _mine(site, worker, body.claim)
    site.dispatch.put_passage(body.claim, body.number, body.content)
    return Kept(number=body.number)


@router.get("/passages/{job_id}", response_model=Passages)
def passages(job_id: JobId, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader) -> Response:
    """What the job's attempts have kept so far, in order."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    return _json({"items": site.dispatch.passages(held)})


@router.get("/transcript/{job_id}", response_model=Said)
def transcript(
    job_id: JobId, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Response:
    """What is said in the job's media, as people read it now; null when nobody knows yet."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    return _json({"transcript": site.dispatch.transcript(held)})


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
    media_id: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """The source's bytes, with ranges; a redirect when the storage can give them itself.
    `media_id`: of the media that the job lays over its own."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    key, source = site.dispatch.source(held, media_id)
    facts = {"Rushes-Source-Size": str(source.size_bytes)}
    if source.sha256:
        facts["Rushes-Source-SHA256"] = source.sha256
    if request.method == "HEAD":
        return Response(headers=facts)
    if address := site.dispatch.source_address(held, key):
        return RedirectResponse(address, 307, headers=facts)
    return ranges.from_storage(request, site.storage, key, source.size_bytes, headers=facts)


@router.get("/artifacts/{job_id}", response_model=Files)
def artifacts(job_id: JobId, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader) -> Response:
    """What the job's version holds, whichever attempt or part has put it."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    return _json({"items": site.dispatch.artifacts(held)})


@router.post("/artifacts/{job_id}/adopt", response_model=Files)
def adopt(
    job_id: JobId, body: FileNames, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Response:
    """Take over files that others have put. Answers those that are intact; what is damaged is
    removed."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    return _json({"items": site.dispatch.adopt(held, body.names)})


@router.post("/artifacts/{job_id}/discard", response_model=Files)
def discard(
    job_id: JobId, body: FileNames, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Response:
    """Remove files of this claim again. Answers what the job's version holds after it."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    site.dispatch.discard(held, body.names)
    return _json({"items": site.dispatch.artifacts(held)})


@router.post("/artifacts/{job_id}/presign")
def presign(
    job_id: JobId, body: PresignRequest, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Presigned:
    """Where to PUT a file past the server; `url` is null when that cannot be."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    found = site.dispatch.presign(held, body.name)
    return Presigned(url=found.url if found else None, ticket=found.ticket if found else None)


@router.post("/artifacts/{job_id}/confirm", response_model=File)
def confirm(
    job_id: JobId, body: Confirm, worker: auth.WorkerKey, site: Here, claim_id: ClaimHeader
) -> Response:
    """A file that was PUT past the server is there."""
    held = Claim(job_id, claim_id)
    _mine(site, worker, held)
    artifact = Artifact(
        name=body.name,
        size_bytes=body.size_bytes,
        sha256=body.sha256,
        content_type="",
        seconds=body.seconds,
    )
    return _json(site.dispatch.confirm(held, body.ticket, artifact, body.md5))


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
    seconds: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)] = None,
) -> Response:
    """One finished file. Repeating it with the same content is harmless."""
    held = Claim(job_id, claim_id)
    await asyncio.to_thread(_mine, site, worker, held)
    pipe = _Pipe()
    saving = asyncio.get_running_loop().run_in_executor(
        _writers, site.dispatch.put_artifact, held, name, pipe, sha256, seconds
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


def _mine(site: Site, worker: KeyHolder, claim: Claim) -> None:
    """Raises for a claim that is not this worker's, or of a kind that its key is not for."""
    site.dispatch.check_owner(worker.id, claim, worker.grant)


def _json(value: Any) -> JSONResponse:
    return _Encoded(value)


class _Encoded(JSONResponse):
    """The hot routes' answers, without a model's detour."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)
