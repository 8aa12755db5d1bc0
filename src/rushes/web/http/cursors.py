"""Where a page of media ended, as a word for the next request.

An id alone says it where ids are the order. Elsewhere what the list was ordered by goes along: it
may be another by the time of the next page.
"""

from __future__ import annotations

import base64
import binascii
from math import isfinite
from typing import Annotated

import msgspec
from fastapi import Query

from rushes import errors
from rushes.media import media
from rushes.media.media import ListPosition, Media, Sort

Cursor = Annotated[
    str | None,
    Query(
        max_length=900,
        pattern=r"^med_[0-9a-f]{32}(\.[A-Za-z0-9_-]+)?$",
        description="`next_cursor` of a page in the same order.",
    ),
]
BY_ID = (Sort.NEWEST, Sort.OLDEST)


def encode(last: Media, sort: Sort) -> str:
    if sort in BY_ID:
        return last.id
    said = msgspec.json.encode([sort, media.list_position(last, sort).key])
    return f"{last.id}.{base64.urlsafe_b64encode(said).decode().rstrip('=')}"


def decode(cursor: str, sort: Sort) -> ListPosition:
    id, _, said = cursor.partition(".")
    if sort in BY_ID and not said:
        return ListPosition(id, id)
    try:
        padded = said + "=" * (-len(said) % 4)
        order, key = msgspec.json.decode(
            base64.urlsafe_b64decode(padded), type=tuple[Sort, str | int | float]
        )
    except (binascii.Error, msgspec.DecodeError):
        raise _wrong() from None
    if order is not sort or not _fits(key, sort):
        raise _wrong()
    return ListPosition(key, id)


def _fits(key: str | int | float, sort: Sort) -> bool:
    """Anybody can make a cursor; a database minds some of what may be in it."""
    match sort:
        case Sort.TITLE:
            return isinstance(key, str) and "\0" not in key
        case Sort.LARGEST | Sort.DELETED:
            return isinstance(key, int) and 0 <= key < 2**63
        case Sort.RECORDED:
            return isinstance(key, int) and abs(key) < 2**63
        case Sort.LONGEST:
            return isinstance(key, float) and isfinite(key)
        case _:
            return False


def _wrong() -> errors.BadField:
    return errors.BadField("cursor", "is not of a list in this order; begin again without it")
