"""Watching: the files of a media's current version, for its owner and for whoever has its link."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from rushes import errors
from rushes.media import library
from rushes.media import store as media_store
from rushes.media.media import Media
from rushes.web import auth, models, ranges, views
from rushes.web.problems import documented
from rushes.web.site import Here, Site

router = APIRouter(tags=["playback"], responses=documented(401, 404, 416, 422))
shared = APIRouter(prefix="/s/{token}", tags=["playback"], responses=documented(404, 416, 422))

MediaId = Annotated[str, Path(max_length=100)]
Name = Annotated[str, Path(max_length=300)]
Token = Annotated[str, Path(max_length=100)]
# Playlists name what is current; all else never changes under its address within a version.
FRESH, FOREVER = "no-cache", "private, max-age=31536000, immutable"
# A page that a browser would run must never come from here.
SANDBOX = {"Content-Security-Policy": "sandbox; default-src 'none'"}
ASIDE = ("thumbnail.jpg", "storyboard.vtt", "captions.vtt")
FILE: dict[str, Any] = {
    "response_class": Response,
    "responses": {200: {"content": {"application/octet-stream": {}}}, 206: {"description": "Part"}},
}


@router.api_route("/media/{media_id}/stream/{name:path}", methods=["GET", "HEAD"], **FILE)
def stream(request: Request, media_id: MediaId, name: Name, who: auth.User, site: Here) -> Response:
    """A file of the current version, with ranges."""
    with site.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    return _send(request, site, item, name)


@router.api_route("/media/{media_id}/source", methods=["GET", "HEAD"], **FILE)
def source(request: Request, media_id: MediaId, who: auth.User, site: Here) -> Response:
    """The file as it was uploaded."""
    with site.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    if item.source_key is None:
        raise errors.NotFound("this media has no source")
    return ranges.from_storage(
        request,
        site.storage,
        item.source_key,
        item.size_bytes,
        etag=item.sha256,
        headers={**SANDBOX, "Content-Disposition": ranges.attachment(item.file_name or item.slug)},
    )


def _add_aside(name: str) -> None:
    @router.api_route(f"/media/{{media_id}}/{name}", methods=["GET", "HEAD"], **FILE)
    def aside(request: Request, media_id: MediaId, who: auth.User, site: Here) -> Response:
        with site.db.read() as tx:
            item = library.found(tx, media_id, who.sees)
        return _send(request, site, item, name)

    @shared.api_route(f"/{name}", methods=["GET", "HEAD"], dependencies=[auth.Public], **FILE)
    def shared_aside(request: Request, token: Token, site: Here) -> Response:
        return _send(request, site, _by_token(site, token), name)


for each in ASIDE:
    _add_aside(each)


@shared.api_route(
    "/stream/{name:path}", methods=["GET", "HEAD"], dependencies=[auth.Public], **FILE
)
def shared_stream(request: Request, token: Token, name: Name, site: Here) -> Response:
    """The same without signing in, by a share link."""
    return _send(request, site, _by_token(site, token), name)


@shared.get("/media", dependencies=[auth.Public])
def shared_media(token: Token, site: Here) -> models.SharedMedia:
    """What a share page shows: this item, and nothing else of its owner's."""
    item = _by_token(site, token)
    version = item.current_version_id
    with site.db.read() as tx:
        names = [views.MASTER, views.THUMBNAIL]
        files = media_store.well_known(tx, [version], names) if version else set()
    found = {name for _, name in files}
    return models.SharedMedia(
        title=item.title,
        kind=item.kind,
        status=item.status,
        duration=item.duration,
        **views.urls(found, f"/s/{token}"),
    )


def _by_token(site: Site, token: str) -> Media:
    with site.db.read() as tx:
        item = media_store.by_share_token(tx, token)
    if item is None:
        raise errors.NotFound("this link does not work any more")
    return item


def _send(request: Request, site: Site, item: Media, name: str) -> Response:
    if item.current_version_id is None:
        raise errors.NotFound("there is nothing to watch yet")
    artifact = _artifact(site, item.current_version_id, name)
    cache = FRESH if name.endswith((".m3u8", ".mpd", ".vtt")) else FOREVER
    return ranges.from_storage(
        request,
        site.storage,
        artifact["key"],
        artifact["size_bytes"],
        content_type=artifact["content_type"],
        etag=artifact["sha256"],
        headers={**SANDBOX, "Cache-Control": cache},
    )


def _artifact(site: Site, version_id: str, name: str) -> dict[str, Any]:
    """Versions never change, so their rows are remembered."""
    found = _remembered(site.db, version_id, name)
    if found is None:
        raise errors.NotFound("no such file")
    return found


@lru_cache(maxsize=20_000)
def _remembered(db: Any, version_id: str, name: str) -> dict[str, Any] | None:
    with db.read() as tx:
        return media_store.artifact(tx, version_id, name)
