"""Watching: the files of a media's current version, for its owner and for whoever has its link.

A file that names others is found by a redirect to an address with the version in it, so that a
player that has begun with one version gets no file of another, whatever is published meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from rushes import errors
from rushes.db.database import Database
from rushes.media import library, media
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
# What an address with a version names never changes; any other names what is current.
VERSIONED = re.compile(r"(ver_[A-Za-z0-9_]+)/(.+)")
NAMES_OTHERS = (".m3u8", ".mpd", "storyboard.vtt")
FRESH, FOREVER = "no-cache", "private, max-age=31536000, immutable"
# A page that a browser would run must never come from here.
SANDBOX = {"Content-Security-Policy": "sandbox; default-src 'none'"}
ASIDE = ("thumbnail.jpg", "storyboard.vtt", "captions.vtt")
BINARY = {"schema": {"type": "string", "format": "binary"}}


def _files(
    to: APIRouter, path: str, *types: str, **options: Any
) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """Adds a route to files of these types, whole or in part."""
    content = {each.partition(";")[0]: BINARY for each in types}
    responses: dict[int | str, dict[str, Any]] = {
        200: {"content": content},
        206: {"content": content, "description": "Part of it"},
        304: {"description": "It is the one you have"},
        307: {"description": "It is there, in the current version"},
    }

    def add(answer: Callable[..., Response]) -> Callable[..., Response]:
        to.head(path, include_in_schema=False, **options)(answer)
        return to.get(path, response_class=Response, responses=responses, **options)(answer)

    return add


@_files(router, "/media/{media_id}/stream/{name:path}", *media.CONTENT_TYPES.values())
def stream(request: Request, media_id: MediaId, name: Name, who: auth.User, site: Here) -> Response:
    """A file of the current version, with ranges."""
    with site.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    return _send(request, site, item, name)


@_files(router, "/media/{media_id}/source", "application/octet-stream")
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
    type = media.check_artifact_name(name)

    @_files(router, f"/media/{{media_id}}/{name}", type)
    def aside(request: Request, media_id: MediaId, who: auth.User, site: Here) -> Response:
        with site.db.read() as tx:
            item = library.found(tx, media_id, who.sees)
        return _send(request, site, item, name, beside="stream/")

    @_files(shared, f"/{name}", type, dependencies=[auth.Public])
    def shared_aside(request: Request, token: Token, site: Here) -> Response:
        return _send(request, site, _by_token(site, token), name, beside="stream/")


for each in ASIDE:
    _add_aside(each)


@_files(shared, "/stream/{name:path}", *media.CONTENT_TYPES.values(), dependencies=[auth.Public])
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


def _send(request: Request, site: Site, item: Media, name: str, *, beside: str = "") -> Response:
    """`beside`: where the versions' addresses begin, seen from this one."""
    if match := VERSIONED.fullmatch(name):
        artifact = _published(site.db, item.id, match[1], match[2])
        return _file(request, site, artifact, FOREVER)
    if item.current_version_id is None:
        raise errors.NotFound("there is nothing to watch yet")
    artifact = _published(site.db, item.id, item.current_version_id, name)
    if name.endswith(NAMES_OTHERS):
        # Relative, because the same address may be seen under another prefix.
        there = f"{'../' * name.count('/')}{beside}{item.current_version_id}/{name}"
        return RedirectResponse(there, 307, headers={"Cache-Control": FRESH})
    return _file(request, site, artifact, FRESH)


def _file(request: Request, site: Site, artifact: dict[str, Any], cache: str) -> Response:
    return ranges.from_storage(
        request,
        site.storage,
        artifact["key"],
        artifact["size_bytes"],
        content_type=artifact["content_type"],
        etag=artifact["sha256"],
        headers={**SANDBOX, "Cache-Control": cache},
    )


@lru_cache(maxsize=20_000)
def _published(db: Database, media_id: str, version_id: str, name: str) -> dict[str, Any]:
    """Published versions never change, so what is found is remembered; what is not raises."""
    with db.read() as tx:
        found = media_store.published_artifact(tx, media_id, version_id, name)
    if found is None:
        raise errors.NotFound("no such file")
    return found
