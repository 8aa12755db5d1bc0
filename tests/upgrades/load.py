"""People and workers who use several servers of one database at once, and remember what they were
told, so that what is lost or doubled can be found."""

from __future__ import annotations

import hashlib
import io
import threading
import time
import wave
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import httpx2

from resilience.breakpoints import until
from running import ADMIN_TOKEN
from rushes import protocol
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote
from scanner import Watched

KIND = "count"
# A moment longer than nothing, so that some are under way whenever a server leaves.
WORK_SECONDS = 0.02
PAUSE_SECONDS = 0.06
UPLOAD_EVERY = 8
PROBE_SECONDS = 0.15
PATIENCE_SECONDS = 60


class Load:
    """`servers`: addresses, each of which may be away at times. Used in a `with` block; `finish`
    waits until all that was accepted is done."""

    def __init__(self, servers: Sequence[str], key: str, *, workers: int = 2) -> None:
        self.servers = list(servers)
        self.jobs: dict[str, str] = {}
        self.media: dict[str, tuple[str, str]] = {}
        self.ran: Counter[str] = Counter()
        self.problems: list[str] = []
        self._key, self._workers = key, workers
        self._leave = threading.Event()
        self._stack = ExitStack()
        self._people = threading.Thread(target=self._guarded(self._ask), daemon=True)

    def __enter__(self) -> Load:
        for number in range(self._workers):
            turned = self.servers[number % len(self.servers) :]
            self._stack.enter_context(working(turned + self.servers, self._key, self._run))
        self._people.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave.set()
        self._people.join(PATIENCE_SECONDS)
        self._stack.close()

    @property
    def done(self) -> int:
        return sum(self.ran.values())

    def go_on(self, jobs: int) -> None:
        """Until so many more are done."""
        wanted = self.done + jobs
        until(lambda: self.problems or self.done >= wanted)
        assert not self.problems, self.problems

    def finish(self) -> None:
        self._leave.set()
        self._people.join(PATIENCE_SECONDS)
        assert not self.problems, self.problems
        until(lambda: self.done >= len(self.jobs))

    # What it does

    def _run(self, job: JobContext) -> dict[str, Any]:
        self.ran[job.job_id] += 1
        job.wait(WORK_SECONDS)
        job.progress(0.5, "counting")
        return {"number": job.args["number"]}

    def _ask(self) -> None:
        with httpx2.Client(
            transport=Watched(), headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}, timeout=30
        ) as client:
            number = 0
            while not self._leave.wait(PAUSE_SECONDS):
                number += 1
                if number % UPLOAD_EVERY:
                    self._add_job(client, number)
                else:
                    self._upload(client, number)

    def _add_job(self, client: httpx2.Client, number: int) -> None:
        body = {"kind": KIND, "args": {"number": number}}
        answer = self._persist(client, number, "/api/v1/jobs", {"json": body})
        self.jobs[answer["id"]] = str(number)

    def _upload(self, client: httpx2.Client, number: int) -> None:
        content = sound(number)
        files = {"file": (f"{number}.wav", content, "audio/wav")}
        answer = self._persist(client, number, "/api/v1/media", {"files": files})
        self.media[answer["id"]] = (str(number), hashlib.sha256(content).hexdigest())

    def _persist(
        self, client: httpx2.Client, number: int, path: str, what: dict[str, Any]
    ) -> dict[str, Any]:
        """As a script does: whoever cannot answer now is asked again, or another one is."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        turn = number
        while True:
            turn += 1
            url = self.servers[turn % len(self.servers)] + path
            try:
                answer = client.post(url, headers={"Idempotency-Key": f"load-{number}"}, **what)
            except httpx2.TransportError:
                pass
            else:
                if answer.is_success:
                    made: dict[str, Any] = answer.json()
                    return made
                # Nothing but "not now" is an answer to what is right.
                assert answer.status_code == 503, f"{url}: {answer.status_code} {answer.text}"
            assert time.monotonic() < give_up_at, f"nobody answers {url}"
            time.sleep(0.02)

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                call()
            except Exception as error:  # noqa: BLE001  whatever it is, the test has to know
                self.problems.append(repr(error))

        return run

    # Afterwards

    def check(self, url: str) -> None:
        """Nothing is lost and nothing doubled, as the server at `url` tells it."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        with httpx2.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30) as client:
            self._check_jobs(client)
            self._check_media(client)

    def _check_jobs(self, client: httpx2.Client) -> None:
        until(lambda: len(listed(client, "/jobs", kind=KIND, state="completed")) == len(self.jobs))
        found = {each["id"]: each for each in listed(client, "/jobs", kind=KIND)}
        assert set(found) == set(self.jobs)
        assert Counter(each["args"]["number"] for each in found.values()) == Counter(
            map(int, self.jobs.values())
        )
        # Servers came and went in order, so nobody had to do anything again.
        assert {each["attempt"] for each in found.values()} == {1}
        assert self.ran == Counter(dict.fromkeys(self.jobs, 1))

    def _check_media(self, client: httpx2.Client) -> None:
        found = {each["id"]: each for each in listed(client, "/media")}
        assert set(found) == set(self.media)
        for media_id, (_, digest) in self.media.items():
            source = client.get(f"/media/{media_id}/source", follow_redirects=True)
            assert source.status_code == 200, source.text
            assert hashlib.sha256(source.content).hexdigest() == digest


class Probe(threading.Thread):
    """Asks a server again and again whether it is ready. It may be away; it must not be unwell."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.unwell: list[dict[str, Any]] = []
        self.times = 0
        self._url = url
        self._leave = threading.Event()

    def run(self) -> None:
        with httpx2.Client(base_url=self._url, timeout=10) as client:
            while not self._leave.wait(PROBE_SECONDS):
                try:
                    answer = client.get("/readyz")
                except httpx2.TransportError:
                    continue
                self.times += 1
                said = answer.json()
                # One that is about to leave says so.
                if answer.status_code != 200 and said["accepting"]:
                    self.unwell.append(said)

    def leave(self) -> None:
        self._leave.set()
        self.join(PATIENCE_SECONDS)
        assert self.times
        assert self.unwell == []


def working(servers: Sequence[str], key: str, run: Callable[[JobContext], Any]) -> ExitStack:
    """The shipped worker over HTTP, in a thread, that knows these servers."""
    stack = ExitStack()
    remote = Remote(",".join(dict.fromkeys(servers)), key)
    stack.callback(remote.close)
    hello = protocol.Hello(kinds=[KIND])
    worker = Worker(remote, {KIND: Handler(run)}, hello=hello, claim_wait_seconds=0.5)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    stack.callback(thread.join, PATIENCE_SECONDS)
    stack.callback(worker.stop)
    return stack


def listed(client: httpx2.Client, path: str, **asked: Any) -> list[dict[str, Any]]:
    """All pages of it."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = client.get(path, params={**asked, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def sound(number: int) -> bytes:
    """A tenth of a second, different for each number."""
    file = io.BytesIO()
    with wave.open(file, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(8000)
        made.writeframes(number.to_bytes(4, "little") * 200)
    return file.getvalue()
