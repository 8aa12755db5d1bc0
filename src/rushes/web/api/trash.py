"""The trash: how much is in it, taking things back, and deleting many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rushes import errors
from rushes.accounts.account import Principal
from rushes.db.database import Tx
from rushes.media import list_store, trash, trash_store
from rushes.media.media import Status, TranscriptStatus
from rushes.web import auth, models, views
from rushes.web.api.media import Everyone, MediaId, put_in_trash
from rushes.web.http import idempotency
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here, Services

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 422))

LIMIT = 10_000
# So many in one transaction: others who write wait no longer than for these.
BATCH = 50

Verb = Literal["delete", "restore", "purge"]


class Trash(BaseModel):
    """Yours; of what an admin deletes of somebody else's, that user's."""

    items: int
    size_bytes: int = Field(description="Of the sources and all that was made of them.")
    period_seconds: float = Field(description="How long what is deleted can be restored.")


class Chosen(Body):
    """Which media; what is left out does not matter."""

    ids: list[Annotated[str, Field(max_length=100)]] | None = Field(None, max_length=1000)
    status: Status | None = None
    transcript: TranscriptStatus | None = None
    kind: Literal["video", "audio"] | None = None
    q: str | None = Field(None, max_length=200, description="Part of the title.")
    everyone: bool = Field(False, description="For admins: also what is in the trash of others.")


class MediaAction(Body):
    action: Verb = Field(description="`purge` is for good, and only for what is in the trash.")
    filter: Chosen
    dry_run: bool = Field(False, description="Only say how many it would be.")


class MediaActionDone(BaseModel):
    matched: int
    changed: int
    dry_run: bool
    ids: list[str] = Field(description="The media that were changed.")


@router.get("/trash")
def summary(who: auth.User, services: Here, everyone: Everyone = False) -> Trash:
    """How much is in your trash."""
    with services.db.read() as tx:
        found = trash_store.summary(tx, who.sees if everyone else who.user_id)
    period = services.settings.trash_period
    return Trash(items=found.items, size_bytes=found.size_bytes, period_seconds=period)


@router.post("/actions")
def act(body: MediaAction, who: auth.User, services: Here) -> MediaActionDone:
    """Delete, restore or purge all media that a filter finds, up to 10,000 at a time. Without ids
    or `everyone`, restoring and purging reach only your own trash. Repeating it is harmless."""
    with services.db.read() as tx:
        ids = list_store.matching(tx, _wanted(body, who), ids=body.filter.ids, limit=LIMIT)
    if body.dry_run:
        return MediaActionDone(matched=len(ids), changed=0, dry_run=True, ids=[])
    changed: list[str] = []
    for first in range(0, len(ids), BATCH):
        changed += _change(services, body.action, ids[first : first + BATCH])
    return MediaActionDone(matched=len(ids), changed=len(changed), dry_run=False, ids=changed)


def _wanted(body: MediaAction, who: Principal) -> list_store.MediaFilter:
    chosen, deletes = body.filter, body.action == "delete"
    if deletes and chosen.status is Status.TRASHED:
        raise errors.BadField("status", "what is in the trash is deleted already: purge it")
    if not deletes and chosen.status not in (None, Status.TRASHED):
        raise errors.BadField("status", f"only what is trashed can be {body.action}d")
    return list_store.MediaFilter(
        user_id=who.sees if deletes or chosen.everyone or chosen.ids else who.user_id,
        status=chosen.status if deletes else Status.TRASHED,
        transcript=chosen.transcript,
        kind=chosen.kind,
        q=chosen.q,
    )


def _change(services: Services, action: Verb, ids: Sequence[str]) -> list[str]:
    def run(tx: Tx) -> list[str]:
        match action:
            case "delete":
                return put_in_trash(tx, services, ids)
            case "restore":
                return trash.take_back(tx, services.queue, ids)
            case "purge":
                return trash.give_up(tx, ids)

    return services.db.run(run)


@router.post("/{media_id}/restore", responses=documented(404, 409))
def restore(
    media_id: MediaId, who: auth.User, services: Here, once: idempotency.Once
) -> models.Media:
    """Out of the trash, as it was; the work that deleting has stopped goes on. Its share link stays
    dead: share it again if you want to."""

    def take_back(tx: Tx) -> models.Media:
        return views.media(services, tx, trash.restore(tx, services.queue, media_id, who.sees))

    return once.run(services, who, None, models.Media, take_back)
