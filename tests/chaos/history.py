"""Histories of a chaos run: how a process writes one, and whether all of them agree with the
database.

Every call is written before it is made and again when it is answered; a call without an answer is
`unknown`, and may have happened or not. Times are the machine's monotonic clock, which all
processes share. Nothing here knows why something went wrong, only that it cannot be.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from rushes import errors
from rushes.db.database import Database
from rushes.jobs import job as jobs

Row = dict[str, Any]
# job id, claim id, epoch
Held = tuple[str, str, int]

UNKNOWN = "unknown"
LOST = errors.ClaimLost.code
TERMINAL = frozenset(str(state) for state in jobs.TERMINAL)
ENDS_A_CLAIM = frozenset({"queued", *TERMINAL})
REPORTS = frozenset({"complete", "fail", "release"})


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of a history. `phase`: invoke, then ok, fail or unknown."""

    at: int
    call: int
    op: str
    phase: str
    claims: list[Held] = []
    answers: dict[str, Any] = {}


class Answer:
    """What a call was told, to be filled in by the caller."""

    def __init__(self) -> None:
        self.claims: list[Held] = []
        self.answers: dict[str, Any] = {}


class History:
    """One process's, or one thread's, own file. Lines survive the death of the process."""

    def __init__(self, path: Path, who: str) -> None:
        self.who = who
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._calls = itertools.count(1)

    @contextmanager
    def call(self, op: str, claims: Sequence[Held] = (), **facts: Any) -> Iterator[Answer]:
        call, answer = next(self._calls), Answer()
        self._write(call, op, "invoke", list(claims), facts)
        try:
            yield answer
        except errors.Conflict as error:
            self._write(call, op, "fail", [], {"code": error.code})
            raise
        except BaseException as error:
            self._write(call, op, UNKNOWN, [], {"error": repr(error)})
            raise
        self._write(call, op, "ok", answer.claims, answer.answers)

    def close(self) -> None:
        os.close(self._file)

    def _write(
        self, call: int, op: str, phase: str, claims: list[Held], answers: dict[str, Any]
    ) -> None:
        at = time.monotonic_ns()
        entry = Entry(at=at, call=call, op=op, phase=phase, claims=claims, answers=answers)
        os.write(self._file, msgspec.json.encode(entry) + b"\n")


class Call(msgspec.Struct, kw_only=True):
    """A call and its answer. `phase` is ok, fail or unknown."""

    who: str
    op: str
    begun_at: int
    ended_at: int | None = None
    phase: str = UNKNOWN
    claims: list[Held]
    asked: dict[str, Any]
    answers: dict[str, Any] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a process said of one claim, and what it was told."""

    who: str
    op: str
    job: str
    claim: str
    epoch: int
    begun_at: int
    answer: str


def read(path: Path) -> list[Call]:
    """The calls of one history, in the order they were made. A last line that was cut off by the
    death of its process was never written."""
    calls: dict[int, Call] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        entry = msgspec.json.decode(line, type=Entry)
        if entry.phase == "invoke":
            calls[entry.call] = Call(
                who=path.stem,
                op=entry.op,
                begun_at=entry.at,
                claims=entry.claims,
                asked=entry.answers,
            )
        else:
            call = calls[entry.call]
            call.phase, call.ended_at, call.answers = entry.phase, entry.at, entry.answers
            call.claims = entry.claims or call.claims
    return list(calls.values())


class Record:
    """All that is known of a run: the tables, after it is quiet, and what everybody was told."""

    def __init__(self, db: Database, histories: Iterable[Path]) -> None:
        with db.read() as tx:
            self.jobs = {row["id"]: row for row in tx.all("SELECT * FROM jobs")}
            self.attempts = tx.all("SELECT * FROM attempts ORDER BY job_id, epoch")
            self.events = tx.all("SELECT * FROM events WHERE job_id IS NOT NULL ORDER BY seq")
        self.calls = [call for path in histories for call in read(path)]

    def save(self, directory: Path) -> None:
        """For whoever has to find out what happened."""
        tables = {"jobs": self.jobs.values(), "attempts": self.attempts, "events": self.events}
        directory.mkdir()
        for name, rows in tables.items():
            lines = [msgspec.json.encode(row) + b"\n" for row in rows]
            (directory / f"{name}.jsonl").write_bytes(b"".join(lines))

    @cached_property
    def attempts_of(self) -> dict[str, list[Row]]:
        return _grouped(self.attempts, lambda row: row["job_id"])

    @cached_property
    def attempt_of_claim(self) -> dict[str, Row]:
        return {row["claim_id"]: row for row in self.attempts}

    @cached_property
    def events_of(self) -> dict[str, list[Row]]:
        return _grouped(self.events, lambda row: row["job_id"])

    @cached_property
    def claimed(self) -> dict[str, list[tuple[int, Held]]]:
        """For each job, the claims that a process knows it got, and when it knew."""
        found: dict[str, list[tuple[int, Held]]] = defaultdict(list)
        for call in self.calls:
            if call.op == "claim" and call.ended_at is not None:
                for held in call.claims:
                    found[held[0]].append((call.ended_at, held))
        return found

    @cached_property
    def reports(self) -> list[Report]:
        return [
            Report(
                who=call.who,
                op=call.op,
                job=job,
                claim=claim,
                epoch=epoch,
                begun_at=call.begun_at,
                answer=str(call.answers.get(job) or call.answers.get("code") or UNKNOWN)
                if call.phase != UNKNOWN
                else UNKNOWN,
            )
            for call in self.calls
            if call.op in REPORTS or call.op in ("heartbeat", "progress")
            for job, claim, epoch in call.claims
        ]

    def n(self, job_id: str) -> int:
        return int(jobs.decode(self.jobs[job_id]["args"])["n"])

    def called(self, *ops: str, phase: str | None = None) -> list[Call]:
        return [
            call for call in self.calls if call.op in ops and (phase is None or call.phase == phase)
        ]


def check(record: Record, outcome_of: Callable[[int, int], str]) -> list[str]:
    """What cannot have happened, in words; empty when all is well. `outcome_of` tells what the
    attempt with that number does to job n: success, transient or permanent."""
    return [
        *_nothing_is_lost(record),
        *_nothing_completes_twice(record),
        *_answers_were_true(record),
        *_claims_never_overlap(record),
        *_no_write_after_loss(record),
        *_claims_are_explained(record),
        *_fates_are_kept(record, outcome_of),
        *_cancels_were_true(record),
        *_twins_never_live_together(record),
    ]


def count(record: Record) -> Counter[str]:
    """How hard the run was."""
    counted: Counter[str] = Counter()
    counted.update(f"jobs {row['state']}" for row in record.jobs.values())
    counted.update(f"attempts {row['outcome']}" for row in record.attempts)
    for report in record.reports:
        if report.answer == LOST:
            counted["stale reports refused"] += 1
            counted["of them after a later claim"] += _superseded(record, report)
        if report.op == "complete" and report.answer in (LOST, UNKNOWN):
            counted[f"completes {report.answer}"] += 1
        if report.op in ("heartbeat", "progress") and report.answer == "lost":
            counted["stale renewals refused"] += 1
        if report.answer == errors.CancelRequested.code:
            counted["completes that met a cancel"] += 1
    counted["claims unknown"] = len(record.called("claim", phase=UNKNOWN))
    counted["enqueues unknown"] = len(record.called("enqueue", phase=UNKNOWN))
    counted["twins refused"] = sum(
        not created
        for call in record.called("enqueue", phase="ok")
        for created in call.answers["created"]
    )
    counted["sweepers"] = len({call.who for call in record.called("sweep") if call.answers})
    return counted


def _nothing_is_lost(record: Record) -> Iterator[str]:
    """I16: every acknowledged enqueue has ended; every job is one that somebody asked for."""
    acknowledged, maybe = set(), set()
    for call in record.called("enqueue"):
        if call.phase == "ok":
            acknowledged |= set(call.answers["ids"])
        else:
            maybe |= set(call.asked["ns"])
    for job_id in sorted(acknowledged - record.jobs.keys()):
        yield f"{job_id} was acknowledged and does not exist"
    for job_id, row in record.jobs.items():
        if row["state"] not in TERMINAL:
            yield f"{job_id} has not ended: it is {row['state']}"
        if job_id not in acknowledged and record.n(job_id) not in maybe:
            yield f"{job_id} exists and nobody asked for it"


def _nothing_completes_twice(record: Record) -> Iterator[str]:
    """I8, I9: one attempt succeeded, its process alone was told so, and its result was kept."""
    told, maybe = defaultdict(set), defaultdict(set)
    for report in record.reports:
        if report.op == "complete" and report.answer == "completed":
            told[report.job].add(report.claim)
        elif report.op == "complete" and report.answer == UNKNOWN:
            maybe[report.job].add(report.claim)
    for job_id, row in record.jobs.items():
        attempts = record.attempts_of.get(job_id, [])
        succeeded = {each["claim_id"] for each in attempts if each["outcome"] == "succeeded"}
        if len(succeeded) != (row["state"] == "completed"):
            yield f"{job_id} is {row['state']} with {len(succeeded)} successful attempts"
        if not told[job_id] <= succeeded:
            yield f"{job_id}: {told[job_id]} were told 'completed', {succeeded} succeeded"
        if not succeeded <= told[job_id] | maybe[job_id]:
            yield f"{job_id}: {succeeded} succeeded without having asked for it"
        if succeeded:
            result = jobs.decode(row["result"])
            if result["claim"] not in succeeded or result["n"] != record.n(job_id):
                yield f"{job_id}: the result is {result}, but {succeeded} succeeded"


def _answers_were_true(record: Record) -> Iterator[str]:
    """I14: who was refused is closed as lost; who was told a state closed its attempt with it."""
    for report in record.reports:
        attempt = record.attempt_of_claim.get(report.claim)
        if report.op not in REPORTS or report.answer in (UNKNOWN, errors.CancelRequested.code):
            continue
        outcome = attempt["outcome"] if attempt else None
        if report.answer == LOST:
            if outcome not in ("lost", "stalled"):
                yield f"{report} was refused, but the attempt is {outcome}"
        elif attempt is None or attempt["job_state"] != report.answer:
            yield f"{report} was accepted, but the attempt is {attempt}"
        elif (report.op == "complete") != (outcome == "succeeded"):
            yield f"{report} was accepted, but the attempt is {outcome}"


def _claims_never_overlap(record: Record) -> Iterator[str]:
    """I14, I15: by the order of events a claim starts when no other is open, nothing is written for
    it before or after, and positions tell the same order."""
    for job_id, events in record.events_of.items():
        held_epoch, last_epoch, last_position, ended = None, 0, 0, False
        for event in events:
            verb, epoch = event["type"].rpartition(".")[2], event["epoch"]
            wrong = ended or event["pos"] <= last_position
            if verb == "started":
                wrong |= held_epoch is not None or epoch != last_epoch + 1
                held_epoch = epoch
            elif verb in ("progress", "canceling"):
                wrong |= epoch != held_epoch
            elif verb in ENDS_A_CLAIM:
                wrong |= epoch != last_epoch
                held_epoch = None
            else:
                wrong = True
            if wrong:
                yield f"{job_id}: {verb} of epoch {epoch} (event {event['seq']}) in {events}"
                break
            last_epoch, last_position, ended = epoch, event["pos"], verb in TERMINAL


def _no_write_after_loss(record: Record) -> Iterator[str]:
    """I14 in real time: whoever speaks after a later claim was handed out is refused."""
    unsure = {
        (report.claim, report.op)
        for report in record.reports
        if report.answer == UNKNOWN and report.op in REPORTS
    }
    for report in record.reports:
        # A report whose first answer got lost is repeated, and answered as before.
        repeated = (report.claim, report.op) in unsure
        accepted = report.answer in ("held", errors.CancelRequested.code, *ENDS_A_CLAIM)
        if accepted and not repeated and _superseded(record, report):
            yield f"{report} was accepted after a later claim had been handed out"


def _claims_are_explained(record: Record) -> Iterator[str]:
    """I32, as far as it can be known: each attempt is a claim that its process got, or one whose
    answer never arrived."""
    known = {held for claims in record.claimed.values() for _, held in claims}
    for job_id, claim_id, epoch in known:
        attempt = record.attempt_of_claim.get(claim_id)
        if attempt is None or (attempt["job_id"], attempt["epoch"]) != (job_id, epoch):
            yield f"{job_id}: {claim_id} was handed out as epoch {epoch}, the attempt is {attempt}"
    unanswered: Counter[str] = Counter()
    for call in record.called("claim", phase=UNKNOWN):
        unanswered[call.who] += call.asked["limit"]
    ids = {claim_id for _, claim_id, _ in known}
    silent = Counter(row["worker_name"] for row in record.attempts if row["claim_id"] not in ids)
    for who, attempts in silent.items():
        if attempts > unanswered[who]:
            yield f"{who} has {attempts} attempts it does not know of, {unanswered[who]} explained"


def _fates_are_kept(record: Record, outcome_of: Callable[[int, int], str]) -> Iterator[str]:
    """An attempt ends as its handler does, is lost, or is canceled."""
    expected = {"succeeded": {"success"}, "failed": {"transient", "permanent"}}
    for row in record.attempts:
        fate = outcome_of(record.n(row["job_id"]), row["number"])
        if fate not in expected.get(row["outcome"], {fate}):
            yield f"{row['job_id']}: attempt {row['number']} ({fate}) has {row['outcome']}"


def _cancels_were_true(record: Record) -> Iterator[str]:
    """I19: a cancel that was accepted is kept; a refused one came too late."""
    for call in record.called("cancel"):
        job_id = call.asked["id"]
        state = record.jobs[job_id]["state"] if job_id in record.jobs else "lost"
        if call.phase == "ok" and state != "canceled":
            yield f"{job_id}: canceling was accepted ({call.answers}), but it is {state}"
        if call.phase == "fail" and state not in ("completed", "failed"):
            yield f"{job_id}: canceling came too late, but it is {state}"


def _twins_never_live_together(record: Record) -> Iterator[str]:
    """I17 over time: a job with a key starts after the one before has ended."""
    keyed = [row for row in record.jobs.values() if row["dedupe_key"] is not None]
    for key, rows in _grouped(keyed, lambda row: row["dedupe_key"]).items():
        lives = sorted(
            (record.events_of[row["id"]][0]["seq"], record.events_of[row["id"]][-1]["seq"])
            for row in rows
        )
        for (_, end), (begin, _) in itertools.pairwise(lives):
            if begin < end:
                yield f"{key}: two jobs lived at the same time: {lives}"
    for call in record.called("enqueue", phase="ok"):
        for job_id, key in zip(call.answers["ids"], call.asked["keys"], strict=True):
            if job_id in record.jobs and record.jobs[job_id]["dedupe_key"] != key:
                yield f"{job_id} was answered for the key {key}"


def _superseded(record: Record, report: Report) -> bool:
    """Did somebody know of a later claim before this report was made?"""
    return any(
        known_at < report.begun_at and epoch > report.epoch
        for known_at, (_, _, epoch) in record.claimed.get(report.job, ())
    )


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
