"""A worker of the release before, at a server of this one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from handlers.transcode.test_prepare import H264, files_of, is_prepared, jobs_of, shown, upload
from handlers.transcode.test_resume import film, wait_until
from running import Running
from rushes import handlers, protocol
from rushes.worker.loop import Worker
from rushes.worker.remote import Remote
from upgrades import releases
from upgrades.releases import Release

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return releases.before(tmp_path_factory.mktemp("before"))


@contextmanager
def old_worker(old: Release, server: Running, directory: Path) -> Iterator[None]:
    told = {
        "RUSHES_SERVER": server.url,
        "RUSHES_WORKER_KEY": server.worker_key("old"),
        "RUSHES_DATA_DIR": str(directory),
    }
    directory.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-m", "rushes", "worker", "--kinds", "transcode"],
        env={**old.environment(), **told},
        cwd=directory,
    )
    try:
        yield
    finally:
        program.terminate()
        program.wait(30)


@contextmanager
def who_prepares(server: Running) -> Iterator[None]:
    with ExitStack() as stack:
        link = Remote(server.url, server.worker_key("quick"))
        stack.callback(link.close)
        table = {"prepare": handlers.table()["prepare"]}
        mine = Worker(link, table, hello=protocol.Hello(kinds=["prepare"]), claim_wait_seconds=0.5)
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        stack.callback(thread.join, 30)
        stack.callback(mine.stop)
        yield


def test_it_encodes_what_nobody_has_prepared(
    serve: Callable[..., Running], old: Release, tmp_path: Path
) -> None:
    server = serve()
    media_id = upload(server, film(tmp_path / "film.mp4", 3, "320x180", *H264))
    with old_worker(old, server, tmp_path / "old"):
        wait_until(lambda: shown(server, media_id)["status"] == "ready")
    assert set(jobs_of(server, media_id)) == {"transcode"}


def test_it_goes_on_with_what_a_newer_one_has_prepared(
    serve: Callable[..., Running], old: Release, tmp_path: Path
) -> None:
    server = serve()
    with who_prepares(server):
        wait_until(lambda: _is_known(server))
        # Something that it waits for.
        upload(server, film(tmp_path / "first.mp4", 2, "320x180", *H264))
        media_id = upload(server, film(tmp_path / "film.mp4", 6, "320x180", *H264))
        wait_until(lambda: is_prepared(server, media_id))
    prepared = files_of(server, media_id)
    assert "original/seg_00000.m4s" in prepared
    with old_worker(old, server, tmp_path / "old"):
        wait_until(lambda: shown(server, media_id)["status"] == "ready")
    kept = files_of(server, media_id)
    assert {name: kept.get(name) for name in prepared} == prepared


def _is_known(server: Running) -> bool:
    with server.client() as admin:
        return any("prepare" in each["kinds"] for each in admin.get("/workers").json()["items"])
