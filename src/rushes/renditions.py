"""Renditions as a worker tells of them, as they are kept, and as players need them. Pure.

A worker is not trusted: what does not fit is left out, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import msgspec

from rushes import clock, sanitize
from rushes.protocol import Rendition
from rushes.records import JsonObject
from rushes.tools import playlist

GROUP = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
LEFT_OUT = ("skipped", "failed")
BEGUN = ("in_progress", "completed", "failed")
# As `detail` has them.
LISTS = ("renditions", "audio")
# As `clock.rfc3339` writes it.
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CODECS = re.compile(r"[A-Za-z0-9._, -]{1,200}")
RANGES = ("SDR", "PQ", "HLG")
# A worker that lists more makes no ladder.
MOST = 200


def told(renditions: Sequence[Rendition]) -> dict[str, list[JsonObject]]:
    """As `detail` of a report has them: sounds beside pictures are listed apart."""
    videos = [_told(each) for each in renditions if each.kind == "video"]
    audios = [_told(each) for each in renditions if each.kind == "audio"]
    if not videos:
        return {"renditions": audios} if audios else {}
    return {"renditions": videos, "audio": audios} if audios else {"renditions": videos}


def _told(rendition: Rendition) -> JsonObject:
    known = {name: value for name, value in asdict(rendition).items() if value is not None}
    return {
        **known,
        "segments_total": rendition.segments_total,
        "progress": rendition.progress,
    }


def stamped(detail: JsonObject, before: Any, at: int) -> JsonObject:
    """With the times at which each rendition began and was whole: as they were told `before`, or
    else `at`. What a worker says of them only counts for what was made earlier."""
    now = clock.rfc3339(at) or ""
    known = {str(each.get("name")): each for each in _listed(before)}
    times = {
        name: [_stamped(each, known, now) if isinstance(each, dict) else each for each in some]
        for name in LISTS
        if isinstance(some := detail.get(name), list)
    }
    return {**detail, **times}


def _stamped(each: JsonObject, known: JsonObject, now: str) -> JsonObject:
    told = known.get(str(each.get("name")), {})
    status = each.get("status")
    started = _moment(told.get("started_at"), now) or _moment(each.get("started_at"), now)
    completed = _moment(told.get("completed_at"), now) or _moment(each.get("completed_at"), now)
    times = {
        "started_at": started or (now if status in BEGUN else None),
        "completed_at": completed or now if status == "completed" else None,
    }
    others = {name: value for name, value in each.items() if name not in times}
    return others | {name: at for name, at in times.items() if at is not None}


def _moment(value: Any, now: str) -> str | None:
    return value if isinstance(value, str) and MOMENT.fullmatch(value) and value <= now else None


def _listed(detail: Any) -> list[JsonObject]:
    found = detail if isinstance(detail, dict) else {}
    lists = [found.get(name) for name in LISTS]
    some = [each for entries in lists if isinstance(entries, list) for each in entries]
    return [each for each in some if isinstance(each, dict)]


def planned(renditions: Sequence[Rendition]) -> list[Rendition]:
    """Without how far each is, which is counted."""
    return [
        replace(
            each,
            segments_completed=0,
            status=each.status if each.status in LEFT_OUT else "pending",
        )
        for each in renditions
    ]


def cleaned(renditions: Sequence[Rendition]) -> list[Rendition]:
    """As they may stand in playlists; what cannot be is left out."""
    fitting = _fitting(msgspec.to_builtins(renditions[:MOST]))
    return [_plain(each) for each in {each.name: each for each in fitting}.values()]


def encode(renditions: Sequence[Rendition]) -> str:
    return msgspec.json.encode(renditions).decode()


def decode(text: str | None) -> list[Rendition]:
    return _fitting(msgspec.json.decode(text)) if text else []


def read(detail: Any) -> list[Rendition]:
    """What a report has told, pictures first; the other way round from `told`."""
    return _fitting(_listed(detail))


def _fitting(entries: list[Any]) -> list[Rendition]:
    found = []
    for each in entries:
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(each, Rendition))
    return found


def video(each: Rendition) -> playlist.Video | None:
    """None until all that a player must know is known."""
    if not (each.width and each.height and each.bandwidth and each.codecs and each.frame_rate):
        return None
    return playlist.Video(
        name=each.name,
        width=each.width,
        height=each.height,
        bandwidth=each.bandwidth,
        average_bandwidth=each.average_bandwidth or each.bandwidth,
        codecs=each.codecs,
        frame_rate=each.frame_rate,
        range=each.range or "SDR",
    )


def audio(each: Rendition) -> playlist.Audio | None:
    if not (each.codecs and each.bandwidth):
        return None
    return playlist.Audio(
        name=each.name,
        codecs=each.codecs,
        bandwidth=each.bandwidth,
        channels=each.channels or 2,
        language=each.language,
        title=each.title or "",
        default=each.default is not False,
        group=each.group or "",
        track=each.track or 0,
    )


def _plain(each: Rendition) -> Rendition:
    """With words that can stand in a playlist."""
    codecs = each.codecs if each.codecs and CODECS.fullmatch(each.codecs) else None
    return replace(
        each,
        codecs=codecs,
        range=each.range if each.range in RANGES else None,
        title=sanitize.line(each.title, 200) if each.title else None,
        language=sanitize.line(each.language, 40) if each.language else None,
        group=each.group if each.group and GROUP.fullmatch(each.group) else None,
        encoder=sanitize.word(each.encoder),
        started_at=None,
        completed_at=None,
        error_message=sanitize.sanitize(each.error_message) if each.error_message else None,
    )
