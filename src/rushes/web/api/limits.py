"""How many jobs with something in common may run at once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from rushes import errors
from rushes.accounts import store as accounts
from rushes.db.database import Tx
from rushes.jobs import limit_store, limiting
from rushes.web import auth
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here

router = APIRouter(prefix="/limits", tags=["queue"], responses=documented(401, 403, 422))

MOST_LIMITS = 200
Key = Annotated[
    str,
    Path(
        max_length=100,
        description="Such as `user:*` (each user), `user:` and a name or an id, `kind:transcode`,"
        " `worker:` and a name, or a key that jobs name, such as `engine:openai`.",
    ),
]


class Limit(BaseModel):
    key: str
    most: int = Field(description="So many of these jobs may run at once.")
    running: int = Field(description="How many do; of a family such as `user:*`, of its busiest.")
    name: str | None = Field(None, description="Of the user that it is for.")


class Limits(BaseModel):
    items: list[Limit]
    next_cursor: None = None


class NewLimit(Body):
    most: int = Field(ge=1, le=limiting.MOST)


@router.get("")
def list_limits(who: auth.Admin, services: Here) -> Limits:
    with services.db.read() as tx:
        return Limits(items=[_shown(tx, each) for each in limit_store.all_limits(tx)])


@router.put("/{key}", responses=documented(404, 409))
def set_limit(key: Key, body: NewLimit, who: auth.Admin, services: Here) -> Limit:
    """From now on; what runs already goes on."""

    def change(tx: Tx) -> Limit:
        name = _meant(tx, key)
        limiting.check(name, body.most)
        known = {each.key for each in limit_store.all_limits(tx)}
        if name not in known and len(known) >= MOST_LIMITS:
            raise errors.WrongState(f"there are {MOST_LIMITS} limits: remove one first")
        limit_store.set_limit(tx, name, body.most)
        tx.wake_after_commit(services.bell.ring)
        [made] = [each for each in limit_store.all_limits(tx) if each.key == name]
        return _shown(tx, made)

    return services.db.run(change)


@router.delete("/{key}", status_code=204, responses=documented(404))
def remove_limit(key: Key, who: auth.Admin, services: Here) -> None:
    def remove(tx: Tx) -> None:
        if not limit_store.remove(tx, key) and not limit_store.remove(tx, _meant(tx, key)):
            raise errors.NotFound(f"no limit {key}")
        tx.wake_after_commit(services.bell.ring)

    services.db.run(remove)


def _meant(tx: Tx, key: str) -> str:
    """People call users by their names."""
    family, _, name = key.partition(":")
    if family != limiting.USER or name == limiting.ANY:
        return key
    found = accounts.get_user(tx, name) or accounts.user_by_name(tx, name)
    if found is None:
        raise errors.NotFound(f"no user {name}")
    return f"{limiting.USER}:{found.id}"


def _shown(tx: Tx, limit: limiting.Limit) -> Limit:
    family, _, name = limit.key.partition(":")
    user = accounts.get_user(tx, name) if family == limiting.USER else None
    told = user.name if user else None
    return Limit(key=limit.key, most=limit.most, running=limit.running, name=told)
