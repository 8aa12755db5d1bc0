"""A whole server whose object store goes silent: connections stay open, and nothing is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest

from proxy import Proxy
from resilience.programs import Server
from services import Seaweed

AT_ONCE = 8


@pytest.fixture
def proxy(seaweed: Seaweed) -> Iterator[Proxy]:
    with Proxy(seaweed.port) as proxy:
        yield proxy.open()


@pytest.mark.thorough
def test_a_server_whose_storage_is_silent_can_be_stopped(
    start_server: Callable[..., Server], seaweed: Seaweed, proxy: Proxy
) -> None:
    url = seaweed.url(prefix="silent").replace(f":{seaweed.port}", f":{proxy.port}")
    server = start_server(storage_url=url, transcode_workers=0, transcription_workers=0)
    with ThreadPoolExecutor(AT_ONCE) as people, server.client() as client:
        assert _upload(client, "before")
        proxy.silence()
        waiting = [people.submit(_upload, client, f"while {n}") for n in range(AT_ONCE)]
        with server.client(base_url=server.url) as probe:
            assert probe.get("/livez").status_code == 200
        assert server.stop() == 0
        # What was not acknowledged may be gone; nothing was acknowledged.
        assert not any(each.result() for each in waiting)


def _upload(client: httpx2.Client, title: str) -> bool:
    # The server leaves meanwhile.
    with suppress(httpx2.HTTPError):
        sent = client.post("/media", files={"file": (f"{title}.wav", b"RIFF" + b"\0" * 100_000)})
        return sent.status_code == 201
    return False
