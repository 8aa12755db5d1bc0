"""A bucket in trouble makes jobs wait and costs no attempt; all goes on when it is well again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from proxy import Proxy
from resilience.breakpoints import until
from resilience.cases import some
from resilience.test_disk import BOTH, Crew
from resilience.test_disk import hire as hire
from rushes import errors
from rushes.storage import s3
from rushes.worker import remote
from services import Seaweed


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence of two minutes is no different; workers elsewhere bear one minute."""
    monkeypatch.setattr(remote, "FILE_SECONDS", 1.0)
    monkeypatch.setitem(s3.CLIENT, "read_timeout", timedelta(seconds=0.5))
    monkeypatch.setitem(s3.RETRY, "max_retries", 0)


class Bucket:
    """A way to it that can go wrong."""

    def __init__(self, seaweed: Seaweed) -> None:
        self._seaweed = seaweed
        self._proxy = Proxy(seaweed.port).open()
        there, here = f":{seaweed.port}", f":{self._proxy.port}"
        self.url = seaweed.url(prefix=uuid.uuid4().hex).replace(there, here)

    @contextmanager
    def silent(self) -> Iterator[None]:
        self._proxy.silence()
        yield
        self._proxy.speak()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Every connection is cut as soon as it is made."""
        self.cut()
        yield
        self._proxy.mend()

    def cut(self) -> None:
        self._proxy.cut()

    @contextmanager
    def slow(self, seconds: float = 0.05, chunk_bytes: int = 65536) -> Iterator[None]:
        self._proxy.slow_down(seconds, chunk_bytes)
        yield
        self._proxy.slow_down(0, 65536)

    def close(self) -> None:
        self._proxy.__exit__(None, None, None)


@pytest.fixture
def bucket(seaweed: Seaweed) -> Iterator[Bucket]:
    opened = Bucket(seaweed)
    yield opened
    opened.close()


@pytest.mark.parametrize("trouble", some(["failing", "silent"], each_time={"failing"}))
@pytest.mark.parametrize("hire", some(BOTH, each_time={"in-process"}), indirect=True)
def test_a_bucket_in_trouble_gives_the_job_back_and_costs_no_attempt(
    bucket: Bucket, impatient: None, hire: Callable[..., Crew], trouble: str
) -> None:
    crew = hire(storage_url=bucket.url)
    shared = crew.shared
    with crew.working():
        shared.wait(shared.enqueue())
        before = shared.watch()
        job_id = shared.enqueue(max_attempts=1)
        assert crew.begun.wait(60)
        with getattr(bucket, trouble)():
            crew.go_on.set()
            until(lambda: crew.deferred(job_id))
        assert set(crew.finish(job_id)) == {"deferred"}
    assert isinstance(crew.errors[0], errors.StorageDown)
    assert shared.rushes.executions(job_id)[0].error_code == "storage_down"
    shared.check(job_id, shared.outcomes(job_id), before=before)
