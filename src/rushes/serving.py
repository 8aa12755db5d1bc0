"""`rushes serve`: the whole system in one process, started and stopped in order.

Start: log, settings, data directory, database, storage, Redis, recovery, workers, HTTP. Stop: claim
nothing more, give back what is held, end streams and connections, close.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from rushes import (
    config,
    errors,
    handlers,
    ids,
    kinds,
    limits,
    logs,
    protocol,
    queue_report,
    startup,
    tracing,
)
from rushes.accounts import access, security_store, throttle
from rushes.accounts import store as accounts
from rushes.app import STOP_SECONDS, Rushes
from rushes.db.database import Tx
from rushes.engines.registry import Registry, options
from rushes.event_channels import EventPublisher
from rushes.fleet import store as fleet
from rushes.fleet.worker import WorkerStatus
from rushes.folders import FolderWatcher
from rushes.importing import Import
from rushes.in_process import Local
from rushes.jobs import read_store
from rushes.jobs.job import Priority
from rushes.live import Relay
from rushes.media import pipeline, purge, trash
from rushes.settings import Settings
from rushes.threads import Supervised
from rushes.tools import process, programs
from rushes.transcripts import search, vocabulary
from rushes.transcripts import store as transcripts
from rushes.transcripts.on_disk import TranscriptFolder
from rushes.uploads import folder, uploads
from rushes.web.http import addresses, open_streams
from rushes.web.http.connection import Connection, HttpServer
from rushes.web.server import create_app
from rushes.web.services import Services
from rushes.webhooks import fanout
from rushes.webhooks import store as webhooks
from rushes.webhooks.deliver import Deliver
from rushes.worker import capabilities
from rushes.worker.conduct import Conduct
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker_settings import WorkerSettings, inside_server

T = TypeVar("T")
log = logging.getLogger("rushes")

WORKER_PREFIX = "wrk_server_"
ADDRESS_FILE = "server.json"
SCAN_EVERY_TICKS = 360
FORGET_MS = 7 * 86_400_000
# A retry after so long begins anew.
PASSAGES_MS = 30 * 86_400_000
# Connections that are still busy when the server leaves get this long.
GRACE_SECONDS = 5
# Messages are slow, and must hold up neither each other nor the purging.
MESSENGERS = 4
# What a URL names may come slowly; of one user's, one at a time.
IMPORTERS, MOST_IMPORTS = 2, 1
# What others may be about to put right: they start it, migrate, or stop old servers.
TELL_SECONDS = 0.5
CHORES, RETENTION = "chores", "retention"


def serve(settings: Settings, announce: Callable[[str], None] = print) -> None:
    """Until SIGTERM or Ctrl-C. `announce` gets the lines for whoever started it."""
    logs.configure(settings.log_format)
    announce = logs.announcer(settings.log_format, announce)
    tracing.configure("rushes")
    # Recordings, and a database with what signs in: nobody else's to read.
    os.umask(0o077)
    if threading.current_thread() is threading.main_thread():
        # Also before there is an HTTP server to hear it: workers give back what they hold.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    log.info("at most %d files may be open", limits.raise_file_limit())
    if told := config.about_old_names():
        log.warning("%s", told)
    with startup.owned(settings), startup.listening(settings) as (settings, sockets):
        with_server = settings.database_url.startswith("postgres")
        server = startup.once_up(lambda: Server(settings), settings, announce, waits=with_server)
        try:
            storage = server.rushes.storage
            startup.once_up(storage.check, settings, announce, waits=storage.on_network)
            startup.once_up(server.rushes.check_redis, settings, announce, waits=True)
            log.info("%s", server.services.engines.described())
            server.start()
            lines = list(server.greeting())
            for line in lines:
                announce(line)
            if sys.stdout.isatty() and addresses.is_open(settings):
                announce(addresses.qr_code(lines, settings))
            server.run_http(sockets, on_built=_collect_rarely)
        finally:
            server.stop()
            tracing.close()


def _collect_rarely() -> None:
    """Looking for garbage holds up everybody, a tenth of a second and more: what is there by now
    stays, and so do a thousand workers that wait for a job. Nearly all else goes by itself."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)


class Server:
    """The parts, and the order in which they live."""

    def __init__(self, settings: Settings) -> None:
        self.rushes = Rushes(settings=settings)
        self.services = services(self.rushes)
        self._crew: list[Worker] = []
        self._leaving = threading.Lock()
        self._changed = threading.Event()
        self._left = False
        self._gave_back = threading.Event()
        self._boot_id = ids.new("boot")
        self._titles_indexed = self._speech_indexed = False
        self._folder: FolderWatcher | None = None
        self.http: uvicorn.Server | None = None

    @property
    def settings(self) -> Settings:
        return self.rushes.settings

    def start(self) -> None:
        self.rushes.storage.check()
        self.rushes.check_redis()
        self._folder = folder.watcher(self.settings, self.services.receiver)
        self._recover()
        self._write_address()
        self.rushes.chores.also += [
            self._forget_unanswered,
            self._plan_purges,
            self._expire_uploads,
            self._fan_out,
            self._announce_workers,
            self._forget,
            self._cut_ended,
            self._index_moments,
            self._unload_idle,
        ]
        if place := self.settings.transcripts_dir:
            self.rushes.chores.also.append(TranscriptFolder(self.rushes.db, Path(place)).tick)
        self._start_workers()
        self._thread(self.rushes.chores.run, CHORES)
        self._thread(self.rushes.retention.run, RETENTION)
        self._thread(self.rushes.live.run, "settings")
        if self._folder is not None:
            self._thread(self._folder.run, "watch-folder")
        self.rushes.db.on_commit.append(self._changed.set)
        self._thread(self._tell_soon, "fan-out")
        if (link := self.rushes.redis) is not None:
            channels = EventPublisher(self.rushes.db, self.rushes.chores, self.services.relay, link)
            self._thread(lambda: channels.run(self.services.stopping), "event-channels")

    def greeting(self) -> Iterator[str]:
        yield from addresses.greeting(self.settings)
        link, name = self.rushes.db.run(self._first_link)
        if link is not None:
            yield f"Sign in once with {self.services.base_url}/sign-in?token={link}"
        else:
            yield (
                f"Sign in as {name}. No password, or forgotten it?"
                f" `rushes users link {name}` makes a sign-in link"
            )

    def _first_link(self, tx: Tx) -> tuple[str | None, str]:
        """With the name of the admin it is for. What is printed ends up in logs: a link only until
        somebody has signed in. After that `rushes users link` makes one."""
        admin = access.ensure_admin(tx)
        if admin.has_password or accounts.anybody_was_here(tx):
            return None, admin.name
        return access.make_link(tx, admin.id), admin.name

    def run_http(
        self, sockets: list[socket.socket], on_built: Callable[[], None] = lambda: None
    ) -> None:
        options = uvicorn.Config(
            create_app(self.services),
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            forwarded_allow_ips=self.settings.trusted_proxies,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self.http = HttpServer(options, self.leave)
        on_built()
        self.http.run(sockets=sockets)

    def leave(self) -> None:
        """Stop claiming and give everything back; connections may still be open."""
        with self._leaving:
            if self._left:
                return
            self._left = True
        self.services.stopping.set()
        # A database that is silent must not keep anybody here.
        self.rushes.db.deadlines.hurry(GRACE_SECONDS)
        self.services.dispatcher.close()
        self.services.relay.close()
        if self._folder is not None:
            self._folder.stop()
        self.rushes.retention.stop()
        self.rushes.live.stop()
        for worker in self._crew:
            worker.stop()
        _join([each for each in self.services.threads if each.name != CHORES])
        try:
            for worker in self._crew:
                worker.abandon()
        finally:
            self._gave_back.set()

    def stop(self) -> None:
        self.leave()
        # Whoever was asked first may still be at it; a silent database ends it sooner.
        self._gave_back.wait(GRACE_SECONDS)
        self.rushes.chores.stop()
        # Others may be in the hands of a handler that does not listen; these are ours.
        ours = [each for each in self.services.threads if each.name in (CHORES, RETENTION)]
        _join(ours, GRACE_SECONDS)
        _join(self.services.threads)
        with suppress(OSError):
            (self.settings.data_dir / ADDRESS_FILE).unlink(missing_ok=True)
        if self.services.downloads is not None:
            self.services.downloads.close()
        self.services.engines.close()
        self.services.passwords.close()
        self.rushes.close()

    # Starting

    def _recover(self) -> None:
        if self.rushes.db.dialect.name == "sqlite":
            self.rushes.db.run(uploads.clear_writers)
        # Nobody else opens an SQLite database, nor this server's data directory: whoever worked
        # there before is dead.
        alone = self.rushes.db.dialect.name == "sqlite"
        dead = WORKER_PREFIX if alone else self._worker_prefix
        while self.rushes.db.run(lambda tx: self.rushes.queue.fail_lost_of(tx, dead)):
            pass
        moved = self.rushes.chores.tick()
        if moved:
            log.info("%d jobs of lost workers were put back", len(moved))

    def _start_workers(self) -> None:
        programs.use(ffmpeg=self.settings.ffmpeg, ffprobe=self.settings.ffprobe)
        if self.settings.transcode_workers:
            # Aside: the first job should find them known, the start need not wait for it.
            threading.Thread(target=_look_at_tools, name="tools", daemon=True).start()
        table = handlers.table(self.settings.handlers, engines=self.services.engines)
        of_speech = kinds.making(kinds.TRANSCRIPT)
        others = {kind: run for kind, run in table.items() if kind not in of_speech}
        process.niceness.set(self.settings.worker_nice)
        own, count = inside_server(self.settings), self.settings.transcode_workers
        quick = {kind: run for kind, run in others.items() if kinds.is_quick(kind)}
        slow = {kind: run for kind, run in others.items() if kind not in quick}
        self._crew_of("transcode", slow, count, own=own)
        # What people can watch at once does not wait for what others have uploaded.
        self._crew_of("prepare", quick, min(count, 1), own=own)
        self._start_listeners({kind: run for kind, run in table.items() if kind in of_speech}, own)
        self._start_housekeeping()

    def _start_housekeeping(self) -> None:
        """For the kinds that never leave the server, each in its own crew."""
        purging = {pipeline.PURGE: Handler(self._purge)}
        deliver = Deliver(self.rushes.db, self.settings, metrics=self.rushes.metrics)
        self.rushes.live.on_change.append(deliver.use)
        telling = {pipeline.WEBHOOK: Handler(deliver)}
        fetching = {
            kinds.IMPORT.name: Handler(Import(self.services.receiver, self.settings), 300.0)
        }
        if idle := kinds.servers_own() - purging.keys() - telling.keys() - fetching.keys():
            raise errors.BadSetting(f"nobody here runs jobs of the kind {min(idle)!r}")
        self._crew_of("house", purging, 1)
        self._crew_of("import", fetching, IMPORTERS, most_per_user=MOST_IMPORTS)
        most = limits.MOST_DELIVERIES
        self._crew_of("webhook", telling, MESSENGERS, most_per_user=most)
        # The operator hears of trouble, however many receivers keep the others waiting.
        self._crew_of("alert", telling, 1, most_per_user=most, lowest_priority=Priority.HIGH)

    def _purge(self, context: JobContext) -> dict[str, int]:
        grace_ms = max(int(self.settings.purge_grace * 1000), purge.YOUNG_MS)
        trash_ms = int(self.settings.trash_period * 1000)
        remover = purge.Purge(
            self.rushes.db, self.rushes.storage, grace_ms=grace_ms, trash_ms=trash_ms
        )
        return remover(context)

    def _start_listeners(self, speech: Mapping[str, Handler], own: WorkerSettings) -> None:
        count = self.settings.transcription_workers
        reason = self._why_no_speech() if speech and count else None
        if reason:
            log.warning("nothing can be transcribed here: %s", reason)
        common: dict[str, Any] = {
            "stands_aside": self._leaves_speech_to_others,
            "unable": {pipeline.TRANSCRIBE: reason} if reason else None,
        }
        self._crew_of("transcribe", speech, count, own=own, **common)
        # Whoever waits for a sentence does not wait for the hours that others have uploaded. The
        # engine hears one window at a time, so it is the next one that they wait for at most.
        urgent = min(count, 1)
        self._crew_of("interactive", speech, urgent, lowest_priority=Priority.HIGH, **common)

    def _crew_of(self, name: str, table: Mapping[str, Handler], count: int, **options: Any) -> None:
        if not table:
            return
        for number in range(1, count + 1):
            worker = self._worker(f"{name}-{number}", table, **options)
            self._crew.append(worker)
            self._thread(worker.run, f"{name}-{number}")

    def _worker(
        self,
        name: str,
        table: Mapping[str, Handler],
        *,
        stands_aside: Callable[[], bool] | None = None,
        unable: Mapping[str, str] | None = None,
        own: WorkerSettings | None = None,
        **claiming: Any,
    ) -> Worker:
        """`own`: how it works, unless an admin says otherwise. `unable`: why its jobs of a kind can
        only fail, as things are now."""
        host = socket.gethostname()
        transport = Local(
            self.rushes.dispatch,
            self.rushes.db,
            self.rushes.bell,
            # The same after a restart, so that the list of workers does not grow with each.
            worker_id=f"{self._worker_prefix}{_tame(name)}",
            worker_name=f"{host} {name}",
            poll_seconds=self.settings.poll_interval,
            stands_aside=stands_aside or (lambda: False),
            ask=self.services.dispatcher.ask,
            **claiming,
        )
        metadata = {"host": host, "pid": os.getpid(), "place": "server", **capabilities.pod()}
        if unable:
            metadata["unable"] = dict(unable)
        if "lowest_priority" in claiming:
            metadata["lowest_priority"] = claiming["lowest_priority"].name.lower()
        return Worker(
            transport,
            table,
            hello=protocol.Hello(
                kinds=sorted(table),
                capabilities=capabilities.proved(),
                metadata=metadata,
                boot_id=self._boot_id,
            ),
            heartbeat_seconds=self.settings.heartbeat_interval,
            keep_completed_qualities=self.settings.keep_completed_qualities,
            conduct=Conduct(own, scratch_root=self.settings.data_dir / "scratch"),
        )

    @property
    def _worker_prefix(self) -> str:
        """What the ids of this server's own workers begin with."""
        return f"{WORKER_PREFIX}{_fingerprint(socket.gethostname(), self.settings.data_dir)}_"

    def _leaves_speech_to_others(self) -> bool:
        """What could only fail here, another worker may be able to do. If there is none, it is
        taken all the same, so that people hear why it fails."""
        if self._why_no_speech() is None:
            return False
        offline_ms = int(self.settings.offline_threshold * 1000)
        with self.rushes.db.read() as tx:
            return queue_report.somebody_can(
                tx, pipeline.TRANSCRIBE, besides=self._worker_prefix, offline_after_ms=offline_ms
            )

    def _why_no_speech(self) -> str | None:
        try:
            return self.services.engines.why_not()
        except Exception as error:  # noqa: BLE001  an engine of others may raise anything
            return f"the speech engine cannot be loaded ({type(error).__name__})"

    def _thread(self, run: Callable[[], None], name: str) -> None:
        thread = Supervised(run, name, self.services.stopping)
        self.services.threads.append(thread)
        thread.start()

    def _write_address(self) -> None:
        """How other commands on this machine find and enter this server."""
        path = self.settings.data_dir / ADDRESS_FILE
        # Past any proxy that people go through.
        anywhere = self.settings.host in ("0.0.0.0", "::", "")
        host = "127.0.0.1" if anywhere else self.settings.host
        url = f"http://[{host}]" if ":" in host else f"http://{host}"
        said = {
            "url": f"{url}:{self.settings.port}",
            "token": self.services.local_token,
            "pid": os.getpid(),
        }
        with open(path, "w", opener=startup.private) as file:
            json.dump(said, file)

    # Now and then

    def _forget_unanswered(self, tick: int) -> None:
        """What the OpenAI-compatible API took in for requests that were cut off."""
        self.rushes.db.run(
            lambda tx: trash.forget_unanswered(tx, self.rushes.queue, limit=purge.PAGE)
        )

    def _plan_purges(self, tick: int) -> None:
        grace_ms = int(self.settings.purge_grace * 1000)
        trash_ms = int(self.settings.trash_period * 1000)
        partial = self.settings.cleanup_partial_on_failure
        queue = self.rushes.queue
        self.rushes.db.run(
            lambda tx: purge.plan(
                tx, queue, grace_ms=grace_ms, trash_ms=trash_ms, cleanup_partial=partial
            )
        )
        if tick % SCAN_EVERY_TICKS == 0:
            self.rushes.db.run(lambda tx: purge.plan_scan_if_due(tx, queue))

    def _expire_uploads(self, tick: int) -> None:
        uploads.expire(self.rushes.db, self.rushes.storage)

    def _fan_out(self, tick: int) -> None:
        while self.rushes.db.run(lambda tx: fanout.fan_out(tx, self.rushes.queue, self.settings)):
            pass

    def _tell_soon(self) -> None:
        """Webhooks hear of a change within a second; without any, nothing is done here."""
        while not self.services.stopping.wait(TELL_SECONDS):
            if self._changed.is_set():
                self.rushes.chores.attempt(self._tell)
                # What it has written itself is no news.
                self._changed.clear()

    def _tell(self, tick: int) -> None:
        with self.rushes.db.read() as tx:
            if not (self.settings.alert_webhook_url or webhooks.any_enabled(tx)):
                return
        self.rushes.chores.number_events()
        self._fan_out(tick)

    def _announce_workers(self, tick: int) -> None:
        offline_ms = int(self.settings.offline_threshold * 1000)

        def announce(tx: Any) -> None:
            now = read_store.now(tx)
            for worker in fleet.presences(tx):
                status = worker.status(now, offline_ms)
                if status not in (WorkerStatus.ACTIVE, worker.announced):
                    fleet.announce(tx, worker.id, status)

        self.rushes.db.run(announce)

    def _forget(self, tick: int) -> None:
        if tick % 360 == 0:
            self.rushes.db.run(
                lambda tx: accounts.forget_expired(
                    tx, keep_ms=FORGET_MS, known_ms=throttle.KNOWN_MS
                )
            )
            keep_ms = int(self.settings.event_retention * 1000)
            logged_ms = int(self.settings.security_log_retention * 1000)
            while self.rushes.db.run(lambda tx: security_store.forget(tx, keep_ms=logged_ms)):
                pass
            while self.rushes.db.run(lambda tx: webhooks.forget_deliveries(tx, keep_ms=keep_ms)):
                pass
            while self.rushes.db.run(
                lambda tx: transcripts.forget_passages(tx, keep_ms=PASSAGES_MS)
            ):
                pass

    def _unload_idle(self, tick: int) -> None:
        if seconds := self.settings.worker_idle_unload:
            self.services.engines.unload_idle(seconds)

    def _cut_ended(self, tick: int) -> None:
        """Of people whom another server has sent away."""
        open_streams.cut_ended(self.services)

    def _index_moments(self, tick: int) -> None:
        """Of media from before search knew all that it knows now; a page at a time, so that all
        else goes on."""
        if not self._titles_indexed:
            self._titles_indexed = not self.rushes.db.run(search.catch_up)
        elif not self._speech_indexed:
            self._speech_indexed = not self.rushes.db.run(search.catch_up_speech)
        self.rushes.db.run(vocabulary.check)


def services(rushes: Rushes) -> Services:
    """What the routes need of it."""
    return Services(
        live=rushes.live,
        db=rushes.db,
        queue=rushes.queue,
        bell=rushes.bell,
        redis=rushes.redis,
        storage=rushes.storage,
        dispatch=rushes.dispatch,
        chores=rushes.chores,
        relay=Relay(rushes.db, rushes.chores.number_events),
        engines=Registry(options(rushes.settings)),
        metrics=rushes.metrics,
        local_token=secrets.token_urlsafe(32),
    )


def _join(threads: Sequence[threading.Thread], seconds: float = STOP_SECONDS) -> None:
    """They have been told at the same time, and have this long together."""
    latest = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0, latest - time.monotonic()))


def _fingerprint(host: str, data_dir: Path) -> str:
    """Of one server: two may share a host, but never a data directory."""
    return hashlib.sha256(f"{host}\0{data_dir.absolute()}".encode()).hexdigest()[:12]


def _look_at_tools() -> None:
    if said := programs.trouble():
        log.warning("%s", said)


def _tame(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)[:40]
