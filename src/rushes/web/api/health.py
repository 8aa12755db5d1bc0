"""Is it alive, is it ready, how is it doing: probes, health pages and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pydantic import BaseModel, Field

from rushes import count_store, errors
from rushes.breaker import BreakerState
from rushes.db import schema
from rushes.fleet import store as fleet
from rushes.fleet.worker import WorkerStatus
from rushes.jobs import prune_store, read_store
from rushes.redis_link import RedisLink
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
    storage = _works(services.storage.check)
    free_bytes = services.storage.free_bytes() if storage else None
    total_bytes = services.storage.total_bytes() if storage else None
    return ApiHealth(
        status="ok" if database and storage else "degraded",
        database=DatabaseHealth(ok=database, kind=services.db.dialect.name),
        storage=StorageHealth(ok=storage, free_bytes=free_bytes, total_bytes=total_bytes),
        processing=Counts(**_counts(services)) if database else None,
    )


@router.get("/metrics", response_class=PlainTextResponse, dependencies=[auth.MayReadHealth])
def metrics(services: Here) -> Response:
    """For Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(services))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Collector:
    """Reads the database when it is asked, so that every replica says the same."""

    def __init__(self, services: Services) -> None:
        self._site = services

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("rushes_queue_depth", "Jobs by state.", labels=["kind", "state"])
        ended = CounterMetricFamily(
            "rushes_jobs_finished", "Jobs that have ended.", labels=["kind", "outcome"]
        )
        wait = GaugeMetricFamily(
            "rushes_job_wait_seconds", "Mean wait of completed jobs.", labels=["kind"]
        )
        run = GaugeMetricFamily(
            "rushes_job_duration_seconds", "Mean time of completed jobs.", labels=["kind"]
        )
        oldest = GaugeMetricFamily(
            "rushes_queue_oldest_age_seconds", "Age of the oldest queued job.", labels=["kind"]
        )
        recovered = CounterMetricFamily(
            "rushes_stale_jobs_recovered", "Jobs taken back from lost workers.", labels=["kind"]
        )
        given_up = CounterMetricFamily(
            "rushes_job_retries_exceeded", "Jobs that failed for good.", labels=["kind"]
        )
        pruned = CounterMetricFamily(
            "rushes_jobs_pruned", "Ended jobs that were deleted for their age.", labels=["kind"]
        )
        with self._site.db.read() as tx:
            now = read_store.now(tx)
            for deleted in prune_store.pruned(tx):
                pruned.add_metric([deleted.kind], deleted.count)
            for each in count_store.incidents(tx):
                family = recovered if each.type == count_store.RECOVERED else given_up
                family.add_metric([each.kind], each.count)
        rows = self._site.totals.get(self._site.db)
        for row in rows:
            if row.state in LIVE_STATES:
                depth.add_metric([row.kind, row.state], row.count)
            else:
                ended.add_metric([row.kind, row.state], row.count)
            if row.state == "queued" and row.oldest_queued_at is not None:
                oldest.add_metric([row.kind], (now - row.oldest_queued_at) / 1000)
            if row.state == "completed":
                wait.add_metric([row.kind], (row.wait_ms or 0) / 1000)
                run.add_metric([row.kind], (row.run_ms or 0) / 1000)
        workers = GaugeMetricFamily("rushes_workers", "Workers by status.", labels=["status"])
        for status, count in _counts(self._site)["workers"].items():
            workers.add_metric([status], count)
        streams = GaugeMetricFamily("rushes_event_streams", "Open streams of live events.")
        streams.add_metric([], self._site.relay.subscribers)
        yield from (depth, ended, pruned, recovered, given_up, wait, run, oldest, workers, streams)
        if self._site.redis is not None:
            yield from _of_redis(self._site.redis)


def _of_redis(link: RedisLink) -> Iterator[Metric]:
    """Of this server; what all of them have left to read, as Redis counts it."""
    state = GaugeMetricFamily(
        "rushes_redis_breaker_state", "1 for the state that it is in.", labels=["state"]
    )
    for each in BreakerState:
        state.add_metric([each], float(each is link.breaker.state))
    yield state
    yield CounterMetricFamily(
        "rushes_redis_failures", "Calls of Redis that failed.", value=link.breaker.failures
    )
    yield CounterMetricFamily(
        "rushes_redis_openings", "How often Redis was left alone.", value=link.breaker.openings
    )
    yield CounterMetricFamily(
        "rushes_redis_fallbacks",
        "Hints that went by the database instead.",
        value=link.fallbacks,
    )
    if not link.breaker.is_closed:
        return
    with suppress(errors.RedisDown):
        backlog = link.backlog()
        yield GaugeMetricFamily(
            "rushes_redis_pending_entries",
            "Hints that were read and not acknowledged.",
            value=backlog.pending,
        )
        yield GaugeMetricFamily(
            "rushes_redis_lag_entries", "Hints that no server has read.", value=backlog.lag
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
