"""A server behind the Caddy of deploy/proxy: what proxies like to hold back or cut off."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from deployment.dockerfile import DEPLOY
from deployment.test_checkers import tool
from running import ADMIN_TOKEN, Running, events_of, free_port

# A proxy that keeps what it gets until there is enough of it would need far longer than this.
AT_ONCE = 10.0
# What an MP4 begins with.
HEADER = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"


@pytest.fixture
def proxied(server: Running, tmp_path: Path) -> Iterator[httpx2.Client]:
    port = free_port()
    text = (DEPLOY / "proxy" / "Caddyfile").read_text()
    text = text.replace("rushes.example.org {", f"http://127.0.0.1:{port} {{")
    text = text.replace("127.0.0.1:8484", f"127.0.0.1:{server.settings.port}")
    with caddy("{\n\tadmin off\n}\n" + text, tmp_path):
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
            wait_for(client)
            yield client


@contextmanager
def caddy(text: str, place: Path) -> Iterator[None]:
    (place / "Caddyfile").write_text(text)
    argv = [str(tool("caddy")), "run", "--adapter", "caddyfile", "--config", "Caddyfile"]
    environment = {"HOME": str(place), "XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
    with (place / "caddy.log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, cwd=place, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


def wait_for(client: httpx2.Client) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(httpx2.HTTPError):
            if client.get("/livez").status_code == 200:
                return
    raise AssertionError("no proxy")


def test_a_proxy_holds_nothing_back(proxied: httpx2.Client, server: Running) -> None:
    # Events leave as they happen.
    with proxied.stream("GET", "/api/v1/events", timeout=AT_ONCE) as stream:
        events = events_of(stream)
        job = server.rushes.enqueue("transcode").id
        assert any(data.get("job_id") == job for _, _, data in events)
    # An upload of more than any default limit, and its offset is what is on the server's disk.
    size = 24 * 2**20
    name = {"Upload-Length": str(size), "Tus-Resumable": "1.0.0"}
    made = proxied.post("/api/v1/uploads", headers={**name, "Upload-Metadata": "filename Yi5tcDQ="})
    assert made.status_code == 201, made.text
    place = httpx2.URL(made.headers["Location"]).path

    def half() -> Iterator[bytes]:
        yield HEADER + bytes(size // 2 - len(HEADER))
        deadline = time.monotonic() + AT_ONCE
        while not received(server, place):
            assert time.monotonic() < deadline, "the proxy kept it"
        yield bytes(size // 2)

    patch = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0"}
    patch |= {"Content-Type": "application/offset+octet-stream", "Content-Length": str(size)}
    sent = proxied.patch(place, headers=patch, content=half(), timeout=30)
    assert sent.headers["Upload-Offset"] == str(size), sent.text


def received(server: Running, place: str) -> int:
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT offset_bytes FROM uploads WHERE id = :id", id=Path(place).name)
    return int(row["offset_bytes"]) if row else 0


def test_what_is_for_the_inside_stays_there(proxied: httpx2.Client, server: Running) -> None:
    for path in ("/metrics", "/health", "/readyz"):
        assert proxied.get(path).status_code == 404
        assert httpx2.get(f"{server.url}{path}").status_code == 200
    assert "<title>" in proxied.get("/").text
