"""A file that arrives late, or twice, changes nothing that was recorded or published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import world as worlds
from resilience.breakpoints import until
from resilience.demo_handlers import digest
from running import Running
from rushes import errors, serving
from rushes.dispatch import Dispatch
from rushes.media import library as medias
from rushes.media import purge, purge_store
from rushes.media import store as media_store
from rushes.protocol import Claim, Completion
from web import library


class Late(threading.Thread):
    """Puts a file whose bytes come when they are let."""

    def __init__(self, dispatch: Dispatch, claim: Claim, name: str, *content: bytes) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self._dispatch, self._claim, self._name, self._content = dispatch, claim, name, content
        self._begun, self._let = threading.Event(), threading.Event()
        self.start()
        assert self._begun.wait(30)

    def let(self) -> None:
        self._let.set()

    def end(self) -> BaseException | None:
        self._let.set()
        self.join(30)
        assert not self.is_alive()
        return self.error

    def run(self) -> None:
        try:
            content = self._bytes(self._content[0])
            self._dispatch.put_artifact(self._claim, self._name, content, digest(self._content[-1]))
        except errors.RushesError as error:
            self.error = error

    def _bytes(self, content: bytes) -> Iterator[bytes]:
        self._begun.set()
        assert self._let.wait(30)
        yield content


@pytest.fixture
def stored(storage_url: str, serve: Callable[..., Running]) -> Running:
    return serve(storage_url=storage_url)


def claimed(running: Running) -> tuple[str, Claim]:
    media_id = library.add(running, "")
    return media_id, library.claim(running, "transcode")


def put(running: Running, claim: Claim, name: str, content: bytes) -> None:
    running.rushes.dispatch.put_artifact(claim, name, content, digest(content))


def shown(running: Running, media_id: str) -> dict[str, bytes]:
    """What is published, byte by byte."""
    with running.rushes.db.read() as tx:
        version = worlds.current_version(tx, media_id)
        assert version is not None
        rows = media_store.artifacts(tx, version)
    return {row.name: b"".join(running.rushes.storage.read(row.key)) for row in rows}


@pytest.mark.parametrize("content", [(b"other",), (b"damaged", b"right")])
def test_a_late_copy_does_not_touch_the_published_file(
    stored: Running, content: tuple[bytes, ...]
) -> None:
    """As when a connection hung, and the file was sent again over another one."""
    media_id, claim = claimed(stored)
    late = Late(stored.rushes.dispatch, claim, "a.txt", *content)
    put(stored, claim, "a.txt", b"right")
    manifest = {"a.txt": digest(b"right")}
    stored.rushes.dispatch.complete(Completion(claim, None, manifest))
    assert isinstance(late.end(), errors.RushesError)
    assert shown(stored, media_id) == {"a.txt": b"right"}


def test_a_file_that_comes_between_checking_and_publishing_is_not_slipped_in(
    either_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    media_id, claim = claimed(either_server)
    put(either_server, claim, "a.txt", b"a")
    verify = Dispatch._verify

    def then_another(self: Dispatch, completion: Completion) -> Any:
        found = verify(self, completion)
        put(either_server, claim, "b.txt", b"b")
        return found

    monkeypatch.setattr(Dispatch, "_verify", then_another)
    with pytest.raises(errors.ManifestMismatch):
        either_server.rushes.dispatch.complete(Completion(claim, None, {"a.txt": digest(b"a")}))
    with either_server.rushes.db.read() as tx:
        assert worlds.current_version(tx, media_id) is None
    assert either_server.rushes.job(claim.job_id).state == "processing"


def test_a_file_that_comes_while_its_version_is_published_is_refused(
    serve: Callable[..., Running], postgres_url: str
) -> None:
    running = serve(database_url=postgres_url)
    media_id, claim = claimed(running)
    put(running, claim, "a.txt", b"a")
    late = Late(running.rushes.dispatch, claim, "b.txt", b"b")
    with running.rushes.db.begin() as tx:
        medias.complete(tx, running.rushes.queue, claim)
        late.let()
        until(lambda: not late.is_alive() or _is_waiting_for_a_lock(running))
    assert isinstance(late.end(), errors.ClaimLost)
    assert shown(running, media_id) == {"a.txt": b"a"}


def test_what_a_retry_takes_over_meanwhile_is_not_given_up(
    serve: Callable[..., Running], postgres_url: str
) -> None:
    """The chore has found that the job of a version failed, and waits for the retry that is just
    making the version its own."""
    running = serve(database_url=postgres_url, sweep_interval=3600)
    rushes = running.rushes
    media_id, failing = claimed(running)
    put(running, failing, "a.txt", b"a")
    rushes.dispatch.fail(failing, "permanent", "corrupt", "")
    rushes.db.run(lambda tx: rushes.queue.retry(tx, failing.job_id))
    retry = library.claim(running, "transcode")
    giving_up = threading.Thread(target=lambda: rushes.db.run(purge_store.abandon_versions))
    with rushes.db.begin() as tx:
        version = media_store.version_to_build(tx, retry.job_id)
        assert version is not None
        files = media_store.artifacts(tx, version)
        assert media_store.adopt_artifacts(tx, retry, version, files) == {"a.txt"}
        giving_up.start()
        until(lambda: not giving_up.is_alive() or _is_waiting_for_a_lock(running))
    giving_up.join(30)
    rushes.dispatch.complete(Completion(retry, None, {"a.txt": digest(b"a")}))
    assert shown(running, media_id) == {"a.txt": b"a"}


def test_orphans_are_searched_for_once_a_day_however_often_servers_start(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    def after_an_hour() -> None:
        running = serve(data_dir=tmp_path / "data")
        for chore in running.rushes.chores.also:
            chore(serving.SCAN_EVERY_TICKS)
        assert len(running.rushes.jobs(kind="purge")) == 1
        until(lambda: running.rushes.jobs(kind="purge", state="completed"))
        running.stop()

    after_an_hour()
    after_an_hour()


def test_a_file_that_is_not_recorded_yet_is_not_taken_for_an_orphan(
    serve: Callable[..., Running],
) -> None:
    rushes, key = serve(purge_grace=0).rushes, "media/med_x/ver_y/a.txt"
    rushes.storage.put(key, b"on its way")
    rushes.db.run(lambda tx: purge.plan_scan(tx, rushes.queue))
    until(lambda: rushes.jobs(kind="purge", state="completed"))
    assert rushes.storage.exists(key)


def _is_waiting_for_a_lock(running: Running) -> bool:
    with running.rushes.db.read() as tx:
        return bool(
            tx.all(
                "SELECT 1 FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )
