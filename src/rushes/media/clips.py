"""Links to a part of a recording. They are signed with the recording's own link, so nothing is
stored of them: they end with it, and when it is trimmed anew, since its times then mean something
else. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from rushes.media.media import Media

TOKEN = re.compile(r"(med_[0-9a-f]{32})-([0-9]{1,9})-([0-9]{1,9})-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Part:
    """In milliseconds of what is watched."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1000


def token(item: Media, part: Part) -> str:
    """Of a media that is shared. Its own token cannot be found out from it."""
    assert item.share_token is not None
    named = f"{item.id}-{part.start}-{part.end}"
    signed = f"{named} {item.edit.start} {item.edit.end}".encode()
    return f"{named}-{hmac.new(item.share_token.encode(), signed, hashlib.sha256).hexdigest()[:32]}"


def parse(text: str) -> tuple[str, Part] | None:
    """The media that it is said to be of, and which part: nobody has checked that yet."""
    found = TOKEN.fullmatch(text)
    return (found[1], Part(int(found[2]), int(found[3]))) if found else None


def is_right(text: str, item: Media, part: Part) -> bool:
    return hmac.compare_digest(text, token(item, part))
