"""The pages: one application for the browser, served for every address it knows.

It is built from `ui/` when the package is installed. The few words that must be there before it
runs are a share link's title and its preview card, so that whoever passes the link on shows what it
is. Of a link that has a password or has ended, they tell nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from rushes import errors
from rushes.web import auth, shared_link
from rushes.web.cards import NOT_INDEXED, Card
from rushes.web.http.problems import status_of
from rushes.web.services import Here, Services

router = APIRouter(include_in_schema=False, dependencies=[auth.Public])

BUILT = FilePath(__file__).parent / "static"
TITLE = "<title>Rushes</title>"
NOT_BUILT = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    f"{TITLE}</head><body><h1>The pages are not built</h1>"
    "<p>Install the package again with Node 20.19 or later, or with access to PyPI.</p>"
    "<p>The API and the command line work without them.</p></body></html>"
)
# Addresses that the application knows how to show.
KNOWN = (
    "/",
    "/watch/{id}",
    "/trash",
    "/queue",
    "/queue/{id}",
    "/workers",
    "/settings",
    "/settings/{section}",
    "/welcome",
    "/docs",
)
FRESH, FOREVER = "no-cache", "public, max-age=31536000, immutable"
UNTOLD = TITLE + NOT_INDEXED
# Not every machine knows it.
TYPES = {".woff2": "font/woff2"}
# Smaller ones gain nothing.
COMPRESSED_FROM_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    compressed: bytes | None
    etag: str
    content_type: str


def _page(path: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """A page, also for those who only ask whether it is there."""

    def add(answer: Callable[..., Response]) -> Callable[..., Response]:
        router.head(path)(answer)
        return router.get(path, response_class=HTMLResponse)(answer)

    return add


def _application() -> HTMLResponse:
    return _html(200)


for path in KNOWN:
    _page(path)(_application)


def missing() -> HTMLResponse:
    """The application says that there is nothing at this address."""
    return _html(404)


@_page("/sign-in")
def sign_in(token: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """Looking at a one-time link does not use it up: programs that preview links do so, and
    another site could sign people in as somebody else. The page has a button, which posts it."""
    return _html(200)


@_page("/s/{token}")
def share(request: Request, token: shared_link.Token, services: Here) -> Response:
    may_be_framed = bool(services.settings.embed_origins)
    return _shared(request, services, token, lambda card: card.head(may_be_framed=may_be_framed))


@_page("/embed/{token}")
def embed(request: Request, token: shared_link.Token, services: Here) -> Response:
    """The player alone. Which sites may frame it is said by its security policy (`guard`)."""
    return _shared(request, services, token, Card.plain_head, "embed.html")


def _shared(
    request: Request,
    services: Services,
    token: str,
    head: Callable[[Card], str],
    file: str = "index.html",
) -> Response:
    """The page says what is wrong with a link, and asks for its password."""
    try:
        shown = shared_link.opened(request, token, services)
    except errors.LinkLocked:
        return _html(200, UNTOLD, file)
    except errors.NotFound as error:
        return _html(status_of(error), UNTOLD, file)
    with services.db.read() as tx:
        found = shown.media(tx)
    return _html(200, head(Card(services.base_url, token, found)), file)


@router.head("/assets/{name}")
@router.get("/assets/{name}")
def asset(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """Named by what is in it, so it never changes."""
    return _file(request, f"assets/{name}", FOREVER)


@router.head("/favicon.svg")
@router.get("/favicon.svg")
def icon(request: Request) -> Response:
    return _file(request, "favicon.svg", FRESH)


@router.head("/theme.js")
@router.get("/theme.js")
def theme(request: Request) -> Response:
    return _file(request, "theme.js", FRESH)


def _html(status: int, head: str = TITLE, file: str = "index.html") -> HTMLResponse:
    """`head`: with the title."""
    return HTMLResponse(_built(file).replace(TITLE, head, 1), status)


@lru_cache(maxsize=2)
def _built(file: str) -> str:
    page = BUILT / file
    return page.read_text() if page.exists() else NOT_BUILT


def _file(request: Request, name: str, cache: str) -> Response:
    file = _files().get(name)
    if file is None:
        raise errors.NotFound("no such file")
    return sent(request, _asset(file), cache)


def sent(request: Request, found: Asset, cache: str) -> Response:
    """Small enough for the line, and not at all to who has it."""
    headers = {"Cache-Control": cache, "ETag": found.etag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    body = found.body
    if found.compressed and "gzip" in request.headers.get("accept-encoding", ""):
        body = found.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=found.content_type, headers=headers)


@lru_cache(maxsize=1)
def _files() -> dict[str, FilePath]:
    """All there are: a name from outside never becomes a path."""
    found = (each for each in BUILT.rglob("*") if each.is_file())
    return {each.relative_to(BUILT).as_posix(): each for each in found}


@lru_cache(maxsize=1_000)
def _asset(file: FilePath) -> Asset:
    known = TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0]
    content_type = known or "application/octet-stream"
    return asset_of(file.read_bytes(), content_type)


def asset_of(body: bytes, content_type: str) -> Asset:
    smaller = gzip.compress(body, 9, mtime=0) if len(body) >= COMPRESSED_FROM_BYTES else None
    return Asset(
        body=body,
        # Fonts are compressed already.
        compressed=smaller if smaller and len(smaller) < 0.95 * len(body) else None,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        content_type=content_type,
    )
