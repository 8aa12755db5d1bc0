"""Many workers on one server: each job is done once, and nobody is held up by the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import httpx2
import pytest

from resilience.breakpoints import until
from resilience.cases import some
from resilience.demo_handlers import KIND, digest
from resilience.programs import Server
from resilience.shared_media import SharedMedia, opened, worker
from running import Running
from rushes import errors
from rushes.protocol import Claim, Hello
from rushes.worker.remote import Remote

WORKERS, MEDIA, JOBS = 20, 10, 200
ARGS = {"files": 1, "size_bytes": 2_000}
# More than a server has threads for anything else.
SENDERS = 48


@pytest.mark.parametrize(
    "database_url", some(["sqlite", "postgres"], each_time={"sqlite"}), indirect=True
)
def test_twenty_workers_do_two_hundred_jobs_once_each(
    start_server: Callable[..., Server], database_url: str
) -> None:
    server = start_server(database_url=database_url)
    with ExitStack() as stack:
        rushes = stack.enter_context(opened(server.settings))
        scenes = [SharedMedia(rushes, server.url) for _ in range(MEDIA)]
        job_ids = [scenes[n % MEDIA].enqueue(args=ARGS) for n in range(JOBS)]
        for number in range(WORKERS):
            key = server.worker_key(f"worker-{number}")
            stack.enter_context(worker(server.url, key))
        anybody = stack.enter_context(httpx2.Client(base_url=server.url, timeout=10))

        def all_done() -> bool:
            assert anybody.get("/livez").status_code == 200
            return len(rushes.jobs(state="completed", kind=KIND, limit=JOBS)) == JOBS

        until(all_done)
        executions = [rushes.executions(job_id) for job_id in job_ids]
        assert [[each.outcome for each in tries] for tries in executions] == [["succeeded"]] * JOBS
        assert len({tries[0].worker_id for tries in executions}) == WORKERS
        for shared in scenes:
            shared.check_tables()
            assert shared.watch() is not None
            shared.check_leftovers()
        with rushes.db.read() as tx:
            published = tx.all("SELECT job_id FROM versions WHERE published_at IS NOT NULL")
        assert Counter(row["job_id"] for row in published) == Counter(job_ids)


class SlowSender(threading.Thread):
    """Sends half of a file, and the rest when it is let."""

    content = b"slow" * 1000

    def __init__(self, url: str, key: str, claim: Claim, go_on: threading.Event) -> None:
        super().__init__(daemon=True)
        self.half = threading.Event()
        self.status = 0
        self._go_on = go_on
        self._client = httpx2.Client(base_url=url, timeout=60)
        self._address = f"/api/v1/worker/artifacts/{claim.job_id}/a.txt"
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Rushes-Claim": claim.claim_id,
            "Rushes-SHA256": digest(self.content),
            "Content-Length": str(len(self.content)),
        }

    def run(self) -> None:
        with self._client, suppress(httpx2.HTTPError):
            answer = self._client.put(self._address, headers=self._headers, content=self._parts())
            self.status = answer.status_code

    def _parts(self) -> Iterator[bytes]:
        yield self.content[:2000]
        self.half.set()
        assert self._go_on.wait(60)
        yield self.content[2000:]


def test_files_that_come_slowly_hold_up_nobody(server: Running) -> None:
    shared, go_on = SharedMedia(server.rushes, server.url), threading.Event()
    key = server.worker_key()
    with ExitStack() as stack:
        stack.callback(go_on.set)
        remote = Remote(server.url, key)
        stack.callback(remote.close)
        remote.hello(Hello(kinds=[KIND]))
        job_ids = [shared.enqueue() for _ in range(SENDERS + 1)]
        claims = [each.claim for each in remote.claim(SENDERS)]
        senders = [SlowSender(server.url, key, claim, go_on) for claim in claims]
        for sender in senders:
            sender.start()
        assert all(sender.half.wait(30) for sender in senders)
        [last] = remote.claim(1)
        assert last.job_id in job_ids
        remote.put_artifact(last.claim, "b.txt", b"quick")
        assert b"".join(remote.read_source(last.claim, 0))
        go_on.set()
        for sender in senders:
            sender.join(60)
        assert {sender.status for sender in senders} == {200}


def test_a_server_does_not_wait_for_a_file_that_does_not_come(
    start_server: Callable[..., Server],
) -> None:
    server, go_on = start_server(), threading.Event()
    key = server.worker_key()
    with ExitStack() as stack:
        stack.callback(go_on.set)
        rushes = stack.enter_context(opened(server.settings))
        remote = Remote(server.url, key)
        stack.callback(remote.close)
        remote.hello(Hello(kinds=[KIND]))
        SharedMedia(rushes, server.url).enqueue()
        [job] = remote.claim(1)
        sender = SlowSender(server.url, key, job.claim, go_on)
        sender.start()
        assert sender.half.wait(30)
        assert server.stop() == 0
        go_on.set()
        sender.join(60)
        server.start()
        assert remote.artifacts(job.claim) == []
        remote.put_artifact(job.claim, "a.txt", SlowSender.content)
        assert [each.name for each in remote.artifacts(job.claim)] == ["a.txt"]


def test_a_server_that_leaves_hands_out_nothing_and_says_so(server: Running) -> None:
    remote = Remote(server.url, server.worker_key())
    remote.hello(Hello(kinds=[KIND]))
    job_id = SharedMedia(server.rushes, server.url).enqueue()
    server.services.stopping.set()
    with closing(remote), pytest.raises(errors.Unavailable, match="is stopping"):
        remote.claim(1, 30)
    assert server.rushes.job(job_id).claims == 0
