"""A transcription as it goes on, for a request that waits for its words."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec

from rushes import errors
from rushes.engines.engine import Task
from rushes.jobs import passage_store
from rushes.jobs import store as jobs
from rushes.jobs.job import TERMINAL, Job, State
from rushes.live import EventFilter, Message, Subscription
from rushes.media import store as media
from rushes.records import JsonObject
from rushes.transcripts import archive, passages
from rushes.transcripts.transcript import clean
from rushes.web.openai.answers import Heard
from rushes.web.services import Services

log = logging.getLogger("rushes.web")

# How often the database is asked whatever events tell, and the line is kept alive.
LOOK_SECONDS = 5.0
RETRY_SECONDS = 1.0
# So long after somebody has last waited for it, what is not to be stored is forgotten by the
# chores: who was cut off, by a restart or their own time-out, can ask again until then.
FORGET_SECONDS = 120.0
PASSAGE = "transcription.passage"
FORGOTTEN = "forgotten"
ENDS = frozenset(f"transcription.{each}" for each in TERMINAL)
# By what a job has failed of. Whatever is not here is our fault.
STATUSES = {
    **dict.fromkeys(("engine_unavailable", "model_unavailable", "engine_busy", "no_handler"), 503),
    **dict.fromkeys(("damaged", "empty_file", "image_only", "no_streams"), 400),
    **dict.fromkeys(("protected", "unsupported", "unsupported_language"), 400),
}


class Failed(Exception):
    """There is no transcript, or not yet; then the job `goes_on`."""

    def __init__(self, status: int, code: str, message: str, *, goes_on: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.goes_on = goes_on


class TranscriptionFollower:
    """Events tell of it at once. The database is asked all the same now and then, so whatever
    becomes of events, nothing is missed."""

    def __init__(
        self, services: Services, job_id: str, media_id: str, *, is_stored: bool = True
    ) -> None:
        self._site = services
        self._job_id = job_id
        self._media_id = media_id
        self._is_stored = is_stored
        self._kept_at = time.monotonic()
        self._job: Job | None = None
        # The number of the passage that was told last.
        self._told = -1

    async def texts(self) -> AsyncGenerator[list[str]]:
        """What was said since the last time, and nothing now and then. Ends when the job has
        completed; raises Failed when it will not, or takes too long."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._site.settings.transcription_wait
        subscription = self._subscribe()
        try:
            pause = 0.0
            while True:
                news = await _news(subscription, pause)
                texts = self._passages(news or [])
                if _is_unsure(news):
                    texts += await asyncio.to_thread(self._look)
                await self._keep_on()
                yield texts
                if self._has_completed():
                    return
                left = give_up_at - loop.time()
                self._check_patience(left)
                pause = min(left, LOOK_SECONDS)
                if news is None:
                    subscription.close()
                    await asyncio.sleep(min(left, RETRY_SECONDS))
                    subscription = self._subscribe()
        finally:
            subscription.close()

    def heard(self, task: Task) -> Heard:
        """In a thread, after `texts` has ended."""
        assert self._job is not None
        try:
            with self._site.db.read() as tx:
                kept = archive.get_of_job(tx, self._job_id)
        except errors.Unavailable as error:
            raise Failed(503, error.code, error.message, goes_on=True) from error
        if kept is None and not self._is_stored:
            raise Failed(409, FORGOTTEN, "this was answered before, and forgotten: send it again")
        if kept is None:
            raise Failed(404, "not_found", "the transcript is not there any more")
        transcript = kept.transcript
        return Heard(
            transcript=transcript,
            seconds=_seconds(
                self._job.result, max((s.end for s in transcript.segments), default=0.0)
            ),
            task=task,
            names=kept.names,
        )

    async def _keep_on(self) -> None:
        """Nobody else knows that it is still waited for."""
        now = time.monotonic()
        if self._is_stored or now - self._kept_at < FORGET_SECONDS / 4:
            return
        self._kept_at = now
        after_ms = int(FORGET_SECONDS * 1000)
        try:
            await asyncio.to_thread(
                self._site.db.run, lambda tx: media.keep_on(tx, self._media_id, after_ms)
            )
        except errors.Unavailable as error:
            log.warning("a request waits for words: %s", error.message)

    def _subscribe(self) -> Subscription:
        types = ENDS | {PASSAGE}
        return self._site.relay.subscribe(None, EventFilter(None, job_id=self._job_id, types=types))

    def _passages(self, news: Sequence[Message]) -> list[str]:
        """None of them when others may have been lost before them: the database has them all."""
        if any(each.type == "reset" for each in news):
            return []
        told = (_body(each) for each in news if each.type == PASSAGE)
        return self._told_anew((each["passage"], each) for each in told if "passage" in each)

    def _look(self) -> list[str]:
        try:
            with self._site.db.read() as tx:
                self._job = jobs.get(tx, self._job_id)
                found = passage_store.read_after(tx, self._job_id, self._told)
        except errors.Unavailable as error:
            log.warning("a request waits for words: %s", error.message)
            return []
        if self._job is None:
            raise Failed(404, "not_found", "the transcription is not there any more")
        return self._told_anew((number, passages.told(number, each)) for number, each in found)

    def _told_anew(self, given: Iterable[tuple[int, JsonObject | None]]) -> list[str]:
        texts = []
        for number, passage in given:
            if number > self._told:
                self._told = number
                texts.append(clean(passage["text"]) if passage else "")
        return [each for each in texts if each]

    def _has_completed(self) -> bool:
        job = self._job
        if job is None or job.state not in TERMINAL:
            return False
        if job.state is State.CANCELED:
            raise Failed(409, "canceled", "the transcription was canceled")
        if job.state is State.FAILED:
            code = job.error_code or "failed"
            message = job.last_error or "the transcription has failed"
            raise Failed(STATUSES.get(code, 500), code, message)
        return True

    def _check_patience(self, left_seconds: float) -> None:
        where = f"it goes on: see /api/v1/transcriptions/{self._job_id}"
        if not self._is_stored:
            where = "send it again, with store=true if it may go on by itself"
        if self._site.stopping.is_set():
            raise Failed(503, "unavailable", f"the server is stopping; {where}", goes_on=True)
        if left_seconds <= 0:
            said = f"the transcription {self._job_id} takes longer than a request may; {where}"
            raise Failed(504, "not_finished", said, goes_on=self._is_stored)


async def _news(subscription: Subscription, seconds: float) -> list[Message] | None:
    """Nothing when nothing came in time, even if nobody is there to tell; None when it is over."""
    try:
        async with asyncio.timeout(seconds + RETRY_SECONDS):
            return await subscription.take(seconds)
    except TimeoutError:
        return []
    except errors.Unavailable:
        return None


def _is_unsure(news: list[Message] | None) -> bool:
    return not news or any(each.type != PASSAGE for each in news)


def _body(message: Message) -> dict[str, Any]:
    data = message.frame.partition(b"\ndata: ")[2]
    return msgspec.json.decode(data, type=dict[str, Any])


def _seconds(result: Any, otherwise: float) -> float:
    """As long as the worker has found it to be; its words are not trusted."""
    said = result.get("duration") if isinstance(result, dict) else None
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return round(max(float(said), otherwise), 3) if is_number and said is not None else otherwise
