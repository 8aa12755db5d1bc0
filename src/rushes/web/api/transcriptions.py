"""Transcriptions: jobs of kind `transcribe`, under the name people look for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field

from rushes import errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.jobs import store as jobs
from rushes.jobs.job import TERMINAL, State
from rushes.media import pipeline
from rushes.web import auth, idempotency, models, upload_docs, uploads, views
from rushes.web.api import jobs as job_api
from rushes.web.api import media as media_api
from rushes.web.api.jobs import JobId
from rushes.web.holding import RoomForJobs
from rushes.web.models import Cursor, Limit
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(
    prefix="/transcriptions", tags=["transcriptions"], responses=documented(401, 404, 422)
)

receiving = APIRouter(route_class=uploads.Receiving, tags=["transcriptions"])


class TranscriptionRequest(media_api.Retranscribe):
    media_id: str = Field(max_length=100)


@router.post("", status_code=202, responses=documented(429, 503), dependencies=[RoomForJobs])
def create(
    body: TranscriptionRequest, who: auth.User, site: Here, once: idempotency.Once
) -> models.Job:
    """The same that waits or runs already is answered instead; another wish takes its place.
    While the server leaves: 503."""
    order = media_api.transcription(site, body)
    answer = media_api.start(body.media_id, body, who, site, once, order)
    if site.stopping.is_set():
        raise errors.Unavailable("the server is leaving; the transcription is queued and safe")
    return answer


@receiving.post(
    "/transcriptions/submit",
    status_code=202,
    response_model=models.Job,
    responses=documented(401, 403, 413, 415, 422, 429, 503, 507),
    openapi_extra=upload_docs.FORM,
    dependencies=[RoomForJobs],
)
async def submit(request: Request, who: auth.User, site: Here, once: idempotency.Once) -> Response:
    """Upload a file in one piece and transcribe it."""

    def start(tx: Tx, media_id: str, fields: dict[str, str]) -> models.Job:
        found = read_store.live_jobs_of(tx, [media_id])
        speech = [job for job in found if job.kind == pipeline.TRANSCRIBE]
        if not speech:
            raise errors.BadField("transcribe", "must not be false here")
        return views.job(tx, speech[0])

    answer = await uploads.receive_form(request, who, site, once, models.Job, start)
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


@router.get("")
def list_transcriptions(
    who: auth.User,
    site: Here,
    status: Annotated[State | None, Query()] = None,
    media_id: job_api.Ref = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> models.Page[models.Job]:
    """Newest first."""
    return job_api.list_jobs(
        who,
        site,
        state=status,
        kind=pipeline.TRANSCRIBE,
        media_id=media_id,
        cursor=cursor,
        limit=limit,
    )


@router.get("/{job_id}")
def get(job_id: JobId, who: auth.User, site: Here) -> models.Job:
    _check(site, job_id, who)
    return job_api.get(job_id, who, site)


@router.delete("/{job_id}", status_code=204, responses=documented(409))
def delete(job_id: JobId, who: auth.User, site: Here) -> None:
    """Cancel it if it has not ended; the history of jobs is kept."""

    def stop(tx: Tx) -> None:
        job = job_api.found(tx, job_id, who.sees)
        if job.state not in TERMINAL:
            site.queue.cancel(tx, job_id)

    _check(site, job_id, who)
    site.db.run(stop)


@router.post("/{job_id}/cancel", responses=documented(409))
def cancel(job_id: JobId, who: auth.User, site: Here) -> models.Job:
    _check(site, job_id, who)
    return job_api.cancel(job_id, who, site)


@router.post(
    "/{job_id}/retry",
    status_code=202,
    responses=documented(409, 429),
    dependencies=[RoomForJobs],
)
def retry(job_id: JobId, who: auth.User, site: Here, once: idempotency.Once) -> models.Job:
    _check(site, job_id, who)
    return job_api.retry(job_id, who, site, once)


@router.get("/{job_id}/executions")
def executions(job_id: JobId, who: auth.User, site: Here) -> models.Page[models.Execution]:
    _check(site, job_id, who)
    return job_api.executions(job_id, who, site)


@router.get("/{job_id}/logs", response_class=PlainTextResponse, responses=documented(429))
async def logs(
    request: Request,
    job_id: JobId,
    who: auth.User,
    site: Here,
    follow: Annotated[bool, Query(description="Go on until the job has ended.")] = False,
) -> Response:
    """The sanitized log as plain text."""
    return await job_api.logs(request, job_id, who, site, follow)


def _check(site: Site, job_id: str, who: Principal) -> None:
    with site.db.read() as tx:
        job = jobs.get(tx, job_id)
    if job is None or job.kind != pipeline.TRANSCRIBE or who.sees not in (None, job.user_id):
        raise errors.NotFound(f"no transcription {job_id}")
