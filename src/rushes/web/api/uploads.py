"""Files come in: resumable by tus, or in one piece as a form. Both end in the same receiver."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rushes import errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.limits import Hold, What
from rushes.media import library
from rushes.media.media import Origin
from rushes.uploads import sample, upload, uploads
from rushes.uploads.receiver import Writer
from rushes.uploads.upload import Concat, Metadata, Upload, UploadOptions
from rushes.web import auth, models, views
from rushes.web.api import tus, upload_docs
from rushes.web.http import idempotency, open_streams, problems
from rushes.web.http.body_reader import BodyReader, run, until_ended
from rushes.web.http.early_response import RequestBody
from rushes.web.http.forms import Form
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services

M = TypeVar("M", bound=BaseModel)

# Room for a form's fields beside its file.
FORM_OVERHEAD_BYTES = 2**20
FIELDS = frozenset(
    {"title", "profile", "transcribe", "language", "diarize", "transcription_profile", "priority"}
    | {"folder", "origin"}
)

UploadId = Annotated[str, Path(max_length=100, description="Such as upl_0198a3….")]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Receiving(APIRoute):
    """A route whose requests have long bodies: errors are heard even in the middle of one."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            body = RequestBody(request)
            try:
                response = await handle(body.request)
                return body.respond_early(response) if response.status_code >= 400 else response
            except ClientDisconnect:
                # Nobody is there to read it.
                return Response(status_code=400)
            except (errors.RushesError, tus.Refused, HTTPException) as error:
                return body.respond_early(self.said(request, error))

        return answer

    def said(self, request: Request, error: Exception) -> Response:
        if isinstance(error, tus.Refused):
            return problems.answer(request, error.status, error.code, error.message)
        if isinstance(error, HTTPException):
            raise error
        return problems.of_error(request, error)


class Tus(Receiving):
    """Every answer names the protocol's version."""

    def said(self, request: Request, error: Exception) -> Response:
        response = super().said(request, error)
        response.headers["Tus-Resumable"] = tus.VERSION
        if response.status_code == 412:
            response.headers["Tus-Version"] = tus.VERSION
        if isinstance(error, errors.WrongOffset):
            response.headers["Upload-Offset"] = str(error.offset_bytes)
        return response


resumable = APIRouter(
    prefix="/uploads",
    tags=["uploads"],
    route_class=Tus,
    responses=documented(400, 401, 403, 412, 422, 503),
)
simple = APIRouter(route_class=Receiving, tags=["media"])


# tus


@resumable.options("", status_code=204, dependencies=[auth.Public])
@resumable.options("/{upload_id}", status_code=204, dependencies=[auth.Public])
def options(services: Here) -> Response:
    """What this server can do: tus 1.0 and its extensions."""
    return Response(status_code=204, headers=tus.options(services.settings.max_upload_size))


@resumable.post(
    "",
    status_code=201,
    responses=documented(403, 409, 413, 415, 429, 460, 507),
    openapi_extra=upload_docs.CREATE,
    dependencies=[RoomForJobs],
)
async def create(request: Request, who: auth.User, services: Here) -> Response:
    """Begin a resumable upload (tus 1.0). Its first bytes may come along."""
    tus.check_version(request.headers)
    asked = tus.creation(request.headers)
    _refuse_if_leaving(services)
    if asked.concat is not Concat.PARTIAL:
        _allowed(who, upload.options_of(asked.metadata))
    if asked.concat is Concat.FINAL:
        made = await run(
            services.receiver.concatenate, who.user_id, asked.partial_ids, asked.metadata
        )
    else:
        made = await run(
            services.receiver.create,
            who.user_id,
            length_bytes=asked.length_bytes,
            metadata=asked.metadata,
            concat=asked.concat,
        )
        if asked.has_body or asked.length_bytes == 0:
            with services.holds.held(open_streams.hold(What.UPLOADS, who)) as hold:
                made = await _first_bytes(request, services, made, asked, hold)
    headers = await run(_status, services, made)
    headers["Location"] = f"{_collection(services)}/{made.id}"
    return Response(status_code=201, headers=headers)


async def _first_bytes(
    request: Request, services: Services, made: Upload, asked: tus.Creation, hold: Hold
) -> Upload:
    try:
        writer = await run(
            services.receiver.open,
            made.id,
            made.user_id,
            offset_bytes=0,
            body_bytes=asked.body_bytes,
            checksum=asked.checksum,
        )
        return await _receive(request, services, writer, hold)
    except BaseException:
        # The sender does not know yet what it is called, so nobody can go on with it.
        await run(services.receiver.drop, made.id)
        raise


@resumable.head(
    "/{upload_id}",
    responses=documented(404, 410),
    openapi_extra=upload_docs.PLAIN,
)
def look(upload_id: UploadId, request: Request, who: auth.User, services: Here) -> Response:
    """How much of it has come."""
    tus.check_version(request.headers)
    return _described(services, request, upload_id, who.user_id)


def _described(services: Services, request: Request, upload_id: str, user_id: str) -> Response:
    with services.db.read() as tx:
        item = uploads.found(tx, upload_id, user_id)
    metadata = upload.decode_metadata(item.metadata)
    said = tus.description(item, metadata, _collection(services))
    return Response(headers=_status(services, item) | said)


@resumable.patch(
    "/{upload_id}",
    status_code=204,
    responses=documented(404, 409, 410, 413, 415, 423, 429, 460, 507),
    openapi_extra=upload_docs.APPEND,
)
async def append(upload_id: UploadId, request: Request, who: auth.User, services: Here) -> Response:
    """More bytes. What is here when the line breaks is kept."""
    tus.check_version(request.headers)
    return await _append(services, request, upload_id, who)


async def _append(services: Services, request: Request, upload_id: str, who: Principal) -> Response:
    with services.holds.held(open_streams.hold(What.UPLOADS, who)) as hold:
        return await _append_held(services, request, upload_id, who.user_id, hold)


async def _append_held(
    services: Services, request: Request, upload_id: str, user_id: str, hold: Hold
) -> Response:
    asked = tus.append(request.headers)
    _refuse_if_leaving(services)
    try:
        writer = await run(
            services.receiver.open,
            upload_id,
            user_id,
            offset_bytes=asked.offset_bytes,
            length_bytes=asked.length_bytes,
            body_bytes=asked.body_bytes,
            checksum=asked.checksum,
        )
    except (errors.WrongOffset, errors.WrongState) as error:
        return await run(_finished_before, services, request, upload_id, user_id, asked, error)
    item = await _receive(request, services, writer, hold)
    return Response(status_code=204, headers=await run(_status, services, item))


def _finished_before(
    services: Services,
    request: Request,
    upload_id: str,
    user_id: str,
    asked: tus.Append,
    error: errors.RushesError,
) -> Response:
    """Whoever missed the last answer hears now what it was."""
    with services.db.read() as tx:
        item = uploads.found(tx, upload_id, user_id)
    if item.finished_at is None:
        raise error
    headers = _status(services, item)
    if asked.offset_bytes == item.offset_bytes and not asked.body_bytes:
        return Response(status_code=204, headers=headers)
    return problems.answer(request, 409, error.code, "this upload is finished", headers=headers)


@resumable.delete(
    "/{upload_id}",
    status_code=204,
    responses=documented(404, 409, 410),
    openapi_extra=upload_docs.PLAIN,
)
async def terminate(
    upload_id: UploadId, request: Request, who: auth.User, services: Here
) -> Response:
    """Give it up; its bytes are removed. An admin may do so for anybody."""
    tus.check_version(request.headers)
    await run(services.receiver.terminate, upload_id, None if who.is_admin else who.user_id)
    return Response(status_code=204, headers={"Tus-Resumable": tus.VERSION})


@resumable.post(
    "/{upload_id}",
    status_code=204,
    responses=documented(404, 405, 409, 410, 413, 415, 423, 429, 460, 507),
    openapi_extra=upload_docs.OVERRIDE,
)
async def override(
    upload_id: UploadId, request: Request, who: auth.User, services: Here
) -> Response:
    """For those behind something that lets only GET and POST pass: say the real method in
    `X-HTTP-Method-Override`."""
    tus.check_version(request.headers)
    match request.headers.get("x-http-method-override", "").upper():
        case "PATCH":
            return await _append(services, request, upload_id, who)
        case "HEAD":
            return await run(_described, services, request, upload_id, who.user_id)
        case "DELETE":
            return await terminate(upload_id, request, who, services)
        case _:
            raise HTTPException(405, headers={"Allow": "OPTIONS, HEAD, PATCH, DELETE"})


async def _receive(request: Request, services: Services, writer: Writer, hold: Hold) -> Upload:
    reader = BodyReader(writer)
    try:
        async with until_ended(services.stopping, hold):
            async for chunk in request.stream():
                if chunk:
                    await reader.feed(chunk)
        return await reader.complete()
    except BaseException as error:
        await reader.leave(error)
        raise


def _status(services: Services, item: Upload) -> dict[str, str]:
    if item.media_id is None:
        return tus.status(item)
    with services.db.read() as tx:
        return tus.status(item, uploads.older_twins(tx, item))


def _collection(services: Services) -> str:
    """A whole address: not all senders understand a path."""
    return f"{services.base_url}/api/v1/uploads"


def _refuse_if_leaving(services: Services) -> None:
    if services.stopping.is_set():
        raise errors.Unavailable("the server is stopping: go on in a moment")


# Forms


@simple.post(
    "/media",
    status_code=201,
    response_model=models.Media,
    responses=documented(401, 403, 413, 415, 422, 429, 503, 507),
    openapi_extra=upload_docs.FORM,
    dependencies=[RoomForJobs],
)
async def add(request: Request, who: auth.User, services: Here, once: idempotency.Once) -> Response:
    """Upload a file in one piece, for scripts. What breaks off has to be sent again."""

    def view(tx: Tx, media_id: str, fields: dict[str, str]) -> models.Media:
        return views.media_with_twins(services, tx, library.found(tx, media_id, who.user_id))

    answer = await receive_form(request, who, services, once, models.Media, view)
    headers = {"Location": f"/api/v1/media/{answer.id}", tus.MEDIA_ID: answer.id}
    headers |= tus.duplicates(answer.duplicate_of, answer.duplicate_in_trash)
    return Response(
        answer.model_dump_json(), status_code=201, headers=headers, media_type="application/json"
    )


@simple.post(
    "/media/sample",
    status_code=201,
    responses=documented(401, 403, 413, 429, 503, 507)
    | {200: {"model": models.Media, "description": "You have it already."}},
    dependencies=[RoomForJobs],
)
def add_sample(who: auth.User, services: Here, response: Response) -> models.Media:
    """A short spoken clip that comes with Rushes, to see what becomes of an upload. Asking again
    gives the same one."""
    _refuse_if_leaving(services)
    with services.holds.held(open_streams.hold(What.UPLOADS, who)):
        taken = sample.add(services.receiver, who.user_id)
    assert taken.media_id is not None
    if taken.is_spare:
        response.status_code = 200
    with services.db.read() as tx:
        return views.media(services, tx, library.found(tx, taken.media_id, who.user_id))


async def receive_form(
    request: Request,
    who: auth.User,
    services: Services,
    once: idempotency.Repeat,
    model: type[M],
    work: Callable[[Tx, str, dict[str, str]], M],
    *,
    origin: Origin = Origin.UPLOAD,
) -> M:
    """A form's file becomes a media; `work` runs in the same transaction and makes the answer.
    `origin`: what it is unless the form says otherwise."""
    form = Form(request.headers.get("content-type", ""), FIELDS)

    def read_options() -> UploadOptions:
        return _allowed(who, upload.options_of({"origin": origin.encode(), **_metadata(form)}))

    return await receive(
        request,
        who,
        services,
        once,
        form,
        model,
        read_options=read_options,
        work=lambda tx, media_id: work(tx, media_id, form.fields),
    )


async def receive(
    request: Request,
    who: auth.User,
    services: Services,
    once: idempotency.Repeat,
    form: Form,
    model: type[M],
    *,
    read_options: Callable[[], UploadOptions],
    work: Callable[[Tx, str], M],
    metadata: Callable[[Form], Metadata] | None = None,
) -> M:
    """As `receive_form`. `read_options` runs in a thread: when the form's file begins, so that what
    is wrong is told early, and when all of it is there. Of a form that was sent twice with one key,
    the second file is thrown away. `metadata`: what the upload keeps of the form."""
    _refuse_if_leaving(services)
    with services.holds.held(open_streams.hold(What.UPLOADS, who)) as hold:
        kept = metadata or _metadata
        return await _receive_whole(
            request, who, services, once, form, model, hold, read_options, work, kept
        )


async def _receive_whole(
    request: Request,
    who: auth.User,
    services: Services,
    once: idempotency.Repeat,
    form: Form,
    model: type[M],
    hold: Hold,
    read_options: Callable[[], UploadOptions],
    work: Callable[[Tx, str], M],
    metadata: Callable[[Form], Metadata],
) -> M:
    reader = None
    try:
        async with until_ended(services.stopping, hold):
            async for chunk in request.stream():
                pieces = form.feed(chunk)
                if form.has_file and reader is None:
                    await run(read_options)
                    reader = BodyReader(await _open(request, who, services, metadata(form)))
                for piece in pieces:
                    assert reader is not None
                    await reader.feed(piece)
        form.check()
        assert reader is not None
        await reader.drain()
        return await run(
            _finish, services, who, once, form, model, read_options, work, reader.writer
        )
    except BaseException as error:
        if reader is not None:
            await reader.leave(error)
            await run(services.receiver.drop, reader.writer.upload.id)
        raise


async def _open(request: Request, who: auth.User, services: Services, metadata: Metadata) -> Writer:
    """The fields that come after the file are not known yet; they are looked at in the end."""
    length = request.headers.get("content-length", "")
    expected_bytes = max(int(length) - FORM_OVERHEAD_BYTES, 0) if length.isdecimal() else 0
    uploads.check_size(services.receiver.limits, expected_bytes)
    made = await run(
        services.receiver.create,
        who.user_id,
        length_bytes=None,
        metadata=metadata,
        expected_bytes=expected_bytes,
    )
    try:
        return await run(services.receiver.open, made.id, who.user_id, offset_bytes=0)
    except BaseException:
        await run(services.receiver.drop, made.id)
        raise


def _finish(
    services: Services,
    who: auth.User,
    once: idempotency.Repeat,
    form: Form,
    model: type[M],
    read_options: Callable[[], UploadOptions],
    work: Callable[[Tx, str], M],
    writer: Writer,
) -> M:
    options = read_options()
    received = writer.seal()
    is_new = False

    def finish(tx: Tx) -> M:
        nonlocal is_new
        is_new = True
        media_id = writer.commit(tx, received, options).media_id
        assert media_id is not None
        return work(tx, media_id)

    fields = [sorted(form.fields.items()), *sorted(form.lists.items())]
    sent = msgspec.json.encode([received.sha256, *fields])
    answer = once.run(services, who, sent, model, finish)
    writer.close()
    if not is_new:
        services.receiver.drop(writer.upload.id)
    return answer


def _allowed(who: Principal, options: UploadOptions) -> UploadOptions:
    auth.check_priority(who, options.processing.priority)
    return options


def _metadata(form: Form) -> Metadata:
    fields: Metadata = {name: value.encode() for name, value in form.fields.items()}
    return fields | {"filename": (form.file_name or "").encode()}


router = APIRouter()
router.include_router(resumable)
router.include_router(simple)
