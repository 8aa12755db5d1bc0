"""Server-sent events as they come over a line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rushes.client.shapes import Document, Event


def parsed(lines: Iterator[str]) -> Iterator[Event | None]:
    """None: the stream has just begun, or is merely alive."""
    type, position = "", None
    for line in lines:
        name, _, value = line.partition(": ")
        if line.startswith(":") or name == "retry":
            yield None
        elif name == "id":
            position = value
        elif name == "event":
            type = value
        elif name == "data":
            said: Document = json.loads(value)
            yield Event(type=type, position=position, media_id=said.get("media_id"), data=said)
