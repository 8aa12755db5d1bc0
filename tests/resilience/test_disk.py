"""A disk that is full or gone makes jobs wait, loses nothing, and all goes on when it is back."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from resilience import demo_handlers
from resilience.breakpoints import until
from resilience.cases import some
from resilience.demo_handlers import KIND, demo
from resilience.shared_media import SharedMedia, viewer, worker
from running import Running
from rushes import errors
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler

DISK_BYTES = 8 * 2**20
# Three of them and the version before fit, if nothing else is there.
ARGS = {"size_bytes": 2**20}
SHORT = {"claim_duration": 2.0, "heartbeat_interval": 0.4}


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        options = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
        done = subprocess.run(options, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a file system of its own cannot be mounted here: {done.stderr.strip()}")

    def fill(self) -> None:
        full = pytest.raises(OSError, match="No space left")
        with (self.path / "filler").open("wb", buffering=0) as filler, full:
            while True:
                filler.write(bytes(4096))

    def free(self) -> None:
        (self.path / "filler").unlink()

    def write_protect(self, on: bool) -> None:
        mode = "remount,ro" if on else "remount,rw"
        subprocess.run(["mount", "-o", mode, str(self.path)], check=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """To be asked for before any server, so that it is there until the server has stopped."""
    small = Disk(tmp_path / "disk")
    yield small
    small.close()


class Crew:
    """One worker that runs `demo`, over either transport. Before its second job it can be held."""

    def __init__(self, transport: str, serve: Callable[..., Running], **given: Any) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.waits = threading.Event()
        self.errors: list[BaseException] = []
        self._first = True
        inside = transport == "in-process"
        table = {KIND: Handler(self._run)} if inside else {}
        self.running = serve(handlers_table=table, **{**SHORT, **given})
        self.shared = SharedMedia(self.running.rushes, self.running.url)
        self._inside = inside

    def working(self, **options: Any) -> AbstractContextManager[Any]:
        if self._inside:
            return nullcontext()
        return worker(self.running.url, self.running.worker_key(), self._run, **options)

    def _run(self, job: JobContext) -> Any:
        if not self._first:
            self.begun.set()
            assert self.go_on.wait(60)
            _tell_when_it_waits(job, self.waits)
        self._first = False
        try:
            return demo(job)
        except Exception as error:
            self.errors.append(error)
            raise

    def deferred(self, job_id: str) -> bool:
        return self.shared.outcomes(job_id)[:1] == ["deferred"]

    def finish(self, job_id: str) -> list[str]:
        """How the attempts ended, all but the last."""
        self.shared.wait(job_id)
        *before, last = self.shared.outcomes(job_id)
        assert last == "succeeded"
        return before


def _tell_when_it_waits(job: JobContext, waits: threading.Event) -> None:
    original = job.wait

    def wait(seconds: float) -> None:
        waits.set()
        original(seconds)

    job.wait = wait  # type: ignore[method-assign]


BOTH = ["in-process", "http"]


@pytest.fixture
def hire(
    request: pytest.FixtureRequest, serve: Callable[..., Running], hurried: None
) -> Callable[..., Crew]:
    return lambda **given: Crew(request.param, serve, **given)


@pytest.mark.parametrize("hire", BOTH, indirect=True)
def test_a_full_disk_gives_the_job_back_until_there_is_room(
    disk: Disk, hire: Callable[..., Crew]
) -> None:
    crew = hire(storage_url=(disk.path / "storage").as_uri())
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        with viewer(shared) as watching:
            job_id = shared.enqueue(args=ARGS)
            assert crew.begun.wait(60)
            disk.fill()
            crew.go_on.set()
            until(lambda: crew.deferred(job_id))
            assert shared.watch() == before
            disk.free()
            assert set(crew.finish(job_id)) == {"deferred"}
            assert set(watching.leave()) <= {before, shared.watch()}
    assert isinstance(crew.errors[0], errors.DiskFull)
    assert shared.rushes.executions(job_id)[0].error_code == "disk_full"
    shared.check(job_id, shared.outcomes(job_id), before=before)


@pytest.mark.parametrize("hire", some(BOTH, each_time={"http"}), indirect=True)
def test_a_disk_that_is_full_for_the_database_as_well_loses_nothing(
    disk: Disk, hire: Callable[..., Crew]
) -> None:
    crew = hire(data_dir=disk.path)
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        job_id = shared.enqueue(args=ARGS)
        assert crew.begun.wait(60)
        disk.fill()
        crew.go_on.set()
        until(lambda: crew.errors)
        assert shared.watch() == before
        disk.free()
        assert set(crew.finish(job_id)) <= {"deferred", "lost"}
    shared.check(job_id, shared.outcomes(job_id), before=before)


@pytest.mark.parametrize("hire", some(BOTH, each_time={"http"}), indirect=True)
def test_a_storage_that_is_away_for_a_moment_is_waited_for(
    hire: Callable[..., Crew], tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    crew = hire(storage_url=storage.as_uri(), claim_duration=60.0)
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        job_id = shared.enqueue()
        assert crew.begun.wait(60)
        storage.rename(tmp_path / "elsewhere")
        crew.go_on.set()
        assert crew.waits.wait(60)
        (tmp_path / "elsewhere").rename(storage)
        assert crew.finish(job_id) == []
    shared.check(job_id, ["succeeded"], before=before)


@pytest.mark.parametrize("hire", some(BOTH, each_time={"in-process"}), indirect=True)
def test_a_storage_that_stays_away_gives_the_job_back(
    hire: Callable[..., Crew], tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    crew = hire(storage_url=storage.as_uri())
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        with viewer(shared) as watching:
            job_id = shared.enqueue()
            assert crew.begun.wait(60)
            storage.rename(tmp_path / "elsewhere")
            crew.go_on.set()
            until(lambda: crew.deferred(job_id))
            (tmp_path / "elsewhere").rename(storage)
            assert set(crew.finish(job_id)) == {"deferred"}
            assert set(watching.leave()) <= {before, shared.watch()}
    # An answer to HEAD has no body that could say more.
    assert shared.rushes.executions(job_id)[0].error_code in ("storage_down", "unavailable")
    shared.check(job_id, shared.outcomes(job_id), before=before)


@pytest.mark.parametrize("hire", some(BOTH, each_time={"http"}), indirect=True)
def test_a_disk_that_cannot_be_written_any_more_gives_the_job_back(
    disk: Disk, hire: Callable[..., Crew]
) -> None:
    crew = hire(storage_url=(disk.path / "storage").as_uri())
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        job_id = shared.enqueue()
        assert crew.begun.wait(60)
        disk.write_protect(True)
        crew.go_on.set()
        until(lambda: crew.deferred(job_id))
        assert shared.watch() == before
        disk.write_protect(False)
        assert set(crew.finish(job_id)) == {"deferred"}
    shared.check(job_id, shared.outcomes(job_id), before=before)


def test_a_worker_whose_own_disk_is_full_gives_the_job_back(
    disk: Disk, serve: Callable[..., Running], hurried: None
) -> None:
    crew = Crew("http", serve)
    crew.go_on.set()
    shared = crew.shared
    disk.fill()
    with crew.working(scratch_root=disk.path / "scratch"):
        job_id = shared.enqueue()
        until(lambda: crew.deferred(job_id))
        disk.free()
        assert set(crew.finish(job_id)) == {"deferred"}
    assert list((disk.path / "scratch").iterdir()) == []
    shared.check(job_id, shared.outcomes(job_id))


@pytest.mark.parametrize(
    "number", some([errno.EIO, errno.EROFS, errno.ESTALE], each_time={errno.EIO})
)
def test_a_broken_disk_does_not_use_up_attempts(
    server: Running, hurried: None, number: int
) -> None:
    shared, tries = SharedMedia(server.rushes, server.url), iter([OSError(number, "broken")])

    def run(job: JobContext) -> Any:
        for error in tries:
            raise error
        return demo_handlers.demo(job)

    with worker(server.url, server.worker_key(), run):
        job_id = shared.enqueue(max_attempts=1)
        shared.wait(job_id)
    shared.check(job_id, ["deferred", "succeeded"])
