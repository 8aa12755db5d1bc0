"""The same for many media at once: delete and restore, tags and collections, links, new work.

They are changed a few at a time, each few together or not at all; what cannot be done with one of
them is told, and the others are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rushes import errors
from rushes.accounts import security_log
from rushes.accounts.account import Principal
from rushes.accounts.security_log import Action
from rushes.db.database import Tx
from rushes.jobs import read_store
from rushes.limits import refuse_beyond
from rushes.media import labels, library, list_store, requests, trash
from rushes.media.label_store import LabelKind
from rushes.media.labels import LabelChange
from rushes.media.media import Media, Status, TranscriptStatus
from rushes.media.pipeline import Cause, priority_for
from rushes.web import auth
from rushes.web.api.media import FromOrigin, Labels, put_in_trash
from rushes.web.http.problems import documented
from rushes.web.models import Body
from rushes.web.services import Here, Services

router = APIRouter(prefix="/media", tags=["media"], responses=documented(401, 422))

LIMIT = 10_000
# Of what makes a job or a link of each.
WORK_LIMIT = 1_000
# So many in one transaction: others who write wait no longer than for these.
BATCH = 50

Verb = Literal[
    "delete",
    "restore",
    "purge",
    "tag",
    "collect",
    "share",
    "unshare",
    "retranscode",
    "retranscribe",
]
IN_TRASH = ("restore", "purge")
LABELS: dict[str, LabelKind] = {"tag": "tag", "collect": "collection"}
WORK = ("retranscode", "retranscribe")
# What is wrong with one media, and not with the server.
OF_ONE = (errors.Invalid, errors.NotFound, errors.Conflict)


class Chosen(Body):
    """Which media; what is left out does not matter."""

    ids: list[Annotated[str, Field(max_length=100)]] | None = Field(None, max_length=1000)
    status: Status | None = None
    transcript: TranscriptStatus | None = None
    kind: Literal["video", "audio"] | None = None
    q: str | None = Field(None, max_length=200, description="Part of the title.")
    tag: str | None = Field(None, max_length=400)
    collection: str | None = Field(None, max_length=400, description="By id or name.")
    origin: FromOrigin | None = None
    everyone: bool = Field(False, description="For admins: also what is in the trash of others.")


class MediaAction(Body):
    action: Verb = Field(description="`purge` is for good, and only for what is in the trash.")
    filter: Chosen
    add: Labels = Field(
        [], description="For `tag`, the tags to add; for `collect`, collections by id or name."
    )
    remove: Labels = Field([], description="As `add`: those to take away.")
    dry_run: bool = Field(False, description="Only say how many it would be.")


class NotDone(BaseModel):
    """What could not be done with one of them, and why."""

    id: str
    code: str
    message: str


class MediaActionDone(BaseModel):
    matched: int
    changed: int
    dry_run: bool
    ids: list[str] = Field(description="The media that were changed.")
    failed: list[NotDone]
    share_urls: dict[str, str] = Field(description="For `share`: the links, by media.")


@router.post("/actions", responses=documented(404, 429))
def act(body: MediaAction, who: auth.User, services: Here) -> MediaActionDone:
    """For all media that a filter finds, up to 10,000 at a time; 1,000 where each gets a link or a
    job. Without ids or `everyone`, restoring and purging reach only your own trash. Repeating it is
    harmless."""
    _check(body)
    with services.db.read() as tx:
        wanted = _wanted(tx, body, who)
        ids = list_store.matching(tx, wanted, ids=body.filter.ids, limit=LIMIT)
        _check_number(tx, services, body, who, len(ids))
    done = MediaActionDone(
        matched=len(ids), changed=0, dry_run=body.dry_run, ids=[], failed=[], share_urls={}
    )
    if not body.dry_run:
        for first in range(0, len(ids), BATCH):
            _run(services, body, who, ids[first : first + BATCH], done)
    done.changed = len(done.ids)
    return done


def _check(body: MediaAction) -> None:
    kind = LABELS.get(body.action)
    if kind is None and (body.add or body.remove):
        raise errors.BadField("add", "goes with `tag` and `collect` alone")
    if kind is None:
        return
    if not body.add and not body.remove:
        raise errors.BadField("add", "say what to add or to remove")
    for each in (*body.add, *body.remove):
        if kind != "collection" or not labels.COLLECTION_ID.fullmatch(each):
            labels.check_name(kind, each, "add")


def _wanted(tx: Tx, body: MediaAction, who: Principal) -> list_store.MediaFilter:
    chosen, is_trash = body.filter, body.action in IN_TRASH
    if body.action == "delete" and chosen.status is Status.TRASHED:
        raise errors.BadField("status", "what is in the trash is deleted already: purge it")
    if not is_trash and chosen.status is Status.TRASHED:
        raise errors.BadField("status", "what is in the trash has to be restored first")
    if is_trash and chosen.status not in (None, Status.TRASHED):
        raise errors.BadField("status", f"only what is trashed can be {body.action}d")
    asked = labels.wanted(
        tx, sees=who.sees, user_id=who.user_id, tag=chosen.tag, collection=chosen.collection
    )
    return list_store.MediaFilter(
        user_id=who.sees if not is_trash or chosen.everyone or chosen.ids else who.user_id,
        status=Status.TRASHED if is_trash else chosen.status,
        transcript=chosen.transcript,
        kind=chosen.kind,
        q=chosen.q,
        labels=asked,
        origin=chosen.origin,
    )


def _check_number(
    tx: Tx, services: Services, body: MediaAction, who: Principal, count: int
) -> None:
    if body.action in (*WORK, "share") and count > WORK_LIMIT:
        raise errors.BadField(
            "filter", f"finds {count} media: {body.action} takes {WORK_LIMIT} at a time"
        )
    most = services.settings.user_jobs
    if body.action in WORK and most:
        waiting = read_store.waiting_of(tx, who.user_id, most)
        refuse_beyond(waiting + count, most, "jobs waiting")


def _run(
    services: Services, body: MediaAction, who: Principal, ids: Sequence[str], done: MediaActionDone
) -> None:
    """All of them, or each for itself when one of them stands in the way."""
    links: dict[str, str] = {}
    try:
        changed = services.db.run(lambda tx: _change(tx, services, body, who, ids, links))
    except OF_ONE as error:
        if len(ids) > 1:
            for id in ids:
                _run(services, body, who, [id], done)
        else:
            done.failed.append(NotDone(id=ids[0], code=error.code, message=error.message))
        return
    done.ids += changed
    done.share_urls |= links


def _change(
    tx: Tx,
    services: Services,
    body: MediaAction,
    who: Principal,
    ids: Sequence[str],
    links: dict[str, str],
) -> list[str]:
    match body.action:
        case "delete":
            return put_in_trash(tx, services, ids)
        case "restore":
            return trash.take_back(tx, services.queue, ids)
        case "purge":
            return trash.give_up(tx, ids)
        case "tag" | "collect":
            return _label(tx, body, who, ids)
        case "share":
            return [
                id for id in ids if _share(tx, services, library.found(tx, id, who.sees), links)
            ]
        case "unshare":
            return [id for id in ids if _unshare(tx, library.found(tx, id, who.sees))]
        case "retranscode" | "retranscribe":
            for id in ids:
                _work(tx, services, body.action, library.found(tx, id, who.sees))
            return list(ids)


def _label(tx: Tx, body: MediaAction, who: Principal, ids: Sequence[str]) -> list[str]:
    """Labels are those of the media's owner, whoever asks."""
    owners: dict[str, list[str]] = {}
    for id in ids:
        owners.setdefault(library.found(tx, id, who.sees).user_id, []).append(id)
    wanted = LabelChange(add=body.add, remove=body.remove)
    changed: list[str] = []
    for owner, theirs in owners.items():
        changed += labels.change(tx, LABELS[body.action], owner, theirs, wanted)
    return sorted(changed)


def _share(tx: Tx, services: Services, item: Media, links: dict[str, str]) -> bool:
    token = library.share(tx, item)
    links[item.id] = f"{services.base_url}/s/{token}"
    if item.share_token is None:
        security_log.record(tx, Action.SHARE_MADE, item.id)
    return item.share_token is None


def _unshare(tx: Tx, item: Media) -> bool:
    if item.share_token is None:
        return False
    library.unshare(tx, item)
    security_log.record(tx, Action.SHARE_REMOVED, item.id)
    return True


def _work(tx: Tx, services: Services, action: str, item: Media) -> None:
    priority = priority_for(Cause.BULK)
    if action == "retranscode":
        requests.retranscode(tx, services.queue, item, priority=priority)
    else:
        requests.transcribe(tx, services.queue, item, {}, anew=True, priority=priority)
