"""The queue for people: list, look, explain, cancel, retry, move, pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from rushes import clock, errors, queue_report
from rushes.db.database import Tx
from rushes.history_store import HistoryFilter
from rushes.jobs import job as jobs
from rushes.jobs import log_store, read_store
from rushes.jobs import store as job_store
from rushes.jobs.job import LIVE, TERMINAL, WAITING, Priority, State
from rushes.jobs.queue import Queue
from rushes.jobs.read_store import JobFilter
from rushes.limits import Hold, What, refuse_beyond
from rushes.media import requests
from rushes.media.pipeline import Cause
from rushes.web import auth, models, views
from rushes.web.http import idempotency, open_streams
from rushes.web.http.open_streams import HeldStream, RoomForJobs
from rushes.web.http.problems import documented
from rushes.web.models import Body, Cursor, Limit
from rushes.web.services import Here, Services

router = APIRouter(tags=["queue"], responses=documented(401, 404, 422))

BULK_LIMIT = 10_000
ACTS_ON = {
    "cancel": LIVE,
    "retry": {State.FAILED, State.CANCELED},
    "priority": WAITING,
    "next": WAITING,
}
FOLLOW_SECONDS = 0.5
LOG_PAGE = 500

JobId = Annotated[str, Path(max_length=100, description="Such as job_0198a3….")]
Kind = Annotated[str | None, Query(max_length=64)]
NotKind = Annotated[
    str | None,
    Query(max_length=500, description="None of these kinds, with commas between them."),
]
Ref = Annotated[str | None, Query(max_length=100)]


class Wanted(Body):
    """Which jobs; what is left out does not matter."""

    state: State | None = None
    kind: str | None = Field(None, max_length=64)
    media_id: str | None = Field(None, max_length=100)
    worker_id: str | None = Field(None, max_length=100)
    error_code: str | None = Field(None, max_length=100)
    user_id: str | None = Field(None, max_length=100, description="For admins: only this user's.")
    ids: list[str] | None = Field(None, max_length=1000)
    not_kinds: list[Annotated[str, Field(max_length=64)]] | None = Field(
        None, max_length=20, description="None of these kinds."
    )
    q: str | None = Field(
        None, max_length=200, description="Part of the id, title, error or worker's name."
    )


class JobChange(Body):
    priority: models.Priority = Field(description="`high` is for admins.")


class JobsAction(Body):
    action: Literal["cancel", "retry", "priority", "next"]
    filter: Wanted
    priority: models.Priority | None = Field(
        None, description="For `priority`: the new one; `high` is for admins."
    )
    dry_run: bool = Field(False, description="Only say how many it would be.")


class ActionDone(BaseModel):
    matched: int
    changed: int
    dry_run: bool
    ids: list[str] = Field(description="The jobs that were changed, or the new ones.")


class Why(BaseModel):
    id: str
    state: str
    position: int | None = None
    reasons: list[dict[str, Any]]
    workers_that_could: list[str] = []


class QueueName(Body):
    kind: str = Field("*", max_length=64, pattern=r"^(\*|[a-z0-9][a-z0-9_.:-]*)$")


class Paused(BaseModel):
    paused: list[str]


@router.get("/jobs")
def list_jobs(
    who: auth.User,
    services: Here,
    state: Annotated[State | None, Query()] = None,
    status: Annotated[State | None, Query(description="The same as `state`.")] = None,
    kind: Kind = None,
    not_kind: NotKind = None,
    media_id: Ref = None,
    worker_id: Ref = None,
    user_id: Ref = None,
    error_code: Ref = None,
    q: Annotated[
        str | None,
        Query(max_length=200, description="Part of the id, title, error or worker's name."),
    ] = None,
    order: Annotated[
        Literal["newest", "running"],
        Query(description="`running`: those that run come before all others."),
    ] = "newest",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> models.Page[models.Job]:
    """Newest first, a page at a time."""
    wanted = JobFilter(
        state=state or status,
        kind=kind,
        user_id=who.sees or user_id,
        media_id=media_id,
        worker_id=worker_id,
        error_code=error_code,
        not_kinds=_words(not_kind),
        q=q,
    )
    with services.db.read() as tx:
        read = _running_first if order == "running" else _newest_first
        found, next_cursor = read(tx, wanted, cursor, limit)
        return models.Page(items=views.job_page(tx, found), next_cursor=next_cursor)


@router.get("/jobs/{job_id}")
def get(job_id: JobId, who: auth.User, services: Here) -> models.Job:
    with services.db.read() as tx:
        return views.job(tx, found(tx, job_id, who.sees))


@router.get("/jobs/{job_id}/why")
def why(job_id: JobId, who: auth.User, services: Here) -> Why:
    """What a waiting job waits for, in plain words."""
    offline_ms = int(services.settings.offline_threshold * 1000)
    with services.db.read() as tx:
        job = found(tx, job_id, who.sees)
        told = queue_report.why(tx, job, services.queue.terms, offline_after_ms=offline_ms)
    return Why(
        id=job_id,
        state=told.state,
        position=told.position,
        reasons=[asdict(each) for each in told.reasons],
        workers_that_could=told.workers_that_could,
    )


@router.get("/jobs/{job_id}/executions")
def executions(job_id: JobId, who: auth.User, services: Here) -> models.Page[models.Execution]:
    """Every attempt, oldest first."""
    with services.db.read() as tx:
        found(tx, job_id, who.sees)
        rows = read_store.attempts(tx, job_id)
    return models.Page(items=[views.execution(row) for row in rows])


@router.get("/jobs/{job_id}/logs", response_class=PlainTextResponse, responses=documented(429))
async def logs(
    request: Request,
    job_id: JobId,
    who: auth.User,
    services: Here,
    follow: Annotated[bool, Query(description="Go on until the job has ended.")] = False,
) -> Response:
    """The sanitized log as plain text."""

    def check() -> None:
        with services.db.read() as tx:
            found(tx, job_id, who.sees)

    await asyncio.to_thread(check)
    kind = "text/plain; charset=utf-8"
    if not follow:
        return StreamingResponse(_lines(services, job_id), media_type=kind)
    hold = services.holds.enter(open_streams.hold(What.LOGS, who))
    following = LogFollower(request, hold)
    return HeldStream(
        _lines(services, job_id, following), lambda: services.holds.leave(hold), media_type=kind
    )


@router.post("/jobs/{job_id}/cancel", responses=documented(409))
def cancel(job_id: JobId, who: auth.User, services: Here) -> models.Job:
    """Queued: canceled now. Processing: as soon as its worker has stopped."""

    def stop(tx: Tx) -> models.Job:
        found(tx, job_id, who.sees)
        services.queue.cancel(tx, job_id)
        return views.job(tx, found(tx, job_id, who.sees))

    return services.db.run(stop)


@router.post(
    "/jobs/{job_id}/retry",
    status_code=202,
    responses=documented(409, 429),
    dependencies=[RoomForJobs],
)
def retry(job_id: JobId, who: auth.User, services: Here, once: idempotency.Once) -> models.Job:
    """A new job takes the ended one's place; twice is the same as once."""

    def again(tx: Tx) -> models.Job:
        found(tx, job_id, who.sees)
        return views.job(tx, found(tx, requests.retry(tx, services.queue, job_id), who.sees))

    return once.run(services, who, None, models.Job, again)


@router.patch("/jobs/{job_id}", responses=documented(403, 409))
def change(job_id: JobId, body: JobChange, who: auth.User, services: Here) -> models.Job:
    """Another priority for a job that waits; it keeps its age, and its parts go with it."""
    auth.check_priority(who, body.priority)
    priority = Priority[body.priority.upper()]

    def move(tx: Tx) -> models.Job:
        found(tx, job_id, who.sees)
        moved = services.queue.places.prioritize(tx, [job_id], priority)
        services.queue.places.check(tx, job_id, moved)
        return views.job(tx, found(tx, job_id, who.sees))

    return services.db.run(move)


@router.post("/jobs/{job_id}/next", responses=documented(409))
def do_next(job_id: JobId, who: auth.User, services: Here) -> models.Job:
    """A job that waits comes before all others of yours; an admin's choice before everybody's."""

    def move(tx: Tx) -> models.Job:
        found(tx, job_id, who.sees)
        moved = services.queue.places.put_first(tx, [job_id], who.sees)
        services.queue.places.check(tx, job_id, moved)
        return views.job(tx, found(tx, job_id, who.sees))

    return services.db.run(move)


@router.post("/jobs/actions", responses=documented(403, 409, 429))
def act(body: JobsAction, who: auth.User, services: Here, once: idempotency.Once) -> ActionDone:
    """Cancel, retry or move all jobs that a filter finds, up to 10,000 at a time."""
    # Leaving it out of account would change jobs that nobody meant.
    if who.sees is not None and body.filter.user_id not in (None, who.sees):
        raise errors.BadField("user_id", "only an admin may choose somebody else's jobs")
    if (body.action == "priority") != (body.priority is not None):
        raise errors.BadField("priority", "goes with the action `priority`, and only with that")
    auth.check_priority(who, body.priority)
    wanted = JobFilter(**{**body.filter.model_dump(), "user_id": who.sees or body.filter.user_id})

    def change(tx: Tx) -> ActionDone:
        ids = read_store.matching(tx, wanted, ACTS_ON[body.action], BULK_LIMIT)
        if body.action == "retry" and services.settings.user_jobs:
            most = services.settings.user_jobs
            refuse_beyond(
                read_store.waiting_of(tx, who.user_id, most) + len(ids), most, "jobs waiting"
            )
        if body.dry_run:
            return ActionDone(matched=len(ids), changed=0, dry_run=True, ids=[])
        changed = _act(tx, services.queue, body, ids, who.sees)
        return ActionDone(matched=len(ids), changed=len(changed), dry_run=False, ids=changed)

    return once.run(services, who, body, ActionDone, change)


def _act(tx: Tx, queue: Queue, body: JobsAction, ids: list[str], user_id: str | None) -> list[str]:
    """Returns the jobs that were changed, or the new ones."""
    if body.action == "cancel":
        return list(queue.cancel_many(tx, ids))
    if body.action == "next":
        return sorted(queue.places.put_first(tx, ids, user_id))
    if body.priority is not None:
        priority = Priority[body.priority.upper()]
        return sorted(queue.places.prioritize(tx, ids, priority))
    return [requests.retry(tx, queue, each, Cause.BULK) for each in ids]


@router.get("/queue/stats")
def stats(who: auth.User, services: Here) -> models.QueueStats:
    """Counts per state and kind, waiting and running times, failures by what they failed of."""
    with services.db.read() as tx:
        rows = read_store.stats(tx, who.sees)
        groups = read_store.failure_groups(tx, who.sees)
        paused = read_store.pauses(tx)
    told = queue_report.summary(rows, groups, paused)
    failures = [views.timed(models.FailureGroup, each) for each in groups]
    return views.timed(models.QueueStats, told, failures=failures)


@router.get("/queue/history")
def history(
    who: auth.User,
    services: Here,
    hours: Annotated[int, Query(ge=1, le=queue_report.LONGEST_HOURS)] = 24,
    kind: Kind = None,
    not_kind: NotKind = None,
) -> models.QueueHistory:
    """How jobs ended in each period of the last hours, and how long they waited and ran: oldest
    first, and also where there was nothing. Counts are kept, of jobs that were deleted since as
    well, so it costs the same with a thousand or a million jobs; only in the first while after an
    upgrade, until those of the last week are filled in, are jobs read for it."""
    wanted = HistoryFilter(user_id=who.sees, kind=kind, not_kinds=_words(not_kind))
    with services.db.read() as tx:
        told = queue_report.history(tx, wanted, hours)
    items = [
        views.timed(models.QueueBucket, each, at=clock.rfc3339(each.at)) for each in told.items
    ]
    return models.QueueHistory(bucket_seconds=told.bucket_seconds, items=items)


@router.post("/queue/pause")
def pause(body: QueueName, who: auth.Admin, services: Here) -> Paused:
    """No job of this kind (`*`: of any) is given out; what runs goes on."""

    def stop(tx: Tx) -> Paused:
        read_store.pause(tx, body.kind)
        return Paused(paused=read_store.pauses(tx))

    return services.db.run(stop)


@router.post("/queue/resume")
def resume(body: QueueName, who: auth.Admin, services: Here) -> Paused:
    def go_on(tx: Tx) -> Paused:
        read_store.resume(tx, body.kind)
        tx.wake_after_commit(services.bell.ring)
        return Paused(paused=read_store.pauses(tx))

    return services.db.run(go_on)


def _newest_first(
    tx: Tx, wanted: JobFilter, cursor: str | None, limit: int, running: bool | None = None
) -> tuple[list[jobs.Job], str | None]:
    found = read_store.list_jobs(tx, wanted, before=cursor, limit=limit + 1, running=running)
    return found[:limit], found[limit - 1].id if len(found) > limit else None


# In the place of `job_` in the cursor of a page that ends among the running jobs.
AMONG_RUNNING = "running_"
JOB = "job_"


def _running_first(
    tx: Tx, wanted: JobFilter, cursor: str | None, limit: int
) -> tuple[list[jobs.Job], str | None]:
    """A cursor without a mark is of the others, which come behind."""
    found: list[jobs.Job] = []
    if cursor is None or cursor.startswith(AMONG_RUNNING):
        before = cursor.replace(AMONG_RUNNING, JOB) if cursor else None
        found, _ = _newest_first(tx, wanted, before, limit, running=True)
        if len(found) == limit:
            return found, found[-1].id.replace(JOB, AMONG_RUNNING)
        cursor = None
    others, next_cursor = _newest_first(tx, wanted, cursor, limit - len(found), running=False)
    return found + others, next_cursor


def _words(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def found(tx: Tx, job_id: str, user_id: str | None) -> jobs.Job:
    job = job_store.get(tx, job_id)
    if job is None or user_id not in (None, job.user_id):
        raise errors.NotFound(f"no job {job_id}")
    return job


@dataclass(frozen=True, slots=True)
class LogFollower:
    """Somebody who reads on while a job runs."""

    request: Request
    hold: Hold

    async def has_left(self) -> bool:
        return self.hold.is_cut or await self.request.is_disconnected()


async def _lines(
    services: Services, job_id: str, following: LogFollower | None = None
) -> AsyncIterator[str]:
    """Page by page; for somebody who follows, until the job has ended or the reader has left."""
    after = 0
    while True:
        page, ended = await asyncio.to_thread(_log_page, services, job_id, after)
        for number, text in page:
            after = number
            yield text
        if len(page) >= LOG_PAGE:
            continue
        if following is None or ended or services.stopping.is_set():
            return
        if await following.has_left():
            return
        await asyncio.sleep(FOLLOW_SECONDS)


def _log_page(services: Services, job_id: str, after: int) -> tuple[list[tuple[int, str]], bool]:
    with services.db.read() as tx:
        # Before the lines: what is written between the two is still read.
        job = job_store.get(tx, job_id)
        lines = log_store.read(tx, job_id, after=after, limit=LOG_PAGE)
    page = [(line.number, f"{clock.rfc3339(line.at)} {line.line}\n") for line in lines]
    return page, job is None or job.state in TERMINAL
