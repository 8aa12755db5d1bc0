"""The verbs of the queue. Each takes a transaction and leaves committing to its caller.

`lifecycle` and `policy` decide, `store` guards and writes; wake-ups are rung after the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec import structs

from rushes import correlation, errors, ids, kinds, tracing
from rushes.db.database import Tx
from rushes.jobs import (
    division,
    enqueue_store,
    lifecycle,
    limit_store,
    limiting,
    passage_store,
    place_store,
    policy,
    read_store,
    relation_store,
    request_store,
    store,
)
from rushes.jobs import job as jobs
from rushes.jobs.job import Ended, Entry, ErrorClass, Job, NewJob, Priority, Renewal, State
from rushes.jobs.lifecycle import Held, Lost, Settlement
from rushes.jobs.looking import Looks
from rushes.jobs.observer import JobObserver
from rushes.jobs.places import Places
from rushes.jobs.policy import Look, Manner, Policy, Strand
from rushes.jobs.relation_store import Relations
from rushes.jobs.request_store import Asking
from rushes.jobs.store import Wanted
from rushes.jobs.terms import Claimant, QueueTerms
from rushes.metrics import Metrics
from rushes.protocol import Assignment, Beat, Claim, Part, Progress
from rushes.records import JsonObject
from rushes.wakeup import Hint, InProcessWakeup, Wakeup

ERROR_LIMIT = 2_000
WORD_LIMIT = 100
SWEEP_PAGE = 100
# So many batches in a row may come from one lane before a better one is looked for.
LOOK_AFTER = 4


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
        metrics: Metrics | None = None,
    ) -> None:
        """`bell` wakes waiting workers after a commit; `kinds` tells the kinds that are known."""
        self._observer = JobObserver(metrics or Metrics())
        self.terms = terms or QueueTerms()
        self._bell = bell or InProcessWakeup()
        self._relations = Relations(self._bell)
        self.places = Places(self._bell)
        # Called with the divided jobs whose parts have got on, in the transaction that says so.
        self.on_parts: Callable[[Tx, Collection[str]], None] = lambda tx, wholes: None
        self._last: dict[str, tuple[Strand, int]] = {}
        self._manner = Manner()
        self._kinds = kinds
        self._looks = Looks()

    # Into the queue

    def enqueue(self, tx: Tx, new: NewJob) -> Enqueued:
        return self.enqueue_many(tx, [new])[0]

    def enqueue_many(self, tx: Tx, news: Sequence[NewJob]) -> list[Enqueued]:
        """Returns one per new job, in order; a live job with the same key is returned instead."""
        with tracing.span("enqueue", jobs=len(news)):
            return self._enqueue(tx, self._referring(tx, self._entries(news)))

    def _enqueue(self, tx: Tx, entries: list[Entry]) -> list[Enqueued]:
        notify = self._bell.is_quiet()
        created = enqueue_store.insert(tx, entries, notify=notify) if entries else set()
        answers = [
            Enqueued(each.row.id, True) if each.row.id in created else self._twin(tx, each)
            for each in entries
        ]
        if created:
            self._wake(tx, [each for each in entries if each.row.id in created], told=notify)
        return answers

    def begin_early(self, tx: Tx, whole_id: str, new: NewJob) -> None:
        """Enqueue the beginning of a job that was just enqueued: somebody may do it while that one
        waits (decision 0023). Not if it need not wait, or nobody is there to do it."""
        is_offered = read_store.is_offered(tx, new.kind, seen_within_ms=self.terms.lease_ms)
        if not (is_offered and read_store.may_have_to_wait(tx, whole_id, new.media_id)):
            return
        [(alike, row)] = self._entries([new])
        begun = [Entry(alike, structs.replace(row, parent_id=whole_id, division=jobs.BEGINNING))]
        enqueue_store.insert(tx, begun)
        self._wake(tx, begun)

    def retry(
        self,
        tx: Tx,
        job_id: str,
        args: JsonObject | None = None,
        *,
        dedupe_key: str | None = None,
        parent_id: str | None = None,
        priority: str | None = None,
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
        key, word = dedupe_key or again.dedupe_key, priority or again.priority
        again = replace(again, dedupe_key=key, parent_id=parent_id, priority=word)
        new = self.enqueue(tx, again)
        if new.created:
            relation_store.copy_checkpoint(tx, old.id, new.id)
            if jobs.encode(dict(again.args)) == jobs.encode(old.args):
                passage_store.copy(tx, old.id, new.id)
        return new

    # Held by a worker

    def claim(
        self,
        tx: Tx,
        worker: Claimant,
        limit: int = 1,
        request_id: str | None = None,
        offers: Look | None = None,
    ) -> list[Assignment]:
        """Up to `limit` jobs, best first. Each strand is asked once: a lost race costs nothing.
        `offers` to this worker, from a moment ago, are asked first: looking costs a round trip."""
        if taken := self._claim_from_last(tx, worker, limit, request_id):
            return taken
        if offers is not None and self._is_plain(worker, offers):
            taken = self._claim_each(tx, worker, offers, limit, request_id)
        if taken:
            return taken
        look = self._look(tx, worker)
        if not look.limited:
            return self._claim_each(tx, worker, look, limit, request_id)
        with tx.together():
            # By one after the other, also of other servers: what runs is counted by each.
            own = limiting.names([limiting.worker_key(worker.name)])
            names = own.union(*(each.limit_names for each in look.strands))
            limits = limit_store.lock(tx, names)
            return self._claim_each(tx, worker, look, limit, request_id, limits)

    def _is_plain(self, worker: Claimant, look: Look) -> bool:
        """Whether what was found lane by lane can be claimed lane by lane."""
        return policy.manner(worker.policy(self.terms.policy), look) == Manner()

    def offers(self, tx: Tx, kinds: Iterable[str]) -> Look:
        """What is due, whatever it needs."""
        return self._looks.look(tx, Wanted(able=None, kinds=jobs.encode(sorted(kinds))))

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

    def complete_many(
        self, tx: Tx, results: Sequence[tuple[Claim, Any]], *, bare: bool = False
    ) -> set[str]:
        """Complete what is still held; returns those ids. The rest is to be asked one by one.
        `bare`: only jobs without media, of which nothing else has to be written."""
        encoded = [(claim, None if r is None else jobs.encode(r)) for claim, r in results]
        completed = store.complete_if_held(tx, encoded, bare=bare)
        self._observer.completed(tx, completed)
        self._wake_limited(tx)
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
        state = self._settle(
            tx, claim, lambda job: lifecycle.after_failure(job, error, code), message
        )
        if state is State.FAILED and error is ErrorClass.PERMANENT:
            self._relations.fail_whole(tx, claim.job_id)
        return state

    def release(self, tx: Tx, claim: Claim) -> State:
        """Give the job back without counting the attempt."""
        return self._settle(tx, claim, lifecycle.after_release, "")

    def divide(self, tx: Tx, claim: Claim, parts: Sequence[Part], checkpoint: Any = None) -> State:
        """`blocked`: the parts are next in line, and when all have completed the job is queued
        again to finish, with this checkpoint. The attempt does not count."""
        division.check_number(parts)
        whole = store.lock_if_held(tx, claim)
        if whole is None:
            return self._why_not_held(tx, claim)
        if whole.whole_id is not None:
            raise errors.WrongState("a part cannot be divided again")
        division.check(self._get(tx, whole.id), parts)
        # They have the place of their whole in the queue, so no other work comes in between.
        place = {"division": whole.claim_epoch, "queued_at": whole.queued_at}
        entries = [
            Entry(alike, structs.replace(row, parent_id=whole.id, **place))
            for alike, row in self._entries([division.new_part(whole, part) for part in parts])
        ]
        kept = None if checkpoint is None else jobs.encode(checkpoint)
        state = self._settle_held(tx, whole, lifecycle.after_division(whole.facts), "", kept)
        if state is State.BLOCKED:
            enqueue_store.insert(tx, entries)
            self._wake(tx, entries)
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
        self._observer.lost(tx, lost, settlements, changed)
        self._wake_limited(tx)
        silent = {each.claimed_by for each in lost if each.loss.silent and each.id in changed}
        if silent:
            store.note_lost(tx, sorted(filter(None, silent)))
        went = {each.id: each.next.state for each in settlements if each.id in changed}
        self._wake(tx, [each for each in lost if went.get(each.id) is State.QUEUED])
        ended = {id for id, state in went.items() if state in jobs.TERMINAL}
        self._relations.unblock(tx, list(ended))
        self._relations.join_parts(tx, _wholes([each for each in lost if each.id in ended]))
        return went

    def heal(self, tx: Tx) -> int:
        """Free jobs that wait for what has ended: an enqueue may race its parent's end, and a
        server may die between the end of the last part and that of its whole."""
        return self._relations.heal(tx)

    # Inside

    def _entries(self, news: Sequence[NewJob]) -> list[Entry]:
        known = None if (given := self._kinds()) is None else set(given)
        most, trace = self.terms.max_attempts, correlation.trace()
        made = zip(news, ids.many("job", len(news)), strict=True)
        return [
            jobs.entry(
                new,
                id,
                kinds=known,
                max_attempts=most,
                limit_key=kinds.get(new.kind).limit_key or self.terms.limit_keys.get(new.kind),
                trace=trace,
            )
            for new, id in made
        ]

    def _referring(self, tx: Tx, entries: list[Entry]) -> list[Entry]:
        """Those whose parent has yet to complete are blocked."""
        media = {row.media_id for _, row in entries if row.media_id is not None}
        if media and (missing := enqueue_store.missing_media(tx, media)):
            raise errors.BadField("media_id", f"no media {missing[0]}")
        parents = {row.parent_id for _, row in entries if row.parent_id is not None}
        if not parents:
            return entries
        states = enqueue_store.states(tx, parents)
        return [Entry(alike, jobs.behind_parent(row, states)) for alike, row in entries]

    def _wake(self, tx: Tx, ready: Sequence[Entry | Held | Lost], *, told: bool = False) -> None:
        """Those who wait, when these jobs are committed; `told`: others hear it with the commit."""
        if told:
            tx.wake_after_commit(self._bell.ring_here)
        elif hints := _hints(ready):
            tx.wake_after_commit(partial(self._bell.ring, hints))

    def _wake_limited(self, tx: Tx) -> None:
        """Something has ended: there is a place for what a limit kept back, if there was one."""
        if self._manner.limited:
            tx.wake_after_commit(self._bell.ring)

    def _twin(self, tx: Tx, entry: Entry) -> Enqueued:
        """The live job that kept this one out; if it has just ended, there is room again."""
        row = entry.row
        for _ in range(10):
            twin = enqueue_store.live_twin(tx, row.dedupe_key, row.retry_of)
            if twin is not None:
                return Enqueued(twin, False)
            if enqueue_store.insert(tx, [entry]):
                self._wake(tx, [entry])
                return Enqueued(row.id, True)
        raise errors.DatabaseBusy("the same job was started and ended again and again")

    def _look(self, tx: Tx, worker: Claimant) -> Look:
        """As it was right the last time, and again if that was not enough this time."""
        usual = worker.policy(self.terms.policy)
        manner = replace(self._manner, by_user=self._manner.by_user or usual is Policy.FAIR)
        look = self._looked(tx, worker, manner)
        if look.strands:
            self._manner = policy.manner(usual, look)
            if not manner.covers(self._manner):
                look = self._looked(tx, worker, self._manner)
        return look

    def _looked(self, tx: Tx, worker: Claimant, manner: Manner) -> Look:
        wanted = Wanted(
            able=jobs.encode(list(worker.capabilities)),
            kinds=jobs.encode(list(worker.kinds)),
            manner=manner,
            lowest_priority=worker.lowest_priority,
            most_per_user=worker.most_per_user,
            worker_key=limiting.worker_key(worker.name),
        )
        return self._looks.look(tx, wanted)

    def _claim_each(
        self,
        tx: Tx,
        worker: Claimant,
        look: Look,
        limit: int,
        request_id: str | None,
        limits: Set[str] = frozenset(),
    ) -> list[Assignment]:
        """From one strand after the other; of one with a limit, one at a time."""
        taken: list[Assignment] = []
        own = limiting.names([limiting.worker_key(worker.name)])
        chosen = policy.chosen(worker.policy(self.terms.policy), look)
        share = 1 if worker.most_per_user else policy.share(chosen, limit, len(look.strands))
        for strand in policy.order(chosen, look.strands):
            most = 1 if limits and (own | strand.limit_names) & limits else share
            wanted = min(most, limit - len(taken))
            if wanted == 0:
                break
            take = self._take(tx, worker, strand, request_id, limited=look.limited)
            rows = self._claim(tx, take, wanted)
            taken += rows
            if rows and strand.user_id is not None and chosen is Policy.FAIR:
                place_store.take_turn(tx, strand.user_id)
            elif rows and limit > 1 and strand.user_id is None:
                self._last[worker.id] = (strand, LOOK_AFTER)
        return taken

    def _claim_from_last(
        self, tx: Tx, worker: Claimant, limit: int, request_id: str | None
    ) -> list[Assignment]:
        """A worker that takes many at once goes on where it found work, and looks around only now
        and then: looking costs a round trip."""
        strand, times = self._last.pop(worker.id, (None, 0))
        if strand is None or times == 0 or limit == 1:
            return []
        take = self._take(tx, worker, strand, request_id)
        taken = self._claim(tx, take, limit)
        times -= 1 if taken else 0
        if times:
            self._last[worker.id] = (strand, times)
        return taken

    def _claim(self, tx: Tx, take: jobs.Take, limit: int) -> list[Assignment]:
        if kinds.begins_early(take.kind):
            with tx.together():
                taken = self._relations.overtake(tx, store.claim(tx, take, ids.new("clm"), limit))
        else:
            taken = store.claim(tx, take, ids.new("clm"), limit)
        self._observer.claimed(tx, taken)
        return taken

    def _take(
        self,
        tx: Tx,
        worker: Claimant,
        strand: Strand,
        request_id: str | None,
        *,
        limited: bool = False,
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
            limited=limited,
            since=strand.since,
            before=strand.before,
        )

    def _courtesy_ms(self, tx: Tx, worker: Claimant, strand: Strand) -> int:
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
        ended = store.settle(tx, [settlement])
        if not ended:
            raise errors.ClaimLost("the claim is not held any more")
        self._observer.settled(tx, held.kind, next.outcome, ended[held.id])
        self._wake_limited(tx)
        if next.state is State.QUEUED:
            self._wake(tx, [held])
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


def _hints(ready: Iterable[Entry | Held | Lost]) -> list[Hint]:
    """One for all jobs of a kind and a priority; none for those that wait for another."""
    found: dict[tuple[Priority, str], Hint] = {}
    counts: Counter[tuple[Priority, str]] = Counter()
    for each in ready:
        if isinstance(each, Entry):
            key, id = (each.alike.priority, each.alike.kind), each.row.id
            if each.row.state is State.BLOCKED:
                continue
        else:
            key, id = (each.priority, each.kind), each.id
        counts[key] += 1
        if key not in found:
            found[key] = Hint(key[0].word, key[1], id, 0)
    return [replace(hint, jobs=counts[key]) for key, hint in found.items()]


def _wholes(rows: Iterable[Renewal | jobs.Completed | Ended | Held | Lost]) -> set[str]:
    """The divided jobs that these are parts of."""
    return {each.whole_id for each in rows if each.whole_id is not None}
