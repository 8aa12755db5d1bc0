"""oEmbed: another program asks how to show a share link on its own page. https://oembed.com"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from rushes import errors
from rushes.settings import Settings
from rushes.web import auth, cards, shared_link
from rushes.web.http import addresses, problems
from rushes.web.http.problems import documented
from rushes.web.services import Here

router = APIRouter(
    tags=["playback"], dependencies=[auth.Public], responses=documented(401, 404, 410, 422, 501)
)

LINK = re.compile(r"/(?:s|embed)/([A-Za-z0-9_-]{1,100})/?")
Side = Annotated[int | None, Query(ge=1, le=100_000)]


class OEmbed(BaseModel):
    """As the specification has it: `rich` is a player without a picture."""

    type: Literal["video", "rich"]
    version: Literal["1.0"] = "1.0"
    title: str
    provider_name: str = cards.SITE
    provider_url: str
    cache_age: int = cards.CACHE_SECONDS
    html: str
    width: int
    height: int
    thumbnail_url: str | None = None
    thumbnail_width: int | None = None
    thumbnail_height: int | None = None


@router.get("/oembed", response_model=OEmbed, response_model_exclude_none=True)
def oembed(
    request: Request,
    services: Here,
    url: Annotated[str, Query(max_length=2000, description="Of a share link.")],
    format: Annotated[str, Query(max_length=20, description="json; there is no other.")] = "json",
    maxwidth: Side = None,
    maxheight: Side = None,
) -> OEmbed | Response:
    """The player of a share link, in a frame. 404 for what is no link of this server's, 401 for one
    that has a password."""
    if format != "json":
        said = "only JSON is spoken here: ask with format=json"
        return problems.answer(request, 501, "not_implemented", said)
    # Without the cookie of whoever asks: the answer is for others.
    shown = shared_link.found(services, _token(services.settings, url))
    if shown.link.terms.password_hash is not None:
        raise errors.LinkLocked("this link needs a password, so it is not shown elsewhere")
    with services.db.read() as tx:
        card = cards.Card(services.base_url, shown.link.token, shown.media(tx))
    frame = card.frame(maxwidth, maxheight)
    width, height = card.thumbnail_size() or (None, None)
    return OEmbed(
        type="rich" if shown.item.kind == "audio" else "video",
        title=shown.item.title,
        provider_url=services.base_url,
        html=frame.html,
        width=frame.width,
        height=frame.height,
        thumbnail_url=card.image_url if width else None,
        thumbnail_width=width,
        thumbnail_height=height,
    )


def _token(settings: Settings, url: str) -> str:
    """Of a link of this server's, whichever of its addresses it has."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    match = LINK.fullmatch(parts.path)
    if match is None or not addresses.is_own(settings, f"{parts.scheme}://{parts.netloc}"):
        raise errors.NotFound("this is no share link of this server")
    return match[1]
