"""Rushes from Python: typed, synchronous, patient with networks. The command line uses it, too."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
import msgspec

from rushes import errors
from rushes.client import streams
from rushes.client.api import ANSWER_SECONDS, PAGE, Api
from rushes.client.patience import Patience
from rushes.client.sending import PATIENCE_SECONDS, Uploader
from rushes.client.shapes import Document, Event, Job, Media, Moment, Reason, Transcript
from rushes.client.unfinished import Unfinished

T = TypeVar("T")

HERE = "http://127.0.0.1:8484"
# The server says something every 15 s at the latest.
SILENCE_SECONDS = 60.0
NO_TOKEN = (
    "a token is needed: make one in the settings, or with `rushes tokens create`, and pass it as"
    " token= or set RUSHES_TOKEN"
)

Until = Literal["watchable", "ready", "done"]
Priority = Literal["high", "normal", "low"]
TextFormat = Literal["txt", "srt", "vtt"]


class StillWorking(errors.Unavailable):
    """It was waited for, and is not there yet."""

    code = "still_working"


class Client(Api):
    """A server, as somebody with a token. All calls raise `RushesError`, whose `code` is stable and
    whose `message` is a sentence. `get`, `post`, `patch`, `delete`, `items` and `send` are for
    routes that have no method here."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        transport: httpx2.BaseTransport | None = None,
        trust_env: bool = True,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Without `server` and `token`: RUSHES_SERVER, or this machine, and RUSHES_TOKEN."""
        token = token or os.environ.get("RUSHES_TOKEN")
        if not token:
            raise errors.BadSetting(NO_TOKEN)
        where = server or os.environ.get("RUSHES_SERVER") or HERE
        super().__init__(where, token, transport=transport, trust_env=trust_env, seconds=seconds)

    # Files in

    def upload(
        self,
        path: Path | str,
        *,
        title: str | None = None,
        language: str | None = None,
        transcribe: bool | None = None,
        diarize: bool | None = None,
        profile: str | None = None,
        transcription_profile: str | None = None,
        priority: Priority | None = None,
        skip_duplicates: bool | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Media:
        """Goes on where an earlier call with the same file had to stop; waits for a server that is
        away for some minutes. `progress` hears how many bytes are through."""
        asked = {
            "title": title,
            "language": language,
            "transcribe": transcribe,
            "diarize": diarize,
            "profile": profile,
            "transcription_profile": transcription_profile,
            "priority": priority,
            "skip_duplicates": skip_duplicates,
        }
        options = {name: _word(value) for name, value in asked.items() if value is not None}
        sent = Uploader(self, Unfinished()).send(Path(path), options, _Told(progress))
        return self.media(sent.media_id)

    def add_sample(self) -> Media:
        """The short clip that comes with Rushes; asking again gives the same one."""
        return msgspec.convert(self.post("/media/sample"), Media, strict=False)

    # Media

    def media(self, media_id: str) -> Media:
        return self._typed(Media, f"/media/{media_id}")

    def list_media(self, limit: int | None = None, **filter: Any) -> Iterator[Media]:
        """Newest first. `filter`: `q`, `status`, `transcript`, `kind`, `sort`."""
        return self._listed(Media, "/media", limit, filter)

    def rename(self, media_id: str, title: str) -> Media:
        return msgspec.convert(self.patch(f"/media/{media_id}", {"title": title}), Media)

    def delete_media(self, media_id: str) -> None:
        """Into the trash."""
        self.delete(f"/media/{media_id}")

    def share(self, media_id: str) -> str:
        """A link with which everybody can watch it."""
        return str(self.post(f"/media/{media_id}/share")["share_url"])

    def download(self, media_id: str, to: Path | str, *, name: str = "source") -> Path:
        """The file as it was uploaded, or another of its addresses, such as `thumbnail.jpg`."""
        target = Path(to)
        with target.open("wb") as file:
            for piece in self.pieces(f"/media/{media_id}/{name}"):
                file.write(piece)
        return target

    def wait(
        self, media_id: str, *, until: Until = "done", timeout_seconds: float | None = None
    ) -> Media:
        """The media once it can be watched, has a whole version (`ready`), or nothing is left to do
        (`done`); sooner when it has failed. Raises StillWorking after `timeout_seconds`."""
        latest = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for event in self._heard(since=None, latest=latest, media_id=media_id):
            if event is None or not event.type.endswith(".progress"):
                found = self.media(media_id)
                if _is_reached(found, until):
                    return found
            if latest is not None and time.monotonic() >= latest:
                raise StillWorking(f"{media_id} is not {until} after {timeout_seconds:g} s")
        raise AssertionError("events do not end")

    # Words

    def transcript(self, media_id: str) -> Transcript:
        return self._typed(Transcript, f"/media/{media_id}/transcript")

    def text(self, media_id: str, format: TextFormat = "txt") -> str:
        """The transcript as plain text, or as captions."""
        return self.send("GET", f"/media/{media_id}/transcript", params={"format": format}).text

    def search(self, words: str, limit: int = 20) -> list[Moment]:
        return list(self._listed(Moment, "/search", limit, {"q": words}))

    # Jobs

    def job(self, job_id: str) -> Job:
        return self._typed(Job, f"/jobs/{job_id}")

    def list_jobs(self, limit: int | None = None, **filter: Any) -> Iterator[Job]:
        """`filter`: `state`, `kind`, `media_id`, `q`, `order`."""
        return self._listed(Job, "/jobs", limit, filter)

    def why(self, job_id: str) -> list[Reason]:
        """Why it waits."""
        return msgspec.convert(self.get(f"/jobs/{job_id}/why")["reasons"], list[Reason])

    def cancel(self, job_id: str) -> Job:
        return msgspec.convert(self.post(f"/jobs/{job_id}/cancel"), Job)

    def retry(self, job_id: str) -> Job:
        """A new job that does the same."""
        return msgspec.convert(self.post(f"/jobs/{job_id}/retry"), Job)

    # Events

    def events(
        self,
        *,
        types: Sequence[str] = (),
        media_id: str | None = None,
        job_id: str | None = None,
        since: str | None = None,
    ) -> Iterator[Event]:
        """Changes, for ever; from now on, or after the `position` of an event. A connection that is
        lost is taken up again, and nothing is missed meanwhile. An event `reset` says that the
        server has forgotten what was asked for: read the state anew."""
        wanted = {"types": ",".join(types) or None, "media_id": media_id, "job_id": job_id}
        for event in self._heard(since=since, latest=None, **wanted):
            if event is not None:
                yield event

    def _heard(
        self, *, since: str | None, latest: float | None, **wanted: Any
    ) -> Iterator[Event | None]:
        """As `events`; None each time that the stream has begun or is merely alive. At `latest` it
        says None, too."""
        position = since if since is not None else str(self.get("/session")["event_position"])
        patience = Patience(PATIENCE_SECONDS, time.sleep, lambda line: None)
        while True:
            left = SILENCE_SECONDS if latest is None else latest - time.monotonic()
            silence = min(SILENCE_SECONDS, max(left, 0.1))
            headers = {"Last-Event-ID": position}
            try:
                with self.stream(
                    "/events", silence_seconds=silence, headers=headers, **wanted
                ) as lines:
                    for event in streams.parsed(lines):
                        patience.worked()
                        if event is not None and event.position is not None:
                            position = event.position
                        yield event
                raise errors.Unavailable(f"{self.where} has ended the stream")
            except errors.Unavailable as error:
                if latest is not None and time.monotonic() >= latest:
                    yield None
                patience.wait(error)

    def _typed(self, type: type[T], path: str) -> T:
        return msgspec.json.decode(self.send("GET", path).content, type=type)

    def _listed(self, type: type[T], path: str, limit: int | None, filter: Document) -> Iterator[T]:
        """Page after page, as they are wanted."""
        cursor, left = None, limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.get(path, limit=size, cursor=cursor, **filter)
            yield from msgspec.convert(page["items"], list[type])  # type: ignore[valid-type]
            cursor = page["next_cursor"]
            if cursor is None:
                return
            left = None if left is None else left - size


class _Told:
    """A plain function as a progress bar."""

    def __init__(self, tell: Callable[[int], None] | None) -> None:
        self._tell = tell

    def at(self, done: float) -> None:
        if self._tell is not None:
            self._tell(int(done))

    def say(self, line: str) -> None:
        """Trouble that may pass is not told."""


def _is_reached(media: Media, until: Until) -> bool:
    match until:
        case "watchable":
            return media.is_watchable or media.is_done
        case "ready":
            return media.status not in ("pending", "processing")
        case "done":
            return media.is_done


def _word(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value
