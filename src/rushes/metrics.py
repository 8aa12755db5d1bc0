"""What this process has seen, counted where it happens: one `Metrics` for each `Rushes`.

Each replica counts its own, so that their sum is right; what the database knows is read from it
when somebody asks (`web/api/metrics.py`). Labels are words of ours: whatever strangers send, there
are no more of them than are known here.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from rushes import errors

# What every description of such a metric ends with.
OF_PROCESS = "Of this process: add up the replicas."
# Kinds are words of whoever enqueues: no more of them than these become labels.
MOST_KINDS = 100
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# In seconds: what takes a moment, what people wait for, and what may take all day.
QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
REQUESTS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)
LONG = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0)
TRANSFERS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)


class Histogram(Collector):
    """As the library's, but takes many figures at once: tiny jobs come by the thousand, and theirs
    locks and looks three times for each."""

    def __init__(
        self, name: str, about: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._bounds = buckets
        self._shown = [*map(str, buckets), "+Inf"]
        self._lock = threading.Lock()
        # By labels: how many in each bucket, and their sum.
        self._seen: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def observe(self, *labels: str, seconds: Iterable[float]) -> None:
        with self._lock:
            if labels not in self._seen:
                self._seen[labels] = [0] * len(self._shown), [0.0]
            counts, total = self._seen[labels]
            for each in seconds:
                counts[bisect_left(self._bounds, each)] += 1
                total[0] += each

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        with self._lock:
            for labels, (counts, [total]) in self._seen.items():
                up_to = list(accumulate(counts))
                family.add_metric(labels, list(zip(self._shown, up_to, strict=True)), total)
        return [family]


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kinds: set[str] = set()
        # Looking a child up costs more than counting.
        self._children: dict[tuple[object, ...], Any] = {}
        ProcessCollector(registry=self.registry)
        self._observe_jobs()
        self._observe_the_queue()
        self._observe_the_edge()
        self._observe_files()

    def _observe_jobs(self) -> None:
        self._wait = self._histogram(
            "rushes_job_wait_seconds",
            "How long a job could have been claimed before it was, each time it is claimed.",
            LONG,
            "kind",
        )
        self._duration = self._histogram(
            "rushes_job_duration_seconds",
            "How long an attempt took, from its claim to its end, by how it ended.",
            LONG,
            "kind",
            "outcome",
        )
        self._lost = self._counter(
            "rushes_lease_losses", "Claims that ended without a word.", "kind", "cause"
        )
        self._poison = self._counter(
            "rushes_jobs_poisoned",
            "Jobs that failed because they took worker after worker.",
            "kind",
        )

    def _observe_the_queue(self) -> None:
        self._claim = self._histogram(
            "rushes_claim_duration_seconds",
            "How long the database took to hand out jobs, or to say that there are none.",
            QUICK,
            "outcome",
        )
        self._heartbeat = self._histogram(
            "rushes_heartbeat_duration_seconds",
            "How long a heartbeat took to be answered, by where its answer came from.",
            QUICK,
            "source",
        )
        self._sweep = self._histogram(
            "rushes_sweep_duration_seconds",
            "How long a look for lost claims took.",
            QUICK,
            "outcome",
        )
        self.rounds = self._counter(
            "rushes_dispatcher_rounds", "Looks at the queue for all workers that wait here."
        )
        self.given = self._counter(
            "rushes_dispatcher_jobs_given", "Jobs that were handed to workers that waited here."
        )

    def _observe_the_edge(self) -> None:
        self._http = self._histogram(
            "rushes_http_request_duration_seconds",
            "From a request's first line to the first of its answer. A claim includes its wait.",
            REQUESTS,
            "method",
            "route",
            "status",
        )
        self.requests = Gauge(
            "rushes_http_requests_in_progress",
            f"Requests that are not answered to the end. {OF_PROCESS}",
            registry=self.registry,
        )
        self._webhook = self._histogram(
            "rushes_webhook_delivery_duration_seconds",
            "How long a receiver took, by what came of it.",
            TRANSFERS,
            "outcome",
        )

    def _observe_files(self) -> None:
        self._upload = self._histogram(
            "rushes_upload_duration_seconds",
            "How long a request brought bytes of an upload, by what came of it.",
            TRANSFERS,
            "outcome",
        )
        self.uploaded = self._counter("rushes_upload_bytes", "Bytes of uploads that were received.")
        self._storage = self._histogram(
            "rushes_storage_operation_duration_seconds",
            "How long the storage took; for a read, until its first byte.",
            TRANSFERS,
            "operation",
        )
        self._stored = self._counter(
            "rushes_storage_bytes", "Bytes to and from the storage.", "direction"
        )
        self._storage_errors = self._counter(
            "rushes_storage_errors", "What the storage could not do.", "operation", "error"
        )

    # Jobs

    def jobs_claimed(self, kind: str, waited: Iterable[float]) -> None:
        self._wait.observe(self._kind(kind), seconds=[max(0.0, each) for each in waited])

    def attempts_ended(self, kind: str, outcome: str, ran: Iterable[float]) -> None:
        took = [max(0.0, each) for each in ran]
        self._duration.observe(self._kind(kind), outcome, seconds=took)

    def lease_lost(self, kind: str, cause: str, *, poison: bool) -> None:
        kind = self._kind(kind)
        self._of(self._lost, kind, cause).inc()
        if poison:
            self._of(self._poison, kind).inc()

    def claim_answered(self, began: float, outcome: str) -> None:
        """`began` as of the monotonic clock, here and below."""
        self._claim.observe(outcome, seconds=[time.monotonic() - began])

    def heartbeat_answered(self, began: float, source: str) -> None:
        self._heartbeat.observe(source, seconds=[time.monotonic() - began])

    def swept(self, began: float, outcome: str) -> None:
        self._sweep.observe(outcome, seconds=[time.monotonic() - began])

    # The edge

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """`route`: as it is declared, never as it was asked for."""
        known = method if method in METHODS else OTHER
        # Whoever leaves before the answer gets none.
        answered = f"{status // 100}xx" if status else "aborted"
        self._http.observe(known, route, answered, seconds=[seconds])

    def webhook_tried(self, began: float, outcome: str) -> None:
        self._webhook.observe(outcome, seconds=[time.monotonic() - began])

    def upload_ended(self, began: float, outcome: str) -> None:
        self._upload.observe(outcome, seconds=[time.monotonic() - began])

    # The storage

    @contextmanager
    def storing(self, operation: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except errors.RushesError as error:
            self.storage_failed(operation, error)
            raise
        finally:
            self._storage.observe(operation, seconds=[time.monotonic() - began])

    def storage_failed(self, operation: str, error: errors.RushesError) -> None:
        # That something is not there is an answer.
        if isinstance(error, errors.Unavailable):
            self._of(self._storage_errors, operation, error.code).inc()

    def bytes_read(self, count: int) -> None:
        self._of(self._stored, "read").inc(count)

    def bytes_written(self, count: int) -> None:
        self._of(self._stored, "written").inc(count)

    # Inside

    def _of(self, metric: Counter, *labels: str) -> Any:
        key = (metric, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def _kind(self, kind: str) -> str:
        if kind not in self._kinds:
            if len(self._kinds) >= MOST_KINDS:
                return OTHER
            self._kinds.add(kind)
        return kind

    def _histogram(
        self, name: str, about: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        made = Histogram(name, f"{about} {OF_PROCESS}", labels, buckets)
        self.registry.register(made)
        return made

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, f"{about} {OF_PROCESS}", labels, registry=self.registry)
