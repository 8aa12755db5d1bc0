"""The worker protocol over HTTP: routes made of the table of verbs, that end in the same
`dispatch.WorkerCalls` as those of workers in this process. Worker keys only.
"""

from __future__ import annotations

import asyncio
import queue as queues
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from rushes import correlation, errors, sanitize
from rushes.accounts import access, keys, security_log, throttle
from rushes.accounts.access import KeyHolder
from rushes.db.database import Tx
from rushes.dispatch import WorkerCalls
from rushes.fleet import store as fleet
from rushes.fleet.words import shown_hello
from rushes.fleet.worker import encode_limited
from rushes.jobs.terms import Claimant
from rushes.kinds import Grant
from rushes.protocol import VERBS, Claim, Excerpt, Hello, Pulse, capability_words
from rushes.verbs import Verb
from rushes.web import auth
from rushes.web.api import worker_models
from rushes.web.api.worker_models import Join, Register, Registered
from rushes.web.http import idempotency, ranges
from rushes.web.http.executors import HEARTBEATS, REPORTS, in_thread
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services

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
    services: Here,
    bearer: auth.Bearer,
    api_key: auth.ApiKey,
    cookie: auth.Cookie,
    once: idempotency.Once,
    secret: Annotated[str | None, Header(alias="X-Admin-Secret")] = None,
) -> Registered:
    """Add a worker: by the admin secret of the settings, or as an admin."""
    if secret is not None:
        with throttle.throttled(services.db, auth.address_of(request), by="admin secret"):
            if not keys.same(secret, services.settings.admin_secret):
                raise errors.Unauthorized("the admin secret is wrong, or none is set")
        if here := security_log.visit.get():
            here.user_name = "admin secret"
        who = access.as_admin(services.db)
    else:
        key = bearer.credentials if bearer else api_key
        who = auth.recognise(services, request, key, cookie)
        auth.only_admin(services, request, who, "only an admin may register workers")
    grant = access.grant_of(body.kinds)
    told = _told(body)

    def add(tx: Tx) -> Registered:
        worker_id, made = access.register_worker(
            tx,
            body.name,
            grant,
            capabilities=capability_words(told.capabilities),
            metadata=told.metadata,
        )
        return _registered(worker_id, body.name, grant, made)

    return once.run(services, who, body, Registered, add)


@router.post("/join", status_code=201, dependencies=[auth.Public], responses=documented(429))
def join(body: Join, request: Request, services: Here) -> Registered:
    """Use an invite's code up."""
    name = sanitize.word(body.name) or "worker"
    with throttle.throttled(services.db, auth.address_of(request), by="join code"):
        joined = services.db.run(lambda tx: access.join(tx, body.code, name))
    return _registered(*joined)


def _told(body: Register) -> Hello:
    for name in ("capabilities", "metadata"):
        encode_limited(name, getattr(body, name))
    return shown_hello(Hello(kinds=[], capabilities=body.capabilities, metadata=body.metadata))


def _registered(worker_id: str, name: str, grant: Grant, made: access.NewKey) -> Registered:
    return Registered(
        worker_id=worker_id,
        name=name,
        kinds=None if grant.kinds is None else list(grant.kinds),
        key=made.text,
        api_key=made.text,
        prefix=made.prefix,
    )


def add_routes(router: APIRouter, table: Iterable[Verb]) -> None:
    """One for each verb that neither waits nor carries bytes."""
    for verb in table:
        if not verb.own:
            router.add_api_route(
                verb.path,
                _route(verb),
                methods=[verb.method],
                status_code=verb.status,
                response_model=worker_models.reply(verb),
                summary=verb.summary,
            )


def _route(verb: Verb) -> Callable[..., Awaitable[Response]]:
    executor = HEARTBEATS if verb is HEARTBEAT else REPORTS

    def answered(worker: KeyHolder, services: Services, given: dict[str, Any]) -> Response:
        body = given.pop("body", None)
        said = given if body is None else {**given, **body.model_dump(exclude_unset=True)}
        with correlation.bound(worker_id=worker.id, job_id=said.get("job_id")):
            answer = getattr(_calls(services, worker), verb.name)(**verb.understood(said))
        return _json(verb, answer)

    async def serve(worker: KeyHolder, services: Services, **given: Any) -> Response:
        if verb is HEARTBEAT and (pulse := _idle_pulse(worker, services, given["body"])):
            return _json(verb, pulse)
        return await in_thread(executor, answered, worker, services, given)

    parameters = {"worker": auth.WorkerKey, "services": Here}
    if verb.by_header:
        parameters |= {"job_id": JobId, "claim_id": ClaimHeader}
    if verb.method == "POST":
        parameters["body"] = worker_models.request(verb)
    # FastAPI reads off it what a request has to bring.
    serve.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=each)
            for name, each in parameters.items()
        ]
    )
    serve.__name__, serve.__doc__ = verb.name, verb.about
    return serve


def _idle_pulse(worker: KeyHolder, services: Services, body: Any) -> Pulse | None:
    """Most of a fleet waits: what is known of it needs no thread."""
    if body.claims or body.stalled or body.standing is not None:
        return None
    return services.dispatch.idle_pulse(worker.id, body.answered)


HEARTBEAT = VERBS["heartbeat"]
add_routes(router, VERBS.values())

CLAIM, SOURCE, PUT = VERBS["claim"], VERBS["read_source"], VERBS["put_artifact"]
ClaimRequest: Any = worker_models.request(CLAIM)


@router.post(CLAIM.path, response_model=worker_models.reply(CLAIM), summary=CLAIM.summary)
async def claim(
    body: ClaimRequest, request: Request, worker: auth.WorkerKey, services: Here
) -> Response:
    """Up to `limit` jobs; with `wait_seconds` answered the moment one fits."""
    if services.stopping.is_set():
        raise _leaving()
    if body.answered:
        beat = services.dispatch.heartbeat
        await in_thread(HEARTBEATS, beat, worker.id, (), (), body.answered)
    if body.boot_id is None or body.boot_id != worker.worker.boot_id:
        # Another process of it may have said hello since, to another server: its kinds count.
        worker = await in_thread(REPORTS, _as_it_is_now, services, worker)
    if body.terms_etag not in (None, worker.worker.word.etag):
        return _json(CLAIM, [])
    me = Claimant(
        id=worker.id,
        name=worker.name,
        kinds=[kind for kind in worker.kinds if body.kinds is None or kind in body.kinds],
        capabilities=worker.worker.capabilities,
        boot_id=body.boot_id,
    )
    now = body.wait_seconds == 0
    answer = services.dispatcher.ask(
        me, body.limit, body.request_id, now=now, terms_etag=body.terms_etag
    )
    if answer is None:
        raise _leaving()
    found = asyncio.wrap_future(answer)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        either: list[asyncio.Future[Any]] = [found, gone]
        timeout = None if now else body.wait_seconds
        await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        jobs = [] if answer.cancel() else await found
        if gone.done():
            # Nobody is there to take them; otherwise they would wait for their lease to run out.
            for job in jobs:
                await in_thread(REPORTS, services.dispatch.release, job.claim)
            jobs = []
    finally:
        gone.cancel()
        answer.cancel()
    return _json(CLAIM, jobs)


def _leaving() -> errors.Unavailable:
    return errors.Unavailable("the server is stopping: ask again in a moment")


def _as_it_is_now(services: Services, worker: KeyHolder) -> KeyHolder:
    with services.db.read() as tx:
        found = fleet.get(tx, worker.id)
    return worker if found is None else replace(worker, worker=found)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get(
    SOURCE.path,
    response_class=Response,
    responses={200: {"content": OCTETS}, 206: {"content": OCTETS}, **documented(404, 416)},
    summary=SOURCE.summary,
)
@router.head(SOURCE.path, include_in_schema=False)
def source(
    request: Request,
    worker: auth.WorkerKey,
    services: Here,
    job_id: Annotated[str, Query(max_length=100)],
    claim_id: ClaimHeader,
    media_id: Annotated[str | None, Query(max_length=100)] = None,
    rendition: Annotated[str | None, Query(max_length=100)] = None,
    from_seconds: Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)] = 0.0,
    to_seconds: Annotated[float | None, Query(ge=0, le=1e7, allow_inf_nan=False)] = None,
) -> Response:
    """The source's bytes, with ranges; a redirect when the storage can give them itself.
    `media_id`: of the media that the job lays over its own. `rendition`: instead of the source, the
    segments of it that play between these seconds, as one file."""
    held = Claim(job_id, claim_id)
    _calls(services, worker).check(held)
    if rendition is not None:
        excerpt = Excerpt(rendition=rendition, start=from_seconds, end=to_seconds)
        return ranges.from_several(
            request,
            services.storage,
            [(each.key, each.size_bytes) for each in services.dispatch.excerpt(held, excerpt)],
            size_header="Rushes-Source-Size",
        )
    key, source = services.dispatch.source(held, media_id)
    facts = {"Rushes-Source-Size": str(source.size_bytes)}
    if source.sha256:
        facts["Rushes-Source-SHA256"] = source.sha256
    if request.method == "HEAD":
        return Response(headers=facts)
    if address := services.dispatch.source_address(held, key):
        return RedirectResponse(address, 307, headers=facts)
    return ranges.from_storage(request, services.storage, key, source.size_bytes, headers=facts)


@router.put(
    "/artifacts/{job_id}/{name:path}",
    response_model=worker_models.reply(PUT),
    responses=documented(413, 507),
    openapi_extra={"requestBody": {"required": True, "content": OCTETS}},
    summary=PUT.summary,
)
async def put_artifact(
    job_id: JobId,
    name: Annotated[str, Path(max_length=300)],
    request: Request,
    worker: auth.WorkerKey,
    services: Here,
    claim_id: ClaimHeader,
    sha256: Annotated[str, Header(alias="Rushes-SHA256", pattern="^[0-9a-f]{64}$")],
    seconds: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)] = None,
) -> Response:
    """One finished file. Repeating it with the same content is harmless."""
    held = Claim(job_id, claim_id)
    await in_thread(REPORTS, _calls(services, worker).check, held)
    pipe = _Pipe()
    with correlation.bound(worker_id=worker.id, job_id=job_id):
        put = correlation.carried(services.dispatch.put_artifact)
    saving = asyncio.get_running_loop().run_in_executor(
        _writers, put, held, name, pipe, sha256, seconds
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
    return _json(PUT, await asyncio.shield(saving))


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


def _calls(services: Services, worker: KeyHolder) -> WorkerCalls:
    return WorkerCalls(services.dispatch, worker.id, worker.name, worker.grant)


def _json(verb: Verb, answer: Any) -> JSONResponse:
    return _Encoded(answer if verb.reply is None else {verb.reply: answer}, verb.status)


class _Encoded(JSONResponse):
    """Without a model's detour."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)
