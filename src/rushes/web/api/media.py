"""The library: list, look, rename, delete, and start new work on an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi import Body as InBody
from pydantic import Field

from rushes import errors
from rushes.accounts import security_log
from rushes.accounts.account import Principal
from rushes.accounts.security_log import Action
from rushes.db.database import Tx
from rushes.media import label_store, labels, library, list_store, media, requests, trash
from rushes.media import store as media_store
from rushes.media.edit import Corner, Overlay, Point, Sound
from rushes.media.list_store import MediaFilter
from rushes.media.media import Media, Sort, Status, TranscriptStatus
from rushes.web import auth, models, views
from rushes.web.api import jobs as job_api
from rushes.web.http import cursors, idempotency
from rushes.web.http.open_streams import RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.models import Body, Limit
from rushes.web.services import Here, Services

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 404, 422))

BUSY = documented(403, 409, 429)
MediaId = Annotated[str, Path(max_length=100, description="Such as med_0198a3…, or its slug.")]


Everyone = Annotated[bool, Query(description="For admins: also what is in the trash of others.")]
Seconds = Annotated[float, Field(ge=0, le=10**7, allow_inf_nan=False)]


Tag = Annotated[str, Query(max_length=400, description="Only media with this tag.")]
Collection = Annotated[
    str, Query(max_length=400, description="Only media in this collection, by its id or name.")
]
FromOrigin = Literal["library", "upload", "watch", "api"]
# Longer than any may be: what is wrong with them is told by the rule itself.
Labels = Annotated[list[Annotated[str, Field(max_length=20_000)]], Field(max_length=10_000)]


class Change(Body):
    """What is left out stays as it is."""

    title: str | None = Field(None, min_length=1, max_length=1000)
    description: str | None = Field(None, max_length=20_000, description="Plain text; null: none.")
    recorded_at: str | None = Field(
        None, max_length=100, description="A time or a date; null: not known."
    )
    tags: Labels | None = Field(None, description="All of them; at most 50.")
    collections: Labels | None = Field(
        None,
        description="All that it is in, by id or by name; what has no such name yet is made.",
    )


class Work(Body):
    """What may be said of any work that is asked for."""

    priority: models.Priority | None = Field(
        None, description="Which work comes first; `high` is for admins."
    )


class Retranscode(Work):
    profile: str | None = Field(
        None, max_length=100, description="By name; without, the one it was made with."
    )
    qualities: list[Annotated[str, Field(max_length=100)]] | None = Field(
        None, min_length=1, max_length=50, description="Only these, such as 720p; without, all."
    )
    keep_others: bool = Field(
        True,
        description="With `qualities`: the others stay as they are. False: they are not in the"
        " new version.",
    )
    drop_transcript: bool = Field(
        False, description="Transcribe again when the new version is there."
    )


class Trim(Work):
    start: Seconds = 0
    end: Seconds | None = Field(None, description="Without: to the end.")
    reset: bool = Field(False, description="Undo all edits instead.")


class Composite(Work):
    overlay_media_id: str = Field(max_length=100)
    position: Corner | models.Point = "bottom-right"
    size: float = Field(0.25, ge=0.05, le=1, allow_inf_nan=False, description="Of the width.")
    sound: Sound = Field("main", description="Whose sound is heard.")


Speakers = Annotated[int, Field(ge=1, le=50)]


class SpeechOptions(Body):
    """What a transcription is told."""

    language: str | None = Field(
        None, max_length=20, description="Such as en; without, it is detected."
    )
    model: str | None = Field(None, max_length=100, description="As /models/transcription has it.")
    diarize: bool | None = Field(
        None,
        description="Tell speakers apart; without, only those who have a channel each.",
    )
    speakers: Speakers | None = Field(None, description="How many there are, if you know.")
    min_speakers: Speakers | None = None
    max_speakers: Speakers | None = None
    track: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Of the sound, counted from 1; without, those that have speech.",
    )
    task: str | None = Field(None, pattern="^(transcribe|translate)$")
    prompt: str | None = Field(
        None, max_length=1000, description="What it is about, or how it begins."
    )
    vocabulary: list[Annotated[str, Field(max_length=100)]] | None = Field(
        None, max_length=100, description="Names and terms that may come up."
    )


class Retranscribe(SpeechOptions, Work):
    profile: str | None = Field(
        None,
        max_length=100,
        description="Of /transcription-profiles, by name; what is said beside it comes first.",
    )


class TellSpeakersApart(Work):
    """What is known of the speakers."""

    speakers: Speakers | None = Field(None, description="How many there are, if you know.")
    min_speakers: Speakers | None = None
    max_speakers: Speakers | None = None
    track: int | None = Field(
        None, ge=1, le=100, description="Of the sound, counted from 1; without, the default."
    )


@router.get("")
def list_media(
    who: auth.User,
    services: Here,
    status: Annotated[Status | None, Query(description="Only media with this status.")] = None,
    transcript: Annotated[
        TranscriptStatus | None, Query(description="Only media with this transcript_status.")
    ] = None,
    kind: Annotated[
        Literal["video", "audio"] | None, Query(description="Only video, or only sound.")
    ] = None,
    q: Annotated[str | None, Query(max_length=200, description="Part of the title.")] = None,
    tag: Tag | None = None,
    collection: Collection | None = None,
    origin: Annotated[
        FromOrigin | None,
        Query(description="Only media that came so; `library`: all but those of `api`."),
    ] = None,
    sort: Annotated[
        Sort | None,
        Query(
            description="By title: from A to Z. Without: newest first, and of what is `trashed`, by"
            " when it was `deleted`."
        ),
    ] = None,
    everyone: Everyone = False,
    cursor: cursors.Cursor = None,
    limit: Limit = 50,
) -> models.Page[models.Media]:
    """A page at a time. `trashed` are your own that can still be restored."""
    is_trash = status is Status.TRASHED
    if sort is Sort.DELETED and not is_trash:
        raise errors.BadField("sort", "only what is trashed can be in the order of deleting")
    sort = sort or (Sort.DELETED if is_trash else Sort.NEWEST)
    owner = who.user_id if is_trash and not everyone else who.sees
    after = cursors.decode(cursor, sort) if cursor else None
    with services.db.read() as tx:
        asked = labels.wanted(
            tx, sees=who.sees, user_id=who.user_id, tag=tag, collection=collection
        )
        wanted = MediaFilter(
            user_id=owner,
            status=status,
            transcript=transcript,
            kind=kind,
            q=q,
            labels=asked,
            origin=origin,
        )
        found = list_store.list_media(tx, wanted, sort=sort, after=after, limit=limit + 1)
        page = views.media_page(services, tx, found[:limit])
    more = len(found) > limit
    return models.Page(
        items=page, next_cursor=cursors.encode(found[limit - 1], sort) if more else None
    )


@router.get("/{media_id}")
def get(media_id: MediaId, who: auth.User, services: Here) -> models.Media:
    with services.db.read() as tx:
        return views.media_with_twins(services, tx, library.found(tx, media_id, who.sees))


@router.patch("/{media_id}")
def change(media_id: MediaId, body: Change, who: auth.User, services: Here) -> models.Media:
    """Say what it is: its title, description, date, tags and collections. Its place in any queue
    stays the same."""
    if not body.model_fields_set:
        raise errors.BadField("title", "say what to change")

    def edit(tx: Tx) -> models.Media:
        item = library.found(tx, media_id, who.sees)
        _say(tx, item, body)
        return views.media(services, tx, library.found(tx, item.id, who.sees))

    return services.db.run(edit)


def _say(tx: Tx, item: Media, body: Change) -> None:
    said = body.model_fields_set
    for name in said & {"title", "tags", "collections"}:
        if getattr(body, name) is None:
            raise errors.BadField(name, "must not be null")
    if body.title is not None:
        library.rename(tx, item, media.check_title(body.title))
    if "description" in said:
        label_store.describe(tx, item.id, media.check_description(body.description or ""))
    if "recorded_at" in said:
        when = None if body.recorded_at is None else media.check_recorded(body.recorded_at)
        label_store.set_recorded_at(tx, item.id, when)
    if body.tags is not None:
        labels.replace(tx, "tag", item, body.tags)
    if body.collections is not None:
        labels.replace(tx, "collection", item, body.collections)
    if said - {"title"}:
        label_store.tell(tx, [item.id])


@router.delete("/{media_id}", status_code=204, responses=documented(409))
def delete(
    media_id: MediaId,
    who: auth.User,
    services: Here,
    permanently: Annotated[
        bool, Query(description="For good; only what is in the trash already.")
    ] = False,
) -> None:
    """Into the trash: unseen by everybody at once, its work is canceled and its share link dead.
    It can be restored until `RUSHES_TRASH_PERIOD` is over; then its bytes are removed."""

    def remove(tx: Tx) -> None:
        if permanently:
            trash.purge(tx, media_id, who.sees)
        else:
            put_in_trash(tx, services, [library.found(tx, media_id, who.sees).id])

    services.db.run(remove)


def put_in_trash(tx: Tx, services: Services, ids: Sequence[str]) -> list[str]:
    """Returns those that were not in it before; their share links end."""
    for media_id in trash.shared(tx, ids):
        security_log.record(tx, Action.SHARE_REMOVED, media_id, by_deleting=True)
    return trash.put(tx, services.queue, ids)


@router.post("/{media_id}/retranscode", status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def retranscode(
    media_id: MediaId,
    body: Annotated[Retranscode, InBody(default_factory=Retranscode)],
    who: auth.User,
    services: Here,
    once: idempotency.Once,
) -> models.Job:
    """Make a new version; the old one plays until it is there."""
    return start(
        media_id,
        body,
        who,
        services,
        once,
        lambda tx, item: requests.retranscode(tx, services.queue, item, **body.model_dump()),
    )


@router.post("/{media_id}/trim", status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def trim(
    media_id: MediaId, body: Trim, who: auth.User, services: Here, once: idempotency.Once
) -> models.Job:
    """Make a new version of a part of what is seen now, in seconds of that; then transcribe it."""

    def cut(tx: Tx, item: Media) -> str:
        if body.reset:
            return requests.undo_edits(tx, services.queue, item, body.priority)
        return requests.trim(tx, services.queue, item, body.start, body.end, body.priority)

    return start(media_id, body, who, services, once, cut)


@router.post("/{media_id}/composite", status_code=202, responses=BUSY, dependencies=[RoomForJobs])
def composite(
    media_id: MediaId, body: Composite, who: auth.User, services: Here, once: idempotency.Once
) -> models.Job:
    """Make a new version with another video of yours laid over it, such as a webcam's."""
    position = body.position
    overlay = Overlay(
        media_id=body.overlay_media_id,
        position=position if isinstance(position, str) else Point(x=position.x, y=position.y),
        size=body.size,
        sound=body.sound,
    )

    def lay_over(tx: Tx, item: Media) -> str:
        other = media_store.get(tx, body.overlay_media_id, who.sees)
        return requests.composite(tx, services.queue, item, overlay, other, body.priority)

    return start(media_id, body, who, services, once, lay_over)


@router.post(
    "/{media_id}/retranscribe", status_code=202, responses=BUSY, dependencies=[RoomForJobs]
)
def retranscribe(
    media_id: MediaId,
    body: Annotated[Retranscribe, InBody(default_factory=Retranscribe)],
    who: auth.User,
    services: Here,
    once: idempotency.Once,
) -> models.Job:
    """Transcribe again, without any options as the last time; one that is running is canceled."""
    return start(media_id, body, who, services, once, transcription(services, body, anew=True))


@router.post(
    "/{media_id}/transcript/speakers", status_code=202, responses=BUSY, dependencies=[RoomForJobs]
)
def tell_speakers_apart(
    media_id: MediaId,
    body: Annotated[TellSpeakersApart, InBody(default_factory=TellSpeakersApart)],
    who: auth.User,
    services: Here,
    once: idempotency.Once,
) -> models.Job:
    """Of the transcript that is there, whose words stay as they are; a new revision of it."""
    options = body.model_dump(exclude={"priority"})
    return start(
        media_id,
        body,
        who,
        services,
        once,
        lambda tx, item: requests.tell_speakers_apart(
            tx, services.queue, item, options, body.priority
        ),
    )


def transcription(
    services: Services, body: Retranscribe, *, anew: bool = False
) -> Callable[[Tx, Media], str]:
    options = body.model_dump(exclude={"media_id", "priority"})
    return lambda tx, item: requests.transcribe(
        tx, services.queue, item, options, anew=anew, priority=body.priority
    )


def start(
    media_id: str,
    body: Work,
    who: Principal,
    services: Services,
    once: idempotency.Repeat,
    make_job: Callable[[Tx, Media], str],
) -> models.Job:
    """One enqueue; the same that is waiting or running already is returned instead."""
    auth.check_priority(who, body.priority)

    def enqueue(tx: Tx) -> models.Job:
        job_id = make_job(tx, library.found(tx, media_id, who.sees))
        return views.job(tx, job_api.found(tx, job_id, who.sees))

    return once.run(services, who, body, models.Job, enqueue)
