"""OpenAI-compatible transcription, so that existing libraries work unchanged.

A request uploads a file and waits for its words; underneath, it is a media with a durable job. It
is forgotten with the answer, unless the request says `store`; then who leaves does not stop it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from rushes import errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.engines.engine import Task
from rushes.jobs import read_store
from rushes.jobs.job import LIVE, Job, State
from rushes.media import library, pipeline, purge
from rushes.media import store as media_store
from rushes.uploads.upload import UploadOptions
from rushes.web import auth
from rushes.web.api import uploads
from rushes.web.api.models import capabilities
from rushes.web.http import idempotency, problems, sse
from rushes.web.http.forms import Form
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.openai import answers as openai_answers
from rushes.web.openai import form as openai_form
from rushes.web.openai.answers import Heard
from rushes.web.openai.following import (
    FORGET_SECONDS,
    FORGOTTEN,
    Failed,
    TranscriptionFollower,
)
from rushes.web.openai.form import Asked
from rushes.web.services import Here, Services

log = logging.getLogger("rushes.web")

# Their libraries repeat what took too long, and say so.
TRIED_BEFORE = "x-stainless-retry-count"
TRANSCRIPTION_ID, MEDIA_ID = "Rushes-Transcription-Id", "Rushes-Media-Id"
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The transcript in the format that was asked for.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            **{
                each: {"schema": {"type": "string"}}
                for each in ("text/plain", "text/vtt", "application/x-subrip", sse.MEDIA_TYPE)
            },
        },
    },
    **problems.documented_openai(404, 409, 429, 500, 503, 504, 507),
}

receiving = APIRouter(prefix="/v1/audio", tags=["openai"], route_class=uploads.Receiving)
router = APIRouter(prefix="/v1/models", tags=["openai"])


class Started(BaseModel):
    media_id: str
    job_id: str


class Model(BaseModel):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str


class ModelList(BaseModel):
    object: str = "list"
    data: list[Model]


@receiving.post(
    "/transcriptions",
    response_class=Response,
    responses=ANSWERS,
    openapi_extra=openai_form.document("transcribe"),
    dependencies=[RoomForJobs],
)
async def transcriptions(
    request: Request, who: auth.User, services: Here, once: idempotency.Once
) -> Response:
    """The answer comes when the transcript is there, or piece by piece with `stream`. Nothing of it
    is left after that; with `store` the file becomes a media of yours, and `Rushes-Media-Id` and
    `Rushes-Transcription-Id` say which."""
    return await _answer(request, who, services, once, "transcribe")


@receiving.post(
    "/translations",
    response_class=Response,
    responses=ANSWERS,
    openapi_extra=openai_form.document("translate"),
    dependencies=[RoomForJobs],
)
async def translations(
    request: Request, who: auth.User, services: Here, once: idempotency.Once
) -> Response:
    """As `/v1/audio/transcriptions`, in English whatever is spoken."""
    return await _answer(request, who, services, once, "translate")


@router.get("")
def list_models(who: auth.User, services: Here) -> ModelList:
    """What `model` may name. Names of OpenAI's models mean the default one."""
    can = capabilities(services)
    names = [each.name for each in can.models if each.purpose == "transcription"]
    names += [openai_form.WHISPER_1] if openai_form.WHISPER_1 not in names else []
    return ModelList(data=[Model(id=each, owned_by=can.provider) for each in names])


@router.get("/{model_id:path}", responses=problems.documented_openai(404))
def get_model(
    model_id: Annotated[str, Path(max_length=200)], who: auth.User, services: Here
) -> Model:
    can = capabilities(services)
    openai_form.find_model(can, model_id)
    return Model(id=model_id, owned_by=can.provider)


# The request


class _IncomingForm:
    """One request's form, and what it asks for as soon as that is known."""

    def __init__(self, request: Request, services: Services, task: Task) -> None:
        self._site = services
        self._task = task
        self._is_repeated = request.headers.get(TRIED_BEFORE, "0") != "0"
        self.asked = Asked(task=task)
        self.form = Form(
            request.headers.get("content-type", ""),
            openai_form.FIELDS,
            lists=openai_form.LISTS,
            lenient=True,
        )

    def upload_options(self) -> UploadOptions:
        store = self._site.settings.openai_store
        self.asked = openai_form.read(self.form, self._task, capabilities(self._site), store=store)
        after_ms = int(FORGET_SECONDS * 1000)
        return self.asked.upload_options(self.form.file_name or "", after_ms)

    def started(self, tx: Tx, media_id: str) -> Started:
        [job] = read_store.live_jobs_of(tx, [media_id])
        assert job.kind == pipeline.TRANSCRIBE
        before = _same_before(tx, job, self.asked) if self._is_repeated else None
        if before is not None:
            raise _StartedBefore(before)
        return Started(media_id=media_id, job_id=job.id)


class _StartedBefore(Exception):
    """The same is under way or done: what this request has begun is undone."""

    def __init__(self, started: Started) -> None:
        super().__init__()
        self.started = started


def _same_before(tx: Tx, job: Job, asked: Asked) -> Started | None:
    """The newest that has listened to the same file with the same options. What is to be stored is
    not found in what will be forgotten."""
    item = library.found(tx, job.media_id or "", job.user_id)
    for twin in reversed(media_store.twins(tx, item).seen):
        if asked.store and library.found(tx, twin, job.user_id).forget_at is not None:
            continue
        wanted = read_store.JobFilter(kind=pipeline.TRANSCRIBE, media_id=twin)
        for each in read_store.list_jobs(tx, wanted, limit=1):
            is_of_use = each.state in LIVE or each.state is State.COMPLETED
            if is_of_use and each.args == job.args:
                return Started(media_id=twin, job_id=each.id)
    return None


async def _answer(
    request: Request, who: auth.User, services: Services, once: idempotency.Repeat, task: Task
) -> Response:
    incoming = _IncomingForm(request, services, task)
    try:
        made = await uploads.receive(
            request,
            who,
            services,
            once,
            incoming.form,
            Started,
            read_options=incoming.upload_options,
            work=incoming.started,
            metadata=lambda form: {},
        )
    except _StartedBefore as error:
        made = error.started
    asked = incoming.asked
    following = TranscriptionFollower(services, made.job_id, made.media_id, is_stored=asked.store)
    awaited = Awaited(services, who, once, made.media_id, is_stored=asked.store)
    headers = {TRANSCRIPTION_ID: made.job_id, MEDIA_ID: made.media_id}
    if asked.stream:
        headers |= sse.HEADERS
        body = _events(following, asked, awaited)
        return StreamingResponse(body, media_type=sse.MEDIA_TYPE, headers=headers)
    try:
        with awaited:
            text = await _words(request, following, asked, awaited)
    except Failed as error:
        # Their libraries would send the file again; with a key, it is only waited for again.
        is_of_use = error.goes_on or error.code == FORGOTTEN
        headers["x-should-retry"] = "true" if is_of_use and once.key else "false"
        return problems.answer(request, error.status, error.code, error.message, headers=headers)
    return Response(text, media_type=openai_answers.MEDIA_TYPES[asked.format], headers=headers)


async def _words(
    request: Request, following: TranscriptionFollower, asked: Asked, awaited: Awaited
) -> str:
    try:
        async with aclosing(following.texts()) as texts:
            async for _ in texts:
                if await request.is_disconnected():
                    raise ClientDisconnect
        text = await asyncio.to_thread(_rendered, following, asked)
    except Failed as error:
        if not error.goes_on:
            await awaited.forget()
        raise
    await awaited.forget()
    return text


def _rendered(following: TranscriptionFollower, asked: Asked) -> str:
    return openai_answers.render(following.heard(asked.task), asked.format, words=asked.words)


async def _events(
    following: TranscriptionFollower, asked: Asked, awaited: Awaited
) -> AsyncIterator[bytes]:
    """Text as it comes, then all of it. What goes wrong is told as the last event."""
    said = ""
    with awaited:
        try:
            async with aclosing(following.texts()) as pages:
                async for texts in pages:
                    if not texts:
                        yield openai_answers.KEEPALIVE
                    for text in texts:
                        event = openai_answers.delta(said, text)
                        said += event["delta"]
                        yield openai_answers.frame(event)
            heard = await asyncio.to_thread(following.heard, asked.task)
            await awaited.forget()
            for event in _ending(heard, asked, said):
                yield openai_answers.frame(event)
            yield openai_answers.LAST
        except Failed as error:
            if not error.goes_on:
                await awaited.forget()
            _, body = problems.openai(error.status, error.code, error.message)
            yield openai_answers.frame(body)


def _ending(heard: Heard, asked: Asked, said: str) -> list[dict[str, Any]]:
    """With what the transcript has beyond the pieces, should some have been missed."""
    text = heard.transcript.text
    missed = text[len(said) :] if text.startswith(said) else ""
    events = [{"type": "transcript.text.delta", "delta": missed}] if missed else []
    if asked.format == "diarized_json":
        events += openai_answers.speaker_segments(heard)
    return [*events, openai_answers.done(heard)]


class Awaited:
    """A media while requests wait for its words: the same one may be sent again meanwhile, and
    whoever is last to be answered forgets it. Only in the event loop's thread. What this misses,
    because somebody hung up or the server was killed, the chores find: nobody says any more that
    the media is waited for."""

    def __init__(
        self,
        services: Services,
        who: Principal,
        once: idempotency.Repeat,
        media_id: str,
        *,
        is_stored: bool,
    ) -> None:
        self._site = services
        self._who = who
        self._once = once
        self._media_id = media_id
        self._is_stored = is_stored

    def __enter__(self) -> None:
        self._site.awaited[self._media_id] += 1

    def __exit__(self, *error: object) -> None:
        self._site.awaited[self._media_id] -= 1
        if not self._site.awaited[self._media_id]:
            del self._site.awaited[self._media_id]

    async def forget(self) -> None:
        """Never a reason to fail."""
        if self._is_stored or self._site.awaited[self._media_id] > 1:
            return
        try:
            await asyncio.to_thread(self._forget)
        except (errors.RushesError, OSError):
            log.warning("what was transcribed is forgotten a little later", exc_info=True)

    def _forget(self) -> None:
        services = self._site
        services.db.run(lambda tx: self._once.forget(tx, self._who))
        purge.forget(services.db, services.queue, services.storage, self._media_id)
