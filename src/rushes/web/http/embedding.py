"""Which other sites may show shared recordings: in a frame, and by scripts that read the streams.

Both by one list. Nothing here lets another site act as whoever is signed in: no answer allows
credentials, and only `/embed/…` may be framed at all.
"""

from __future__ import annotations

import re

from rushes.web.http import addresses

FRAMED = re.compile(r"/embed/[^/]+")
# Files of a share link, and not the page itself.
SHARED_FILE = re.compile(r"/s/[^/]+/.+")
METHODS, ASKED_WITH = b"GET, HEAD", b"range, if-none-match, if-range"
READABLE = b"content-length, content-range, accept-ranges, etag"

Headers = dict[bytes, bytes]


class Embedding:
    def __init__(self, origins: str) -> None:
        """As in the setting."""
        self._given = [each.strip() for each in origins.split(",") if each.strip()]
        self._is_any = "*" in self._given
        self._allowed = {addresses.origin_of(each) for each in self._given} - {None}

    @property
    def is_elsewhere(self) -> bool:
        """Whether any other site may."""
        return bool(self._given)

    @property
    def frame_ancestors(self) -> str:
        return "*" if self._is_any else " ".join(["'self'", *self._given])

    def headers(self, path: str, origin: str | None) -> Headers:
        """In addition to what every answer has, or in its place."""
        if not self._given or not SHARED_FILE.fullmatch(path):
            return {}
        # Pictures are shown without CORS, and then only this header is asked.
        made = {b"cross-origin-resource-policy": b"cross-origin"}
        if self._is_any:
            allowed = b"*"
        else:
            made[b"vary"] = b"Origin"
            if origin is None or addresses.origin_of(origin) not in self._allowed:
                return made
            allowed = origin.encode()
        return {
            **made,
            b"access-control-allow-origin": allowed,
            b"access-control-allow-methods": METHODS,
            b"access-control-allow-headers": ASKED_WITH,
            b"access-control-expose-headers": READABLE,
            b"access-control-max-age": b"600",
        }

    def may_ask(self, path: str, origin: str | None) -> bool:
        """Whether a browser that asks before it asks is told to go on."""
        return b"access-control-allow-origin" in self.headers(path, origin)
