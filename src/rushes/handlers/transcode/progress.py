"""How far a job is, for people: each rendition's segments, speed and what is left. Told at most
once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from rushes.protocol import Rendition
from rushes.worker.context import JobContext

EVERY_SECONDS = 1.0
# Of the whole, by the time a step begins.
STEPS = {
    "probe": 0.0,
    "thumbnail": 0.02,
    "transcode": 0.05,
    "master_playlist": 0.95,
    "finalize": 0.97,
}


class ProgressReporter:
    def __init__(self, job: JobContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._clock = clock
        self._lock = threading.Lock()
        self._told_at = -EVERY_SECONDS
        self.stage = "probe"
        self.pictures: dict[str, Rendition] = {}
        self.sounds: dict[str, Rendition] = {}
        # Each a code and a sentence.
        self.warnings: list[dict[str, str]] = []
        # What the next attempt has to know; told with the progress.
        self.notes: dict[str, Any] = dict(job.checkpoint or {})
        self._waiting: list[threading.Event] = []
        self._seconds = 0.0
        self._seconds_total = 0.0
        self._began: tuple[float, float] | None = None

    def step(self, stage: str) -> None:
        self.stage = stage
        self.tell()

    def rendition(self, name: str) -> Rendition:
        return self.pictures.get(name) or self.sounds[name]

    def list(self, rendition: Rendition) -> None:
        """One that is to be made, or deliberately not."""
        with self._lock:
            self._of(rendition.kind)[rendition.name] = rendition

    def change(self, name: str, **news: Any) -> None:
        """What has become known of a rendition, by the names of its fields."""
        with self._lock:
            self._change(name, **news)

    def begin(self, names: Iterable[str]) -> None:
        """These are being made from now on."""
        with self._lock:
            for name in names:
                if self.rendition(name).status == "pending":
                    self._change(name, status="in_progress")

    def finished_segment(self, name: str) -> None:
        with self._lock:
            self._change(name, segments_completed=self.rendition(name).segments_completed + 1)

    def _change(self, name: str, **news: Any) -> None:
        changed = replace(self.rendition(name), **news)
        self._of(changed.kind)[name] = changed

    def _of(self, kind: str) -> dict[str, Rendition]:
        return self.pictures if kind == "video" else self.sounds

    def note(self, name: str, value: Any) -> None:
        with self._lock:
            self.notes[name] = value

    def expect(self, seconds: float, done: float = 0.0) -> None:
        """`seconds` of picture or sound are to be made, of which so many were there before."""
        self._seconds_total, self._seconds = seconds, done
        self._began = (self._clock(), done)

    def reached(self, seconds: float) -> None:
        self._seconds = max(self._seconds, min(seconds, self._seconds_total))

    def flush_notes(self, seconds: float = 2.0) -> None:
        """Wait until the notes are told, which happens at the next occasion: what relies on them
        must not be there before."""
        told = threading.Event()
        with self._lock:
            self._waiting.append(told)
        self._told_at = -EVERY_SECONDS
        told.wait(seconds)

    def watch(self) -> None:
        """To be called often: tells what has changed, now and then; raises when to stop."""
        self._job.raise_if_stopped()
        if self._clock() - self._told_at >= EVERY_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._told_at = self._clock()
        speed = self.speed
        with self._lock:
            waiting, self._waiting = self._waiting, []
            # Each time: a report may get lost.
            checkpoint = dict(self.notes) or None
            renditions = [*self.pictures.values(), *self.sounds.values()]
        self._job.progress(
            round(self.share, 4),
            self.stage,
            checkpoint=checkpoint,
            # Until they are known again, what an earlier attempt has told is still true.
            renditions=renditions or None,
            speed=round(speed, 2) if speed else None,
            eta_seconds=self._left(speed),
            warnings=list(self.warnings) if renditions else None,
        )
        for told in waiting:
            told.set()

    def _left(self, speed: float | None) -> float | None:
        """Unknown when all is encoded: what is still to be done has no length."""
        left = self._seconds_total - self._seconds
        if self.stage != "transcode" or not speed or left <= 0:
            return None
        return round(left / speed, 1)

    @property
    def share(self) -> float:
        begin = STEPS[self.stage]
        if self.stage != "transcode" or not self._seconds_total:
            return begin
        share = min(1.0, self._seconds / self._seconds_total)
        return begin + (STEPS["master_playlist"] - begin) * share

    @property
    def speed(self) -> float | None:
        if self._began is None or self.stage != "transcode":
            return None
        at, done = self._began
        spent = self._clock() - at
        return (self._seconds - done) / spent if spent > 0.5 and self._seconds > done else None
