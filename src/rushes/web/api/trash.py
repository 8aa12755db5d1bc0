"""The trash: how much is in it, and taking things back."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rushes.db.database import Tx
from rushes.media import trash, trash_store
from rushes.web import auth, models, views
from rushes.web.api.media import Everyone, MediaId
from rushes.web.http import idempotency
from rushes.web.http.problems import documented
from rushes.web.services import Here

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 422))


class Trash(BaseModel):
    """Yours; of what an admin deletes of somebody else's, that user's."""

    items: int
    size_bytes: int = Field(description="Of the sources and all that was made of them.")
    period_seconds: float = Field(description="How long what is deleted can be restored.")


@router.get("/trash")
def summary(who: auth.User, services: Here, everyone: Everyone = False) -> Trash:
    """How much is in your trash."""
    with services.db.read() as tx:
        found = trash_store.summary(tx, who.sees if everyone else who.user_id)
    period = services.settings.trash_period
    return Trash(items=found.items, size_bytes=found.size_bytes, period_seconds=period)


@router.post("/{media_id}/restore", responses=documented(404, 409))
def restore(
    media_id: MediaId, who: auth.User, services: Here, once: idempotency.Once
) -> models.Media:
    """Out of the trash, as it was; the work that deleting has stopped goes on. Its share link stays
    dead: share it again if you want to."""

    def take_back(tx: Tx) -> models.Media:
        return views.media(services, tx, trash.restore(tx, services.queue, media_id, who.sees))

    return once.run(services, who, None, models.Media, take_back)
