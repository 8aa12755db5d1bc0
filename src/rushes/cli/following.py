"""Following media until nothing is left to do: woken by events, by a timer where those fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from rushes import errors
from rushes.cli.meter import Meter, Task
from rushes.client import Event, streams
from rushes.client.api import Api
from rushes.client.client import SILENCE_SECONDS
from rushes.client.shapes import OPEN, Document

POLL_SECONDS = 2.0
# Progress is looked at no more often than this; ends at once.
LOOK_SECONDS = 0.25
WAITING = ("queued", "blocked")
ENDED = ("completed", "failed", "canceled")
JOB_SECONDS = 0.5
# Before it is said why: most begin at once.
PATIENT_LOOKS = 3


class Follower:
    def __init__(
        self,
        api: Api,
        names: Mapping[str, str],
        meter: Meter,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`names`: what to call each media id."""
        self._api = api
        self._sleep = sleep
        self._tasks: dict[str, Task] = {id: meter.task(name, 1.0) for id, name in names.items()}
        self._open = set(names)
        self._explained: set[str] = set()
        self._found: dict[str, Document] = {}
        self._out_of_reach = False

    def follow(self) -> dict[str, Document]:
        """Every media as it is in the end; one that was removed meanwhile is missing."""
        while self._open:
            try:
                self._follow_events()
            except errors.Unavailable as error:
                self._complain(error)
                self._sleep(POLL_SECONDS)
            with suppress(errors.Unavailable):
                self._look_at(set(self._open))
        return self._found

    def _follow_events(self) -> None:
        only = next(iter(self._open)) if len(self._open) == 1 else None
        looked_at = 0.0
        with self._api.stream("/events", silence_seconds=SILENCE_SECONDS, media_id=only) as lines:
            for event in streams.parsed(lines):
                # Whatever changes from the first line on is told; after a reset some was missed.
                if event is None or event.media_id is None:
                    self._look_at(set(self._open))
                    self._explain()
                elif event.media_id in self._open and not _is_soon(event, looked_at):
                    self._look_at({event.media_id})
                    looked_at = time.monotonic()
                if not self._open:
                    return

    def _look_at(self, ids: set[str]) -> None:
        for id in ids:
            try:
                media = self._api.get(f"/media/{id}")
            except errors.NotFound:
                self._found.pop(id, None)
                self._end(id, "it was removed")
                continue
            self._out_of_reach = False
            self._found[id] = media
            self._tasks[id].at(*_progress(media))
            if media["status"] not in OPEN and media["transcript_status"] not in OPEN:
                self._end(id)

    def _end(self, id: str, said: str = "") -> None:
        self._open.discard(id)
        if said:
            self._tasks[id].say(said)
        self._tasks[id].end()

    def _explain(self) -> None:
        """Whoever waits in vain should know; once for each media."""
        for id in sorted(self._open - self._explained):
            for job in self._found[id]["jobs"]:
                if job["state"] == "queued":
                    for reason in self._api.get(f"/jobs/{job['id']}/why")["reasons"]:
                        self._explained.add(id)
                        self._tasks[id].say(f"{job['kind']} waits. {reason['sentence']}")

    def _complain(self, error: errors.RushesError) -> None:
        """Once for each time that it is away."""
        if not self._out_of_reach:
            self._out_of_reach = True
            next(iter(self._tasks.values())).say(f"{error.message}; trying again")


def job_at_its_end(
    api: Api, id: str, task: Task, sleep: Callable[[float], None] = time.sleep
) -> Document:
    """One job, however it ends; says once why it waits, if it does."""
    looks = 0
    while (job := api.get(f"/jobs/{id}"))["state"] not in ENDED:
        task.at(job["progress"], job["stage"] or job["state"])
        looks += 1
        if looks == PATIENT_LOOKS and job["state"] in WAITING:
            for reason in api.get(f"/jobs/{id}/why")["reasons"]:
                task.say(f"it waits. {reason['sentence']}")
        sleep(JOB_SECONDS)
    task.end()
    return dict(job)


def _is_soon(event: Event, looked_at: float) -> bool:
    return event.type.endswith(".progress") and time.monotonic() - looked_at < LOOK_SECONDS


def _progress(media: Document) -> tuple[float, str]:
    """How far all of its work is, and what is being done."""
    jobs = [job for job in media["jobs"] if job["state"] not in WAITING]
    stages = ", ".join(f"{job['kind']}: {job['stage']}" for job in jobs if job["stage"])
    if not media["jobs"]:
        return 1.0, media["status"]
    ended = [s for s in (media["status"], media["transcript_status"]) if s in ("ready", "failed")]
    shares = [job["progress"] for job in media["jobs"]] + [1.0] * len(ended)
    return sum(shares) / len(shares), stages or jobs[0]["kind"] if jobs else "waiting"
