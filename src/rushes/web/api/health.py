"""Is it alive, is it ready, how is it doing: probes and health pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from rushes import count_store, errors
from rushes.db import schema
from rushes.fleet import store as fleet
from rushes.fleet.worker import WorkerStatus
from rushes.jobs import read_store
from rushes.web import auth
from rushes.web.services import Here, Services

router = APIRouter(tags=["health"], dependencies=[auth.Public])
admin = APIRouter(tags=["health"])

LIVE_STATES = ("blocked", "queued", "processing")


class Alive(BaseModel):
    status: str


class Ready(BaseModel):
    status: str
    database: bool
    storage: bool
    sweep: bool = Field(description="False when sweep and numbering have not run for long.")
    events: bool = Field(description="False when listeners have not been told of events for long.")
    threads: bool = Field(
        description="False when a part of the server broke down, until it works again."
    )
    accepting: bool


class Health(BaseModel):
    status: str
    database: bool
    redis: bool | None = Field(
        None,
        description="False while Redis does not work, and the database tells of work instead or"
        " polls find it: `degraded`, but with 200. Null where Redis is not used.",
    )
    active_workers: int | None = None
    pending_jobs: int | None = None
    failed_jobs: int | None = None
    stale_jobs_recovered: int | None = Field(
        None, description="How often a job was taken back from a worker that was gone."
    )
    retries_exceeded: int | None = Field(
        None, description="Jobs that failed because they had been tried often enough."
    )


class Counts(BaseModel):
    jobs: dict[str, int]
    workers: dict[str, int]
    incidents: dict[str, int] = Field(
        description="How often, since they are counted: stale_job_recovered and"
        " job_max_retries_exceeded, named as the alerts that tell of them."
    )


class DatabaseHealth(BaseModel):
    ok: bool
    kind: str


class StorageHealth(BaseModel):
    ok: bool
    free_bytes: int | None
    total_bytes: int | None = Field(description="Null, as before, where nobody can know.")


class ApiHealth(BaseModel):
    status: str
    database: DatabaseHealth
    storage: StorageHealth
    processing: Counts | None


@router.get("/livez")
@router.get("/healthz", include_in_schema=False)
async def livez() -> Alive:
    """The process answers. Touches nothing else, not even a thread: all may be busy."""
    return Alive(status="ok")


@router.get("/readyz", responses={503: {"model": Ready, "description": "Not ready"}})
async def readyz(services: Here, response: Response) -> Ready:
    """503 while the database or the storage cannot be used, or the server is leaving. Answers
    within a few seconds, also when they do not answer at all."""
    database, storage = await asyncio.gather(
        services.database_probe.works(), services.storage_probe.works()
    )
    checks = {
        "database": database,
        "storage": storage,
        "sweep": not services.chores.late,
        "events": not services.relay.late,
        "threads": not any(each.is_down for each in services.threads),
        "accepting": not services.stopping.is_set(),
    }
    return Ready(status=_status(response, all(checks.values())), **checks)


@router.get(
    "/health",
    responses={503: {"model": Health, "description": "Degraded"}},
    dependencies=[auth.MayReadHealth],
)
def health(services: Here, response: Response) -> Health:
    """Database, Redis, active workers, pending jobs."""
    checks: dict[str, Any] = {
        "database": _works(lambda: schema.check_quickly(services.db)),
        "redis": services.redis.breaker.is_closed if services.redis else None,
    }
    if checks["database"]:
        counts = _counts(services)
        checks["active_workers"] = sum(
            count for status, count in counts["workers"].items() if status in ("idle", "busy")
        )
        checks["pending_jobs"] = counts["jobs"]["blocked"] + counts["jobs"]["queued"]
        checks["failed_jobs"] = counts["jobs"]["failed"]
        checks["stale_jobs_recovered"] = counts["incidents"][count_store.RECOVERED]
        checks["retries_exceeded"] = counts["incidents"][count_store.GIVEN_UP]
    status = _status(response, checks["database"])
    return Health(status="degraded" if checks["redis"] is False else status, **checks)


@admin.get("/api/health", tags=["health"])
def api_health(who: auth.User, services: Here) -> ApiHealth:
    """Storage capacity, database, and processing figures, for people who are signed in."""
    database = _works(lambda: schema.check_quickly(services.db))
    storage = _works(services.storage_check)
    free_bytes = services.storage.free_bytes() if storage else None
    total_bytes = services.storage.total_bytes() if storage else None
    return ApiHealth(
        status="ok" if database and storage else "degraded",
        database=DatabaseHealth(ok=database, kind=services.db.dialect.name),
        storage=StorageHealth(ok=storage, free_bytes=free_bytes, total_bytes=total_bytes),
        processing=Counts(**_counts(services)) if database else None,
    )


def _counts(services: Services) -> dict[str, Any]:
    offline_ms = int(services.settings.offline_threshold * 1000)
    jobs = dict.fromkeys((*LIVE_STATES, "completed", "failed", "canceled"), 0)
    workers = dict.fromkeys((str(status) for status in WorkerStatus), 0)
    for counted in services.totals.get(services.db):
        jobs[counted.state] += counted.count
    incidents = dict.fromkeys((count_store.RECOVERED, count_store.GIVEN_UP), 0)
    with services.db.read() as tx:
        now = read_store.now(tx)
        for each in fleet.all_workers(tx):
            workers[each.status(now, offline_ms)] += 1
        for row in count_store.incidents(tx):
            incidents[row.type] += row.count
    return {"jobs": jobs, "workers": workers, "incidents": incidents}


def _works(check: Callable[[], None]) -> bool:
    try:
        check()
    except errors.RushesError:
        return False
    return True


def _status(response: Response, good: bool) -> str:
    response.status_code = 200 if good else 503
    return "ok" if good else "degraded"
