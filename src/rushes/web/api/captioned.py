"""Captions of what is watched: written from the current transcript whenever they are asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from rushes import errors
from rushes.db.database import Database
from rushes.media.media import Media
from rushes.tools import playlist
from rushes.transcripts import archive, captions
from rushes.transcripts import store as transcript_store

VTT, LIST = "captions.vtt", "captions.m3u8"
MEMORY_CHARACTERS = 20 * 2**20


@dataclass(frozen=True, slots=True)
class _Spoken:
    """What the captions depend on, without the transcript itself, which may be long."""

    media_id: str
    transcript_id: str
    revision: int
    language: str | None
    names: tuple[tuple[str, str], ...]


def written(db: Database, item: Media, *, hls: bool = False) -> str:
    """As one WebVTT file."""
    return _vtt(db, _found(db, item), item.duration, hls)


def listed(db: Database, item: Media) -> str:
    """As a playlist of that file."""
    spoken = _found(db, item)
    seconds = item.duration
    if seconds is None:
        cues = captions.parse(_vtt(db, spoken, None, True)).segments
        seconds = max((each.end for each in cues), default=0.0)
    return playlist.captions(VTT, seconds)


def language(db: Database, item: Media) -> str | None:
    """Of the captions, if there are any; "" when nobody knows it."""
    spoken = _spoken(db, item)
    return None if spoken is None else spoken.language or ""


def _found(db: Database, item: Media) -> _Spoken:
    spoken = _spoken(db, item)
    if spoken is None:
        raise errors.NotFound("this media has no captions")
    return spoken


def _spoken(db: Database, item: Media) -> _Spoken | None:
    with db.read() as tx:
        about = transcript_store.about_current(tx, item.id)
    if about is None:
        return None
    names = tuple(sorted(about.names.items()))
    return _Spoken(item.id, about.id, about.revision, about.language, names)


def _vtt(db: Database, spoken: _Spoken, duration: float | None, hls: bool) -> str:
    """Remembered, because players ask for it again and again."""

    def write() -> str:
        with db.read() as tx:
            kept = archive.found(tx, spoken.media_id)
        return captions.vtt(kept.transcript, names=kept.names, hls=hls, end=duration)

    return _written.get((db, spoken, duration, hls), write)


class Memory:
    """Texts that are long and take long: each is written once, however many ask for it at the
    same time, and all of them together take no more than `limit` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._texts: OrderedDict[Hashable, str] = OrderedDict()
        self._size = 0
        self._writing: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, write: Callable[[], str]) -> str:
        with self._lock:
            writing = self._writing.setdefault(key, threading.Lock())
        try:
            with writing:
                text = self._known(key)
                if text is None:
                    text = write()
                    self._keep(key, text)
                return text
        finally:
            with self._lock:
                self._writing.pop(key, None)

    def _known(self, key: Hashable) -> str | None:
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def _keep(self, key: Hashable, text: str) -> None:
        with self._lock:
            if key in self._texts or len(text) > self._limit:
                return
            self._texts[key] = text
            self._size += len(text)
            while self._size > self._limit:
                _, oldest = self._texts.popitem(last=False)
                self._size -= len(oldest)


_written = Memory(MEMORY_CHARACTERS)
