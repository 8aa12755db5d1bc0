"""A worker that reads and writes past its server: whatever the storage says, the claim is safe."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing

import httpx2
import pytest

import services
from running import Running
from rushes import errors
from rushes.protocol import Claim, Hello
from rushes.worker.remote import Remote
from web import library

STORAGE = "http://storage.example"
HELD = Claim("job_1", "claim_1")


def worker_of(storage: Callable[[httpx2.Request], httpx2.Response]) -> Remote:
    """Its server leads everybody to a storage that answers like this."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "storage.example":
            assert "authorization" not in request.headers
            return storage(request)
        if request.url.path.endswith("/presign"):
            return httpx2.Response(200, json={"url": f"{STORAGE}/b/put", "ticket": "put_1"})
        return httpx2.Response(307, headers={"Location": f"{STORAGE}/b/source"})

    return Remote("http://server.example", "rsw_key", transport=httpx2.MockTransport(answer))


@pytest.mark.parametrize("status", [301, 307, 400, 403, 404, 409, 412, 429, 500, 503])
def test_no_answer_of_a_storage_ends_a_claim_or_a_job(status: int) -> None:
    headers = {"Location": "http://evil.example/"} if status in (301, 307) else {}
    with closing(worker_of(lambda _: httpx2.Response(status, headers=headers))) as worker:
        with pytest.raises(errors.StorageDown):
            list(worker.read_source(HELD, 0))
        with pytest.raises(errors.StorageDown):
            worker.put_artifact(HELD, "a.m4s", b"bytes")


@pytest.mark.parametrize("told", [None, "bytes 0-8/9", "bytes 5-8/9", "nonsense"])
def test_another_part_than_was_asked_for_is_not_taken(told: str | None) -> None:
    """A proxy in between may ignore ranges."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"Content-Range": told} if told else {}
        return httpx2.Response(206 if told else 200, headers=headers, content=b"123456789")

    with closing(worker_of(answer)) as worker:
        with pytest.raises(errors.StorageDown):
            list(worker.read_source(HELD, 4))
        if told is None:
            assert b"".join(worker.read_source(HELD, 0)) == b"123456789"


def test_a_storage_that_cannot_be_reached_is_told_apart_from_the_server() -> None:
    def away(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with closing(worker_of(away)) as worker, pytest.raises(errors.StorageDown, match="storage"):
        list(worker.read_source(HELD, 0))


def test_a_source_is_read_by_links_that_end_with_the_claim(
    seaweed: services.Seaweed, serve: Callable[..., Running]
) -> None:
    server = serve(storage_url=seaweed.url(prefix=uuid.uuid4().hex), claim_duration=30)
    with server.client() as admin:
        library.add(server, library.user_id(admin), content=b"0123456789")
    with closing(Remote(server.url, server.worker_key())) as worker:
        worker.hello(Hello(kinds=["transcode"]))
        [held] = worker.claim()
        assert b"".join(worker.read_source(held.claim, 4)) == b"456789"
        assert list(worker.read_source(held.claim, 10)) == []
        answer = worker._http.get(
            f"{server.url}/api/v1/worker/source",
            params={"job_id": held.job_id},
            headers={"Rushes-Claim": held.claim_id},
        )
        link = httpx2.URL(answer.headers["location"])
        assert 0 < int(link.params["X-Amz-Expires"]) <= 30
        worker.release(held.claim)
        with pytest.raises(errors.ClaimLost):
            list(worker.read_source(held.claim, 0))
