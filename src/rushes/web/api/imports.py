"""Media that the server fetches from a URL."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from rushes import kinds
from rushes.db.database import Tx
from rushes.jobs.job import NewJob
from rushes.media import pipeline, profiles, speech_profiles
from rushes.media.pipeline import Cause
from rushes.uploads import upload
from rushes.web import auth, models, views
from rushes.web.api import jobs as job_api
from rushes.web.api.media import BUSY, Work
from rushes.web.http import idempotency
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.services import Here
from rushes.webhooks import targets

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 422))


class NewImport(Work):
    url: str = Field(max_length=targets.URL_LIMIT, description="With http or https.")
    title: str | None = Field(None, max_length=1000, description="Without, the name in the URL.")
    profile: str | None = Field(None, max_length=100, description="By name.")
    transcribe: bool = True
    language: str | None = Field(None, max_length=35, description="Such as en.")
    diarize: bool | None = Field(None, description="Tell speakers apart.")
    transcription_profile: str | None = Field(None, max_length=100, description="By name.")


@router.post("/import", status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def add(body: NewImport, who: auth.User, services: Here, once: idempotency.Once) -> models.Job:
    """The server fetches it, as a job; `media_id` of its result is the media, once all is there. It
    goes to public addresses alone, unless `RUSHES_IMPORT_PRIVATE_SOURCES` says otherwise."""
    auth.check_priority(who, body.priority)
    targets.check(body.url, allow_private=services.settings.import_private_sources)
    options = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in body.model_dump(exclude={"url"}).items()
        if value is not None
    }
    asked = upload.options_of({name: value.encode() for name, value in options.items()}).processing

    def enqueue(tx: Tx) -> models.Job:
        profiles.resolve(tx, asked.profile)
        speech_profiles.options(tx, asked.transcription_profile, field="transcription_profile")
        new = NewJob(
            kind=kinds.IMPORT.name,
            user_id=who.user_id,
            args={"url": body.url, "options": options},
            priority=pipeline.priority_for(Cause.NEW, body.priority),
        )
        return views.job(tx, job_api.found(tx, services.queue.enqueue(tx, new).id, who.sees))

    return once.run(services, who, body, models.Job, enqueue)
