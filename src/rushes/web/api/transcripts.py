"""What was said: read it in every format, correct it, name the speakers, bring captions."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from rushes import errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.jobs import passage_store
from rushes.jobs.job import State
from rushes.media import library, pipeline
from rushes.media import store as media_store
from rushes.media.media import Media
from rushes.transcripts import archive, captions, documents, editing, formats, passages
from rushes.transcripts import language as languages
from rushes.transcripts.archive import Kept
from rushes.transcripts.store import About
from rushes.web import auth, models, shared_link, transcript_models, views
from rushes.web.api import jobs as job_api
from rushes.web.api import upload_docs, uploads
from rushes.web.api.jobs import JobId
from rushes.web.api.media import MediaId
from rushes.web.http import idempotency, ranges
from rushes.web.http.body_reader import run
from rushes.web.http.forms import Form
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here, Services

router = APIRouter(tags=["transcripts"], responses=documented(401, 404, 422))
shared = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(401, 404, 410, 422),
    dependencies=shared_link.ALSO_PARTS,
)
receiving = APIRouter(route_class=uploads.Receiving, tags=["transcripts"])

IMPORT_LIMIT_BYTES = 10 * 2**20
IMPORTED = ("text/vtt", "application/x-subrip", "text/srt", captions.PLAIN, captions.JSON)
# Of a form's file, by how its name ends; all others are captions.
BY_NAME = {".txt": captions.PLAIN, ".json": captions.JSON}
HEADERS = {"Cache-Control": "no-cache"}
READ: dict[int | str, dict[str, Any]] = {
    200: {
        "model": transcript_models.Transcript,
        "content": {type.partition(";")[0]: {} for type in formats.TYPES.values()},
    },
    304: {"description": "It is the one you have"},
}

Format = Annotated[formats.Format, Query(description="The canonical document, or a file.")]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]


class SegmentEdit(Body):
    """What is not said stays as it is."""

    id: str = Field(max_length=100, description="Such as seg_000001.")
    text: str | None = Field(None, max_length=10_000, description="Empty: the segment is removed.")
    speaker: str | None = Field(None, max_length=100, description="A label; empty: nobody.")


class TranscriptEdit(Body):
    revision: Number = Field(description="The one that was read and changed.")
    segments: list[SegmentEdit] = Field(min_length=1, max_length=1000)


class Revert(Body):
    revision: Number = Field(description="The newest one, as it was read.")
    to: Number = Field(description="The one to go back to.")


class Decision(Body):
    conflict: Number = Field(description="Its number.")
    take: Literal["ours", "theirs"] = Field(description="People's words, or the candidate's.")


class Accepted(Body):
    id: str = Field(max_length=100, description="Of the candidate.")
    revision: Number = Field(description="The newest one of the current transcript, as read.")
    merge: bool = Field(True, description="Take corrections and names over; else none of them.")
    choices: list[Decision] = Field(
        default=[], max_length=10_000, description="Of conflicts; people's words stay in others."
    )


class Restored(Body):
    id: str = Field(max_length=100, description="Of the transcript to read again.")
    revision: Number | None = Field(
        description="The newest one of the current transcript, as read; null: there is none."
    )


class SpeakerNames(Body):
    names: dict[Annotated[str, Field(max_length=200)], Annotated[str, Field(max_length=100)]] = (
        Field(max_length=200, description="By label; an empty name takes one away.")
    )


# Reading


@router.get("/transcriptions/{job_id}/transcript", responses={**READ, **documented(409)})
def of_job(
    request: Request,
    job_id: JobId,
    who: auth.User,
    services: Here,
    format: Format = "json",
    partial: Annotated[bool, Query(description="What is there so far, while it runs.")] = False,
) -> Response:
    """As this transcription heard it; what people made of it since is with the media."""
    with services.db.read() as tx:
        job = job_api.found(tx, job_id, who.sees)
        if job.kind != pipeline.TRANSCRIBE:
            raise errors.NotFound(f"no transcription {job_id}")
        kept = archive.get_of_job(tx, job_id)
        so_far = passage_store.read(tx, job_id) if partial and kept is None else []
        item = media_store.get(tx, job.media_id, or_trashed=True) if job.media_id else None
    title = item.title if item else None
    if kept is not None:
        return _rendered(request, kept, format, title)
    if passages.tells_speakers_only(job.args):
        raise errors.NotFound("this job only tells speakers apart: read the media's transcript")
    if job.state is State.COMPLETED:
        raise errors.NotFound("what this transcription has heard is not kept any more")
    if not partial:
        raise errors.WrongState(
            f"the transcription is {job.state}: ask again when it has completed, or for what is"
            " there so far with partial=true"
        )
    made = passages.made_of(so_far, passages.engine_of(job.result))
    if format == "json":
        return _answer(request, _with_job(documents.render(made, format).decode(), job_id), format)
    return _answer(request, documents.render(made, format, title=title), format)


@router.get("/media/{media_id}/transcript", responses=READ)
def get(
    request: Request,
    media_id: MediaId,
    who: auth.User,
    services: Here,
    format: Format = "json",
    revision: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="An older one.")] = None,
) -> Response:
    """With people's corrections; files have the speakers' names."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        if revision is None:
            kept = archive.found(tx, item.id)
        else:
            kept = archive.at_revision(tx, item.id, revision)
    return _rendered(request, kept, format, item.title, item.duration)


@router.get("/media/{media_id}/transcript/info")
def info(media_id: MediaId, who: auth.User, services: Here) -> transcript_models.TranscriptInfo:
    """All about the transcript but what was said."""
    with services.db.read() as tx:
        kept = archive.found(tx, library.found(tx, media_id, who.sees).id)
        other = archive.about_candidate(tx, kept.media_id)
    return _info(kept, other)


@router.get("/media/{media_id}/transcripts")
def all_of(
    media_id: MediaId, who: auth.User, services: Here
) -> models.Page[transcript_models.TranscriptSummary]:
    """Also those that were replaced, and can be brought back; newest first."""
    with services.db.read() as tx:
        found = archive.all_of(tx, library.found(tx, media_id, who.sees).id)
    return models.Page(items=[_summary(each) for each in found])


@router.get("/media/{media_id}/transcript/revisions")
def revisions(
    media_id: MediaId, who: auth.User, services: Here
) -> models.Page[transcript_models.TranscriptRevision]:
    """What was changed, newest first."""
    with services.db.read() as tx:
        found = archive.history(tx, library.found(tx, media_id, who.sees).id)
    return models.Page(
        items=[
            transcript_models.TranscriptRevision(
                revision=each.number,
                user_id=each.user_id or None,
                reason=each.reason,
                created_at=views.said("created_at", each.created_at),
                changes=[
                    transcript_models.SegmentChange.model_validate(change, from_attributes=True)
                    for change in each.changes
                ],
            )
            for each in found
        ]
    )


@router.get("/media/{media_id}/transcript/candidate", responses=READ)
def get_candidate(
    request: Request, media_id: MediaId, who: auth.User, services: Here, format: Format = "json"
) -> Response:
    """A newer transcript, beside one that people have worked on."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        kept = archive.found_candidate(tx, item.id)
    return _rendered(request, kept, format, item.title, item.duration)


@router.get("/media/{media_id}/transcript/candidate/merge")
def preview_merge(
    media_id: MediaId, who: auth.User, services: Here
) -> transcript_models.TranscriptMerge:
    """What accepting the candidate would take over of people's corrections and names, and where
    both have changed the same words."""
    merge = _merge(services, media_id, who)
    return transcript_models.TranscriptMerge(
        id=merge.candidate.id,
        revision=merge.current.revision,
        corrections=merge.result.corrections,
        kept=merge.result.kept,
        conflicts=[
            transcript_models.MergeConflict.model_validate(each, from_attributes=True)
            for each in merge.result.conflicts
        ],
        speaker_names=dict(merge.result.names),
    )


@shared.get(
    "/transcript",
    responses={
        **READ,
        200: {**READ[200], "model": transcript_models.SharedTranscript},
        **documented(403),
    },
)
@shared.head("/transcript", include_in_schema=False)
def get_shared(
    request: Request, shown: shared_link.ShownOrPart, services: Here, format: Format = "json"
) -> Response:
    """What is said in what a link shows; as a file only if the link allows downloads."""
    if format != "json":
        shown.check_download()
    with services.db.read() as tx:
        kept = archive.found(tx, shown.item.id)
        is_shown = views.has_shared_transcript(tx, shown.item)
    if not is_shown:
        raise errors.NotFound("the recording was cut, and its transcript not yet")
    if shown.part is not None:
        kept = archive.between(kept, shown.part.start / 1000, shown.part.end / 1000)
    headers = {**HEADERS, "Cache-Control": shown.keeping.fresh}
    if format != "json":
        headers["Content-Disposition"] = ranges.attachment(f"{shown.item.title}.{format}")
        item = shown.item
        return _rendered(request, kept, format, item.title, item.duration, headers)
    who = {"speakers": kept.speakers, "speaker_names": dict(kept.names)}
    return _answer(request, f"{json.dumps(who)[:-1]},{kept.document[1:]}", format, headers)


# Changing


@router.patch("/media/{media_id}/transcript", responses=documented(409))
def edit(
    media_id: MediaId, body: TranscriptEdit, who: auth.User, services: Here
) -> transcript_models.TranscriptInfo:
    """Correct segments; words that stay keep their times. 409 `edited_meanwhile` when somebody
    was quicker."""
    changes = [
        editing.SegmentEdit(segment_id=each.id, text=each.text, speaker=each.speaker)
        for each in body.segments
    ]
    with services.db.read() as tx:
        kept = archive.found(tx, library.found(tx, media_id, who.sees).id)
    draft = archive.draft_edit(kept, body.revision, changes)
    return _change(
        services, media_id, who, lambda tx, _: archive.write(tx, kept, who.user_id, draft)
    )


@router.post("/media/{media_id}/transcript/revert", responses=documented(409))
def revert(
    media_id: MediaId, body: Revert, who: auth.User, services: Here
) -> transcript_models.TranscriptInfo:
    """Go back to an older text, as a new revision."""
    with services.db.read() as tx:
        kept = archive.found(tx, library.found(tx, media_id, who.sees).id)
        draft = archive.draft_revert(tx, kept, body.revision, body.to)
    return _change(
        services, media_id, who, lambda tx, _: archive.write(tx, kept, who.user_id, draft)
    )


@router.put("/media/{media_id}/transcript/speakers")
def name_speakers(
    media_id: MediaId, body: SpeakerNames, who: auth.User, services: Here
) -> transcript_models.TranscriptInfo:
    """What people call them; the document keeps its labels."""
    return _change(
        services, media_id, who, lambda tx, id: archive.rename_speakers(tx, id, body.names)
    )


@router.post("/media/{media_id}/transcript/candidate/accept", responses=documented(409))
def accept_candidate(
    media_id: MediaId, body: Accepted, who: auth.User, services: Here
) -> transcript_models.TranscriptInfo:
    """Read it from now on, with what people corrected in the one that they have worked on, and
    their names of speakers. 409 when either is not what you have seen any more."""
    merge = _merge(services, media_id, who, body) if body.merge else None
    return _change(
        services,
        media_id,
        who,
        lambda tx, id: archive.accept_candidate(tx, id, body.id, body.revision, who.user_id, merge),
    )


@router.post("/media/{media_id}/transcript/restore", responses=documented(409))
def restore(
    media_id: MediaId, body: Restored, who: auth.User, services: Here
) -> transcript_models.TranscriptInfo:
    """Read one again that was replaced, with all that people have made of it."""
    return _change(
        services, media_id, who, lambda tx, id: archive.restore(tx, id, body.id, body.revision)
    )


@router.delete("/media/{media_id}/transcript/candidate", status_code=204)
def dismiss_candidate(media_id: MediaId, who: auth.User, services: Here) -> None:
    """Stay with the one that is there."""

    def dismiss(tx: Tx) -> None:
        archive.dismiss_candidate(tx, library.found(tx, media_id, who.sees).id)

    services.db.run(dismiss)


@receiving.post(
    "/media/{media_id}/transcript/import",
    status_code=201,
    response_model=transcript_models.TranscriptInfo,
    responses=documented(401, 403, 404, 409, 413, 415, 422, 503),
    openapi_extra=upload_docs.CAPTIONS,
)
async def import_captions(
    request: Request,
    media_id: MediaId,
    who: auth.User,
    services: Here,
    once: idempotency.Once,
    replace: Annotated[
        bool, Query(description="Even if people have worked on the one that is there.")
    ] = False,
    language: Annotated[
        str | None,
        Query(
            max_length=35,
            description="Such as de; without, what the file says, or what its words tell.",
        ),
    ] = None,
) -> Response:
    """Captions that you have already, WebVTT or SubRip, or a transcript of another system, as plain
    text or JSON; as the body or as a form's `file`."""
    spoken = _spoken(language)
    await run(_found, services, media_id, who)
    content, type = await _content(request)
    ready = await run(_prepared, content, type, spoken)

    def keep(tx: Tx) -> transcript_models.TranscriptInfo:
        item = library.found(tx, media_id, who.sees)
        kept = archive.import_captions(tx, item.id, ready, replace=replace)
        return _info(kept, archive.about_candidate(tx, item.id))

    answer = await run(once.run, services, who, content, transcript_models.TranscriptInfo, keep)
    return Response(answer.model_dump_json(), status_code=201, media_type="application/json")


# How


def _found(services: Services, media_id: str, who: Principal) -> Media:
    with services.db.read() as tx:
        return library.found(tx, media_id, who.sees)


def _change(
    services: Services, media_id: str, who: Principal, verb: Callable[[Tx, str], Kept]
) -> transcript_models.TranscriptInfo:
    def change(tx: Tx) -> tuple[Kept, About | None]:
        kept = verb(tx, library.found(tx, media_id, who.sees).id)
        return kept, archive.about_candidate(tx, kept.media_id)

    return _info(*services.db.run(change))


def _merge(
    services: Services, media_id: str, who: Principal, accepted: Accepted | None = None
) -> archive.Merge:
    """Of what is there now; whoever accepts is checked again when it is written."""
    choices = {each.conflict: each.take for each in accepted.choices} if accepted else {}
    with services.db.read() as tx:
        id = library.found(tx, media_id, who.sees).id
        if accepted is not None:
            archive.check_candidate(tx, id, accepted.id, accepted.revision)
        work = archive.draft_merge(tx, id, choices)
    return work()


def _info(kept: Kept, other: About | None) -> transcript_models.TranscriptInfo:
    return transcript_models.TranscriptInfo(
        id=kept.id,
        media_id=kept.media_id,
        job_id=kept.job_id,
        origin=kept.origin,
        language=kept.language,
        revision=kept.revision,
        first_revision=kept.first_revision,
        edited=kept.is_edited,
        outdated=kept.is_outdated,
        speakers=kept.speakers,
        speaker_names=dict(kept.names),
        candidate=None if other is None else _candidate(other),
        created_at=views.said("created_at", kept.created_at),
        updated_at=views.said("updated_at", kept.updated_at),
    )


def _summary(about: About) -> transcript_models.TranscriptSummary:
    return transcript_models.TranscriptSummary(
        id=about.id,
        state=about.state,
        job_id=about.job_id,
        origin=about.origin,
        language=about.language,
        revision=about.revision,
        edited=about.is_edited,
        outdated=about.is_outdated,
        created_at=views.said("created_at", about.created_at),
        updated_at=views.said("updated_at", about.updated_at),
    )


def _candidate(kept: About) -> transcript_models.Candidate:
    return transcript_models.Candidate(
        id=kept.id,
        job_id=kept.job_id,
        language=kept.language,
        created_at=views.said("created_at", kept.created_at),
    )


def _rendered(
    request: Request,
    kept: Kept,
    format: str,
    title: str | None,
    duration: float | None = None,
    headers: Mapping[str, str] = HEADERS,
) -> Response:
    if format == "json":
        return _answer(request, _with_job(kept.document, kept.job_id), format)
    made = documents.render(kept.transcript, format, kept.names, end=duration, title=title)
    return _answer(request, made, format, headers)


def _with_job(document: str, job_id: str | None) -> str:
    """Of a long text nothing is read to say whose it is."""
    return f'{{"transcription_id":{json.dumps(job_id)},{document[1:]}'


def _answer(
    request: Request, content: str | bytes, format: str, headers: Mapping[str, str] = HEADERS
) -> Response:
    return ranges.from_text(request, content, {**headers, "Content-Type": formats.TYPES[format]})


async def _content(request: Request) -> tuple[bytes, str]:
    """And what it is."""
    type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if type not in (*IMPORTED, "multipart/form-data"):
        raise errors.UnsupportedMedia(
            "send captions as text/vtt or application/x-subrip, a transcript as text/plain or"
            " application/json, or either as a form with a field named file"
        )
    form = None
    if type == "multipart/form-data":
        form = Form(request.headers["content-type"], frozenset())
    content = bytearray()
    async for chunk in request.stream():
        content += b"".join(form.feed(chunk)) if form else chunk
        if len(content) > IMPORT_LIMIT_BYTES:
            raise errors.TooLarge(f"captions may have {IMPORT_LIMIT_BYTES // 2**20} MiB at most")
    if form is not None:
        form.check()
        type = BY_NAME.get(PurePath((form.file_name or "").lower()).suffix, IMPORTED[0])
    return bytes(content), type


def _spoken(given: str | None) -> str | None:
    if not given:
        return None
    tag = languages.named(given)
    if tag is None:
        raise errors.BadField("language", "must be a code such as en, or an English name")
    return tag


def _prepared(content: bytes, type: str, spoken: str | None) -> archive.Prepared:
    return archive.prepared(captions.brought(_text(content), type, spoken))


def _text(content: bytes) -> str:
    """Old files are in the code page of the machine they were made on."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
