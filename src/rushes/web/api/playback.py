"""Watching: the files of a media's current version, for its owner and for whoever has its link.

A file that names others is found by a redirect to an address with the version in it, so that a
player that has begun with one version gets no file of another, whatever is published meanwhile.
While there is no current version, the one that is being made is shown as far as it has come: its
playlists are written when they are asked for, and nothing of it is to be kept without asking again.
Captions are no files at all: they and their place in the master playlist follow the transcript.
Where the storage sends files itself, playlists and texts still come from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from rushes import errors
from rushes.db.database import Database, Tx
from rushes.media import library, media
from rushes.media import store as media_store
from rushes.media.clips import Part
from rushes.media.media import Media
from rushes.playback import growing, parts
from rushes.playback import store as playback_store
from rushes.storage.storage import Storage
from rushes.tools import playlist
from rushes.web import auth, models, shared_link, views
from rushes.web.api import captioned
from rushes.web.http import ranges
from rushes.web.http.problems import documented
from rushes.web.services import Here, Services
from rushes.web.shared_link import Keeping, Shown, ShownOrPart

router = APIRouter(tags=["playback"], responses=documented(401, 404, 416, 422))
shared = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(401, 404, 410, 416, 422),
    dependencies=shared_link.ONLY_OPENED,
)
shared_parts = APIRouter(
    prefix="/s/{token}",
    tags=["playback"],
    responses=documented(401, 404, 410, 416, 422),
    dependencies=shared_link.ALSO_PARTS,
)

MediaId = Annotated[str, Path(max_length=100, description="Its id or its slug.")]
Name = Annotated[str, Path(max_length=300)]
# What an address with a version names never changes; any other names what is current.
VERSIONED = re.compile(r"(ver_[A-Za-z0-9_]+)/(.+)")
NAMES_OTHERS = (".m3u8", ".mpd", "storyboard.vtt")
BY_ITS_OWNER = Keeping("private, max-age=31536000, immutable")
# A page that a browser would run must never come from here.
SANDBOX = {"Content-Security-Policy": "sandbox; default-src 'none'"}
ASIDE = ("thumbnail.jpg", "storyboard.vtt")
CAPTIONS = (captioned.VTT, captioned.LIST)
WITH_CAPTIONS = (playlist.MASTER, playlist.MANIFEST)
# Nobody's master playlist is longer, so such a file is left as it is.
MASTER_LIMIT_BYTES = 2**20
NOTHING_YET = "there is nothing to watch yet"
OUTSIDE = "this link does not show that"
BINARY = {"schema": {"type": "string", "format": "binary"}}


def _files(
    to: APIRouter, path: str, *types: str, refusals: Sequence[int] = ()
) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """Adds a route to files of these types, whole or in part. `refusals`: those that the others of
    its router do not have."""
    content = {each.partition(";")[0]: BINARY for each in types}
    responses: dict[int | str, dict[str, Any]] = {
        200: {"content": content},
        206: {"content": content, "description": "Part of it"},
        304: {"description": "It is the one you have"},
        307: {"description": "It is there: in the version to watch, or at the storage"},
        **documented(*refusals),
    }

    def add(answer: Callable[..., Response]) -> Callable[..., Response]:
        to.head(path, include_in_schema=False)(answer)
        return to.get(path, response_class=Response, responses=responses)(answer)

    return add


@_files(router, "/media/{media_id}/stream/{name:path}", *media.CONTENT_TYPES.values())
def stream(
    request: Request, media_id: MediaId, name: Name, who: auth.User, services: Here
) -> Response:
    """A file of the current version, with ranges; before there is one, of the one being made."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    return _send(request, services, item, name, BY_ITS_OWNER)


@_files(router, "/media/{media_id}/source", "application/octet-stream")
def source(request: Request, media_id: MediaId, who: auth.User, services: Here) -> Response:
    """The file as it was uploaded."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    return _source(request, services, item, {})


@_files(shared, "/source", "application/octet-stream", refusals=[403])
def shared_source(request: Request, shown: Shown, services: Here) -> Response:
    """The file as it was uploaded, if the link allows it; not of a recording that was cut, since
    what was cut off is in it."""
    shown.check_download()
    if shown.item.edit.cuts:
        raise errors.NotFound("the original of a recording that was cut is not shared")
    return _source(request, services, shown.item, {"Cache-Control": shown.keeping.fresh})


def _source(
    request: Request, services: Services, item: Media, headers: Mapping[str, str]
) -> Response:
    if item.source_key is None:
        raise errors.NotFound("this media has no source")
    name = ranges.attachment(item.file_name or item.slug)
    return ranges.from_storage(
        request,
        services.storage,
        item.source_key,
        item.size_bytes,
        etag=item.sha256,
        headers={**SANDBOX, "Content-Disposition": name, **headers},
        links=services.links,
    )


def _add_aside(name: str) -> None:
    type = media.check_artifact_name(name)

    @_files(router, f"/media/{{media_id}}/{name}", type)
    def aside(request: Request, media_id: MediaId, who: auth.User, services: Here) -> Response:
        with services.db.read() as tx:
            item = library.found(tx, media_id, who.sees, or_trashed=name in views.SHOWN_IN_TRASH)
        return _send(request, services, item, name, BY_ITS_OWNER, beside="stream/")

    @_files(shared, f"/{name}", type)
    def shared_aside(request: Request, shown: Shown, services: Here) -> Response:
        return _send(request, services, shown.item, name, shown.keeping, beside="stream/")


for each in ASIDE:
    _add_aside(each)


@_files(router, f"/media/{{media_id}}/{captioned.VTT}", media.CONTENT_TYPES["vtt"])
def captions(request: Request, media_id: MediaId, who: auth.User, services: Here) -> Response:
    """What is said, from the transcript as it is now."""
    with services.db.read() as tx:
        item = library.found(tx, media_id, who.sees)
    return _captions(request, services, item, BY_ITS_OWNER)


@_files(shared, f"/{captioned.VTT}", media.CONTENT_TYPES["vtt"])
def shared_captions(request: Request, shown: Shown, services: Here) -> Response:
    return _captions(request, services, shown.item, shown.keeping)


def _captions(request: Request, services: Services, item: Media, keeping: Keeping) -> Response:
    found = _Found(captioned.written(services.db, item), is_final=False, suffix="vtt")
    return _answer(request, services, found, keeping)


@_files(shared_parts, "/stream/{name:path}", *media.CONTENT_TYPES.values())
def shared_stream(request: Request, name: Name, shown: ShownOrPart, services: Here) -> Response:
    """The same without signing in, by a share link; nothing that was cut out meanwhile, and by one
    to a part nothing that lies outside of it."""
    item = shown.item
    match = VERSIONED.fullmatch(name)
    if match and item.current_version_id not in (None, match[1]):
        # Whoever is watching goes on with what was only encoded anew.
        with services.db.read() as tx:
            if playback_store.edit_of(tx, match[1]) != item.edit:
                raise errors.NotFound("this version was replaced")
    if shown.part is not None:
        return _send_part(request, services, item, name, shown.part, shown.keeping)
    return _send(request, services, item, name, shown.keeping)


@shared_parts.get("/media")
@shared_parts.head("/media", include_in_schema=False)
def shared_media(shown: ShownOrPart, services: Here) -> models.SharedMedia:
    """What a share page shows: this item, and nothing else of its owner's."""
    with services.db.read() as tx:
        return shown.media(tx)


def _send_part(
    request: Request, services: Services, item: Media, name: str, part: Part, keeping: Keeping
) -> Response:
    """Playlists without the rest, and the segments that are left in them; no other file."""
    if item.current_version_id is None:
        raise errors.NotFound(NOTHING_YET)
    match = VERSIONED.fullmatch(name)
    if match is None:
        if name != playlist.MASTER:
            raise errors.NotFound(OUTSIDE)
        there = f"{item.current_version_id}/{name}"
        return RedirectResponse(there, 307, headers={"Cache-Control": keeping.fresh})
    folder, _, file = match[2].rpartition("/")
    if match[2] == playlist.MASTER:
        text = _master_of_parts(services, item, match[1])
        # Asked for again each time, so that a link that was taken back is dead.
        return _answer(request, services, _Found(text, is_final=False), keeping)
    found = _find_file(services, item, match[1], match[2])
    cut = cut_of(services.db, match[1], folder, part)
    if cut is not None and file == growing.PLAYLIST:
        return _answer(request, services, _Found(cut.playlist(), is_final=True), keeping)
    if cut is None or not cut.has(file):
        raise errors.NotFound(OUTSIDE)
    return _answer(request, services, found, keeping)


def _master_of_parts(services: Services, item: Media, version_id: str) -> str:
    found = _find_file(services, item, version_id, playlist.MASTER).content
    text = None
    if not isinstance(found, str) and found.size_bytes <= MASTER_LIMIT_BYTES:
        text = parts.master(_text(services.storage, found.key))
    if text is None:
        raise errors.NotFound("this recording cannot be shown in parts")
    return text


def whole_segments(services: Services, item: Media, start: float, end: float) -> Part:
    """The part that is shown when this one is wanted. Raises NotFound if none can be."""
    if item.current_version_id is None:
        raise errors.NotFound(NOTHING_YET)
    text = _master_of_parts(services, item, item.current_version_id)
    wanted = Part(round(start * 1000), round(end * 1000))
    cut = cut_of(services.db, item.current_version_id, parts.folders(text)[0], wanted)
    if cut is None:
        raise errors.NotFound("there is nothing to watch between these times")
    return Part(round(cut.start * 1000), round(cut.end * 1000))


@lru_cache(maxsize=1_000)
def cut_of(db: Database, version_id: str, folder: str, part: Part) -> parts.Cut | None:
    """Of a published version, which never changes."""
    if folder == growing.ORIGINAL:
        return None
    with db.read() as tx:
        seconds = playback_store.seconds_of(tx, version_id, folder)
    return parts.cut(seconds, part.start / 1000, part.end / 1000)


@dataclass(frozen=True, slots=True)
class _Found:
    """An artifact, or the text of a file that is written when it is asked for."""

    content: media.StoredFile | str
    is_final: bool
    suffix: str = "m3u8"


def _send(
    request: Request,
    services: Services,
    item: Media,
    name: str,
    keeping: Keeping,
    *,
    beside: str = "",
) -> Response:
    """`beside`: where the versions' addresses begin, seen from this one."""
    if match := VERSIONED.fullmatch(name):
        found = _find(services, item, match[1], match[2])
        return _answer(request, services, found, keeping)
    version_id = item.current_version_id or _building(services, item)
    found = _find(services, item, version_id, name)
    if name.endswith(NAMES_OTHERS):
        # Relative, because the same address may be seen under another prefix.
        there = f"{'../' * name.count('/')}{beside}{version_id}/{name}"
        return RedirectResponse(there, 307, headers={"Cache-Control": keeping.fresh})
    return _answer(request, services, replace(found, is_final=False), keeping)


def _building(services: Services, item: Media) -> str:
    with services.db.read() as tx:
        found = playback_store.building(tx, [item.id])
    if item.id not in found:
        raise errors.NotFound(NOTHING_YET)
    return found[item.id].version_id


def _find(services: Services, item: Media, version_id: str, name: str) -> _Found:
    if name in CAPTIONS:
        return _find_captions(services, item, version_id, name)
    found = _find_file(services, item, version_id, name)
    return _captioned(services, item, version_id, found, name) if name in WITH_CAPTIONS else found


def _find_captions(services: Services, item: Media, version_id: str, name: str) -> _Found:
    if not _is_shown(services, item, version_id):
        raise errors.NotFound("no such file")
    if name == captioned.LIST:
        return _Found(captioned.listed(services.db, item), is_final=False)
    return _Found(captioned.written(services.db, item, hls=True), is_final=False, suffix="vtt")


def _is_shown(services: Services, item: Media, version_id: str) -> bool:
    """What is said belongs to what is shown now; another version may have been cut elsewhere."""
    return version_id == (item.current_version_id or _building(services, item))


def _captioned(
    services: Services, item: Media, version_id: str, found: _Found, name: str
) -> _Found:
    """There may be captions the next time, if there are none now."""
    content = found.content
    is_odd = not isinstance(content, str) and content.size_bytes > MASTER_LIMIT_BYTES
    if is_odd or item.current_version_id not in (None, version_id):
        return found
    language = captioned.language(services.db, item)
    if language is not None:
        text = content if isinstance(content, str) else _text(services.storage, content.key)
        if name == playlist.MANIFEST:
            content = playlist.manifest_with_captions(text, captioned.VTT, language)
        else:
            content = playlist.with_captions(text, captioned.LIST, language)
    return replace(found, content=content, is_final=False, suffix=name.rpartition(".")[2])


@lru_cache(maxsize=1_000)
def _text(storage: Storage, key: str) -> str:
    """Of an artifact, which never changes."""
    return b"".join(storage.read(key)).decode(errors="replace")


def _find_file(services: Services, item: Media, version_id: str, name: str) -> _Found:
    if item.current_version_id is None:
        content = _growing(services, item, version_id, name)
        if content is not None:
            return _Found(content, is_final=False)
    # It may have been published since the media was looked at.
    row = _published(services.db, item.id, version_id, name)
    if row.retired_at is not None:
        # It may be gone any time, so what is remembered of it does not count.
        row = _published.__wrapped__(services.db, item.id, version_id, name)
    return _Found(row, is_final=True)


def _growing(
    services: Services, item: Media, version_id: str, name: str
) -> media.StoredFile | str | None:
    """Of the version that is being made; None for any other, and for a file that is not there."""
    with services.db.read() as tx:
        building = playback_store.building(tx, [item.id]).get(item.id)
        if building is None or building.version_id != version_id:
            return None
        # A rendition that is whole has its own playlist before the others have theirs.
        if name != growing.MASTER and (row := media_store.artifact(tx, version_id, name)):
            return row
        if not name.endswith(".m3u8"):
            return None
        text = _playlist(tx, building, name)
    if text is None:
        raise errors.NotFound(NOTHING_YET)
    return text


def _playlist(tx: Tx, building: growing.Building, name: str) -> str | None:
    folder, _, file = name.rpartition("/")
    if name == growing.MASTER:
        pairs = [(building.version_id, each) for each in growing.first_files(building.renditions)]
        files = {each for _, each in playback_store.present(tx, pairs)}
        return growing.master(building.renditions, files)
    if file != growing.PLAYLIST:
        return None
    seconds = playback_store.seconds_of(tx, building.version_id, folder)
    return growing.media_playlist(building, folder, seconds)


def _answer(request: Request, services: Services, found: _Found, keeping: Keeping) -> Response:
    cache = keeping.final if found.is_final else keeping.fresh
    headers = {**SANDBOX, "Cache-Control": cache}
    if isinstance(found.content, str):
        type = media.CONTENT_TYPES[found.suffix]
        return ranges.from_text(request, found.content, {**headers, "Content-Type": type})
    return ranges.from_storage(
        request,
        services.storage,
        found.content.key,
        found.content.size_bytes,
        content_type=found.content.content_type,
        etag=found.content.sha256,
        headers=headers,
        links=services.links,
    )


@lru_cache(maxsize=20_000)
def _published(db: Database, media_id: str, version_id: str, name: str) -> media.StoredFile:
    """Published versions never change, so what is found is remembered; what is not raises."""
    with db.read() as tx:
        found = media_store.published_artifact(tx, media_id, version_id, name)
    if found is None:
        raise errors.NotFound("no such file")
    return found
