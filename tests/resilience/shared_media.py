"""A library on a server, seen from both sides: by whoever watches, and by looking at its tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from urllib.parse import urljoin

import httpx2

from resilience import demo_handlers
from resilience.breakpoints import until
from resilience.demo_handlers import KIND, PLAYLIST, Maker
from rushes import config, errors, events, ids, protocol
from rushes.app import Rushes
from rushes.db.database import Tx
from rushes.jobs import invariants
from rushes.jobs.job import Job, NewJob
from rushes.media import library, purge, purge_store
from rushes.media import store as media_store
from rushes.media.media import NewMedia
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote

SOURCE = bytes(range(256)) * 400
LOOK_SECONDS = 0.1


class SharedMedia:
    """One media that everybody with its link can watch. `rushes` is on the server's database."""

    def __init__(self, rushes: Rushes, url: str) -> None:
        self.rushes = rushes
        self.url = url
        key = f"sources/{ids.new('upl')}"
        rushes.storage.put(key, SOURCE)
        new = NewMedia(
            user_id="",
            title="Holiday",
            file_name="holiday.mov",
            size_bytes=len(SOURCE),
            sha256=demo_handlers.digest(SOURCE),
            source_key=key,
        )
        self.media_id = ids.new("med")

        def add(tx: Tx) -> str:
            media_store.insert(tx, self.media_id, new, self.media_id)
            return library.share(tx, library.found(tx, self.media_id, None))

        self.link = f"{url}/s/{rushes.db.run(add)}/stream/{PLAYLIST}"

    def enqueue(self, **options: Any) -> str:
        new = NewJob(kind=KIND, media_id=self.media_id, **options)
        return self.rushes.db.run(lambda tx: self.rushes.queue.enqueue(tx, new)).id

    def job(self, job_id: str) -> Job:
        return self.rushes.job(job_id)

    def outcomes(self, job_id: str) -> list[str]:
        return [str(each.outcome) for each in self.rushes.executions(job_id)]

    def wait(self, job_id: str, state: str = "completed") -> None:
        until(lambda: self._is(job_id, state))

    def watch(self) -> Maker | None:
        """As a player does: the playlist, then every file that it names; None if there is none."""
        with player() as mine:
            return watch(mine, self.link)

    def _is(self, job_id: str, state: str) -> bool:
        try:
            return self.job(job_id).state == state
        except errors.Unavailable:
            # Connections of ours may be from before a crash, too.
            return False

    # In the tables

    def check(self, job_id: str, outcomes: list[str], *, before: Maker | None = None) -> None:
        """The job was published once, by the claim that succeeded, and all is tidy."""
        seen = self.watch()
        assert seen is not None
        assert seen.job_id == job_id
        job = self.job(job_id)
        assert (job.state, job.result) == (
            "completed",
            {"source": demo_handlers.digest(SOURCE), "attempt": seen.attempt},
        )
        assert self.outcomes(job_id) == outcomes
        counted = [each for each in outcomes if each not in ("released", "deferred")]
        assert job.attempt == seen.attempt == len(counted)
        self.check_tables()
        published = [each for each in self._versions() if each["published_at"]]
        assert [each["job_id"] for each in published] == [
            *([before.job_id] if before else []),
            job_id,
        ]
        assert published[-1]["claim_id"] == seen.claim_id
        self.check_leftovers()

    def check_tables(self) -> None:
        """What `rushes doctor` asks."""
        with self.rushes.db.begin() as tx:
            events.assign_positions(tx)
            assert invariants.check(tx) == []
            ready = tx.all(
                "SELECT count(*) AS events FROM events WHERE media_id = :id AND type = :type",
                id=self.media_id,
                type="media.ready",
            )
        published = [each for each in self._versions() if each["published_at"]]
        assert ready == [{"events": len(published)}]

    def check_leftovers(self) -> None:
        """Purging finds all that attempts and crashes left, and takes nothing that is needed."""
        rushes, storage = self.rushes, self.rushes.storage
        rushes.db.run(purge_store.abandon_versions)
        with rushes.db.read() as tx:
            versions = tx.all("SELECT id, state FROM versions WHERE purged_at IS NULL")
            needed = {row["source_key"] for row in tx.all("SELECT source_key FROM media")}
            for version in versions:
                if version["state"] in ("current", "building"):
                    needed |= {row.key for row in media_store.artifacts(tx, version["id"])}
        remover = purge.Purge(rushes.db, storage, grace_ms=-60_000)
        for version in versions:
            remover(_PurgeJob({"version_id": version["id"]}))
        remover(_PurgeJob({purge.ORPHANS: "all"}))
        left = {entry.key for folder in purge.FOLDERS for entry in storage.list(folder)}
        assert left == needed
        assert self.watch() is not None

    def _versions(self) -> list[dict[str, Any]]:
        with self.rushes.db.read() as tx:
            return tx.all(
                "SELECT * FROM versions WHERE media_id = :id ORDER BY published_at, id",
                id=self.media_id,
            )


class _PurgeJob:
    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args

    def alive(self) -> None:
        pass

    def raise_if_stopped(self) -> None:
        pass


def player() -> httpx2.Client:
    # Without certificates, which take long to load.
    return httpx2.Client(follow_redirects=True, timeout=30, verify=False)


def watch(player: httpx2.Client, link: str) -> Maker | None:
    """Fails when what it gets is not one whole set."""
    answer = player.get(link)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    maker, contents, hashes = demo_handlers.parse(answer.content)
    for name, content in contents.items():
        part = player.get(urljoin(str(answer.url), name))
        part.raise_for_status()
        assert part.content == content, f"{name} is not of the set that names it"
        assert demo_handlers.digest(part.content) == hashes[name]
    return maker


class Viewer(threading.Thread):
    """Watches again and again. It may see nothing while there is no server; never a mix, and
    nothing old after something new."""

    def __init__(self, link: str) -> None:
        super().__init__(name="viewer", daemon=True)
        self.seen: list[Maker] = []
        self.problems: list[str] = []
        self._link = link
        self._leave = threading.Event()

    def run(self) -> None:
        with player() as mine:
            self._look(mine)
            while not self._leave.wait(LOOK_SECONDS):
                self._look(mine)

    def _look(self, mine: httpx2.Client) -> None:
        try:
            maker = watch(mine, self._link)
        except httpx2.HTTPStatusError as error:
            if error.response.status_code < 500:
                self.problems.append(repr(error))
        except httpx2.HTTPError:
            pass
        except Exception as error:  # noqa: BLE001  whatever it is, the test has to know
            self.problems.append(repr(error))
        else:
            if maker is not None and maker not in self.seen[-1:]:
                self.seen.append(maker)

    def leave(self) -> list[Maker]:
        """What was seen, in that order."""
        self._leave.set()
        self.join(60)
        assert not self.problems, self.problems[:5]
        return self.seen


@contextmanager
def viewer(shared: SharedMedia) -> Iterator[Viewer]:
    watching = Viewer(shared.link)
    watching.start()
    try:
        yield watching
    finally:
        watching.leave()


def worker(
    url: str, key: str, run: Callable[..., Any] = demo_handlers.demo, **options: Any
) -> AbstractContextManager[Worker]:
    """The shipped worker over HTTP, in a thread."""
    return working(Remote(url, key), run, **options)


@contextmanager
def working(
    remote: Remote, run: Callable[..., Any] = demo_handlers.demo, **options: Any
) -> Iterator[Worker]:
    with ExitStack() as stack:
        stack.callback(remote.close)
        hello = protocol.Hello(kinds=[KIND])
        # Asked again soon, so that stopping does not have to wait for an answer.
        options = {"claim_wait_seconds": 0.5, **options}
        worker = Worker(remote, {KIND: Handler(run)}, hello=hello, **options)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(worker.stop)
        yield worker


@contextmanager
def opened(settings: config.Settings) -> Iterator[Rushes]:
    """The same database and storage as the server's, from this process."""
    with Rushes(settings=settings, migrate=False) as rushes:
        yield rushes
