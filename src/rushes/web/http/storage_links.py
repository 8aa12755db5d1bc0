"""Files that the storage sends itself: who may have one is sent on to a link that ends soon."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from rushes import errors
from rushes.settings import Settings
from rushes.storage.storage import Labels, Storage

log = logging.getLogger("rushes.http")

# All else is small and text: playlists name their segments relative to where they are, and pages
# read the rest.
SENT_BY_STORAGE = ("video/", "audio/", "image/", "application/octet-stream")
# A cached redirect is not followed in a link's last moments.
MARGIN = 0.1
FRESH = "no-cache"


@dataclass(frozen=True, slots=True)
class StorageLinks:
    storage: Storage
    life_seconds: int
    # Of the storage, as browsers see it.
    origin: str

    def redirect(self, key: str, content_type: str, headers: Mapping[str, str]) -> Response | None:
        """`headers`: those of an answer with the bytes. None when the server is to send them."""
        if not content_type.startswith(SENT_BY_STORAGE):
            return None
        labels = Labels(
            content_type=content_type,
            # An object never changes, and its link is good for no other.
            cache_control=f"private, max-age={self.life_seconds}",
            disposition=headers.get("Content-Disposition"),
        )
        link = self.storage.link(key, self.life_seconds, labels)
        if link is None:
            return None
        keep = "immutable" in headers.get("Cache-Control", "")
        seconds = max(0, link.seconds_left - int(self.life_seconds * MARGIN))
        cache = f"private, max-age={seconds}" if keep else FRESH
        return RedirectResponse(link.url, 307, headers={"Cache-Control": cache})


def open_links(settings: Settings, storage: Storage) -> StorageLinks | None:
    """None where the server sends everything itself."""
    if settings.storage_playback != "redirect":
        return None
    origin = storage.link_origin
    if origin is None:
        raise errors.BadSetting(
            "STORAGE_PLAYBACK: redirect needs an s3:// storage with keys in STORAGE_URL or in"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if settings.base_url.startswith("https://") and not origin.startswith("https://"):
        log.warning("pages over HTTPS may load nothing from a storage over plain HTTP")
    return StorageLinks(storage, int(settings.storage_link_life), origin)
