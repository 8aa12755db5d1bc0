"""Where workers meet queue and library: claims go out, reports and artifacts come in.

`Dispatch` serves every worker; `WorkerCalls` is what one of them may say, the end of both
transports: `Local` for those in this process, and the HTTP routes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from rushes import errors, kinds, sanitize, wakeup
from rushes.accounts.known_workers import KnownWorkers
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import job as job_data
from rushes.jobs import log_store, passage_store, read_store
from rushes.jobs import store as jobs
from rushes.jobs.job import ErrorClass, Priority, State
from rushes.jobs.policy import Strand
from rushes.jobs.queue import Claimant, Queue
from rushes.jobs.request_store import Asking
from rushes.kinds import Grant
from rushes.media import library, pipeline
from rushes.media import store as media_store
from rushes.media.files import Files, sha256_of
from rushes.playback import growing
from rushes.playback import store as playback_store
from rushes.protocol import (
    PASSAGE_LIMIT_BYTES,
    PASSAGES_LIMIT,
    Artifact,
    Assignment,
    Beat,
    Claim,
    Completion,
    Coordinator,
    Hello,
    Part,
    Progress,
    Pulse,
    Rendition,
    Renewed,
    Source,
    Terms,
    capability_words,
)
from rushes.records import JsonObject
from rushes.renditions import LISTS, cleaned, encode, planned, stamped
from rushes.storage.storage import Storage
from rushes.transcripts import archive, passages
from rushes.transcripts import transcript as transcripts
from rushes.transcripts.archive import Prepared, ToldApart
from rushes.verbs import Verb

# How often a divided job tells how far its parts are.
FOLLOW_SECONDS = 1.0
# So much of what a worker says is kept; the rest is cut, since its work is not worse for it.
CAPABILITY_LENGTH = 64
HELLO_LIMIT_BYTES = 10 * 1024
DETAIL_LIMIT_BYTES = 64 * 1024
LOG_LINES = 1_000


class Dispatch(Files):
    """What a worker says is made fit to be shown here, whichever transport it came by."""

    def __init__(
        self,
        db: Database,
        queue: Queue,
        open_storage: Callable[[], Storage] | None = None,
        *,
        heartbeat_seconds: float = 15.0,
        keep_completed_qualities: bool = True,
    ) -> None:
        """For workers elsewhere: how far apart their heartbeats are to be, and whether they go on
        with what an earlier attempt has finished."""
        super().__init__(db, open_storage)
        self._queue = queue
        self.heartbeat_seconds = heartbeat_seconds
        self.keep_completed_qualities = keep_completed_qualities
        # Of servers: what they remember of workers.
        self.known: KnownWorkers | None = None
        self._followed_at: dict[str, float] = {}
        self._one_by_one = threading.Lock()
        queue.on_parts = self._follow

    @property
    def lease_seconds(self) -> float:
        return self._queue.terms.lease_ms / 1000

    def hello(self, worker_id: str, hello: Hello) -> None:
        """A process that starts tells that the one before it is gone: what that held is freed."""
        boot_id = hello.boot_id
        while boot_id and self._db.run(
            lambda tx: self._queue.bury_other_boots(tx, worker_id, boot_id)
        ):
            pass
        said = shown_hello(hello)
        self._db.run(
            lambda tx: fleet.hello(
                tx,
                worker_id,
                kinds=said.kinds,
                capabilities=capability_words(said.capabilities),
                metadata=said.metadata,
                boot_id=boot_id,
            )
        )
        if self.known is not None:
            self.known.forget(worker_id)

    def offers(self, kinds: Collection[str]) -> list[Strand]:
        """What there is to claim now, for whomever."""
        with self._db.read() as tx:
            return self._queue.offers(tx, kinds)

    def claim(
        self, worker: Claimant, limit: int, request_id: str | None = None
    ) -> list[Assignment]:
        """What there is now; waiting is for the transports. Two that keep to a number per user must
        not both count before either has claimed."""
        with self._one_by_one if worker.most_per_user else nullcontext():
            return self._db.run_step(lambda tx: self._queue.claim(tx, worker, limit, request_id))

    def claimed_before(self, asked: Collection[Asking]) -> dict[Asking, list[Assignment]]:
        """What the same requests were answered before, as far as it is still held."""
        return self._db.run_step(lambda tx: self._queue.claim_again(tx, asked))

    def heartbeat(
        self,
        worker_id: str,
        claims: Sequence[Claim],
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
    ) -> Pulse:
        if self.known is not None and not claims and not stalled:
            known = self.known.beat(worker_id, answered)
            if known is not None:
                return self._pulse({}, known)
        if answered:
            held = [*claims, *stalled]
            self._db.run(lambda tx: self._queue.free_unheard_of(tx, worker_id, answered, held))

        def beat(tx: Tx) -> tuple[Mapping[str, Beat], AdminState]:
            tx.is_silent = True
            state = fleet.seen(tx, worker_id)
            return (self._queue.heartbeat(tx, claims) if claims else {}), state

        beats, state = self._db.run_step(beat)
        if self.known is not None:
            self.known.written(worker_id, state)
        return self._pulse(beats, state)

    def _pulse(self, beats: Mapping[str, Beat], state: AdminState) -> Pulse:
        return Pulse(beats, state is not AdminState.ENABLED, self.lease_seconds)

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        said = [_shown_progress(report) for report in reports]
        return self._db.run_step(
            lambda tx: self._queue.progress(tx, [_stamped(tx, report) for report in said])
        )

    def declare(self, claim: Claim, renditions: Sequence[Rendition]) -> int:
        with self._db.read() as tx:
            job = jobs.held(tx, claim)
        if job is None:
            raise errors.ClaimLost("the claim is not held any more")
        if job.division is not None:
            # Of its whole it can say nothing new.
            return 0
        listed = cleaned(planned(renditions))
        declared = encode(listed)

        def keep(tx: Tx) -> None:
            job = jobs.lock_if_held(tx, claim)
            if job is None:
                raise errors.ClaimLost("the claim is not held any more")
            if job.media_id is not None and kinds.output_of(job.kind) == kinds.WATCH:
                version_id = library.start_version(tx, claim, job.media_id)
                if media_store.declare(tx, version_id, declared):
                    playback_store.note_watchable(tx, version_id)

        self._db.run(keep)
        return len(listed)

    def _recorded(self, tx: Tx, version_id: str, name: str) -> None:
        if growing.is_first(name):
            playback_store.note_watchable(tx, version_id)

    def complete_plain(self, completions: Sequence[Completion]) -> set[str]:
        """Those without files, together; returns the ids that are now completed."""
        results = [(each.claim, each.result) for each in completions]
        return self._db.run_step(lambda tx: self._queue.complete_many(tx, results))

    def complete(self, completion: Completion) -> State:
        """Publish and complete; raises a Conflict when it is not this claim's to say."""
        files = self._verify(completion)
        claim, result = completion.claim, completion.result
        heard = self._transcript(completion)
        done = self._db.run(
            lambda tx: library.complete(tx, self._queue, claim, result, files=files, heard=heard)
        )
        self._discard_unused(done.left_out)
        return done.state

    def _transcript(self, completion: Completion) -> Prepared | ToldApart | None:
        """Of the passages that the claim's job has kept; None for a job that keeps none."""
        if completion.manifest is None:
            return None
        with self._db.read() as tx:
            held = jobs.held(tx, completion.claim)
            job = jobs.get(tx, completion.claim.job_id)
            if held is None or job is None or job.kind != pipeline.TRANSCRIBE:
                return None
            contents = passage_store.read(tx, completion.claim.job_id)
        engine = passages.engine_of(completion.result)
        if passages.tells_speakers_only(job.args):
            return ToldApart(turns=passages.turns(contents) or (), model=engine.diarization_model)
        return archive.prepared(passages.made_of(contents, engine))

    def fail(self, claim: Claim, error_class: str, code: str, message: str) -> State:
        kind = ErrorClass(error_class)
        code, message = sanitize.word(code) or "failed", sanitize.sanitize(message)
        return self._db.run(
            lambda tx: self._queue.fail(tx, claim, kind, code=code, message=message)
        )

    def release(self, claim: Claim) -> State:
        return self._db.run(lambda tx: self._queue.release(tx, claim))

    def divide(self, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> State:
        return self._db.run(lambda tx: self._queue.divide(tx, claim, parts, checkpoint))

    def put_passage(self, claim: Claim, number: int, content: Any) -> int:
        if not 0 <= number < PASSAGES_LIMIT:
            raise errors.BadField("number", f"must be between 0 and {PASSAGES_LIMIT - 1}")
        if len(job_data.encode(content)) > PASSAGE_LIMIT_BYTES:
            raise errors.BadField("content", "is too long for one passage")
        content = sanitize.speech(content)
        told = passages.told(number, content)
        if not self._db.run(lambda tx: passage_store.put(tx, claim, number, content, told)):
            raise errors.ClaimLost("the claim is not held any more")
        return number

    def passages(self, claim: Claim) -> list[Any]:
        with self._db.read() as tx:
            if jobs.held(tx, claim) is None:
                raise errors.ClaimLost("the claim is not held any more")
            return passage_store.read(tx, claim.job_id)

    def transcript(self, claim: Claim) -> JsonObject | None:
        with self._db.read() as tx:
            job = jobs.held(tx, claim)
            if job is None:
                raise errors.ClaimLost("the claim is not held any more")
            kept = archive.current(tx, job.media_id) if job.media_id else None
        if kept is None:
            return None
        return {**transcripts.encode(kept.transcript), "speakers": dict(kept.names)}

    def log(self, worker_id: str, claim: Claim, lines: Sequence[str]) -> int:
        newest = lines[-LOG_LINES:]
        if not self._db.run(lambda tx: log_store.append(tx, claim, worker_id, newest)):
            raise errors.ClaimLost("the claim is not held any more")
        return len(lines)

    def owned(self, worker_id: str, claims: Iterable[Claim], grant: Grant) -> list[Claim]:
        with self._db.read() as tx:
            kinds = [(each, read_store.kind_claimed_by(tx, each, worker_id)) for each in claims]
        return [each for each, kind in kinds if kind is not None and grant.covers(kind)]

    def _follow(self, tx: Tx, wholes: Collection[str]) -> None:
        """Parts have got on: tell it of the jobs they belong to, now and then."""
        now = time.monotonic()
        due = [
            id
            for id in wholes
            if now - self._followed_at.get(id, -FOLLOW_SECONDS) >= FOLLOW_SECONDS
        ]
        for id in due:
            library.follow_parts(tx, id)
        recent = {id: at for id, at in self._followed_at.items() if now - at < FOLLOW_SECONDS}
        self._followed_at = recent | dict.fromkeys(due, now)


def shown_hello(hello: Hello) -> Hello:
    said = capability_words(hello.capabilities)
    words = [sanitize.line(each, CAPABILITY_LENGTH) for each in said]
    capabilities = dict.fromkeys(word for word in words if word)
    return replace(
        hello,
        capabilities=list(_fitting(capabilities, HELLO_LIMIT_BYTES)),
        metadata=_fitting(sanitize.tree(hello.metadata), HELLO_LIMIT_BYTES),
    )


def _shown_progress(report: Progress) -> Progress:
    detail = report.detail
    return replace(
        report,
        stage=sanitize.word(report.stage),
        engine_id=sanitize.word(report.engine_id),
        engine_model=sanitize.word(report.engine_model),
        detail=None if detail is None else _fitting(sanitize.tree(detail), DETAIL_LIMIT_BYTES),
    )


def _stamped(tx: Tx, report: Progress) -> Progress:
    """With when its renditions began and were whole, by the clock that decides."""
    if report.detail is None or not any(name in report.detail for name in LISTS):
        return report
    job = jobs.get(tx, report.claim.job_id)
    told = stamped(report.detail, job.detail if job else None, read_store.now(tx))
    return replace(report, detail=told)


def _fitting(members: JsonObject, limit_bytes: int) -> JsonObject:
    """Those that fit into so much JSON, from the first on."""
    kept, room = {}, limit_bytes - len("{}")
    for name, value in members.items():
        room -= len(job_data.encode({name: value}).encode())
        if room < 0:
            break
        kept[name] = value
    return kept


class WorkerCalls(Coordinator):
    """What one worker may say. Without a `grant` it is one of the server's own, and is believed;
    another's claim, or one that the key is not for, is as good as none."""

    def __init__(
        self, dispatch: Dispatch, worker_id: str, worker_name: str, grant: Grant | None
    ) -> None:
        self._dispatch = dispatch
        self._id = worker_id
        self._name = worker_name
        self._grant = grant

    def call(self, verb: Verb, arguments: JsonObject) -> Any:
        claims = [found for value in arguments.values() if (found := _claim_of(value))]
        if not claims:
            # Without one nobody could say whose it is: such a verb is written here.
            raise NotImplementedError(verb.name)
        for each in claims:
            self.check(each)
        return getattr(self._dispatch, verb.name)(**arguments)

    def check(self, claim: Claim) -> None:
        """Raises ClaimLost for what is not this worker's."""
        if self._grant is not None and not self._dispatch.owned(self._id, [claim], self._grant):
            raise errors.ClaimLost("the claim is not held any more")

    def hello(self, hello: Hello) -> Terms | None:
        said = hello
        if self._grant is not None:
            kinds.check_remote(hello.kinds)
            said = replace(hello, kinds=[kind for kind in hello.kinds if self._grant.covers(kind)])
            self._grant.check([] if said.kinds else hello.kinds)
        self._dispatch.hello(self._id, said)
        return Terms(
            worker_id=self._id,
            name=self._name,
            kinds=said.kinds,
            heartbeat_seconds=self._dispatch.heartbeat_seconds,
            lease_seconds=self._dispatch.lease_seconds,
            keep_completed_qualities=self._dispatch.keep_completed_qualities,
        )

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
    ) -> Pulse:
        mine = claims
        if self._grant is not None:
            mine = self._dispatch.owned(self._id, claims, self._grant)
        pulse = self._dispatch.heartbeat(self._id, mine, stalled, answered)
        beats = {each.claim_id: pulse.claims.get(each.claim_id, Beat(False)) for each in claims}
        return replace(pulse, claims=beats)

    def progress(self, report: Progress) -> Renewed:
        self.check(report.claim)
        beat = self._dispatch.progress([report])[report.claim.claim_id]
        if not beat.held:
            raise errors.ClaimLost("the claim is not held any more")
        return Renewed(True, beat.cancel, self._dispatch.lease_seconds)

    def complete(self, completion: Completion) -> str:
        self.check(completion.claim)
        if self._grant is not None:
            completion = replace(completion, result=sanitize.tree(completion.result))
        return self._dispatch.complete(completion)

    def divide(self, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> str:
        self.check(claim)
        if self._grant is not None:
            self._grant.check({each.kind for each in parts})
        return self._dispatch.divide(claim, parts, checkpoint)

    def log(self, claim: Claim, lines: Sequence[str]) -> int:
        self.check(claim)
        return self._dispatch.log(self._id, claim, lines)


def _claim_of(value: Any) -> Claim | None:
    found = value if isinstance(value, Claim) else getattr(value, "claim", None)
    return found if isinstance(found, Claim) else None


class Ask(Protocol):
    """Claim together with all others who wait; None when that is over."""

    def __call__(
        self, claimant: Claimant, limit: int, request_id: str | None, *, now: bool
    ) -> Future[list[Assignment]] | None: ...


class Local(WorkerCalls):
    """The in-process transport of one worker."""

    def __init__(
        self,
        dispatch: Dispatch,
        db: Database,
        bell: wakeup.Wakeup,
        *,
        worker_id: str,
        worker_name: str,
        poll_seconds: float = 2.0,
        stands_aside: Callable[[], bool] = lambda: False,
        lowest_priority: Priority = Priority.LOW,
        most_per_user: int | None = None,
        ask: Ask | None = None,
    ) -> None:
        """`stands_aside`: asked before each claim whether the jobs are better left to others.
        `ask`: who claims for all workers of this process together, if anybody does. For the rest
        see `Claimant`."""
        super().__init__(dispatch, worker_id, worker_name, None)
        self._db = db
        self._bell = bell
        self._poll_seconds = poll_seconds
        self._stands_aside = stands_aside
        self._me = Claimant(
            id=worker_id,
            name=worker_name,
            kinds=(),
            lowest_priority=lowest_priority,
            most_per_user=most_per_user,
        )
        self._ask = ask
        self._interrupted = False
        self._asked: str | None = None
        self._waits_for: Future[list[Assignment]] | None = None

    def hello(self, hello: Hello) -> None:
        """On the terms that the worker was started with."""
        self._me = replace(
            self._me,
            kinds=tuple(hello.kinds),
            capabilities=tuple(capability_words(hello.capabilities)),
            boot_id=hello.boot_id,
        )
        urgent = self._me.lowest_priority is Priority.HIGH
        self._db.run(lambda tx: fleet.register(tx, self._me.id, self._me.name, for_urgent=urgent))
        super().hello(hello)

    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
    ) -> list[Assignment]:
        until = time.monotonic() + wait_seconds
        # In this process only the database can lose an answer; then the loop asks once more.
        again, self._asked = request_id == self._asked, request_id
        if again and request_id is not None:
            asking = Asking(self._me.id, request_id)
            if held := self._dispatch.claimed_before([asking]).get(asking):
                return held
        while True:
            mark = self._bell.mark()
            left = until - time.monotonic()
            # Jittered, so that workers that started together do not poll together.
            pause = min(left, self._poll_seconds * random.uniform(0.75, 1.25))
            found, has_waited = self._found(limit, request_id, pause)
            left = until - time.monotonic()
            if found or left <= 0 or self._interrupted:
                return found
            if not has_waited:
                self._bell.wait(mark, min(left, pause))

    def _found(
        self, limit: int, request_id: str | None, wait_seconds: float
    ) -> tuple[list[Assignment], bool]:
        """What there is, and whether it was waited for already."""
        if self._stands_aside():
            return [], False
        taken = self._claimed_with_others(limit, request_id, wait_seconds)
        if taken is not None:
            return taken, True
        return self._dispatch.claim(self._me, limit, request_id), False

    def _claimed_with_others(
        self, limit: int, request_id: str | None, wait_seconds: float
    ) -> list[Assignment] | None:
        """None when nobody claims for all."""
        if self._ask is None:
            return None
        now = wait_seconds <= 0
        answer = self._waits_for = self._ask(self._me, limit, request_id, now=now)
        if answer is None:
            return None
        if self._interrupted:
            answer.cancel()
        try:
            return answer.result(None if now else wait_seconds)
        except CancelledError:
            return []
        except TimeoutError:
            return [] if answer.cancel() else answer.result()

    def complete_all(self, completions: Sequence[Completion]) -> dict[str, str]:
        """Those without files together. Those that others follow one by one, with what follows."""
        is_led = kinds.ones_own_are_followed()
        plain = [each for each in completions if each.manifest is None and not is_led]
        done = self._dispatch.complete_plain(plain) if plain else set()
        left = [each for each in completions if each.claim.job_id not in done]
        return dict.fromkeys(done, str(State.COMPLETED)) | super().complete_all(left)

    def source(self, claim: Claim, media_id: str | None = None) -> Source:
        return self._dispatch.source(claim, media_id)[1]

    def read_source(self, claim: Claim, start: int, media_id: str | None = None) -> Iterator[bytes]:
        key, _ = self._dispatch.source(claim, media_id)
        return self._dispatch.storage.read(key, start)

    def put_artifact(
        self, claim: Claim, name: str, content: bytes | Path, seconds: float | None = None
    ) -> Artifact:
        return self._dispatch.put_artifact(claim, name, content, sha256_of(content), seconds)

    def interrupt(self) -> None:
        self._interrupted = True
        if (answer := self._waits_for) is not None:
            answer.cancel()
        self._bell.ring_here()
