"""How far each feed of a recording was heard, and what whoever takes over has to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rushes.handlers.transcribe.audio import Feed, Recording
from rushes.handlers.transcribe.hearing import Hearing, Piece

# A detected language this sure is expected from then on.
SURE = 0.7
# After so many windows the one that was heard most is.
UNDECIDED_WINDOWS = 5
FEEDS = "feeds"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where planning begins, until when all is heard, and the language that is spoken there."""

    feed: Feed
    begin: float = 0.0
    done: float = 0.0
    language: str | None = None


def read(value: Any, default: Feed) -> list[ResumePoint]:
    """As `encode` wrote it; nothing when nothing was heard yet."""
    try:
        if isinstance(value, list):
            begin, done, language = msgspec.convert(value, tuple[float, float, str | None])
            return [ResumePoint(default, begin, done, language)]
        rows = msgspec.convert(value, dict[str, list[Row]])[FEEDS]
    except (msgspec.ValidationError, KeyError):
        return []
    return [
        ResumePoint(Feed(track, channel), begin, done, language)
        for track, channel, begin, done, language in rows
    ]


Row = tuple[int, int | None, float, float, str | None]


def encode(points: Sequence[ResumePoint], default: Feed) -> Any:
    """The plain one is what older workers know as well."""
    if [each.feed for each in points] == [default]:
        return [points[0].begin, points[0].done, points[0].language]
    rows = [
        [each.feed.track, each.feed.channel, each.begin, each.done, each.language]
        for each in points
    ]
    return {FEEDS: rows}


class Line:
    """One feed on its way. `begin`: where planning goes on, None at its end."""

    def __init__(self, recording: Recording, hearing: Hearing, point: ResumePoint) -> None:
        self.recording = recording
        self.hearing = hearing
        self.point = point
        # What an earlier attempt has heard is not heard again.
        self.resumed_at = point.done
        self.begin: float | None = point.begin
        hearing.expected = point.language
        self._votes: dict[str, float] = {}
        self._windows = 0

    @property
    def is_open(self) -> bool:
        return self.begin is not None and self.begin < self.recording.seconds

    @property
    def done(self) -> float:
        return max(self.point.done, self.point.begin) if self.is_open else self.recording.seconds

    def note_language(self, pieces: Sequence[Piece], seconds: float) -> bool:
        """Whether it is another one from now on."""
        said = next((each for _, each in pieces if each.text and each.language), None)
        before = self.hearing.expected
        if said is None or said.language is None:
            return False
        self._windows += 1
        trust = said.language_probability
        self._votes[said.language] = self._votes.get(said.language, 0.0) + seconds * (trust or 0.0)
        if before is not None or (trust or 0.0) >= SURE:
            self.hearing.expected = said.language
        elif self._windows > UNDECIDED_WINDOWS:
            self.hearing.expected = max(self._votes, key=lambda each: self._votes[each])
        return self.hearing.expected != before
