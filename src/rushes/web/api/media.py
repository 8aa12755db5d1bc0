"""The library: list, look, rename, share, delete, and start new work on an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.jobs.job import NewJob
from rushes.media import library, media, pipeline
from rushes.media import store as media_store
from rushes.media.media import Status
from rushes.web import auth, idempotency, models, views
from rushes.web.api import jobs as job_api
from rushes.web.models import Body, Cursor, Limit
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 404, 422))

MediaId = Annotated[str, Path(max_length=100, description="Such as med_0198a3….")]


class Change(Body):
    title: str = Field(min_length=1, max_length=1000)


class Retranscode(Body):
    profile: str | None = Field(None, max_length=100)
    qualities: list[str] | None = Field(None, max_length=20)


class Retranscribe(Body):
    language: str | None = Field(None, max_length=20)
    model: str | None = Field(None, max_length=100)
    diarize: bool | None = None
    task: str | None = Field(None, pattern="^(transcribe|translate)$")


class Shared(Body):
    share_url: str | None


@router.get("")
def list_media(
    who: auth.User,
    site: Here,
    status: Annotated[Status | None, Query(description="Only media with this status.")] = None,
    q: Annotated[str | None, Query(max_length=200, description="Part of the title.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> models.Page[models.Media]:
    """Newest first, a page at a time."""
    with site.db.read() as tx:
        found = media_store.list_media(
            tx, user_id=who.sees, status=status, q=q, before=cursor, limit=limit + 1
        )
        page = views.media_page(site, tx, found[:limit])
    more = len(found) > limit
    return models.Page(items=page, next_cursor=page[-1].id if more else None)


@router.get("/{media_id}")
def get(media_id: MediaId, who: auth.User, site: Here) -> models.Media:
    with site.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        answer = views.media(site, tx, item)
        if item.sha256:
            answer.duplicate_of = media_store.twins(tx, item.user_id, item.sha256, item.id)
    return answer


@router.patch("/{media_id}")
def change(media_id: MediaId, body: Change, who: auth.User, site: Here) -> models.Media:
    """Rename it. Its place in any queue stays the same."""
    title = media.check_title(body.title)

    def rename(tx: Tx) -> models.Media:
        item = library.found(tx, media_id, who.sees)
        media_store.rename(tx, item.id, title)
        return views.media(site, tx, library.found(tx, media_id, who.sees))

    return site.db.run(rename)


@router.delete("/{media_id}", status_code=204)
def delete(media_id: MediaId, who: auth.User, site: Here) -> None:
    """Gone for everybody at once, with its work; the bytes follow after a grace."""

    def remove(tx: Tx) -> None:
        item = library.found(tx, media_id, who.sees)
        library.delete(tx, site.queue, item.id)

    site.db.run(remove)


@router.post("/{media_id}/share")
def share(media_id: MediaId, who: auth.User, site: Here) -> Shared:
    """A link that shows this item to whoever has it; the same one while it is shared."""

    def start(tx: Tx) -> Shared:
        item = library.found(tx, media_id, who.sees)
        library.share(tx, item)
        item = library.found(tx, media_id, who.sees)
        return Shared(share_url=views.share_url(site, item))

    return site.db.run(start)


@router.delete("/{media_id}/share", status_code=204)
def unshare(media_id: MediaId, who: auth.User, site: Here) -> None:
    """The link stops working at once."""
    site.db.run(lambda tx: library.unshare(tx, library.found(tx, media_id, who.sees)))


@router.post("/{media_id}/retranscode", status_code=202, responses=documented(409))
def retranscode(
    media_id: MediaId, body: Retranscode, who: auth.User, site: Here, once: idempotency.Once
) -> models.Job:
    """Make a new version; the old one plays until it is there."""
    return start(media_id, body, who, site, once, pipeline.transcode)


@router.post("/{media_id}/retranscribe", status_code=202, responses=documented(409))
def retranscribe(
    media_id: MediaId, body: Retranscribe, who: auth.User, site: Here, once: idempotency.Once
) -> models.Job:
    """Transcribe again."""
    return start(media_id, body, who, site, once, pipeline.transcribe)


def start(
    media_id: str,
    body: Body,
    who: Principal,
    site: Site,
    once: idempotency.Repeat,
    make: Callable[[str, str, Mapping[str, Any]], NewJob],
) -> models.Job:
    """One enqueue; what is waiting or running already is answered instead."""

    def enqueue(tx: Tx) -> models.Job:
        item = library.found(tx, media_id, who.sees)
        args = body.model_dump(exclude={"media_id"})
        started = site.queue.enqueue(tx, make(item.id, item.user_id, args))
        return views.job(job_api.found(tx, started.id, who.sees))

    return once.run(site, who, body, models.Job, enqueue)
