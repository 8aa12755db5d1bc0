"""Tags and collections: the names that somebody has for media."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from rushes import clock, errors
from rushes.db.database import Tx
from rushes.media import label_store, labels
from rushes.media.label_store import CountedLabel, LabelKind
from rushes.web import auth, models
from rushes.web.http.problems import documented
from rushes.web.models import Body, Limit
from rushes.web.services import Here, Services

router = APIRouter(tags=["media"], responses=documented(401, 422))

# So many in one transaction, as others who write wait for it.
BATCH = 2_000

CollectionId = Annotated[str, Path(max_length=100, description="Such as col_0198a3….")]
Cursor = Annotated[
    str | None,
    Query(max_length=2_000, pattern="^[A-Za-z0-9_-]+$", description="`next_cursor` of a page."),
]


class TagCount(BaseModel):
    name: str
    items: int = Field(description="How many media have it; those in the trash do not count.")


class Collection(BaseModel):
    id: str
    name: str
    items: int = Field(description="How many media are in it; those in the trash do not count.")
    created_at: models.Time


class CollectionBody(Body):
    name: str = Field(
        max_length=20_000, description="Such as `2020/Summer`; at most 200 characters."
    )


@router.get("/tags")
def list_tags(
    who: auth.User, services: Here, cursor: Cursor = None, limit: Limit = 50
) -> models.Page[TagCount]:
    """Yours that media have, by name."""
    page, more = _page(services, who.user_id, "tag", cursor, limit)
    return models.Page(
        items=[TagCount(name=each.name, items=each.items) for each in page], next_cursor=more
    )


@router.get("/collections")
def list_collections(
    who: auth.User, services: Here, cursor: Cursor = None, limit: Limit = 50
) -> models.Page[Collection]:
    """Yours, by name."""
    page, more = _page(services, who.user_id, "collection", cursor, limit)
    return models.Page(items=[_view(each) for each in page], next_cursor=more)


@router.post("/collections", status_code=201, responses=documented(409))
def create(body: CollectionBody, who: auth.User, services: Here) -> Collection:
    """409 if you have one of this name, whatever its capitals."""

    def make(tx: Tx) -> Collection:
        return _counted(tx, labels.create(tx, who.user_id, "collection", body.name).id)

    return services.db.run(make)


@router.get("/collections/{collection_id}", responses=documented(404))
def get(collection_id: CollectionId, who: auth.User, services: Here) -> Collection:
    with services.db.read() as tx:
        return _counted(tx, labels.found(tx, "collection", collection_id, who.sees).id)


@router.patch("/collections/{collection_id}", responses=documented(404, 409))
def change(
    collection_id: CollectionId, body: CollectionBody, who: auth.User, services: Here
) -> Collection:
    """Rename it."""

    def rename(tx: Tx) -> Collection:
        label = labels.found(tx, "collection", collection_id, who.sees)
        labels.rename(tx, label, body.name)
        return _counted(tx, label.id)

    return services.db.run(rename)


@router.delete("/collections/{collection_id}", status_code=204, responses=documented(404))
def delete(collection_id: CollectionId, who: auth.User, services: Here) -> None:
    """The media that were in it stay."""
    with services.db.read() as tx:
        label = labels.found(tx, "collection", collection_id, who.sees)
    while services.db.run(lambda tx: label_store.empty(tx, label.id, BATCH)) == BATCH:
        pass
    services.db.run(lambda tx: label_store.remove(tx, label.id))


def _page(
    services: Services, user_id: str, kind: LabelKind, cursor: str | None, limit: int
) -> tuple[list[CountedLabel], str | None]:
    """By the names as they are compared, which a cursor holds, too."""
    after = _decoded(cursor) if cursor else None
    with services.db.read() as tx:
        found = label_store.list_labels(tx, user_id, kind, after=after, limit=limit + 1)
    page = found[:limit]
    return page, _encoded(page[-1].name_folded) if len(found) > limit else None


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    try:
        said = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        said = "\0"
    if "\0" in said:
        raise errors.BadField("cursor", "is not of this list; begin again without it")
    return said


def _counted(tx: Tx, id: str) -> Collection:
    label = label_store.counted(tx, id)
    assert label is not None
    return _view(label)


def _view(label: CountedLabel) -> Collection:
    return Collection(
        id=label.id,
        name=label.name,
        items=label.items,
        created_at=clock.rfc3339(label.created_at),
    )
