"""Share links: their owner makes, changes and ends them; others open them and are counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi import Body as InBody
from pydantic import AwareDatetime, BaseModel, Field, SecretStr

from rushes import clock, errors
from rushes.accounts import access, security_log, throttle
from rushes.accounts.account import Principal
from rushes.accounts.security_log import Action
from rushes.db.database import Tx
from rushes.media import clips, library, share_store
from rushes.media import store as media_store
from rushes.media.share_store import ShareLink, Terms
from rushes.web import auth, cards, shared_link, views
from rushes.web.api import playback
from rushes.web.api.media import MediaId, Seconds
from rushes.web.http import addresses, open_streams
from rushes.web.http.body_reader import run
from rushes.web.http.problems import documented
from rushes.web.models import Body, Time
from rushes.web.services import Here, Services

router = APIRouter(
    prefix="/media/{media_id}/share", tags=["media"], responses=documented(401, 404, 422)
)
# Only what comes before a link is open.
locked = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(404, 410, 422),
    dependencies=[auth.Public],
)
shared = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(401, 404, 410, 422),
    dependencies=shared_link.ALSO_PARTS,
)

LONGEST_SECONDS = 10 * 365 * 86_400.0
SHORTEST_SECONDS = 1.0


class ShareTerms(Body):
    """What is not said stays as it is."""

    expires_at: AwareDatetime | None = Field(
        None, description="When the link ends, at most ten years from now; null: never."
    )
    expires_in: float | None = Field(
        None,
        gt=0,
        le=LONGEST_SECONDS,
        allow_inf_nan=False,
        description="The same in seconds from now.",
    )
    password: SecretStr | None = Field(
        None, max_length=1000, description="6 to 128 characters; null: none. It is never shown."
    )
    allow_download: bool = Field(
        False, description="Whether the original and the transcript can be downloaded."
    )


class NewClip(Body):
    start: Seconds
    end: Seconds


class ClipLink(BaseModel):
    """It has the terms of the recording's own link, and ends with it."""

    share_url: str
    reach: Literal["anywhere", "network", "machine"] = Field(
        description="Who can open this address: anybody, only this network, only this machine."
    )
    embed_url: str = Field(description="The player alone, for a frame.")
    embed_html: str = Field(description="The frame.")
    start: float = Field(description="Where it begins: segments are shown whole, so a bit earlier.")
    end: float = Field(description="Where it ends, a bit later than was asked for.")


class Unlocking(Body):
    password: SecretStr = Field(max_length=1000)


class View(Body):
    visit: str = Field(
        pattern="^[A-Za-z0-9_-]{16,64}$",
        description="Made up by the page, the same for as long as it is open: counted once.",
    )


class ShareLinkInfo(BaseModel):
    share_url: str
    reach: Literal["anywhere", "network", "machine"] = Field(
        description="Who can open this address: anybody, only this network, only this machine."
    )
    embed_url: str = Field(description="The player alone, for a frame.")
    embed_html: str = Field(description="The frame.")
    expires_at: Time
    expired: bool
    has_password: bool
    allow_download: bool
    views: int = Field(description="Visits in which it was played, without the owner's.")
    last_viewed_at: Time


@router.post("", responses=documented(503))
async def share(
    media_id: MediaId,
    who: auth.User,
    services: Here,
    body: Annotated[ShareTerms | None, InBody()] = None,
) -> ShareLinkInfo:
    """A link that shows this item to whoever has it; the same one while it is shared, with what is
    said of it now."""
    hash = await _hashed(services, body)
    return await run(_share, services, media_id, who, body, hash)


def _share(
    services: Services, media_id: str, who: Principal, body: ShareTerms | None, hash: str | None
) -> ShareLinkInfo:
    def start(tx: Tx) -> ShareLinkInfo:
        item = library.found(tx, media_id, who.sees)
        media_store.lock_for_request(tx, item.id)
        item = library.found(tx, item.id, who.sees)
        is_new = item.share_token is None
        library.share(tx, item)
        link = _found(tx, item.id)
        terms = _changed(link, body, hash) if body else None
        if terms is not None:
            share_store.set_terms(tx, item.id, link.token, terms)
        if is_new:
            security_log.record(tx, Action.SHARE_MADE, item.id, **_told(terms or link.terms))
        elif terms is not None:
            _tell_change(tx, link, terms)
        return _info(services, tx, item.id)

    return services.db.run(start)


@router.post("/clips", responses=documented(409))
def share_part(media_id: MediaId, body: NewClip, who: auth.User, services: Here) -> ClipLink:
    """A link that shows a part of this item, and nothing of the rest. The item is shared by it: the
    link to all of it is made, too, and told to nobody."""
    if body.end - body.start < SHORTEST_SECONDS:
        raise errors.BadField("end", f"must be at least {SHORTEST_SECONDS:g} s after start")

    with services.db.read() as tx:
        seen = library.found(tx, media_id, who.sees)
    part = playback.whole_segments(services, seen, body.start, body.end)

    def start(tx: Tx) -> ClipLink:
        media_store.lock_for_request(tx, seen.id)
        item = library.found(tx, seen.id, who.sees)
        if item.edit != seen.edit:
            raise errors.Conflict("the recording was edited meanwhile: look at it, and share again")
        is_new = item.share_token is None
        shared = replace(item, share_token=library.share(tx, item))
        link = _found(tx, item.id)
        if is_new:
            security_log.record(tx, Action.SHARE_MADE, item.id, **_told(link.terms))
        token = clips.token(shared, part)
        shown = views.shared_media(tx, replace(shared, share_token=token), part=part)
        card = cards.Card(services.base_url, token, shown)
        return ClipLink(
            share_url=card.url,
            reach=addresses.reach(services.base_url),
            embed_url=card.embed_url,
            embed_html=card.frame().html,
            start=part.start / 1000,
            end=part.end / 1000,
        )

    return services.db.run(start)


@router.get("")
def show(media_id: MediaId, who: auth.User, services: Here) -> ShareLinkInfo:
    """404 if it is not shared."""
    with services.db.read() as tx:
        return _info(services, tx, library.found(tx, media_id, who.sees).id)


@router.patch("", responses=documented(503))
async def change(
    media_id: MediaId, body: ShareTerms, who: auth.User, services: Here
) -> ShareLinkInfo:
    """When it ends, its password, whether there are downloads. The address stays the same, and
    who has shown another password has to show the new one."""
    hash = await _hashed(services, body)
    return await run(_change, services, media_id, who, body, hash)


def _change(
    services: Services, media_id: str, who: Principal, body: ShareTerms, hash: str | None
) -> ShareLinkInfo:
    def change(tx: Tx) -> ShareLinkInfo:
        item = library.found(tx, media_id, who.sees)
        media_store.lock_for_request(tx, item.id)
        link = _found(tx, item.id)
        terms = _changed(link, body, hash)
        share_store.set_terms(tx, item.id, link.token, terms)
        _tell_change(tx, link, terms)
        return _info(services, tx, item.id)

    return services.db.run(change)


@router.delete("", status_code=204)
def unshare(media_id: MediaId, who: auth.User, services: Here) -> None:
    """The link stops working at once, and never works again."""

    def end(tx: Tx) -> None:
        item = library.found(tx, media_id, who.sees)
        if item.share_token is not None:
            library.unshare(tx, item)
            security_log.record(tx, Action.SHARE_REMOVED, item.id)

    services.db.run(end)


@locked.post("/unlock", status_code=204, responses=documented(401, 403, 429, 503))
async def unlock(
    token: shared_link.Token, body: Unlocking, request: Request, response: Response, services: Here
) -> None:
    """Show the password; sets a cookie that is good for this link alone."""
    auth.refuse_foreign(services, request)
    link = (await run(shared_link.found, services, token)).link
    kept = link.terms.password_hash
    if kept is None:
        return
    given, address = body.password.get_secret_value(), auth.address_of(request)

    def check() -> None:
        access.check_link_password(services.db, link.media_id, kept, given, address)

    await open_streams.at_the_door(services, request, check)
    shared_link.unlock(services, response, link)


@shared.post("/views", status_code=204)
def view(request: Request, body: View, shown: shared_link.ShownOrPart, services: Here) -> None:
    """Somebody has begun to watch. Once for each visit, and not for its owner's; views of a part
    are not counted."""
    if shown.part is not None or _is_owner(services, request, shown.item.user_id):
        return
    network = throttle.network_of(auth.address_of(request))
    if services.visits.is_new(shown.link.token, network, body.visit):
        link = shown.link
        services.db.run(lambda tx: share_store.count_view(tx, link.media_id, link.token))


def _is_owner(services: Services, request: Request, user_id: str) -> bool:
    cookie = request.cookies.get(auth.COOKIE)
    principal = access.by_session(services.db, cookie) if cookie else None
    return principal is not None and principal.user_id == user_id


async def _hashed(services: Services, body: ShareTerms | None) -> str | None:
    """Slow on purpose, so before the transaction."""
    if body is None or body.password is None:
        return None
    password = body.password.get_secret_value()
    return await services.passwords.run(lambda: access.hash_link_password(password))


def _found(tx: Tx, media_id: str) -> ShareLink:
    link = share_store.get(tx, media_id)
    if link is None:
        raise errors.NotFound("this media is not shared")
    return link


def _changed(link: ShareLink, body: ShareTerms, hash: str | None) -> Terms:
    said, terms = body.model_fields_set, link.terms
    if said & {"expires_at", "expires_in"}:
        terms = replace(terms, expires_at=_end(body, link.now))
    if "password" in said:
        terms = replace(terms, password_hash=hash)
    if "allow_download" in said:
        terms = replace(terms, allow_download=body.allow_download)
    return terms


def _end(body: ShareTerms, now: int) -> int | None:
    if body.expires_at is not None and body.expires_in is not None:
        raise errors.BadField("expires_in", "goes without expires_at: say one of them")
    if body.expires_in is not None:
        return now + int(body.expires_in * 1000)
    if body.expires_at is None:
        return None
    ends = int((body.expires_at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    if ends <= now:
        raise errors.BadField("expires_at", "is in the past: name a time that is yet to come")
    if ends > now + LONGEST_SECONDS * 1000:
        raise errors.BadField("expires_at", "is more than ten years away; null means never")
    return ends


def _tell_change(tx: Tx, before: ShareLink, terms: Terms) -> None:
    """Not when all is as it was; a password is another one whenever it is said."""
    if terms != before.terms:
        told = _told(terms)
        told["password_changed"] = before.terms.password_hash != terms.password_hash
        security_log.record(tx, Action.SHARE_CHANGED, before.media_id, **told)


def _told(terms: Terms) -> dict[str, Any]:
    return {
        "expires_at": clock.rfc3339(terms.expires_at),
        "has_password": terms.password_hash is not None,
        "allow_download": terms.allow_download,
    }


def _info(services: Services, tx: Tx, media_id: str) -> ShareLinkInfo:
    link, base = _found(tx, media_id), services.base_url
    card = cards.Card(base, link.token, views.shared_media(tx, library.found(tx, media_id, None)))
    return ShareLinkInfo(
        share_url=card.url,
        reach=addresses.reach(base),
        embed_url=card.embed_url,
        embed_html=card.frame().html,
        expires_at=clock.rfc3339(link.terms.expires_at),
        expired=link.is_expired,
        has_password=link.terms.password_hash is not None,
        allow_download=link.terms.allow_download,
        views=link.views,
        last_viewed_at=clock.rfc3339(link.last_viewed_at),
    )
