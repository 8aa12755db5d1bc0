"""What a handler may touch: its arguments, its source, its artifacts, its progress, its log, and
whether to stop.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rushes import errors, tracing
from rushes.protocol import (
    ADOPT_LIMIT,
    Artifact,
    Assignment,
    Coordinator,
    Excerpt,
    Inherited,
    Progress,
    Rendition,
    Source,
)
from rushes.records import JsonObject
from rushes.renditions import planned, told
from rushes.worker.scratch import Scratch, ScratchSpace

T = TypeVar("T")

RETRY_SECONDS = 0.5
LOG_SECONDS = 1.0
LISTEN_SECONDS = 1.0
LOG_LINES = 200


class Stop(StrEnum):
    """Why a handler must stop; each leads to another report."""

    CANCELED = "canceled"
    SHUTDOWN = "shutdown"
    CLAIM_LOST = "claim_lost"


_stopping = threading.Lock()


class JobContext:
    """The one argument of a handler, whose threads may all use it."""

    def __init__(
        self,
        assignment: Assignment,
        report: Callable[[Progress], None],
        *,
        coordinator: Coordinator,
        ask: Callable[[], None] = lambda: None,
        stall_seconds: float | None = None,
        scratch_root: Path | None = None,
        space: ScratchSpace | None = None,
        keep_completed_qualities: bool = True,
    ) -> None:
        """`ask`: finds out, while it is suspended, whether the claim is still held. `space`: where
        temporary files go together with those of other jobs, instead of `scratch_root`."""
        self.job_id = assignment.job_id
        self.kind = assignment.kind
        self.args = assignment.args
        self.media_id = assignment.media_id
        self.user_id = assignment.user_id
        self.attempt = assignment.attempt
        self.max_attempts = assignment.max_attempts
        self.checkpoint = assignment.checkpoint
        self.claim = assignment.claim
        # What this attempt is told of in a trace, once it runs.
        self.trace = assignment.trace
        self._stages = tracing.Stages()
        # Whether to go on with what an earlier attempt has finished, as the server has it.
        self.keep_completed_qualities = keep_completed_qualities
        self._lease_seconds = assignment.lease_seconds
        self._report = report
        self._coordinator = coordinator
        self._ask = ask
        self._stall_seconds = stall_seconds
        self._space = space or ScratchSpace(scratch_root)
        self._scratch: Scratch | None = None
        # What was heard of the source before the work began, and whether room is kept for it.
        self._source: Source | None = None
        self._is_reserved = False
        self._fetched: set[Path] = set()
        self._made: dict[str, str] | None = None
        self._declared: Sequence[Rendition] = ()
        self._lines: list[str] = []
        self._logged_at = 0.0
        self._noting = threading.Lock()
        self._sending_log = threading.Lock()
        self._reporting = threading.Lock()
        self._alive_at = self._listened_at = time.monotonic()
        self._stop: Stop | None = None
        # Made when somebody waits: tiny jobs never do, and it would be a tenth of their cost.
        self._stopped: threading.Event | None = None
        # There while it is suspended.
        self._resumed: threading.Event | None = None

    # Saying how it goes

    def progress(
        self,
        progress: float,
        stage: str | None = None,
        *,
        checkpoint: Any = None,
        renditions: Sequence[Rendition] | None = None,
        speed: float | None = None,
        eta_seconds: float | None = None,
        text: str | None = None,
        warnings: Sequence[Mapping[str, str]] | None = None,
        engine_id: str | None = None,
        engine_model: str | None = None,
    ) -> None:
        """Tell how far the job is (0 to 1), and what the next attempt may start from. Raises when
        the handler has to stop. `warnings`: what people should know about what is made, each with
        `code` and `message`; the version keeps those that were told last."""
        self.raise_if_stopped()
        self.alive()
        self.flush_log()
        detail = {
            **told(renditions or ()),
            "speed": speed,
            "eta_seconds": eta_seconds,
            "text": text,
            "warnings": warnings,
        }
        given = {name: value for name, value in detail.items() if value is not None}
        report = Progress(
            claim=self.claim,
            progress=progress,
            stage=stage,
            checkpoint=checkpoint,
            engine_id=engine_id,
            engine_model=engine_model,
            detail=given or None,
        )
        # One after the other: a checkpoint must not be overtaken by an older one.
        with self._reporting:
            if stage is not None:
                self._stages.enter(stage, self.trace)
            if checkpoint is not None:
                self.checkpoint = checkpoint
            self._declare(planned(renditions or ()))
            if self._stop is not Stop.CLAIM_LOST:
                self._report(report)
        self.raise_if_stopped()

    def _declare(self, renditions: Sequence[Rendition]) -> None:
        """When something new is known of them. If the server is away, it hears it next time."""
        if not renditions or renditions == self._declared:
            return
        try:
            self._coordinator.declare(self.claim, renditions)
            self._declared = renditions
        except errors.ClaimLost:
            self.stop(Stop.CLAIM_LOST)
        except errors.Unavailable:
            pass
        except errors.RushesError as error:
            # Then it cannot be watched early, which is no reason to end.
            self._declared = renditions
            self.log(f"the renditions were not accepted: {error.message}")

    def log(self, line: str) -> None:
        """A line for people who look at this job; sent now and then, never a reason to fail."""
        with self._noting:
            self._lines.append(line)
            del self._lines[:-LOG_LINES]
        if time.monotonic() - self._logged_at > LOG_SECONDS:
            self.flush_log()

    def flush_log(self) -> None:
        # While another thread is sending, these lines wait for the next time.
        if not self._lines or not self._sending_log.acquire(blocking=False):
            return
        try:
            with self._noting:
                lines, self._lines = self._lines, []
            self._logged_at = time.monotonic()
            self._coordinator.log(self.claim, lines)
        except errors.Unavailable:
            with self._noting:
                self._lines = lines + self._lines
        except errors.RushesError:
            pass
        finally:
            self._sending_log.release()

    def alive(self) -> None:
        """The tool or engine has moved on. Without it for `stall_seconds` the lease is let go."""
        self._alive_at = time.monotonic()

    # Files

    @property
    def scratch(self) -> Path:
        """A private directory for this attempt; gone when it ends."""
        return self._room().path

    def check_room(self, size_bytes: int) -> None:
        """Keeps so much more for this job; RetryLater when it would not fit there."""
        self._space.reserve(self.claim.claim_id, size_bytes)

    def reserve(self, share: float) -> None:
        """By the worker, before the handler begins: room for a copy of the source, and for what is
        made beside it, which is that share of the source. RetryLater when there is too little."""
        if self.media_id is None or not self._space.budget_bytes:
            return
        try:
            source = self._source = self._source_to_fetch(None)
        except errors.NotFound:
            return
        copied = source.size_bytes if source.path is None else 0
        self.check_room(copied + int(share * source.size_bytes))
        self._is_reserved = True

    def _room(self) -> Scratch:
        with self._noting:
            self._scratch = self._scratch or Scratch(self._space.root)
            return self._scratch

    def source(self, media_id: str | None = None) -> Path:
        """The media's source as a file: where it is, if this process sees it, else a copy.
        `media_id`: of another media that the job's arguments name."""
        source = self._source_to_fetch(media_id)
        if source.path is not None:
            return source.path
        path = self.scratch / (f"source-{media_id}" if media_id else "source")
        if path in self._fetched:
            return path
        if media_id or not self._is_reserved:
            self.check_room(source.size_bytes)
        self._download(path, source, media_id)
        if source.sha256 is not None and _sha256(path) != source.sha256:
            path.unlink()
            raise errors.RetryLater("the source arrived damaged", code="source_damaged")
        self._fetched.add(path)
        return path

    def _source_to_fetch(self, media_id: str | None) -> Source:
        """What was asked before the work began is asked once."""
        found, self._source = self._source, None
        if media_id is None and found is not None:
            return found
        return self._patiently(lambda: self._coordinator.source(self.claim, media_id))

    def excerpt(self, rendition: str, start: float = 0.0, end: float | None = None) -> Path:
        """A rendition of what is watched, as a file of its own: of the version that the job's
        `version_id` names. It has whole segments: those that play between these seconds, with the
        times that they have in the recording."""
        wanted = Excerpt(rendition=rendition, start=start, end=end)
        path = self.scratch / f"excerpt-{rendition}.mp4"
        if path not in self._fetched:
            source = self._patiently(lambda: self._coordinator.source(self.claim, None, wanted))
            self.check_room(source.size_bytes)
            self._download(path, source, None, wanted)
            self._fetched.add(path)
        return path

    def _download(
        self, path: Path, source: Source, media_id: str | None, excerpt: Excerpt | None = None
    ) -> None:
        with path.open("ab") as file:
            while file.tell() < source.size_bytes:
                self._patiently(lambda: self._fetch(file, media_id, excerpt))

    def _fetch(self, file: Any, media_id: str | None, excerpt: Excerpt | None) -> None:
        """As much as comes; raises when that is nothing."""
        begin = file.tell()
        try:
            for chunk in self._coordinator.read_source(self.claim, begin, media_id, excerpt):
                file.write(chunk)
                self.alive()
                self.raise_if_stopped()
        except errors.Unavailable:
            if file.tell() == begin:
                raise
        if file.tell() == begin:
            raise errors.RetryLater("the source ends too early", code="source_damaged")

    def transcript(self) -> JsonObject | None:
        """What is said in the media, as people read it now: `text`, `language`, `segments`,
        `words`, and by `speakers` what people call them. None while there is no transcript."""
        return self._patiently(lambda: self._coordinator.transcript(self.claim))

    def put(self, name: str, content: bytes | Path, seconds: float | None = None) -> Artifact:
        """Hand in a finished artifact. What is published is what was put or adopted by the
        attempt that completes. `seconds`: how long a segment plays."""
        with tracing.span("put artifact", job_id=self.job_id):
            artifact = self._patiently(
                lambda: self._coordinator.put_artifact(self.claim, name, content, seconds)
            )
        self._note([artifact])
        return artifact

    def adopt(self, names: Sequence[str]) -> list[Artifact]:
        """Make files that earlier attempts or parts have put this attempt's own. Returns those
        that are intact; the others have to be made again."""
        adopted: list[Artifact] = []
        for begin in range(0, len(names), ADOPT_LIMIT):
            page = names[begin : begin + ADOPT_LIMIT]
            intact = self._patiently(partial(self._coordinator.adopt, self.claim, page))
            self._note(intact)
            adopted += intact
        return adopted

    def inherit(self, besides: Sequence[str]) -> Inherited:
        """What the media's current version has, except these renditions: from now on `artifacts`
        has it, too, and it can be adopted."""
        return self._patiently(lambda: self._coordinator.inherit(self.claim, besides))

    def discard(self, names: Sequence[str]) -> None:
        """Remove files that this attempt has put or adopted, and has no use for any more."""
        for begin in range(0, len(names), ADOPT_LIMIT):
            page = names[begin : begin + ADOPT_LIMIT]
            self._patiently(partial(self._coordinator.discard, self.claim, page))
            with self._noting:
                self._made = {k: v for k, v in (self._made or {}).items() if k not in page}
            self.alive()

    def artifacts(self) -> Sequence[Artifact]:
        """What the job's version holds so far, whoever has put it; `claimed` marks what is this
        attempt's."""
        return self._patiently(lambda: self._coordinator.artifacts(self.claim))

    def _note(self, artifacts: Sequence[Artifact]) -> None:
        with self._noting:
            self._made = self._made or {}
            self._made |= {each.name: each.sha256 for each in artifacts}
        self.alive()

    def put_passage(self, number: int, content: Any) -> None:
        """Keep a finished part of a result that grows; the next attempt will find it."""
        self._patiently(lambda: self._coordinator.put_passage(self.claim, number, content))
        self.alive()

    def passages(self) -> Sequence[Any]:
        """What this job's attempts have kept so far, in order. A job that asks is completed
        together with its passages, even if there are none."""
        self._note([])
        return self._patiently(lambda: self._coordinator.passages(self.claim))

    @property
    def manifest(self) -> Mapping[str, str] | None:
        return self._made

    def end_stages(self) -> None:
        """By the worker, when the handler has ended; then comes `close`."""
        self._stages.close()

    def close(self) -> None:
        """By the worker, when the handler has ended."""
        self.flush_log()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        self._space.release(self.claim.claim_id)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeat while it cannot be done. The worker's fence ends the waiting for a server that is
        away. One that renews the claim, but has not managed this for a whole lease, is short of
        something: then it raises, and the job is given back for a while."""
        give_up_at = None
        while True:
            self.raise_if_stopped()
            try:
                return call()
            except errors.ClaimLost:
                self.stop(Stop.CLAIM_LOST)
            except errors.CancelRequested:
                self.stop(Stop.CANCELED)
            except errors.DiskFull:
                raise
            except errors.Unavailable:
                now = time.monotonic()
                give_up_at = give_up_at or now + self._lease_seconds
                if now > give_up_at:
                    raise
                self.alive()
                self.wait(RETRY_SECONDS)

    # Stopping

    @property
    def stalled(self) -> bool:
        limit = self._stall_seconds
        if limit is None or self._resumed is not None:
            return False
        return time.monotonic() - self._alive_at > limit

    @property
    def stopping(self) -> bool:
        return self._stop is not None

    @property
    def suspended(self) -> bool:
        return self._resumed is not None

    @property
    def stop_reason(self) -> Stop | None:
        return self._stop

    def wait(self, seconds: float) -> None:
        """Sleep, but not a moment longer than the handler may run."""
        with _stopping:
            self._stopped = self._stopped or threading.Event()
            if self._stop is not None:
                self._stopped.set()
        self._stopped.wait(seconds)
        self.raise_if_stopped()

    def listen(self) -> None:
        """As `raise_if_stopped`, for whoever waits long without anything to report: asks now and
        then whether somebody has canceled. No sign of life."""
        self.raise_if_stopped()
        now = time.monotonic()
        if now - self._listened_at < LISTEN_SECONDS or self.stalled:
            return
        self._listened_at = now
        try:
            beat = self._coordinator.heartbeat([self.claim]).claims.get(self.claim.claim_id)
        except errors.RushesError:
            # The worker's own heartbeat knows what to do about that.
            return
        if beat is not None and not beat.held:
            self.stop(Stop.CLAIM_LOST)
        elif beat is not None and beat.cancel:
            self.stop(Stop.CANCELED)
        self.raise_if_stopped()

    def raise_if_stopped(self) -> None:
        """Also waits while nobody can tell whether the job is still this worker's."""
        while self._stop is None and (resumed := self._resumed) is not None:
            if not resumed.wait(LISTEN_SECONDS):
                self._ask()
        if self._stop is Stop.CANCELED:
            raise errors.Canceled("the job was canceled")
        if self._stop is not None:
            raise errors.Stopped(self._stop)

    def stop(self, reason: Stop) -> None:
        """Asked by the worker, from another thread. A lost claim overrules the other reasons."""
        with _stopping:
            if self._stop is None or reason is Stop.CLAIM_LOST:
                self._stop = reason
            for waiting in (self._stopped, self._resumed):
                if waiting is not None:
                    waiting.set()

    def suspend(self) -> bool:
        """Asked by the worker: whatever the handler does next has to wait. What its tools do by
        themselves meanwhile is not handed in before `resume`. False: it is so already."""
        with _stopping:
            if self._stop is not None or self._resumed is not None:
                return False
            self._resumed = threading.Event()
            return True

    def resume(self) -> bool:
        with _stopping:
            resumed, self._resumed = self._resumed, None
        if resumed is None:
            return False
        self.alive()
        resumed.set()
        return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
