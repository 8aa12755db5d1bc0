"""Celery with Redis, which syncs every write; one process and no pool: it picks up soonest."""

from __future__ import annotations

from typing import Any

from benchmarks.contestants.tally import Latencies, send_paced
from celery import Celery, signals

TITLE = "Celery + Redis"
DATABASE = "redis"
SHARE = 1.0


def open_celery(url: str, run: Any) -> Any:
    app = Celery("bench", broker=url)
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="noop")  # type: ignore[untyped-decorator]
    def noop(sent_at: float) -> None:
        run(sent_at)

    return app, noop


def prepare(url: str) -> None:
    """Redis needs nothing."""


def serve(url: str, latencies: Latencies) -> None:
    app, _ = open_celery(url, latencies.heard)

    def ready(**_: Any) -> None:
        print("ready", flush=True)

    signals.worker_ready.connect(ready, weak=False)
    quiet = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
    app.Worker(pool="solo", loglevel="CRITICAL", quiet=True, **quiet).start()


def send(url: str, samples: int) -> None:
    _, noop = open_celery(url, lambda sent_at: None)
    send_paced(samples, noop.delay)
