"""What the routes work with: the parts that the composition root has put together."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from rushes import limits, queue_report
from rushes.accounts.known_workers import KnownWorkers
from rushes.chores import Chores
from rushes.db import schema
from rushes.db.database import Database
from rushes.dispatch import Dispatch
from rushes.dispatcher import Dispatcher
from rushes.engines.downloads import Downloads
from rushes.engines.registry import Registry
from rushes.jobs.queue import Queue
from rushes.live import Relay
from rushes.live_settings import LiveSettings
from rushes.metrics import Metrics
from rushes.redis_link import RedisLink
from rushes.settings import Settings
from rushes.storage.storage import Storage
from rushes.threads import Supervised
from rushes.uploads import uploads
from rushes.uploads.receiver import Receiver
from rushes.wakeup import Wakeup
from rushes.web.http import addresses
from rushes.web.http.probe import HealthProbe, StorageCheck
from rushes.web.http.storage_links import StorageLinks, open_links


@dataclass(slots=True, kw_only=True)
class Services:
    live: LiveSettings
    db: Database
    queue: Queue
    bell: Wakeup
    # None where it is not used.
    redis: RedisLink | None
    storage: Storage
    dispatch: Dispatch
    chores: Chores
    relay: Relay
    engines: Registry
    metrics: Metrics
    # Known to processes that can read this server's files, and to nobody else.
    local_token: str
    stopping: threading.Event = field(default_factory=threading.Event)
    # Those that do the server's own work.
    threads: list[Supervised] = field(default_factory=list)
    receiver: Receiver = field(init=False)
    known_workers: KnownWorkers = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    # What its users have open.
    holds: limits.Holds = field(init=False)
    # How many requests wait for the words of a media that is forgotten after them; of one thread.
    awaited: Counter[str] = field(default_factory=Counter)
    totals: queue_report.Totals = field(default_factory=queue_report.Totals)
    ready: queue_report.ReadyJobs = field(default_factory=queue_report.ReadyJobs)
    guesses: limits.Guesses = field(default_factory=limits.Guesses)
    visits: limits.Visits = field(default_factory=limits.Visits)
    passwords: limits.Passwords = field(default_factory=limits.Passwords)
    database_probe: HealthProbe = field(init=False)
    storage_check: StorageCheck = field(init=False)
    storage_probe: HealthProbe = field(init=False)
    # None where the server sends all files itself.
    links: StorageLinks | None = field(init=False)
    # None where the engine keeps its models elsewhere.
    downloads: Downloads | None = field(init=False)

    def __post_init__(self) -> None:
        cache = self.engines.cache
        self.downloads = Downloads(cache, self.stopping) if cache else None
        self.receiver = Receiver(
            self.db,
            self.queue,
            self.storage,
            uploads.limits_of(self.settings),
            metrics=self.metrics,
        )
        self.known_workers = self.dispatch.known = KnownWorkers(
            self.db, self.queue, heartbeat_seconds=self.settings.heartbeat_interval
        )
        self.dispatcher = Dispatcher(
            self.dispatch,
            self.bell,
            self.known_workers,
            poll_seconds=self.settings.poll_interval,
            metrics=self.metrics,
        )
        self.holds = limits.holds(self.settings)
        self.database_probe = HealthProbe(lambda: schema.check_quickly(self.db))
        self.storage_check = StorageCheck(self.storage)
        self.storage_probe = HealthProbe(self.storage_check)
        self.links = open_links(self.settings, self.storage)
        self.live.on_change.append(self._use)

    @property
    def settings(self) -> Settings:
        """Of this moment."""
        return self.live.now

    def _use(self, settings: Settings) -> None:
        self.receiver.limits = uploads.limits_of(settings)
        self.holds.most = limits.most_open(settings)
        self.engines.use_model(settings.engine_model)

    @property
    def base_url(self) -> str:
        """As whoever asks can use it, and pass it on."""
        return addresses.public(self.settings)

    @property
    def is_https(self) -> bool:
        return self.settings.base_url.startswith("https://")


async def _site(request: Request) -> Services:
    # Not in a thread: those may all be taken.
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


Here = Annotated[Services, Depends(_site)]
