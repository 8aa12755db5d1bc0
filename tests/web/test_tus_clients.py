"""Programs that other people wrote upload to a real server, and what arrives is the same file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiotus
import pytest
from tusclient import client as tuspy

import npm
from running import ADMIN_TOKEN, Process, Running, clean_environment

MIB = 2**20
# None of them may hang: the whole test run would.
CLIENT_SECONDS = 60
HEADERS = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
SCRIPT = Path(__file__).parent / "tus_js"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "film.webm"
    noise = random.Random(1).randbytes(24 * MIB + 17)
    path.write_bytes(b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm" + noise)
    return path


def check(server: Running, film: Path, media_id: str | None = None) -> None:
    """Exactly this file has arrived."""
    with server.client() as client:
        (item,) = client.get("/media").json()["items"]
    assert media_id in (None, item["id"])
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT source_key, sha256 FROM media")
    assert row is not None
    assert row["sha256"] == hashlib.sha256(film.read_bytes()).hexdigest()
    assert b"".join(server.rushes.storage.read(row["source_key"])) == film.read_bytes()
    assert (item["title"], item["content_type"]) == ("film", "video/webm")


def offset_of(server: Running | Process, url: str) -> int:
    with server.client() as client:
        return int(client.head(url, headers={"Tus-Resumable": "1.0.0"}).headers["upload-offset"])


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def latest_url(server: Running) -> str | None:
    with server.rushes.db.read() as tx:
        row = tx.one("SELECT id FROM uploads ORDER BY id DESC LIMIT 1")
    return f"{server.url}/api/v1/uploads/{row['id']}" if row else None


# tuspy


@contextmanager
def uploader(server: Running | Process, film: Path, **options: Any) -> Iterator[Any]:
    tus = tuspy.TusClient(f"{server.url}/api/v1/uploads", headers=HEADERS)
    with film.open("rb") as file:
        yield tus.uploader(file_stream=file, metadata={"filename": film.name}, **options)


@pytest.mark.parametrize(
    "options", [{}, {"chunk_size": 5 * MIB}, {"chunk_size": 5 * MIB, "upload_checksum": True}]
)
def test_tuspy_uploads_a_file(server: Running, film: Path, options: dict[str, Any]) -> None:
    with uploader(server, film, **options) as upload:
        upload.upload()
    check(server, film)


def test_tuspy_goes_on_where_it_stopped(server: Running, film: Path) -> None:
    with uploader(server, film, chunk_size=5 * MIB) as first:
        first.upload(stop_at=10 * MIB)
    with uploader(server, film, chunk_size=5 * MIB, url=first.url) as second:
        assert second.offset == 10 * MIB
        second.upload()
    check(server, film)


def test_tuspy_goes_on_after_the_server_was_killed(
    process: Callable[..., Process], film: Path
) -> None:
    server = process()
    with uploader(server, film, chunk_size=5 * MIB) as upload:
        upload.upload(stop_at=10 * MIB)
    server.kill()
    server.start()
    with uploader(server, film, chunk_size=5 * MIB, url=upload.url) as again:
        assert again.offset == 10 * MIB
        again.upload()
    path = server.data_dir / "storage" / "sources" / upload.url.rpartition("/")[2]
    assert path.read_bytes() == film.read_bytes()


# aiotus


# Its HTTP library would like to be given something else than bytes.
large_bodies = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


def run_async(work: Any) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(CLIENT_SECONDS):
            return await work

    return asyncio.run(limited())


@large_bodies
def test_aiotus_uploads_a_file(server: Running, film: Path) -> None:
    with film.open("rb") as file:
        url = run_async(
            aiotus.upload(
                f"{server.url}/api/v1/uploads",
                file,
                {"filename": film.name.encode(), "alone": None},
                headers=HEADERS,
            )
        )
    assert url is not None
    check(server, film)
    kept = run_async(aiotus.metadata(url, headers=HEADERS))
    assert kept == {"filename": film.name.encode(), "alone": None}


@large_bodies
def test_aiotus_uploads_parts_side_by_side(server: Running, film: Path, tmp_path: Path) -> None:
    data = film.read_bytes()
    parts = []
    for number, start in enumerate((0, 7 * MIB, 15 * MIB)):
        part = tmp_path / f"part-{number}"
        part.write_bytes(data[start : (7 * MIB, 15 * MIB, len(data))[number]])
        parts.append(part.open("rb"))
    try:
        url = run_async(
            aiotus.upload_multiple(
                f"{server.url}/api/v1/uploads",
                parts,
                {"filename": film.name.encode()},
                headers=HEADERS,
            )
        )
    finally:
        for file in parts:
            file.close()
    assert url is not None
    check(server, film)


# tus-js-client


@pytest.fixture(scope="session")
def javascript() -> Path:
    """The script with its packages."""
    kept = npm.installed(SCRIPT)
    shutil.copy(SCRIPT / "upload.mjs", kept)
    return kept


def command_for(javascript: Path, server: Running, film: Path, **options: Any) -> list[str]:
    asked = {
        "file": str(film),
        "endpoint": f"{server.url}/api/v1/uploads",
        "token": ADMIN_TOKEN,
        **options,
    }
    return ["node", str(javascript / "upload.mjs"), json.dumps(asked)]


def run_javascript(javascript: Path, server: Running, film: Path, **options: Any) -> Any:
    command = command_for(javascript, server, film, **options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunkSize": 5 * MIB},
        {"uploadDataDuringCreation": True},
        {"uploadDataDuringCreation": True, "chunkSize": 5 * MIB},
        {"parallelUploads": 3},
        {"overridePatchMethod": True, "chunkSize": 5 * MIB},
        {"uploadLengthDeferred": True},
    ],
    ids=[
        *("plain", "chunks", "with-creation", "chunks-with-creation", "parallel", "post-only"),
        "deferred-length",
    ],
)
def test_tus_js_client_uploads_a_file(
    javascript: Path, server: Running, film: Path, options: dict[str, Any]
) -> None:
    done = run_javascript(javascript, server, film, **options)
    check(server, film, done["mediaId"])


def test_tus_js_client_uploads_to_s3_storage(
    javascript: Path, serve: Callable[..., Running], film: Path, storage_url: str
) -> None:
    server = serve(storage_url=storage_url)
    done = run_javascript(javascript, server, film, parallelUploads=2)
    check(server, film, done["mediaId"])


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def test_tus_js_client_goes_on_after_it_was_killed(
    javascript: Path, server: Running, film: Path, tmp_path: Path
) -> None:
    options = {"chunkSize": MIB, "pace": 50, "store": str(tmp_path / "urls.json")}
    with running(command_for(javascript, server, film, **options)):
        until(lambda: latest_url(server) is not None)
        url = latest_url(server)
        assert url is not None
        until(lambda: offset_of(server, url) >= 3 * MIB)
    offset = offset_of(server, url)
    assert offset < film.stat().st_size
    done = run_javascript(javascript, server, film, **{**options, "pace": 0})
    assert done["url"] == url
    check(server, film, done["mediaId"])


KILLED = """
import sys
from tusclient.client import TusClient
url, path, token = sys.argv[1:]
client = TusClient(url, headers={"Authorization": f"Bearer {token}"})
client.uploader(path, metadata={"filename": "film.webm"}, chunk_size=2**20).upload()
"""


def test_a_client_that_is_killed_in_the_middle_of_a_request_leaves_what_it_sent(
    server: Running, film: Path
) -> None:
    command = [sys.executable, "-c", KILLED, f"{server.url}/api/v1/uploads", str(film), ADMIN_TOKEN]
    process = subprocess.Popen(command, env=clean_environment())
    try:
        until(lambda: latest_url(server) is not None)
        url = latest_url(server)
        assert url is not None
        until(lambda: offset_of(server, url) >= MIB)
    finally:
        process.kill()
        process.wait(10)
    with uploader(server, film, chunk_size=5 * MIB, url=url, retries=5, retry_delay=1) as rest:
        rest.upload()
    check(server, film)
