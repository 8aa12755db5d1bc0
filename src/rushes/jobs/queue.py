"""The verbs of the queue. Each takes a transaction and leaves committing to its caller.

`lifecycle` and `policy` decide, `store` guards and writes; wake-ups are rung after the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushes import errors, ids, kinds
from rushes.db.database import Tx
from rushes.jobs import job as jobs
from rushes.jobs import (
    lifecycle,
    passage_store,
    policy,
    read_store,
    relation_store,
    request_store,
    store,
)
from rushes.jobs.job import Ended, ErrorClass, Job, JobRow, NewJob, Priority, Renewal, State
from rushes.jobs.lifecycle import Held, Lost, Settlement
from rushes.jobs.policy import Strand
from rushes.jobs.relation_store import Relations
from rushes.jobs.request_store import Asking
from rushes.protocol import PARTS_LIMIT, Assignment, Beat, Claim, Part, Progress
from rushes.records import JsonObject
from rushes.wakeup import InProcessWakeup, Wakeup

ERROR_LIMIT = 2_000
WORD_LIMIT = 100
SWEEP_PAGE = 100
# So many batches in a row may come from one lane before a better one is looked for.
LOOK_AFTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """On what terms jobs are held; from the settings."""

    lease_ms: int = 60_000
    heartbeat_ms: int = 15_000
    attempt_timeout_ms: int = 6 * 3_600_000
    max_attempts: int = 3
    policy: policy.Policy = policy.Policy.FIFO
    prefer_wait_ms: int = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A worker as the claim sees it. `most_per_user`: while so many jobs of a kind and a user are
    under way, wherever, it takes no more of them, and users have turns whatever the policy."""

    id: str
    name: str
    kinds: Sequence[str]
    capabilities: Sequence[str] = ()
    boot_id: str | None = None
    lowest_priority: Priority = Priority.LOW
    most_per_user: int | None = None

    def policy(self, usual: policy.Policy) -> policy.Policy:
        return policy.Policy.FAIR if self.most_per_user else usual

    def alike(self) -> Claimant:
        """The same for all who are offered the same jobs."""
        kinds, capabilities = tuple(sorted(self.kinds)), tuple(sorted(self.capabilities))
        return replace(self, id="", name="", boot_id=None, kinds=kinds, capabilities=capabilities)

    def could_take(self, offer: Strand) -> bool:
        hard = {need for need in offer.needs if not need.endswith("?")}
        is_able = offer.kind in self.kinds and hard <= set(self.capabilities)
        return is_able and offer.priority <= self.lowest_priority


@dataclass(frozen=True, slots=True)
class Enqueued:
    """`created` is false when a live job with the same key was there already."""

    id: str
    created: bool


class Queue:
    def __init__(
        self,
        terms: QueueTerms | None = None,
        *,
        bell: Wakeup | None = None,
        kinds: Callable[[], Iterable[str] | None] = lambda: None,
    ) -> None:
        """`bell` wakes waiting workers after a commit; `kinds` tells the kinds that are known."""
        self.terms = terms or QueueTerms()
        self._bell = bell or InProcessWakeup()
        self._relations = Relations(self._bell)
        # Called with the divided jobs whose parts have got on, in the transaction that says so.
        self.on_parts: Callable[[Tx, Collection[str]], None] = lambda tx, wholes: None
        self._last: dict[str, tuple[policy.Strand, int]] = {}
        self._kinds = kinds

    # Into the queue

    def enqueue(self, tx: Tx, new: NewJob) -> Enqueued:
        return self.enqueue_many(tx, [new])[0]

    def enqueue_many(self, tx: Tx, news: Sequence[NewJob]) -> list[Enqueued]:
        """Returns one per new job, in order; a live job with the same key is returned instead."""
        rows = self._referring(tx, [self._row(new) for new in news])
        notify = self._bell.is_quiet()
        created = store.insert(tx, rows, notify=notify) if rows else set()
        answers = [
            Enqueued(row.id, True) if row.id in created else self._twin(tx, row) for row in rows
        ]
        if created:
            tx.wake_after_commit(self._bell.ring_here if notify else self._bell.ring)
        return answers

    def retry(
        self,
        tx: Tx,
        job_id: str,
        args: JsonObject | None = None,
        *,
        dedupe_key: str | None = None,
        parent_id: str | None = None,
    ) -> Enqueued:
        """An ended job stays ended; a new one takes its place, and its checkpoint. Twice is the
        same as once. A part is nothing by itself: the job it belongs to is retried. Passages are
        of no use to a job with other arguments. One whose worker has yet to stop holds its key:
        another may take its place under a key of its own. The new one waits for `parent_id`."""
        old = self._get(tx, job_id)
        if old.division is not None and old.parent_id is not None:
            old = self._get(tx, old.parent_id)
        is_stopping = old.cancel_requested_at is not None and dedupe_key is not None
        if old.state not in jobs.TERMINAL and not is_stopping:
            raise errors.WrongState(f"the job is {old.state}: only an ended job can be retried")
        again = jobs.again(old, old.args if args is None else args)
        key = dedupe_key or again.dedupe_key
        new = self.enqueue(tx, replace(again, dedupe_key=key, parent_id=parent_id))
        if new.created:
            relation_store.copy_checkpoint(tx, old.id, new.id)
            if jobs.encode(dict(again.args)) == jobs.encode(old.args):
                passage_store.copy(tx, old.id, new.id)
        return new

    # Held by a worker

    def claim(
        self, tx: Tx, worker: Claimant, limit: int = 1, request_id: str | None = None
    ) -> list[Assignment]:
        """Up to `limit` jobs, best first. Each strand is asked once: a lost race costs nothing."""
        if taken := self._claim_from_last(tx, worker, limit, request_id):
            return taken
        strands = self._strands(tx, worker)
        chosen = worker.policy(self.terms.policy)
        share = 1 if worker.most_per_user else policy.share(chosen, limit, len(strands))
        for strand in policy.order(chosen, strands):
            wanted = min(share, limit - len(taken))
            if wanted == 0:
                break
            rows = self._claim_from(tx, worker, strand, wanted, request_id)
            taken += rows
            if rows and limit > 1 and strand.user_id is None:
                self._last[worker.id] = (strand, LOOK_AFTER)
        return taken

    def offers(self, tx: Tx, kinds: Iterable[str]) -> list[Strand]:
        """What is due, whatever it needs."""
        return store.waiting(
            tx,
            None,
            jobs.encode(sorted(kinds)),
            by_user=False,
            lowest_priority=Priority.LOW,
            most_per_user=None,
        )

    def claim_again(self, tx: Tx, asked: Iterable[Asking]) -> dict[Asking, list[Assignment]]:
        """The answers of claims to whoever did not get them, as far as they are still held."""
        return request_store.renew_requests(tx, asked, self.terms.lease_ms)

    def unheard_of(self, tx: Tx, answered: Iterable[Asking]) -> set[str]:
        """The workers that hold something by requests of theirs that were answered: for who holds
        nothing any more, to be freed."""
        return request_store.holders(tx, answered)

    def free_unheard_of(
        self, tx: Tx, worker_id: str, requests: Sequence[str], held: Sequence[Claim]
    ) -> dict[str, State]:
        """What was claimed for a worker that has got the answers to these requests, and does not
        hold it: some answer was lost. The attempt is given back."""
        rows = request_store.lock_unheard_of(tx, worker_id, requests, held, SWEEP_PAGE)
        return self._lose(tx, rows, expired=False)

    def heartbeat(self, tx: Tx, claims: Sequence[Claim]) -> dict[str, Beat]:
        """Returns one `Beat` per claim id."""
        rows = store.renew_if_held(tx, claims, self.terms.lease_ms)
        held = {each.claim_id: Beat(True, each.cancel) for each in rows}
        return {claim.claim_id: held.get(claim.claim_id, Beat(False)) for claim in claims}

    def progress(self, tx: Tx, reports: Sequence[Progress]) -> dict[str, Beat]:
        claims = [report.claim for report in reports]
        for report in reports:
            if not 0 <= report.progress <= 1:
                raise errors.BadField("progress", "must be between 0 and 1")
        said = [
            jobs.Report(
                id=report.claim.job_id,
                claim_id=report.claim.claim_id,
                progress=report.progress,
                stage=jobs.storable(report.stage, WORD_LIMIT),
                checkpoint=None if report.checkpoint is None else jobs.encode(report.checkpoint),
                engine_id=jobs.storable(report.engine_id, WORD_LIMIT),
                engine_model=jobs.storable(report.engine_model, WORD_LIMIT),
                detail=jobs.told_in(report.detail, report.stage),
            )
            for report in reports
        ]
        rows = store.progress_if_held(tx, said, self.terms.lease_ms)
        if wholes := _wholes(rows):
            self.on_parts(tx, wholes)
        held = {each.claim_id: Beat(True, each.cancel) for each in rows}
        return {claim.claim_id: held.get(claim.claim_id, Beat(False)) for claim in claims}

    def complete(self, tx: Tx, claim: Claim, result: Any = None) -> State:
        """`completed`; raises ClaimLost or CancelRequested when it is not this claim's to say."""
        if claim.job_id in self.complete_many(tx, [(claim, result)]):
            return State.COMPLETED
        return self._why_not_held(tx, claim, complete=True)

    def complete_many(self, tx: Tx, results: Sequence[tuple[Claim, Any]]) -> set[str]:
        """Complete what is still held; returns those ids. The rest is to be asked one by one."""
        encoded = [(claim, None if r is None else jobs.encode(r)) for claim, r in results]
        completed = store.complete_if_held(tx, encoded)
        self._relations.unblock(tx, [each.id for each in completed if each.awaited])
        if wholes := _wholes(completed):
            self.on_parts(tx, wholes)
            self._relations.join_parts(tx, wholes)
        return {each.id for each in completed}

    def fail(
        self, tx: Tx, claim: Claim, error: ErrorClass, *, code: str = "failed", message: str = ""
    ) -> State:
        """Where the job went: `queued` for another try, `failed`, or `canceled`."""
        code = jobs.storable(code, WORD_LIMIT) or "failed"
        return self._settle(
            tx, claim, lambda job: lifecycle.after_failure(job, error, code), message
        )

    def release(self, tx: Tx, claim: Claim) -> State:
        """Give the job back without counting the attempt."""
        return self._settle(tx, claim, lifecycle.after_release, "")

    def divide(self, tx: Tx, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> State:
        """`blocked`: the parts are next in line, and when all have completed the job is queued
        again to finish, with this checkpoint. The attempt does not count."""
        if not 1 <= len(parts) <= PARTS_LIMIT:
            raise errors.BadField("parts", f"must be between 1 and {PARTS_LIMIT}")
        whole = store.lock_if_held(tx, claim)
        if whole is None:
            return self._why_not_held(tx, claim)
        if whole.whole_id is not None:
            raise errors.WrongState("a part cannot be divided again")
        self._check_parts(tx, whole, parts)
        rows = [self._part(whole, part) for part in parts]
        kept = None if checkpoint is None else jobs.encode(checkpoint)
        state = self._settle_held(tx, whole, lifecycle.after_division(whole.facts), "", kept)
        if state is State.BLOCKED:
            store.insert(tx, rows)
            tx.wake_after_commit(self._bell.ring)
        return state

    # By people, and by itself

    def cancel(self, tx: Tx, job_id: str) -> State:
        """`canceled`, or `processing` while a worker has yet to stop, however often that is asked
        for. WrongState for a job that has ended in whichever way."""
        changed = self.cancel_many(tx, [job_id])
        if job_id in changed:
            return changed[job_id]
        job = self._get(tx, job_id)
        if job.state in jobs.TERMINAL:
            raise errors.WrongState(f"the job is {job.state} already")
        return job.state

    def cancel_many(self, tx: Tx, job_ids: Iterable[str]) -> dict[str, State]:
        """Parts go with the job they belong to, and it goes with any of them."""
        changed = store.cancel(tx, job_ids)
        self._relations.end(tx, [each.id for each in changed if each.state is State.CANCELED])
        self._relations.join_parts(tx, _wholes(changed))
        return {each.id: each.state for each in changed}

    def sweep(self, tx: Tx) -> dict[str, State]:
        """End one page of attempts whose lease or deadline is over; returns where the jobs went."""
        rows = store.lock_expired(tx, SWEEP_PAGE, lease_ms=self.terms.lease_ms)
        return self._lose(tx, rows, expired=True)

    def fail_lost_of(self, tx: Tx, workers: str) -> dict[str, State]:
        """The same for those of workers that are known to be dead, by what their ids begin with."""
        return self._lose(tx, store.lock_held_by(tx, workers, SWEEP_PAGE), expired=False)

    def bury_other_boots(self, tx: Tx, worker_id: str, boot_id: str) -> dict[str, State]:
        """The same for what other processes of a worker held, when this one starts."""
        rows = store.lock_of_other_boots(tx, worker_id, boot_id, SWEEP_PAGE)
        return self._lose(tx, rows, expired=False)

    def _lose(self, tx: Tx, lost: Sequence[Lost], *, expired: bool) -> dict[str, State]:
        settlements = [
            Settlement(
                id=each.id,
                claim_id=each.claim_id,
                next=lifecycle.after_loss(each.facts, each.loss),
            )
            for each in lost
        ]
        if not settlements:
            return {}
        changed = store.settle(tx, settlements, expired=expired)
        silent = {each.claimed_by for each in lost if each.loss.silent and each.id in changed}
        if silent:
            store.note_lost(tx, sorted(filter(None, silent)))
        tx.wake_after_commit(self._bell.ring)
        went = {each.id: each.next.state for each in settlements if each.id in changed}
        ended = {id for id, state in went.items() if state in jobs.TERMINAL}
        self._relations.unblock(tx, list(ended))
        self._relations.join_parts(tx, _wholes([each for each in lost if each.id in ended]))
        return went

    def heal(self, tx: Tx) -> int:
        """Free jobs that wait for what has ended: an enqueue may race its parent's end, and a
        server may die between the end of the last part and that of its whole."""
        return self._relations.heal(tx)

    # Inside

    def _row(self, new: NewJob) -> JobRow:
        jobs.check(new, kinds=self._kinds())
        priority = Priority[new.priority.upper()]
        needs = sorted(set(new.needs))
        return JobRow(
            id=ids.new("job"),
            kind=new.kind,
            media_id=new.media_id,
            user_id=new.user_id,
            state=State.QUEUED,
            priority=priority,
            lane=jobs.lane_of(priority, new.kind, needs),
            args=jobs.encode_args(new.args),
            needs=jobs.encode(needs),
            dedupe_key=new.dedupe_key,
            parent_id=new.parent_id,
            retry_of=new.retry_of,
            run_at=new.run_at or 0,
            delay_ms=int(new.delay_seconds * 1000),
            max_attempts=new.max_attempts or self.terms.max_attempts,
            timeout_ms=None if new.timeout_seconds is None else int(new.timeout_seconds * 1000),
        )

    def _check_parts(self, tx: Tx, whole: Held, parts: Sequence[Part]) -> None:
        """They do a share of this job: of a kind it may be divided into, on media it works on."""
        job = self._get(tx, whole.id)
        for kind in sorted({part.kind for part in parts}):
            if not kinds.may_divide_into(job.kind, kind):
                raise errors.BadField("parts", f"a {job.kind} job has no parts of kind {kind!r}")
        known = {job.media_id, *jobs.media_in(job.args)}
        if any(jobs.media_in(part.args) - known for part in parts):
            raise errors.BadField("parts", "may only name media that the job itself works on")

    def _part(self, whole: Held, part: Part) -> JobRow:
        """It has the place of its whole in the queue, so no other work comes in between."""
        new = NewJob(
            kind=part.kind,
            args=part.args,
            media_id=whole.media_id,
            user_id=whole.user_id,
            priority=whole.priority.word,
            needs=part.needs,
            max_attempts=whole.facts.max_attempts,
            timeout_seconds=whole.timeout_ms / 1000 if whole.timeout_ms else None,
        )
        return replace(
            self._row(new),
            parent_id=whole.id,
            division=whole.claim_epoch,
            queued_at=whole.queued_at,
        )

    def _referring(self, tx: Tx, rows: list[JobRow]) -> list[JobRow]:
        """Those whose parent has yet to complete are blocked."""
        media = {row.media_id for row in rows if row.media_id is not None}
        if media and (missing := store.missing_media(tx, media)):
            raise errors.BadField("media_id", f"no media {missing[0]}")
        parents = {row.parent_id for row in rows if row.parent_id is not None}
        states = store.states(tx, parents) if parents else {}
        return [_behind_parent(row, states) if row.parent_id else row for row in rows]

    def _twin(self, tx: Tx, row: JobRow) -> Enqueued:
        """The live job that kept this one out; if it has just ended, there is room again."""
        for _ in range(10):
            twin = store.live_twin(tx, row.dedupe_key, row.retry_of)
            if twin is not None:
                return Enqueued(twin, False)
            if store.insert(tx, [row]):
                tx.wake_after_commit(self._bell.ring)
                return Enqueued(row.id, True)
        raise errors.DatabaseBusy("the same job was started and ended again and again")

    def _strands(self, tx: Tx, worker: Claimant) -> list[policy.Strand]:
        fair = worker.policy(self.terms.policy) is policy.Policy.FAIR
        return store.waiting(
            tx,
            jobs.encode(list(worker.capabilities)),
            jobs.encode(list(worker.kinds)),
            by_user=fair,
            lowest_priority=worker.lowest_priority,
            most_per_user=worker.most_per_user,
        )

    def _claim_from_last(
        self, tx: Tx, worker: Claimant, limit: int, request_id: str | None
    ) -> list[Assignment]:
        """A worker that takes many at once goes on where it found work, and looks around only now
        and then: looking costs a round trip."""
        strand, times = self._last.pop(worker.id, (None, 0))
        if strand is None or times == 0 or limit == 1:
            return []
        taken = self._claim_from(tx, worker, strand, limit, request_id)
        times -= 1 if taken else 0
        if times:
            self._last[worker.id] = (strand, times)
        return taken

    def _claim_from(
        self,
        tx: Tx,
        worker: Claimant,
        strand: policy.Strand,
        limit: int,
        request_id: str | None,
    ) -> list[Assignment]:
        take = self._take(tx, worker, strand, request_id)
        taken = store.claim(tx, take, ids.new("clm"), limit)
        if taken and strand.user_id is not None:
            store.take_turn(tx, strand.user_id)
        return taken

    def _take(
        self, tx: Tx, worker: Claimant, strand: policy.Strand, request_id: str | None
    ) -> jobs.Take:
        return jobs.Take(
            lane=strand.lane,
            kind=strand.kind,
            user_id=strand.user_id,
            worker_id=worker.id,
            worker_name=worker.name,
            boot_id=worker.boot_id,
            request_id=request_id,
            delay_ms=self._courtesy_ms(tx, worker, strand),
            lease_ms=self.terms.lease_ms,
            timeout_ms=self.terms.attempt_timeout_ms,
            most_per_user=worker.most_per_user,
        )

    def _courtesy_ms(self, tx: Tx, worker: Claimant, strand: policy.Strand) -> int:
        """How long to leave a job to a worker that has what it prefers, if one is idle."""
        preferred = {need.removesuffix("?") for need in strand.needs if need.endswith("?")}
        if preferred <= set(worker.capabilities):
            return 0
        better = read_store.idle_worker_exists(
            tx,
            strand.kind,
            [need.removesuffix("?") for need in strand.needs],
            seen_within_ms=2 * self.terms.heartbeat_ms,
            besides=worker.id,
            urgent=strand.priority == Priority.HIGH,
        )
        return self.terms.prefer_wait_ms if better else 0

    def _settle(
        self,
        tx: Tx,
        claim: Claim,
        decide: Callable[[lifecycle.Facts], lifecycle.Next],
        message: str,
    ) -> State:
        relation_store.lock_whole(tx, claim.job_id)
        held = store.lock_if_held(tx, claim)
        if held is None:
            return self._why_not_held(tx, claim)
        return self._settle_held(tx, held, decide(held.facts), message)

    def _settle_held(
        self,
        tx: Tx,
        held: Held,
        next: lifecycle.Next,
        message: str,
        checkpoint: str | None = None,
    ) -> State:
        settlement = Settlement(
            id=held.id,
            claim_id=held.claim_id,
            next=next,
            error=jobs.storable(message, ERROR_LIMIT) or None,
            checkpoint=checkpoint,
        )
        if not store.settle(tx, [settlement]):
            raise errors.ClaimLost("the claim is not held any more")
        if next.state is State.QUEUED:
            tx.wake_after_commit(self._bell.ring)
        elif next.state in jobs.TERMINAL:
            self._relations.unblock(tx, [held.id])
            self._relations.join_parts(tx, _wholes([held]))
        return next.state

    def _why_not_held(self, tx: Tx, claim: Claim, *, complete: bool = False) -> State:
        """Repeating a report is harmless: it returns what the claim was given before."""
        closed = read_store.closed_attempt(tx, claim)
        ends = ("failed", "deferred", "released", "divided", "canceled")
        said = ("succeeded",) if complete else ends
        if closed is not None and closed.outcome in said:
            return closed.job_state
        if complete and closed is None:
            job = store.get(tx, claim.job_id)
            if job is not None and job.claim_id == claim.claim_id:
                raise errors.CancelRequested("the job is being canceled: give it back")
        raise errors.ClaimLost("the claim is not held any more")

    def _get(self, tx: Tx, job_id: str) -> Job:
        job = store.get(tx, job_id)
        if job is None:
            raise errors.NotFound(f"no job {job_id}")
        return job


def _behind_parent(row: JobRow, states: Mapping[str, State]) -> JobRow:
    match states.get(row.parent_id or ""):
        case None:
            raise errors.BadField("parent_id", f"no job {row.parent_id}")
        case State.FAILED | State.CANCELED as state:
            raise errors.WrongState(f"the parent job is {state}")
        case State.COMPLETED:
            return row
        case _:
            return replace(row, state=State.BLOCKED)


def _wholes(jobs: Iterable[Renewal | Ended | Held | Lost]) -> set[str]:
    """The divided jobs that these are parts of."""
    return {each.whole_id for each in jobs if each.whole_id is not None}
