"""`/metrics`: what this process has counted, and what the database knows, which every replica says
alike. A database that is away takes only its own figures with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import metadata

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rushes import count_store, errors, queue_report
from rushes.breaker import BreakerState
from rushes.fleet import store as fleet
from rushes.fleet.worker import FleetWorker, WorkerStatus
from rushes.jobs import job as jobs
from rushes.jobs import prune_store, read_store
from rushes.metrics import MOST_KINDS, OF_PROCESS, OTHER
from rushes.redis_link import RedisLink
from rushes.web import auth
from rushes.web.services import Here, Services

router = APIRouter(tags=["health"], dependencies=[auth.Public])

# What every description of such a metric ends with.
OF_DATABASE = "Of the database, the same from each replica: take the highest."
# So many needs that jobs have together become labels.
MOST_NEEDS = 200

Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


@router.get("/metrics", response_class=PlainTextResponse, dependencies=[auth.MayReadHealth])
def metrics(services: Here) -> Response:
    """For Prometheus."""
    return Response(generate_latest(_Registry(services)), media_type=CONTENT_TYPE_LATEST)


class _Registry:
    """All that there is to be told, once."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        for each in self._services.metrics.registry.collect():
            # When a counter was made is of no use to anybody, and would be half of all series.
            kept = [one for one in each.samples if not one.name.endswith("_created")]
            each.samples = kept
            yield each
        yield from _of_process(self._services)
        if self._services.redis is not None:
            yield from _of_redis(self._services.redis)
        yield from _of_storage(self._services)
        known: list[Metric] = []
        with suppress(errors.RushesError):
            known = list(_of_database(self._services))
        yield _gauge(
            "rushes_database_up", "Whether the database could be asked just now.", bool(known)
        )
        yield from known


class _Tally:
    """Of a metric with labels, one sample each, however often it is told of."""

    def __init__(
        self,
        family: Family,
        name: str,
        about: str,
        *labels: str,
        most: int = MOST_KINDS,
        join: Callable[[float, float], float] = lambda a, b: a + b,
    ) -> None:
        self._family = family(name, f"{about} {OF_DATABASE}", labels=labels)
        self._most = most
        self._join = join
        self._found: dict[tuple[str, ...], float] = {}

    def add(self, value: float, *labels: str) -> None:
        if labels not in self._found and len(self._found) >= self._most:
            labels = (*labels[:-1], OTHER) if len(labels) > 1 else (OTHER,)
        before = self._found.get(labels)
        self._found[labels] = value if before is None else self._join(before, value)

    def family(self) -> Metric:
        for labels, value in sorted(self._found.items()):
            self._family.add_metric(labels, value)
        return self._family


def _of_database(services: Services) -> Iterator[Metric]:
    yield from _jobs(services)
    yield from _ready(services)
    with services.db.read() as tx:
        now = read_store.now(tx)
        workers = fleet.all_workers(tx)
        incidents = count_store.incidents(tx)
        pruned = prune_store.pruned(tx)
    yield from _incidents(incidents, pruned)
    yield from _workers(workers, now, int(services.settings.offline_threshold * 1000))


def _jobs(services: Services) -> Iterator[Metric]:
    most = MOST_KINDS * len(jobs.State)
    depth = _Tally(
        GaugeMetricFamily,
        "rushes_queue_depth",
        "Jobs that have not ended, by state.",
        "kind",
        "state",
        most=most,
    )
    ended = _Tally(
        CounterMetricFamily,
        "rushes_jobs_finished",
        "Jobs that have ended.",
        "kind",
        "outcome",
        most=most,
    )
    oldest = _Tally(
        GaugeMetricFamily,
        "rushes_queue_oldest_age_seconds",
        "How long the oldest queued job has been in the queue.",
        "kind",
        join=max,
    )
    rows = services.totals.get(services.db)
    with services.db.read() as tx:
        now = read_store.now(tx)
    for row in rows:
        (depth if row.state in jobs.LIVE else ended).add(row.count, row.kind, row.state)
        if row.state == jobs.State.QUEUED and row.oldest_queued_at is not None:
            oldest.add((now - row.oldest_queued_at) / 1000, row.kind)
    yield from (depth.family(), ended.family(), oldest.family())


def _ready(services: Services) -> Iterator[Metric]:
    """For whoever starts workers: what waits for one, and what it has to offer."""
    waiting = _Tally(
        GaugeMetricFamily,
        "rushes_queue_ready_jobs",
        "Jobs that could be claimed now, by what a worker must offer; at most"
        f" {queue_report.MOST_READY} are counted of a priority.",
        "kind",
        "needs",
        most=MOST_NEEDS,
    )
    age = _Tally(
        GaugeMetricFamily,
        "rushes_queue_ready_age_seconds",
        "For how long the first of these jobs could have been claimed.",
        "kind",
        "needs",
        most=MOST_NEEDS,
        join=max,
    )
    rows = services.ready.get(services.db)
    with services.db.read() as tx:
        now = read_store.now(tx)
    for row in rows:
        needs = " ".join(each for each in row.needs if not each.endswith("?"))
        waiting.add(row.count, row.kind, needs)
        age.add(max(0, now - row.since) / 1000, row.kind, needs)
    yield from (waiting.family(), age.family())


def _incidents(
    incidents: Iterable[count_store.IncidentCount], pruned: Iterable[prune_store.PrunedCount]
) -> Iterator[Metric]:
    recovered = _Tally(
        CounterMetricFamily,
        "rushes_stale_jobs_recovered",
        "Jobs that were taken back from lost workers, and run again.",
        "kind",
    )
    given_up = _Tally(
        CounterMetricFamily,
        "rushes_job_retries_exceeded",
        "Jobs that failed because they had been tried often enough.",
        "kind",
    )
    deleted = _Tally(
        CounterMetricFamily,
        "rushes_jobs_pruned",
        "Ended jobs that were deleted for their age.",
        "kind",
    )
    for each in incidents:
        (recovered if each.type == count_store.RECOVERED else given_up).add(each.count, each.kind)
    for gone in pruned:
        deleted.add(gone.count, gone.kind)
    yield from (recovered.family(), given_up.family(), deleted.family())


def _workers(workers: Iterable[FleetWorker], now: int, offline_ms: int) -> Iterator[Metric]:
    by_status = _Tally(GaugeMetricFamily, "rushes_workers", "Workers by status.", "status")
    online = _Tally(
        GaugeMetricFamily,
        "rushes_workers_online",
        "Workers that are there for jobs of a kind, busy or not.",
        "kind",
    )
    for status in WorkerStatus:
        by_status.add(0, status)
    for each in workers:
        by_status.add(1, each.status(now, offline_ms))
        if queue_report.is_online(each, now, offline_ms):
            for kind in each.kinds:
                online.add(1, kind)
    yield from (by_status.family(), online.family())


def _of_process(services: Services) -> Iterator[Metric]:
    version = GaugeMetricFamily(
        "rushes_build_info", f"Which version runs; always 1. {OF_PROCESS}", labels=["version"]
    )
    version.add_metric([metadata.version("rushes")], 1)
    yield version
    yield _gauge(
        "rushes_dispatcher_waiting_workers",
        "Workers that wait here for a job.",
        services.dispatcher.waiting,
    )
    yield _gauge("rushes_event_streams", "Open streams of live events.", services.relay.subscribers)
    used = services.db.connections()
    connections = GaugeMetricFamily(
        "rushes_database_connections",
        f"Connections to the database that are open. {OF_PROCESS}",
        labels=["state"],
    )
    connections.add_metric(["in_use"], used.in_use)
    connections.add_metric(["idle"], used.idle)
    yield connections
    yield _counter(
        "rushes_database_retries",
        "Transactions that were run again after a deadlock.",
        services.db.trouble.retries,
    )
    yield _counter(
        "rushes_database_pool_timeouts",
        "How often no connection to the database was free in time.",
        services.db.trouble.timeouts,
    )


def _of_storage(services: Services) -> Iterator[Metric]:
    """Nothing where nobody can know, as of a bucket."""
    with suppress(errors.RushesError):
        sizes = services.storage.free_bytes(), services.storage.total_bytes()
        for name, about, size in zip(
            ("rushes_storage_free_bytes", "rushes_storage_total_bytes"),
            ("Room that is left in the storage.", "Room that the storage has in all."),
            sizes,
            strict=True,
        ):
            if size is not None:
                yield GaugeMetricFamily(
                    name, f"{about} As this process sees it: take the lowest.", value=size
                )


def _of_redis(link: RedisLink) -> Iterator[Metric]:
    """Of this server; what all of them have left to read, as Redis counts it."""
    state = GaugeMetricFamily(
        "rushes_redis_breaker_state",
        f"1 for the state that it is in. {OF_PROCESS}",
        labels=["state"],
    )
    for each in BreakerState:
        state.add_metric([each], float(each is link.breaker.state))
    yield state
    yield _counter("rushes_redis_failures", "Calls of Redis that failed.", link.breaker.failures)
    yield _counter(
        "rushes_redis_openings", "How often Redis was left alone.", link.breaker.openings
    )
    yield _counter(
        "rushes_redis_fallbacks", "Hints that went by the database instead.", link.fallbacks
    )
    if not link.breaker.is_closed:
        return
    with suppress(errors.RedisDown):
        backlog = link.backlog()
        shared = "Of Redis, the same from each replica: take the highest."
        yield GaugeMetricFamily(
            "rushes_redis_pending_entries",
            f"Hints that were read and not acknowledged. {shared}",
            value=backlog.pending,
        )
        yield GaugeMetricFamily(
            "rushes_redis_lag_entries",
            f"Hints that no server has read. {shared}",
            value=backlog.lag,
        )


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, f"{about} {OF_PROCESS}", value=float(value))


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, f"{about} {OF_PROCESS}", value=value)
