"""Who may see what a share link shows: the one place that everything below `/s/{token}` passes.

A password is shown once; what comes back is a cookie for this link alone. It is signed with the
password's own hash, so that all servers know it and a new password ends it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Path, Request, Response

from rushes import errors
from rushes.db.database import Tx
from rushes.media import clips, share_store
from rushes.media import store as media_store
from rushes.media.clips import Part
from rushes.media.media import Media
from rushes.media.share_store import ShareLink
from rushes.web import auth, models, views
from rushes.web.services import Here, Services

COOKIE = "rushes_share"
UNLOCKED_MS = 12 * 3_600_000
# For how long whoever has watched something by a link that ends, or has a password, keeps it.
GUARDED_SECONDS = 300

Token = Annotated[str, Path(max_length=100)]


@dataclass(frozen=True, slots=True)
class Keeping:
    """What caches are told: of what never changes, and of what may."""

    final: str
    fresh: str = "no-cache"


# Browsers have seen it and may keep it; what stands between asks again after an hour, so that a
# link that was taken back is dead there, too. See docs/sharing.md.
BY_ANYBODY = Keeping("public, max-age=31536000, s-maxage=3600, immutable")


@dataclass(frozen=True, slots=True)
class Opened:
    """A link that may be used by whoever asks, and what it shows: all of it, or a part. Both then
    have the part's own token: whoever has it must not find out the one that shows all."""

    link: ShareLink
    item: Media
    part: Part | None = None

    def media(self, tx: Tx) -> models.SharedMedia:
        return views.shared_media(
            tx, self.item, downloads=self.link.terms.allow_download, part=self.part
        )

    def check_download(self) -> None:
        if not self.link.terms.allow_download:
            raise errors.Denied("this link does not allow downloads")

    @property
    def keeping(self) -> Keeping:
        if self.link.is_open:
            return BY_ANYBODY
        ends = self.link.terms.expires_at
        left = GUARDED_SECONDS if ends is None else (ends - self.link.now) // 1000
        return Keeping(f"private, max-age={min(left, GUARDED_SECONDS)}", "private, no-cache")


def found(services: Services, token: str) -> Opened:
    """Also one that has a password. NotFound, or LinkExpired."""
    with services.db.read() as tx:
        shown = _part(tx, token) or _whole(tx, token)
    if shown is None:
        raise errors.NotFound("this link does not work any more")
    if shown.link.is_expired:
        raise errors.LinkExpired("this link has expired: ask whoever sent it for a new one")
    return shown


def _whole(tx: Tx, token: str) -> Opened | None:
    item = media_store.by_share_token(tx, token)
    link = share_store.get(tx, item.id) if item else None
    return Opened(link, item) if item and link and link.token == token else None


def _part(tx: Tx, token: str) -> Opened | None:
    """Its terms are those of the whole, but there is no file of a part to download."""
    named = clips.parse(token)
    link = share_store.get(tx, named[0]) if named else None
    whole = _whole(tx, link.token) if link else None
    if named is None or whole is None or not clips.is_right(token, whole.item, named[1]):
        return None
    terms = replace(whole.link.terms, allow_download=False)
    return Opened(
        replace(whole.link, token=token, terms=terms),
        replace(whole.item, share_token=token),
        named[1],
    )


def opened(request: Request, token: Token, services: Here) -> Opened:
    """As `found`; LinkLocked for whoever has not shown the password."""
    shown = found(services, token)
    is_locked = shown.link.terms.password_hash is not None
    if is_locked and not _is_unlocked(shown.link, request.cookies.get(COOKIE, "")):
        raise errors.LinkLocked(
            "this link needs a password: send it to /s/{token}/unlock, then ask again"
        )
    return shown


def opened_whole(shown: Annotated[Opened, Depends(opened)]) -> Opened:
    if shown.part is not None:
        raise errors.NotFound("this link shows a part of the recording alone")
    return shown


# For a router: no route below a link can be without one of them. Only what cuts may be of a part.
ONLY_OPENED = [auth.Public, Depends(opened_whole)]
ALSO_PARTS = [auth.Public, Depends(opened)]
Shown = Annotated[Opened, Depends(opened_whole)]
ShownOrPart = Annotated[Opened, Depends(opened)]


def unlock(services: Services, response: Response, link: ShareLink) -> None:
    """The browser keeps the grant, for this link's addresses."""
    response.set_cookie(
        COOKIE,
        _grant(link, link.now + UNLOCKED_MS),
        max_age=UNLOCKED_MS // 1000,
        httponly=True,
        samesite="lax",
        secure=services.is_https,
        path=f"/s/{link.token}",
    )


def _grant(link: ShareLink, until: int) -> str:
    key = (link.terms.password_hash or "").encode()
    signed = hmac.new(key, f"{link.token} {until}".encode(), hashlib.sha256)
    return f"{until}.{signed.hexdigest()}"


def _is_unlocked(link: ShareLink, cookie: str) -> bool:
    until = cookie.partition(".")[0]
    if not (until.isascii() and until.isdigit() and len(until) <= 15):
        return False
    right = hmac.compare_digest(cookie.encode(), _grant(link, int(until)).encode())
    return right and int(until) > link.now
