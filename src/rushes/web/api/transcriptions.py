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
from rushes.media.media import Origin
from rushes.web import auth, models, views
from rushes.web.api import jobs as job_api
from rushes.web.api import media as media_api
from rushes.web.api import upload_docs, uploads
from rushes.web.api.jobs import JobId
from rushes.web.http import idempotency
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.models import Cursor, Limit
from rushes.web.services import Here, Services

router = APIRouter(
    prefix="/transcriptions", tags=["transcriptions"], responses=documented(401, 404, 422)
)

receiving = APIRouter(route_class=uploads.Receiving, tags=["transcriptions"])


class TranscriptionRequest(media_api.Retranscribe):
    media_id: str = Field(max_length=100)


@router.post("", status_code=202, responses=documented(429, 503), dependencies=[RoomForJobs])
def create(
    body: TranscriptionRequest, who: auth.User, services: Here, once: idempotency.Once
) -> models.Job:
    """One with the same options that waits or runs already is returned; other options take its
    place. While the server leaves: 503."""
    make_job = media_api.transcription(services, body)
    answer = media_api.start(body.media_id, body, who, services, once, make_job)
    if services.stopping.is_set():
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
async def submit(
    request: Request, who: auth.User, services: Here, once: idempotency.Once
) -> Response:
    """Upload a file in one piece and transcribe it."""

    def start(tx: Tx, media_id: str, fields: dict[str, str]) -> models.Job:
        found = read_store.live_jobs_of(tx, [media_id])
        speech = [job for job in found if job.kind == pipeline.TRANSCRIBE]
        if not speech:
            raise errors.BadField("transcribe", "must not be false here")
        return views.job(tx, speech[0])

    answer = await uploads.receive_form(
        request, who, services, once, models.Job, start, origin=Origin.API
    )
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


@router.get("")
def list_transcriptions(
    who: auth.User,
    services: Here,
    status: Annotated[State | None, Query()] = None,
    media_id: job_api.Ref = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> models.Page[models.Job]:
    """Newest first."""
    return job_api.list_jobs(
        who,
        services,
        state=status,
        kind=pipeline.TRANSCRIBE,
        media_id=media_id,
        cursor=cursor,
        limit=limit,
    )


@router.get("/{job_id}")
def get(job_id: JobId, who: auth.User, services: Here) -> models.Job:
    _check(services, job_id, who)
    return job_api.get(job_id, who, services)


@router.delete("/{job_id}", status_code=204, responses=documented(409))
def delete(job_id: JobId, who: auth.User, services: Here) -> None:
    """Cancel it if it has not ended; the history of jobs is kept."""

    def stop(tx: Tx) -> None:
        job = job_api.found(tx, job_id, who.sees)
        if job.state not in TERMINAL:
            services.queue.cancel(tx, job_id)

    _check(services, job_id, who)
    services.db.run(stop)


@router.post("/{job_id}/cancel", responses=documented(409))
def cancel(job_id: JobId, who: auth.User, services: Here) -> models.Job:
    _check(services, job_id, who)
    return job_api.cancel(job_id, who, services)


@router.post(
    "/{job_id}/retry",
    status_code=202,
    responses=documented(409, 429),
    dependencies=[RoomForJobs],
)
def retry(job_id: JobId, who: auth.User, services: Here, once: idempotency.Once) -> models.Job:
    _check(services, job_id, who)
    return job_api.retry(job_id, who, services, once)


@router.get("/{job_id}/executions")
def executions(job_id: JobId, who: auth.User, services: Here) -> models.Page[models.Execution]:
    _check(services, job_id, who)
    return job_api.executions(job_id, who, services)


@router.get("/{job_id}/logs", response_class=PlainTextResponse, responses=documented(429))
async def logs(
    request: Request,
    job_id: JobId,
    who: auth.User,
    services: Here,
    follow: Annotated[bool, Query(description="Go on until the job has ended.")] = False,
) -> Response:
    """The sanitized log as plain text."""
    return await job_api.logs(request, job_id, who, services, follow)


def _check(services: Services, job_id: str, who: Principal) -> None:
    with services.db.read() as tx:
        job = jobs.get(tx, job_id)
    if job is None or job.kind != pipeline.TRANSCRIBE or who.sees not in (None, job.user_id):
        raise errors.NotFound(f"no transcription {job_id}")
