"""Files of what is watched: a rendition, its sound, a clip, with captions in the picture."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from rushes import clock, errors, kinds
from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.media import export_store, exports, library, requests
from rushes.media.media import Media
from rushes.web import auth, models, views
from rushes.web.api import jobs as job_api
from rushes.web.api.media import BUSY, MediaId, Seconds, Work, start
from rushes.web.http import idempotency
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.models import Limit
from rushes.web.services import Here, Services

router = APIRouter(
    prefix="/media/{media_id}/exports", tags=["media"], responses=documented(401, 404, 422)
)


ExportId = Annotated[str, Path(max_length=100, description="Of the job that has made it.")]


class NewExport(Work):
    format: exports.Format = Field(description="mp4 has picture and sound, the others sound alone.")
    rendition: str | None = Field(
        None, max_length=100, description="Such as 720p; without, the best there is."
    )
    start: Seconds = 0
    end: Seconds | None = Field(None, description="Without: to the end.")
    burn_captions: bool = Field(
        False, description="Into the picture, as they are read now; it has to be encoded for that."
    )
    exact: bool = Field(
        False,
        description="Begin with the very frame at `start`; it has to be encoded for that. Without,"
        " the file holds the picture from the key frame before, and tells players to show it from"
        " `start` on.",
    )


@router.post("", status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def add(
    media_id: MediaId, body: NewExport, who: auth.User, services: Here, once: idempotency.Once
) -> models.Job:
    """Make a file of what is watched now, with its edits. The same one, if it was made before, is
    replaced when the new one is there; others stay beside it."""
    wanted = exports.Wanted(**body.model_dump(exclude={"priority"}))

    def make_job(tx: Tx, item: Media) -> str:
        return requests.export(tx, services.queue, item, wanted, body.priority)

    return start(media_id, body, who, services, once, make_job)


@router.get("")
def list_exports(
    media_id: MediaId,
    who: auth.User,
    services: Here,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = 50,
) -> models.Page[models.Export]:
    """Those that are there, are being made, or could not be made; newest first."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        found = export_store.jobs(tx, item.id, before=cursor, limit=limit + 1)
        page = found[:limit]
        made = export_store.made(tx, [each.id for each in page]) if page else {}
    return models.Page(
        items=[_export(services, each, made.get(each.id)) for each in page],
        next_cursor=page[-1].id if len(found) > limit else None,
    )


@router.delete("/{export_id}", status_code=204, responses=documented(409))
def remove(media_id: MediaId, export_id: ExportId, who: auth.User, services: Here) -> None:
    """Before its time is over. One that is being made is canceled as a job."""

    def retire(tx: Tx) -> None:
        item = library.found(tx, media_id, who.sees)
        if export_store.retire(tx, item.id, export_id):
            return
        job = job_api.found(tx, export_id, who.sees)
        if job.media_id != item.id or job.kind != kinds.EXPORT.name:
            raise errors.NotFound(f"no export {export_id}")
        raise errors.WrongState("there is no file of it: cancel its job, if it still runs")

    services.db.run(retire)


def _export(services: Services, job: jobs.Job, made: export_store.Made | None) -> models.Export:
    kept = services.settings.export_retention
    return models.Export(
        id=job.id,
        status=views.OUTPUT_STATUS[job.state],
        progress=job.progress,
        stage=job.stage,
        error=job.last_error if job.state is jobs.State.FAILED else None,
        **{
            name: job.args[name]
            for name in ("format", "rendition", "start", "end", "burn_captions", "exact", "name")
            if name in job.args
        },
        size_bytes=made.file.size_bytes if made else None,
        url=f"/api/v1/media/{job.media_id}/outputs/{made.slot}/{made.file.name}" if made else None,
        created_at=clock.rfc3339(job.created_at),
        expires_at=clock.rfc3339(made.published_at + int(kept * 1000)) if made and kept else None,
    )
