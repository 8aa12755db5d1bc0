"""The security log, for admins."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from rushes import clock
from rushes.accounts import security_store
from rushes.accounts.security_log import Action
from rushes.web import auth, models
from rushes.web.http.problems import documented
from rushes.web.models import Cursor, Limit
from rushes.web.services import Here

router = APIRouter(tags=["accounts"], responses=documented(401, 403, 422))


class SecurityEntry(BaseModel):
    id: str
    at: models.Time
    action: str = Field(description="Such as signin.failed; newer servers may tell more.")
    user_id: str | None = Field(description="Who did it, or whose account was tried.")
    user_name: str | None = Field(description="As it was then; null: the server, or a stranger.")
    subject: str = Field(description="What it is about, by name.")
    address: str | None = Field(description="Null for what the server did by itself.")
    request_id: str | None = Field(description="As in `X-Request-Id` of the answer.")
    detail: dict[str, Any]


@router.get("/security-log")
def security_log(
    who: auth.Admin,
    services: Here,
    action: Annotated[Action | None, Query(description="Only these.")] = None,
    user_id: Annotated[str | None, Query(max_length=100)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> models.Page[SecurityEntry]:
    """Sign-ins, failures, refusals, and changes of users, keys, tokens, workers, webhooks and
    shares; newest first."""
    with services.db.read() as tx:
        found = security_store.page(
            tx, type=action, user_id=user_id, before=cursor, limit=limit + 1
        )
    page = found[:limit]
    more = len(found) > limit
    return models.Page(
        items=[_entry(row) for row in page], next_cursor=page[-1].id if more else None
    )


def _entry(row: security_store.Entry) -> SecurityEntry:
    return SecurityEntry(
        id=row.id,
        at=clock.rfc3339(row.at),
        action=row.type,
        user_id=row.user_id,
        user_name=row.user_name,
        subject=row.subject,
        address=row.address,
        request_id=row.request_id,
        detail=msgspec.json.decode(row.detail),
    )
