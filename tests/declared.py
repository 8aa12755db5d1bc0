"""Renditions as a job declares them, of how it tells people about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from rushes.protocol import Rendition

FIELDS = {each.name for each in fields(Rendition)}


def declared(detail: Mapping[str, Any] | None) -> list[Rendition]:
    told = [(each, "width" in each) for each in (detail or {}).get("renditions", [])]
    told += [(each, False) for each in (detail or {}).get("audio", [])]
    return [_rendition(each, is_video) for each, is_video in told]


def _rendition(told: Mapping[str, Any], is_video: bool) -> Rendition:
    known = {name: value for name, value in told.items() if name in FIELDS}
    return msgspec.convert({**known, "kind": "video" if is_video else "audio"}, Rendition)
