"""What others show of a share link: preview cards (Open Graph), and the player in a frame (oEmbed).

Titles are anybody's words: all that goes into HTML is escaped here.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from rushes.tools import ladder
from rushes.web import models

SITE = "Rushes"
# Of a frame that nobody has asked to be smaller, its longer side.
FRAME_SIDE = 640
UNKNOWN_SIZE, SOUND_SIZE = (640, 360), (640, 190)
THUMBNAIL_SIDE = 720
MAY = "autoplay; fullscreen; picture-in-picture"
# For how long a page that has asked by oEmbed may go by the answer.
CACHE_SECONDS = 300
NOT_INDEXED = '<meta name="robots" content="noindex">'


@dataclass(frozen=True, slots=True)
class Frame:
    html: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Card:
    """Of an open link. `base`: the address of this server, without a slash at its end."""

    base: str
    token: str
    shown: models.SharedMedia

    @property
    def url(self) -> str:
        return f"{self.base}/s/{self.token}"

    @property
    def embed_url(self) -> str:
        return f"{self.base}/embed/{self.token}"

    @property
    def image_url(self) -> str | None:
        return self.base + self.shown.thumbnail_url if self.shown.thumbnail_url else None

    @property
    def description(self) -> str:
        what = "Recording" if self.shown.kind == "audio" else "Video"
        length = self.shown.duration
        return f"{what}, {_clock(length)}" if length else what

    def frame(self, max_width: int | None = None, max_height: int | None = None) -> Frame:
        width, height = self._size(max_width, max_height)
        html = (
            f'<iframe src="{escape(self.embed_url)}" width="{width}" height="{height}"'
            f' title="{escape(self.shown.title)}" style="border:0" allow="{MAY}"'
            ' referrerpolicy="strict-origin-when-cross-origin" allowfullscreen></iframe>'
        )
        return Frame(html, width, height)

    def _size(self, max_width: int | None, max_height: int | None) -> tuple[int, int]:
        if self.shown.kind == "audio":
            # A bar does not get lower as it gets narrower.
            width, height = SOUND_SIZE
            return min(width, max_width or width), min(height, max_height or height)
        width, height = self._picture() or UNKNOWN_SIZE
        factor = FRAME_SIDE / max(width, height)
        width, height = round(width * factor), round(height * factor)
        factor = min(1.0, (max_width or width) / width, (max_height or height) / height)
        return max(1, int(width * factor)), max(1, int(height * factor))

    def _picture(self) -> tuple[int, int] | None:
        width, height = self.shown.width, self.shown.height
        return (width, height) if width and height else None

    def thumbnail_size(self) -> tuple[int, int] | None:
        size = self._picture()
        return ladder.fitted(size, THUMBNAIL_SIDE) if size and self.image_url else None

    def plain_head(self) -> str:
        """As `head`, for what others show already."""
        return f"<title>{escape(self.shown.title)}</title>{NOT_INDEXED}"

    def head(self, *, may_be_framed: bool) -> str:
        """For the page's head, with its title. `may_be_framed`: by sites elsewhere; for others a
        card with a player would stay empty."""
        about = {
            "og:site_name": SITE,
            "og:type": "video.other" if self.shown.kind == "video" else "website",
            "og:title": self.shown.title,
            "og:description": self.description,
            "og:url": self.url,
            **self._image_tags(),
            "twitter:card": "summary_large_image" if self.image_url else "summary",
            "twitter:title": self.shown.title,
            "twitter:description": self.description,
            **(self._player_tags() if may_be_framed and self.shown.stream_url else {}),
        }
        tags = [_tag(name, value) for name, value in about.items()]
        title = escape(self.shown.title)
        oembed = f"{self.base}/oembed?url={quote(self.url, safe='')}&format=json"
        return "\n    ".join(
            [
                f"<title>{title}</title>",
                f'<meta name="description" content="{escape(self.description)}">',
                NOT_INDEXED,
                *tags,
                f'<link rel="alternate" type="application/json+oembed" href="{escape(oembed)}"'
                f' title="{title}">',
            ]
        )

    def _image_tags(self) -> dict[str, str]:
        if self.image_url is None:
            return {}
        tags = {"og:image": self.image_url, "og:image:type": "image/jpeg"}
        if size := self.thumbnail_size():
            tags |= {"og:image:width": str(size[0]), "og:image:height": str(size[1])}
        return {**tags, "twitter:image": self.image_url}

    def _player_tags(self) -> dict[str, str]:
        frame = self.frame()
        secure = {"og:video:secure_url": self.embed_url} if self._is_https else {}
        return {
            "og:video": self.embed_url,
            **secure,
            "og:video:type": "text/html",
            "og:video:width": str(frame.width),
            "og:video:height": str(frame.height),
            # In place of the card without one.
            "twitter:card": "player",
            "twitter:player": self.embed_url,
            "twitter:player:width": str(frame.width),
            "twitter:player:height": str(frame.height),
        }

    @property
    def _is_https(self) -> bool:
        return self.base.startswith("https://")


def _tag(name: str, value: str) -> str:
    kind = "property" if name.startswith("og:") else "name"
    return f'<meta {kind}="{name}" content="{escape(value)}">'


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
