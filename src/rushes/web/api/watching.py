"""What is one person's own in the library: where they stopped watching, and filters they keep."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from rushes import clock, errors
from rushes.db.database import Tx
from rushes.media import filter_store, library, media, position_store
from rushes.media import store as media_store
from rushes.media.filter_store import SavedFilter as Kept
from rushes.media.media import Sort, Status, TranscriptStatus
from rushes.media.position_store import Position
from rushes.web import auth, models, views
from rushes.web.api.media import FromOrigin, MediaId, Seconds
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here

router = APIRouter(tags=["media"], responses=documented(401, 422))

MOST_FILTERS = 50
FILTER_NAME_LIMIT = 100


# Where somebody stopped


class WatchPosition(BaseModel):
    """Where you stopped."""

    media_id: str
    seconds: float
    finished: bool = Field(description="You have seen it, nearly to the end.")
    updated_at: models.Time


class Watched(WatchPosition):
    media: models.Media


class Stopped(Body):
    seconds: Seconds


@router.get("/watching")
def watching(
    who: auth.User,
    services: Here,
    limit: Annotated[int, Query(ge=1, le=100, description="How many at most.")] = 20,
) -> models.Page[Watched]:
    """What you have begun to watch and not finished; the last one first."""
    with services.db.read() as tx:
        found = position_store.unfinished(tx, who.user_id, sees=who.sees, limit=limit)
        items = [media_store.get(tx, each.media_id, who.sees) for each in found]
        seen = [each for each in items if each is not None]
        shown = {each.id: each for each in views.media_page(services, tx, seen)}
    return models.Page(
        items=[
            Watched(media=shown[each.media_id], **_position(each).model_dump())
            for each in found
            if each.media_id in shown
        ]
    )


@router.get("/media/{media_id}/position", responses=documented(404))
def get_position(media_id: MediaId, who: auth.User, services: Here) -> WatchPosition:
    """At second 0 of what you have not watched."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
        found = position_store.get(tx, who.user_id, item.id)
    if found is None:
        return WatchPosition(media_id=item.id, seconds=0, finished=False, updated_at=None)
    return _position(found)


@router.put("/media/{media_id}/position", responses=documented(404))
def keep_position(
    media_id: MediaId, body: Stopped, who: auth.User, services: Here
) -> WatchPosition:
    """Players say it every few seconds, and when they are left."""

    def keep(tx: Tx) -> WatchPosition:
        item = library.found(tx, media_id, who.sees)
        finished = position_store.is_finished(body.seconds, item.duration)
        return _position(
            position_store.keep(tx, who.user_id, item.id, body.seconds, finished=finished)
        )

    return services.db.run(keep)


@router.delete("/media/{media_id}/position", status_code=204, responses=documented(404))
def drop_position(media_id: MediaId, who: auth.User, services: Here) -> None:
    """As if you had not watched it."""

    def drop(tx: Tx) -> None:
        position_store.drop(tx, who.user_id, library.found(tx, media_id, who.sees).id)

    services.db.run(drop)


def _position(found: Position) -> WatchPosition:
    return WatchPosition(
        media_id=found.media_id,
        seconds=found.seconds,
        finished=bool(found.finished),
        updated_at=clock.rfc3339(found.updated_at),
    )


# Filters


class LibraryFilter(Body):
    """Which media, and in which order; what is null does not matter."""

    q: str | None = Field(None, max_length=200)
    status: Status | Literal["active"] | None = None
    transcript: TranscriptStatus | None = None
    kind: Literal["video", "audio"] | None = None
    tag: str | None = Field(None, max_length=400)
    collection: str | None = Field(None, max_length=400)
    origin: FromOrigin | None = None
    sort: Sort | None = None


class NewSavedFilter(Body):
    name: str = Field(max_length=1_000)
    filter: LibraryFilter


class SavedFilter(BaseModel):
    id: str
    name: str
    filter: LibraryFilter
    created_at: models.Time


FilterId = Annotated[str, Path(max_length=100, description="Such as flt_0198a3….")]


@router.get("/saved-filters")
def list_filters(who: auth.User, services: Here) -> models.Page[SavedFilter]:
    """Yours, by name."""
    with services.db.read() as tx:
        return models.Page(items=[_saved(each) for each in filter_store.of_user(tx, who.user_id)])


@router.post("/saved-filters", status_code=201)
def save_filter(body: NewSavedFilter, who: auth.User, services: Here) -> SavedFilter:
    """Under a name; it takes the place of one that you have of the same name. At most 50."""
    name = media.one_line(body.name)
    if not name or len(name) > FILTER_NAME_LIMIT:
        raise errors.BadField("name", f"must have 1 to {FILTER_NAME_LIMIT} characters")

    def keep(tx: Tx) -> SavedFilter:
        said = body.filter.model_dump_json(exclude_none=True)
        kept = filter_store.keep(tx, who.user_id, name, said)
        if len(filter_store.of_user(tx, who.user_id)) > MOST_FILTERS:
            raise errors.BadField("name", f"you can keep {MOST_FILTERS} filters: delete another")
        return _saved(kept)

    return services.db.run(keep)


@router.delete("/saved-filters/{filter_id}", status_code=204, responses=documented(404))
def delete_filter(filter_id: FilterId, who: auth.User, services: Here) -> None:
    if not services.db.run(lambda tx: filter_store.remove(tx, filter_id, who.user_id)):
        raise errors.NotFound(f"no saved filter {filter_id}")


def _saved(kept: Kept) -> SavedFilter:
    """Words of a later release that this one does not know are left out."""
    said = msgspec.json.decode(kept.filter)
    known = {name: value for name, value in said.items() if name in LibraryFilter.model_fields}
    try:
        filter = LibraryFilter.model_validate(known)
    except ValueError:
        filter = LibraryFilter.model_validate({})
    return SavedFilter(
        id=kept.id, name=kept.name, filter=filter, created_at=clock.rfc3339(kept.created_at)
    )
