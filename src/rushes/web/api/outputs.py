"""Kinds of jobs, work of one's own kind on a media, and what it has made."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from rushes import errors, kinds
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.jobs.job import NewJob
from rushes.media import library, media, output_store, pipeline, requests
from rushes.media.pipeline import Cause
from rushes.web import auth, models, shared_link, views
from rushes.web.api import jobs as job_api
from rushes.web.api import playback
from rushes.web.api.media import BUSY, MediaId, Work, start
from rushes.web.http import idempotency, ranges
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services
from rushes.web.shared_link import Keeping, Shown

router = APIRouter(responses=documented(401, 404, 422))
shared = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(401, 404, 410, 416, 422),
    dependencies=shared_link.ONLY_OPENED,
)

ELSEWHERE = {
    kinds.TRANSCODE.name: "POST /media/{id}/retranscode",
    kinds.TRIM.name: "POST /media/{id}/trim",
    kinds.COMPOSITE.name: "POST /media/{id}/composite",
    kinds.TRANSCRIBE.name: "POST /media/{id}/transcriptions",
    kinds.EXPORT.name: "POST /media/{id}/exports",
    kinds.IMPORT.name: "POST /media/import",
}
KindName = Annotated[str, Field(max_length=64, description="One of your own, of GET /kinds.")]
Slot = Annotated[str, Path(max_length=64, description="Such as summary.")]
Name = Annotated[str, Path(max_length=300, description="Such as summary.json.")]


class Kind(BaseModel):
    name: str
    label: str = Field(description="For people.")
    output: str | None = Field(description="The slot of a media that its files are published in.")
    follows: list[str] = Field(description="It runs by itself after jobs of these kinds.")
    shared: bool = Field(description="Its files are shown to whoever has a share link, too.")
    needs: list[str]
    housekeeping: bool = Field(description="Nobody waits for it.")
    remote: bool = Field(description="Workers may run it; otherwise only the server itself does.")
    events: str = Field(description="How the types of its jobs' events begin.")
    parts: list[str] = Field(description="The kinds that its jobs may be divided into.")
    can_start: bool = Field(description="By POST /media/{id}/jobs.")


class Kinds(BaseModel):
    items: list[Kind]
    next_cursor: None = None


class NewMediaJob(Work):
    kind: KindName
    args: dict[str, Any] = Field({}, description="What its handler gets.")


class NewOwnJob(NewMediaJob):
    media_id: str | None = Field(None, max_length=100)
    limit_key: str | None = Field(
        None,
        max_length=100,
        description="For admins: with others that name it, at most as many run at once as its limit"
        " says.",
    )
    dedupe_key: str | None = Field(
        None, min_length=1, max_length=200, description="While one with it is under way, that one."
    )


class Outputs(BaseModel):
    items: list[models.Output]
    next_cursor: None = None


class SharedOutput(BaseModel):
    slot: str
    label: str = Field(description="Of the kind, for people.")
    files: list[models.OutputFile] = Field(description="The first hundred, by name.")


class SharedOutputs(BaseModel):
    items: list[SharedOutput]
    next_cursor: None = None


@router.get("/kinds", tags=["queue"])
def list_kinds(who: auth.User) -> Kinds:
    """What jobs there are here: Rushes' own, and those that handlers have added."""
    return Kinds(items=[_kind(each) for each in kinds.everything()])


def _kind(each: kinds.Kind) -> Kind:
    return Kind(
        name=each.name,
        label=each.label or each.name,
        output=kinds.output_of(each.name) if not each.housekeeping else None,
        follows=list(each.follows),
        shared=each.shared,
        needs=list(each.needs),
        housekeeping=each.housekeeping,
        remote=each.remote,
        events=each.events or each.name,
        parts=list(each.parts),
        can_start=each.by_people,
    )


@router.post("/jobs", tags=["queue"], status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def add_job(body: NewOwnJob, who: auth.User, services: Here, once: idempotency.Once) -> models.Job:
    """A job of one's own kind, on a media or on none."""
    auth.check_priority(who, body.priority)
    if body.limit_key is not None and not who.is_admin:
        raise errors.Denied("only an admin may name a limit_key")

    def enqueue(tx: Tx) -> models.Job:
        _check(tx, body)
        item = library.found(tx, body.media_id, who.sees) if body.media_id else None
        owner = item.user_id if item else who.user_id
        key = body.dedupe_key
        new = NewJob(
            kind=body.kind,
            args=body.args,
            media_id=item.id if item else None,
            user_id=owner,
            priority=pipeline.priority_for(Cause.NEW, body.priority),
            needs=kinds.get(body.kind).needs,
            limit_key=body.limit_key,
            # Of this user: others may have had the same idea.
            dedupe_key=f"{body.kind}:{owner}:{key}" if key else None,
        )
        return views.job(tx, job_api.found(tx, services.queue.enqueue(tx, new).id, who.sees))

    return once.run(services, who, body, models.Job, enqueue)


@router.post(
    "/media/{media_id}/jobs",
    tags=["media"],
    status_code=202,
    responses=BUSY,
    dependencies=[RoomForJobs],
)
def run(
    media_id: MediaId, body: NewMediaJob, who: auth.User, services: Here, once: idempotency.Once
) -> models.Job:
    """Run a job of one's own kind on it. The same one, if it is under way, is answered instead."""

    def make_job(tx: Tx, item: media.Media) -> str:
        _check(tx, body)
        return requests.run(tx, services.queue, item, body.kind, body.args, body.priority)

    return start(media_id, body, who, services, once, make_job)


def _check(tx: Tx, body: NewMediaJob) -> None:
    if body.kind in kinds.TABLE:
        other = ELSEWHERE.get(body.kind)
        hint = f"use {other}" if other else "the server starts those itself"
        raise errors.BadField("kind", f"{body.kind!r} is not of your own making: {hint}")
    if not kinds.get(body.kind).by_people:
        raise errors.BadField("kind", f"{body.kind!r} is started by the server alone")
    announced = {kind for worker in fleet.all_workers(tx) for kind in worker.kinds}
    own = sorted({each.name for each in kinds.everything()} | announced - kinds.TABLE.keys())
    known = [name for name in own if name not in kinds.TABLE]
    if body.kind not in known:
        said = ", ".join(known) or "none: see the guide to handlers"
        raise errors.BadField("kind", f"nobody here runs {body.kind!r}; known are {said}")


@router.get("/media/{media_id}/outputs", tags=["media"])
def outputs(media_id: MediaId, who: auth.User, services: Here) -> Outputs:
    """What jobs of one's own kinds have made of it, are making, or could not make."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        return Outputs(items=views.outputs(tx, [item]).get(item.id, []))


@router.get(
    "/media/{media_id}/outputs/{slot}/{name:path}",
    tags=["media"],
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **documented(416)},
)
@router.head("/media/{media_id}/outputs/{slot}/{name:path}", include_in_schema=False)
def output_file(
    request: Request, media_id: MediaId, slot: Slot, name: Name, who: auth.User, services: Here
) -> Response:
    """A file of what is published in this slot, with ranges."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        found = output_store.file(tx, item.id, slot, name)
    return _send(request, services, found[0] if found else None, playback.BY_ITS_OWNER)


@shared.get("/outputs")
@shared.head("/outputs", include_in_schema=False)
def shared_outputs(shown: Shown, services: Here) -> SharedOutputs:
    """Of kinds that show what they make to whoever has the link."""
    item = shown.item
    with services.db.read() as tx:
        found = [] if item.edit.cuts else views.outputs(tx, [item]).get(item.id, [])
    return SharedOutputs(
        items=[
            SharedOutput(slot=each.slot, label=each.label, files=_under(shown.link.token, each))
            for each in found
            if each.files and kinds.get(each.kind).shared
        ]
    )


def _under(token: str, output: models.Output) -> list[models.OutputFile]:
    there = f"/s/{token}/outputs/{output.slot}"
    return [each.model_copy(update={"url": f"{there}/{each.name}"}) for each in output.files]


@shared.get(
    "/outputs/{slot}/{name:path}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
@shared.head("/outputs/{slot}/{name:path}", include_in_schema=False)
def shared_output_file(
    request: Request, slot: Slot, name: Name, shown: Shown, services: Here
) -> Response:
    """Of a kind that shows what it makes; nothing while the recording is cut: handlers read the
    whole source, so what they make may tell of what was cut off."""
    item = shown.item
    with services.db.read() as tx:
        found = None if item.edit.cuts else output_store.file(tx, item.id, slot, name)
    file = found[0] if found and kinds.get(found[1]).shared else None
    return _send(request, services, file, shown.keeping)


def _send(
    request: Request, services: Services, file: media.StoredFile | None, keeping: Keeping
) -> Response:
    if file is None:
        raise errors.NotFound("no such file")
    return ranges.from_storage(
        request,
        services.storage,
        file.key,
        file.size_bytes,
        content_type=file.content_type,
        etag=file.sha256,
        headers={**playback.SANDBOX, "Cache-Control": keeping.fresh},
        links=services.links,
    )
