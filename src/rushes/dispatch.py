"""Where workers meet queue and library: claims go out, reports and artifacts come in.

`Dispatch` serves every worker; `WorkerCalls` is what one of them may say, the end of both
transports: `Local` for those in this process, and the HTTP routes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from rushes import errors, kinds, protocol, sanitize, tracing, worker_settings
from rushes.accounts.known_workers import KnownWorkers
from rushes.db.database import Database, Tx
from rushes.fleet import store as fleet
from rushes.fleet.words import shown_hello, shown_progress, shown_standing
from rushes.fleet.worker import AdminWord
from rushes.jobs import job as job_data
from rushes.jobs import log_store, passage_store, read_store
from rushes.jobs import store as jobs
from rushes.jobs.job import ErrorClass, State
from rushes.jobs.policy import Look
from rushes.jobs.queue import Queue
from rushes.jobs.request_store import Asking
from rushes.jobs.terms import Claimant
from rushes.kinds import Grant
from rushes.media import library, pipeline
from rushes.media import store as media_store
from rushes.media.files import Files
from rushes.metrics import Metrics
from rushes.playback import growing
from rushes.playback import store as playback_store
from rushes.protocol import (
    PASSAGE_LIMIT_BYTES,
    PASSAGES_LIMIT,
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
    Standing,
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
LOG_LINES = 1_000
Found = TypeVar("Found", bound=Sized)


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
        metrics: Metrics | None = None,
    ) -> None:
        """For workers elsewhere: how far apart their heartbeats are to be, and whether they go on
        with what an earlier attempt has finished."""
        super().__init__(db, open_storage)
        self._queue = queue
        self._metrics = metrics or Metrics()
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

    def hello(self, worker_id: str, hello: Hello) -> AdminWord:
        """A process that starts tells that the one before it is gone: what that held is freed. One
        whose protocol is not spoken here is noted, but for no kind of work."""
        boot_id = hello.boot_id
        while boot_id and self._db.run(
            lambda tx: self._queue.bury_other_boots(tx, worker_id, boot_id)
        ):
            pass
        said = shown_hello(hello)
        word = self._db.run(
            lambda tx: fleet.hello(
                tx,
                worker_id,
                kinds=[] if protocol.why_not_spoken(said.protocol) else said.kinds,
                capabilities=capability_words(said.capabilities),
                metadata=said.metadata,
                boot_id=boot_id,
                own_settings=worker_settings.believed(said.settings or {}),
                protocol=said.protocol,
            )
        )
        if self.known is not None:
            self.known.forget(worker_id)
        return word

    def capabilities_of(self, worker_id: str) -> Sequence[str]:
        with self._db.read() as tx:
            found = fleet.get(tx, worker_id)
        return found.capabilities if found else ()

    def offers(self, kinds: Collection[str]) -> Look:
        """What there is to claim now, for whomever."""
        with self._db.read() as tx:
            return self._queue.offers(tx, kinds)

    def claim(
        self,
        worker: Claimant,
        limit: int,
        request_id: str | None = None,
        offers: Look | None = None,
    ) -> list[Assignment]:
        """What there is now; waiting is for the transports. Two that keep to a number per user must
        not both count before either has claimed. `offers`: what there was a moment ago."""
        began = time.monotonic()
        with self._one_by_one if worker.most_per_user else nullcontext():
            jobs = self._db.run_step(
                _told_if_found(lambda tx: self._queue.claim(tx, worker, limit, request_id, offers))
            )
        self._metrics.claim_answered(began, "jobs" if jobs else "none")
        return [_traced(each) for each in jobs] if tracing.is_on() else jobs

    def claimed_before(self, asked: Collection[Asking]) -> dict[Asking, list[Assignment]]:
        """What the same requests were answered before, as far as it is still held."""
        return self._db.run_step(_told_if_found(lambda tx: self._queue.claim_again(tx, asked)))

    def heartbeat(
        self,
        worker_id: str,
        claims: Sequence[Claim],
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        began = time.monotonic()
        if standing is not None:
            told = shown_standing(standing)
            self._db.run(lambda tx: fleet.stand(tx, worker_id, told))
        elif not claims and not stalled and (pulse := self.idle_pulse(worker_id, answered)):
            return pulse
        if answered:
            held = [*claims, *stalled]
            self._db.run(lambda tx: self._queue.free_unheard_of(tx, worker_id, answered, held))

        def beat(tx: Tx) -> tuple[Mapping[str, Beat], AdminWord]:
            tx.is_silent = True
            word = fleet.seen(tx, worker_id)
            return (self._queue.heartbeat(tx, claims) if claims else {}), word

        beats, word = self._db.run_step(beat)
        if self.known is not None:
            self.known.written(worker_id, word)
        self._metrics.heartbeat_answered(began, "database")
        return self._pulse(beats, word)

    def idle_pulse(self, worker_id: str, answered: Sequence[str]) -> Pulse | None:
        """The answer to a worker that holds nothing and was heard of lately, without asking the
        database; None: it has to be asked."""
        began = time.monotonic()
        word = self.known.beat(worker_id, answered) if self.known is not None else None
        if word is None:
            return None
        self._metrics.heartbeat_answered(began, "memory")
        return self._pulse({}, word)

    def _pulse(self, beats: Mapping[str, Beat], word: AdminWord) -> Pulse:
        return Pulse(beats, not word.may_work, self.lease_seconds, word.settings, word.etag)

    def progress(self, reports: Sequence[Progress]) -> Mapping[str, Beat]:
        said = [shown_progress(report) for report in reports]
        return self._db.run_step(
            lambda tx: self._queue.progress(tx, [_stamped(tx, report) for report in said])
        )

    def declare(self, claim: Claim, renditions: Sequence[Rendition]) -> int:
        with self._db.read() as tx:
            job = jobs.held(tx, claim)
        if job is None:
            raise errors.ClaimLost("the claim is not held any more")
        if job.division is not None and not kinds.is_quick(job.kind):
            # Of its whole it can say nothing new.
            return 0
        listed = cleaned(planned(renditions))
        declared = encode(listed)

        def keep(tx: Tx) -> None:
            job = jobs.lock_if_held(tx, claim)
            if job is None:
                raise errors.ClaimLost("the claim is not held any more")
            makes = kinds.output_of(job.kind) == kinds.WATCH or kinds.is_quick(job.kind)
            if job.media_id is not None and makes:
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
        with tracing.span("publish", job_id=completion.claim.job_id):
            if completion.manifest is None and self._complete_bare(completion):
                return State.COMPLETED
            return self._publish(completion)

    def _publish(self, completion: Completion) -> State:
        files = self._verify(completion)
        claim, result = completion.claim, completion.result
        heard = self._transcript(completion)
        done = self._db.run(
            lambda tx: library.complete(tx, self._queue, claim, result, files=files, heard=heard)
        )
        self._discard_unused(done.left_out)
        return done.state

    def _complete_bare(self, completion: Completion) -> bool:
        """A job without media has nothing to publish, and nothing follows it."""
        results = [(completion.claim, completion.result)]
        complete = _told_if_found(lambda tx: self._queue.complete_many(tx, results, bare=True))
        return bool(self._db.run_step(complete))

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


def _told_if_found(look: Callable[[Tx], Found]) -> Callable[[Tx], Found]:
    """Who has found nothing has changed nothing: nobody need look at it."""

    def run(tx: Tx) -> Found:
        found = look(tx)
        tx.is_silent = not found
        return found

    return run


def _traced(job: Assignment) -> Assignment:
    """With its wait as a span, below which its attempt goes on."""
    waited = tracing.past(
        "wait",
        job.waited_seconds,
        job.trace,
        kind=job.kind,
        job_id=job.job_id,
        attempt=job.attempt,
    )
    return replace(job, trace=waited)


def _stamped(tx: Tx, report: Progress) -> Progress:
    """With when its renditions began and were whole, by the clock that decides."""
    if report.detail is None or not any(name in report.detail for name in LISTS):
        return report
    job = jobs.get(tx, report.claim.job_id)
    told = stamped(report.detail, job.detail if job else None, read_store.now(tx))
    return replace(report, detail=told)


class WorkerCalls(Coordinator):
    """What one worker may say. Without a `grant` it is one of the server's own, and is believed;
    another's claim, or one that the key is not for, is as good as none."""

    def __init__(
        self, dispatch: Dispatch, worker_id: str, worker_name: str, grant: Grant | None
    ) -> None:
        self._dispatch = dispatch
        self._id = self.worker_id = worker_id
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
        word = self._dispatch.hello(self._id, said)
        return Terms(
            worker_id=self._id,
            name=self._name,
            kinds=[] if word.upgrade else said.kinds,
            heartbeat_seconds=self._dispatch.heartbeat_seconds,
            lease_seconds=self._dispatch.lease_seconds,
            keep_completed_qualities=self._dispatch.keep_completed_qualities,
            protocol=protocol.version_text(protocol.VERSION),
            upgrade=word.upgrade,
            settings=word.settings,
            terms_etag=word.etag,
        )

    def heartbeat(
        self,
        claims: Sequence[Claim] = (),
        stalled: Sequence[Claim] = (),
        answered: Sequence[str] = (),
        standing: Standing | None = None,
    ) -> Pulse:
        mine = claims
        if self._grant is not None:
            mine = self._dispatch.owned(self._id, claims, self._grant)
        pulse = self._dispatch.heartbeat(self._id, mine, stalled, answered, standing)
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
