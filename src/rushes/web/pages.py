"""The pages: one application for the browser, served for every address it knows.

It is built from `ui/` when the package is installed. The few words that must be there before it
runs are a share link's title, so that whoever passes the link on shows what it is.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from rushes import errors
from rushes.web import auth
from rushes.web.api import playback
from rushes.web.services import Here

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
)
FRESH, FOREVER = "no-cache", "public, max-age=31536000, immutable"
# Smaller ones gain nothing.
COMPRESSED_FROM_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    compressed: bytes | None
    etag: str
    content_type: str


def _application() -> HTMLResponse:
    return _html(200)


for path in KNOWN:
    router.get(path, response_class=HTMLResponse)(_application)


def missing() -> HTMLResponse:
    """The application says that there is nothing at this address."""
    return _html(404)


@router.get("/sign-in", response_class=HTMLResponse)
def sign_in(token: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """Looking at a one-time link does not use it up: programs that preview links do so, and
    another site could sign people in as somebody else. The page has a button, which posts it."""
    return _html(200)


@router.get("/s/{token}", response_class=HTMLResponse)
def share(token: Annotated[str, Path(max_length=100)], services: Here) -> Response:
    try:
        return _html(200, playback.shared_media(token, services).title)
    except errors.NotFound:
        return _html(404)


@router.get("/assets/{name}")
def asset(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """Named by what is in it, so it never changes."""
    return _file(request, f"assets/{name}", FOREVER)


@router.get("/favicon.svg")
def icon(request: Request) -> Response:
    return _file(request, "favicon.svg", FRESH)


@router.get("/theme.js")
def theme(request: Request) -> Response:
    return _file(request, "theme.js", FRESH)


def _html(status: int, title: str | None = None) -> HTMLResponse:
    page = _index()
    if title is not None:
        page = page.replace(TITLE, f"<title>{escape(title)}</title>", 1)
    return HTMLResponse(page, status)


@lru_cache(maxsize=1)
def _index() -> str:
    index = BUILT / "index.html"
    return index.read_text() if index.exists() else NOT_BUILT


def _file(request: Request, name: str, cache: str) -> Response:
    file = _files().get(name)
    if file is None:
        raise errors.NotFound("no such file")
    found = _asset(file)
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
    body = file.read_bytes()
    smaller = gzip.compress(body, 9, mtime=0) if len(body) >= COMPRESSED_FROM_BYTES else None
    return Asset(
        body=body,
        compressed=smaller,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        content_type=mimetypes.guess_type(file.name)[0] or "application/octet-stream",
    )
