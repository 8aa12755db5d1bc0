"""Uploads over HTTP against a real server: the protocol point by point, then what goes wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from running import ADMIN_TOKEN, Process, Running
from rushes.web.http import body_reader

MIB = 2**20
VERSION = {"Tus-Resumable": "1.0.0"}
OCTETS = {"Content-Type": "application/offset+octet-stream"}


def film(size: int, seed: int = 0) -> bytes:
    head = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm"
    return (head + random.Random(seed).randbytes(size))[:size]


def metadata(**values: str) -> dict[str, Any]:
    pairs = (f"{name} {base64.b64encode(text.encode()).decode()}" for name, text in values.items())
    return {"Upload-Metadata": ",".join(pairs)}


class Sender:
    """Somebody who speaks tus, byte by byte."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def post(self, length: int | None = None, content: bytes = b"", **headers: str) -> Any:
        said = {**VERSION, **({"Upload-Length": str(length)} if length is not None else {})}
        if content:
            said |= OCTETS
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/uploads", headers=said, content=content)

    def create(self, length: int | None = None, **headers: Any) -> str:
        made = self.post(length, **headers)
        assert made.status_code == 201, made.text
        return str(made.headers["location"])

    def head(self, url: str) -> Any:
        return self.client.head(url, headers=VERSION)

    def offset(self, url: str) -> int:
        return int(self.head(url).headers["upload-offset"])

    def patch(self, url: str, content: Any, offset: int = 0, **headers: str) -> Any:
        said = {**VERSION, **OCTETS, "Upload-Offset": str(offset)}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.patch(url, headers=said, content=content)

    def delete(self, url: str) -> Any:
        return self.client.delete(url, headers=VERSION)

    def send(self, data: bytes, **headers: str) -> Any:
        answer = self.patch(self.create(len(data), **headers), data)
        assert answer.status_code == 204, answer.text
        return answer

    def media(self, answer: Any) -> dict[str, Any]:
        found = self.client.get(f"/media/{answer.headers['rushes-media-id']}")
        assert found.status_code == 200
        item: dict[str, Any] = found.json()
        return item


class Line:
    """A connection of our own, to leave in the middle of a body."""

    def __init__(self, url: str, offset: int, length: int | None, **headers: str) -> None:
        where = urlsplit(url)
        assert where.hostname
        assert where.port
        self.socket = socket.create_connection((where.hostname, where.port), 10)
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        self.is_chunked = length is None
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(
            f"PATCH {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\n{size}\r\n"
            f"Authorization: Bearer {ADMIN_TOKEN}\r\nTus-Resumable: 1.0.0\r\n"
            f"Content-Type: application/offset+octet-stream\r\nUpload-Offset: {offset}\r\n"
            f"{more}\r\n".encode()
        )

    def send(self, data: bytes) -> None:
        if self.is_chunked:
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        self.socket.sendall(data)

    def answer(self) -> str:
        return self.socket.recv(65536).decode(errors="replace")

    def close(self) -> None:
        self.socket.close()


def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def sender(server: Running) -> Iterator[Sender]:
    with server.client() as client:
        yield Sender(client)


def source(running: Running, item: dict[str, Any]) -> bytes:
    rows = running.rushes.db
    with rows.read() as tx:
        row = tx.one("SELECT source_key FROM media WHERE id = :id", id=item["id"])
    assert row is not None
    return b"".join(running.rushes.storage.read(row["source_key"]))


def keys(running: Running) -> list[str]:
    return [entry.key for entry in running.rushes.storage.list("sources")]


# The protocol


def test_anybody_may_ask_what_the_server_can_do(serve: Callable[..., Running]) -> None:
    server = serve(max_upload_size=5 * MIB)
    with server.client(None) as client:
        for path in ("/uploads", "/uploads/upl_any"):
            said = client.options(path)
            assert said.status_code == 204
            assert said.headers["tus-version"] == "1.0.0"
            assert said.headers["tus-max-size"] == str(5 * MIB)
            assert "sha1" in said.headers["tus-checksum-algorithm"].split(",")
            assert set(said.headers["tus-extension"].split(",")) == {
                "creation",
                "creation-with-upload",
                "creation-defer-length",
                "checksum",
                "termination",
                "expiration",
                "concatenation",
            }


def test_a_file_sent_in_pieces_becomes_a_media(either_server: Running) -> None:
    data = film(3 * MIB)
    with either_server.client() as client:
        sender = Sender(client)
        url = sender.create(len(data), **metadata(filename="My_Film.webm"))
        assert url.startswith(f"{either_server.url}/api/v1/uploads/upl_")
        head = sender.head(url)
        assert (head.status_code, head.headers["cache-control"]) == (200, "no-store")
        assert head.headers["upload-offset"] == "0"
        assert head.headers["upload-length"] == str(len(data))
        assert (
            head.headers["upload-metadata"] == metadata(filename="My_Film.webm")["Upload-Metadata"]
        )
        first = sender.patch(url, data[:MIB])
        assert (first.status_code, first.headers["upload-offset"]) == (204, str(MIB))
        assert "rushes-media-id" not in first.headers
        last = sender.patch(url, data[MIB:], MIB)
        item = sender.media(last)
        assert (item["title"], item["status"], item["kind"]) == ("My Film", "pending", "video")
        assert item["content_type"] == "video/webm"
        assert {job["kind"] for job in item["jobs"]} == {"transcode", "transcribe"}
        assert source(either_server, item) == data


def test_a_wrong_offset_is_answered_with_the_right_one(sender: Sender) -> None:
    url = sender.create(1000)
    sender.patch(url, film(100))
    for offset in (0, 50, 101, 1000):
        answer = sender.patch(url, b"x", offset)
        assert (answer.status_code, answer.headers["upload-offset"]) == (409, "100")
    assert sender.offset(url) == 100


@pytest.mark.parametrize("version", [None, "0.2.2", "2.0.0", ""])
def test_another_version_of_the_protocol_is_refused(sender: Sender, version: str | None) -> None:
    url = sender.create(1000)
    headers = {"Upload-Length": "10"} | ({} if version is None else {"Tus-Resumable": version})
    for method, where in (("POST", "/uploads"), ("HEAD", url), ("PATCH", url), ("DELETE", url)):
        answer = sender.client.request(method, where, headers=headers)
        assert (answer.status_code, answer.headers["tus-version"]) == (412, "1.0.0")


def test_a_file_that_is_too_large_is_refused_before_any_byte(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_upload_size=MIB)
    with server.client() as client:
        sender = Sender(client)
        answer = sender.post(MIB + 1)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert sender.post(MIB).status_code == 201


def test_only_the_protocols_content_type_carries_bytes(sender: Sender) -> None:
    url = sender.create(1000)
    for kind in ("application/octet-stream", "video/mp4", ""):
        answer = sender.patch(url, film(10), Content_Type=kind)
        assert answer.status_code == 415
    assert sender.post(100, film(10), Content_Type="text/plain").status_code == 415
    assert sender.offset(url) == 0


def checksum(algorithm: str, data: bytes) -> str:
    digest = hashlib.new(algorithm, data).digest()
    return f"{algorithm} {base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512", "md5"])
def test_a_wrong_checksum_is_noticed_and_nothing_is_kept(sender: Sender, algorithm: str) -> None:
    data = film(2000)
    url = sender.create(2000)
    wrong = sender.patch(url, data, Upload_Checksum=checksum(algorithm, b"something else"))
    assert (wrong.status_code, wrong.headers["tus-resumable"]) == (460, "1.0.0")
    assert wrong.json()["code"] == "wrong_checksum"
    assert sender.offset(url) == 0
    right = sender.patch(url, data, Upload_Checksum=checksum(algorithm, data))
    assert right.status_code == 204


def test_a_checksum_that_cannot_be_checked_is_refused(sender: Sender) -> None:
    url = sender.create(2000)
    for wrong in ("crc32 AAAA", "sha1 !!!", "sha1", ""):
        assert sender.patch(url, film(10), Upload_Checksum=wrong).status_code in (400, 460)
    assert sender.offset(url) == 0


def test_the_first_bytes_may_come_with_the_creation(sender: Sender) -> None:
    data = film(2000)
    begun = sender.post(2000, data[:500])
    assert (begun.status_code, begun.headers["upload-offset"]) == (201, "500")
    done = sender.patch(begun.headers["location"], data[500:], 500)
    assert "rushes-media-id" in done.headers
    whole = sender.post(2000, data)
    assert (whole.status_code, whole.headers["upload-offset"]) == (201, "2000")
    assert whole.headers["rushes-media-id"] != done.headers["rushes-media-id"]
    assert whole.headers["rushes-duplicate-of"] == done.headers["rushes-media-id"]


def test_a_creation_whose_bytes_are_wrong_leaves_nothing(server: Running, sender: Sender) -> None:
    answer = sender.post(2000, film(2000), Upload_Checksum=checksum("sha1", b"other"))
    assert answer.status_code == 460
    assert keys(server) == []


def test_the_length_may_be_said_later(sender: Sender) -> None:
    data = film(2000)
    url = sender.create(Upload_Defer_Length="1")
    head = sender.head(url)
    assert head.headers["upload-defer-length"] == "1"
    assert "upload-length" not in head.headers
    assert sender.patch(url, data[:500]).status_code == 204
    assert sender.patch(url, data[500:900], 500, Upload_Length="2000").status_code == 204
    assert sender.head(url).headers["upload-length"] == "2000"
    assert "rushes-media-id" in sender.patch(url, data[900:], 900).headers


def test_a_terminated_upload_is_gone(server: Running, sender: Sender) -> None:
    url = sender.create(1000)
    sender.patch(url, film(100))
    assert sender.delete(url).status_code == 204
    assert keys(server) == []
    for answer in (sender.head(url), sender.patch(url, b"x", 100), sender.delete(url)):
        assert (answer.status_code, answer.headers["tus-resumable"]) == (410, "1.0.0")


def test_an_upload_says_when_it_expires_and_then_does(
    serve: Callable[..., Running],
) -> None:
    server = serve(upload_expiry=3600)
    with server.client() as client:
        sender = Sender(client)
        url = sender.create(1000)
        answer = sender.patch(url, film(100))
        assert answer.headers["upload-expires"].endswith(" GMT")
        server.rushes.db.run(lambda tx: tx.all("UPDATE uploads SET expires_at = 1"))
        assert sender.head(url).status_code == 410
        until(lambda: keys(server) == [])
        assert sender.patch(url, b"x", 100).status_code == 410


def test_parts_that_were_sent_side_by_side_are_put_together(
    server: Running, sender: Sender
) -> None:
    data = film(3 * MIB)
    halves = [sender.create(len(half), Upload_Concat="partial") for half in halves_of(data)]
    for url, half in zip(halves, halves_of(data), strict=True):
        answer = sender.patch(url, half)
        assert answer.status_code == 204
        assert "rushes-media-id" not in answer.headers
        assert sender.head(url).headers["upload-concat"] == "partial"
    final = sender.post(Upload_Concat=f"final;{' '.join(halves)}", **metadata(title="Whole"))
    assert final.status_code == 201
    item = sender.media(final)
    assert (item["title"], source(server, item)) == ("Whole", data)
    head = sender.head(final.headers["location"])
    assert head.headers["upload-concat"] == f"final;{' '.join(halves)}"
    assert head.headers["upload-length"] == head.headers["upload-offset"] == str(len(data))
    assert sender.patch(final.headers["location"], b"x", len(data)).status_code == 409
    paths = " ".join(urlsplit(url).path for url in halves)
    again = sender.post(Upload_Concat=f"final;{paths}")
    assert again.headers["rushes-media-id"] == final.headers["rushes-media-id"]


def halves_of(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 3], data[len(data) // 3 :]


@pytest.mark.parametrize(
    "concat", ["final", "final;", "whole", "final;http://[", "final;/uploads/upl_none", "partial;x"]
)
def test_parts_that_make_no_sense_are_refused(sender: Sender, concat: str) -> None:
    answer = sender.post(Upload_Concat=concat)
    assert 400 <= answer.status_code < 500


def test_what_was_received_is_kept_when_the_line_breaks(sender: Sender) -> None:
    data = film(3 * MIB)
    url = sender.create(len(data))
    line = Line(url, 0, len(data))
    line.send(data[: 2 * MIB])
    line.close()
    until(lambda: sender.offset(url) == 2 * MIB)
    assert "rushes-media-id" in sender.patch(url, data[2 * MIB :], 2 * MIB).headers


def test_a_body_without_a_length_is_kept_as_well_when_it_breaks_off(sender: Sender) -> None:
    data = film(3 * MIB)
    url = sender.create(len(data))
    line = Line(url, 0, None)
    line.send(data[: 2 * MIB])
    line.close()
    until(lambda: sender.offset(url) == 2 * MIB)


def test_a_second_sender_is_told_at_once_that_somebody_is_writing(sender: Sender) -> None:
    data = film(3 * MIB)
    url = sender.create(len(data))
    line = Line(url, 0, len(data))
    line.send(data[:MIB])
    # A wrong offset, so that asking too early changes nothing.
    until(lambda: sender.patch(url, b"x", 1).status_code == 423)
    assert sender.head(url).status_code == 200
    line.send(data[MIB:])
    assert line.answer().startswith("HTTP/1.1 204")
    line.close()


def test_a_sender_who_has_fallen_silent_is_replaced(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_reader, "SILENCE_SECONDS", 0.05)
    data = film(3 * MIB)
    url = sender.create(len(data))
    silent = Line(url, 0, len(data))
    silent.send(data[:MIB])
    until(lambda: sender.offset(url) == MIB)
    answer = sender.patch(url, data[MIB:], MIB)
    assert answer.status_code == 204
    assert "rushes-media-id" in answer.headers
    silent.send(bytes(2 * MIB))
    assert silent.answer().startswith("HTTP/1.1 423")
    silent.close()


def test_an_upload_that_never_was_or_is_somebody_elses_is_not_found(server: Running) -> None:
    with server.user("ada") as ada, server.user("bob") as bob, server.client() as admin:
        url = Sender(ada).create(1000)
        for who, where in ((ada, "/uploads/upl_none"), (bob, url), (admin, url)):
            other = Sender(who)
            for answer in (other.head(where), other.patch(where, b"x")):
                assert answer.status_code == 404
        assert Sender(bob).delete(url).status_code == 404
        assert Sender(admin).delete(url).status_code == 204
        assert Sender(ada).head(url).status_code == 410


@pytest.mark.parametrize(
    "id", ["..", "%2e%2e%2fx", "..%2f..%2fetc%2fpasswd", "a%00b", "x" * 99, "upl_%0d%0a", "'--"]
)
def test_an_id_is_never_a_path(sender: Sender, id: str) -> None:
    answer = sender.head(f"/uploads/{id}")
    assert answer.status_code in (404, 405, 412, 422)


def test_the_real_method_may_be_said_in_a_header(sender: Sender) -> None:
    data = film(1000)
    url = sender.create(1000)

    def post(method: str, content: bytes = b"", **headers: str) -> Any:
        said = {**VERSION, "X-HTTP-Method-Override": method, **headers}
        return sender.client.post(url, headers=said, content=content)

    patched = post("PATCH", data[:10], **OCTETS, **{"Upload-Offset": "0"})
    assert (patched.status_code, patched.headers["upload-offset"]) == (204, "10")
    assert post("HEAD").headers["upload-offset"] == "10"
    assert post("DELETE").status_code == 204
    assert post("GET").status_code == 405


def test_the_address_of_an_upload_is_the_one_that_its_sender_uses(
    serve: Callable[..., Running],
) -> None:
    plain, named = serve(), serve(base_url="https://films.example.org/")
    headers = {**VERSION, "Upload-Length": "10", "Host": "localhost:1234"}
    with plain.client() as client:
        made = client.post("/uploads", headers=headers)
        assert made.headers["location"].startswith("http://localhost:1234/api/v1/uploads/")
    with named.client(base_url=f"http://127.0.0.1:{named.settings.port}/api") as client:
        made = client.post("/uploads", headers=headers)
        assert made.headers["location"].startswith("https://films.example.org/api/v1/uploads/")


def test_whoever_missed_the_last_answer_can_ask_again(sender: Sender) -> None:
    data = film(1000)
    url = sender.create(1000)
    media_id = sender.patch(url, data).headers["rushes-media-id"]
    assert sender.head(url).headers["rushes-media-id"] == media_id
    again = sender.patch(url, b"", 1000)
    assert (again.status_code, again.headers["rushes-media-id"]) == (204, media_id)
    late = sender.patch(url, data, 0)
    assert (late.status_code, late.headers["upload-offset"]) == (409, "1000")
    assert late.headers["rushes-media-id"] == media_id
    assert sender.delete(url).status_code == 409


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upload-Length": "-1"},
        {"Upload-Length": "1e9"},
        {"Upload-Length": "9" * 30},
        {"Upload-Length": "5", "Upload-Defer-Length": "1"},
        {"Upload-Defer-Length": "2"},
        {"Upload-Length": "5", "Upload-Metadata": "filename not-base64!"},
        {"Upload-Length": "5", "Upload-Metadata": "a YQ==,a YQ=="},
        {"Upload-Length": "5", "Upload-Metadata": ",,"},
    ],
)
def test_headers_that_make_no_sense_are_refused(sender: Sender, headers: dict[str, str]) -> None:
    answer = sender.client.post("/uploads", headers={**VERSION, **headers})
    assert answer.status_code == 400
    assert answer.json()["detail"]


# What goes wrong


def test_an_empty_file_is_refused(sender: Sender) -> None:
    assert sender.post(0).status_code == 415


def test_strangers_and_readers_cannot_upload(server: Running) -> None:
    with server.client(None) as stranger, server.client() as admin:
        refused = Sender(stranger).post(10)
        assert (refused.status_code, refused.headers["tus-resumable"]) == (401, "1.0.0")
        made = admin.post("/tokens", json={"name": "reader", "scopes": ["read"]})
        with server.client(made.json()["token"]) as reader:
            assert Sender(reader).post(10).status_code == 403
            assert reader.post("/media", files={"file": film(10)}).status_code == 403


@pytest.mark.parametrize("length", [MIB, None])
def test_more_than_was_declared_is_refused_and_nothing_of_it_kept(
    server: Running, sender: Sender, length: int | None
) -> None:
    url = sender.create(1)
    line = Line(url, 0, length)
    line.send(film(MIB))
    assert line.answer().startswith("HTTP/1.1 413")
    line.close()
    until(lambda: sender.patch(url, b"").status_code == 204)
    assert sender.offset(url) == 0


def test_a_refusal_in_the_middle_of_a_long_body_is_heard(sender: Sender) -> None:
    page = b"<!DOCTYPE html>" + b"x" * (20 * MIB)
    url = sender.create(len(page), **metadata(filename="film.mp4", filetype="video/mp4"))
    answer = sender.patch(url, page)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media")
    assert sender.head(url).status_code == 410


def test_a_user_is_told_when_the_quota_is_used_up(serve: Callable[..., Running]) -> None:
    server = serve(user_quota=MIB)
    with server.user("ada") as client:
        sender = Sender(client)
        sender.send(film(MIB // 2))
        answer = sender.post(MIB)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        form = client.post("/media", files={"file": film(MIB)})
        assert (form.status_code, form.json()["code"]) == (413, "too_large")
    assert len(keys(server)) == 1


def test_a_disk_that_would_be_too_full_refuses_uploads(serve: Callable[..., Running]) -> None:
    server = serve(min_free_space=2**50)
    with server.client() as client:
        for answer in (Sender(client).post(10), client.post("/media", files={"file": film(10)})):
            assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
            assert str(server.settings.data_dir) not in answer.text


def test_hostile_names_stay_names(server: Running, sender: Sender) -> None:
    names = ["../../x.mp4", "/etc/passwd", "a\x00b", "a\r\nb: c", "\u202emp4.exe", "x" * 10_000]
    for name in names:
        item = sender.media(sender.send(film(100), **metadata(filename=name)))
        assert len(item["title"]) <= 300
        assert not set(item["file_name"]) & set("/\\\r\n\0\u202e")
    assert all(key.startswith("sources/upl_") for key in keys(server))
    assert {path.name for path in server.settings.data_dir.iterdir()} <= {
        *("rushes.db", "rushes.db-lock", "rushes.db-bell", "rushes.db-wal", "rushes.db-shm"),
        *("storage", "server.json", "serve.lock", "scratch"),
    }


def test_a_server_that_stops_keeps_what_was_received(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_reader, "SILENCE_SECONDS", 0.05)
    server = serve()
    data = film(3 * MIB)
    with server.client() as client:
        sender = Sender(client)
        url = sender.create(len(data))
        line = Line(url, 0, len(data))
        line.send(data[: 2 * MIB])
        until(lambda: sender.offset(url) == 2 * MIB)
    server.stop()
    line.close()
    again = serve(data_dir=server.settings.data_dir)
    with again.client() as client:
        sender = Sender(client)
        here = f"{again.url}{urlsplit(url).path}"
        offset = sender.offset(here)
        assert offset == 2 * MIB
        done = sender.patch(here, data[offset:], offset)
        assert source(again, sender.media(done)) == data


def test_a_server_that_is_killed_loses_nothing_that_it_had_promised(
    process: Callable[..., Process],
) -> None:
    server = process()
    data = film(40 * MIB)
    with server.client() as client:
        sender = Sender(client)
        url = sender.create(len(data))
        line = Line(url, 0, len(data))
        for start in range(0, 30 * MIB, MIB):
            line.send(data[start : start + MIB])
        until(lambda: sender.offset(url) > 0)
        promised = sender.offset(url)
    server.kill()
    line.close()
    server.start()
    with server.client() as client:
        sender = Sender(client)
        offset = sender.offset(url)
        assert promised <= offset < len(data)
        done = sender.patch(url, data[offset:], offset)
        assert done.status_code == 204
        item = sender.media(done)
    path = server.data_dir / "storage" / "sources" / url.rpartition("/")[2]
    assert path.read_bytes() == data
    assert item["size_bytes"] == len(data)


def test_uploads_work_the_same_on_each_storage(
    serve: Callable[..., Running], storage_url: str
) -> None:
    server = serve(storage_url=storage_url)
    data = film(20 * MIB)
    with server.client() as client:
        sender = Sender(client)
        url = sender.create(len(data))
        line = Line(url, 0, len(data))
        line.send(data[: 9 * MIB])
        line.close()
        until(lambda: sender.offset(url) == 9 * MIB)
        done = sender.patch(url, data[9 * MIB :], 9 * MIB)
        assert source(server, sender.media(done)) == data
        form = client.post("/media", files={"file": ("b.webm", film(9 * MIB, 1))})
        assert source(server, form.json()) == film(9 * MIB, 1)
        until(lambda: len(keys(server)) == 2)


# Forms


def test_a_form_becomes_a_media(either_server: Running) -> None:
    data = film(3 * MIB)
    with either_server.client() as client:
        answer = client.post(
            "/media",
            data={"title": "Über alles", "language": "de", "transcribe": "true"},
            files={"file": ("../My Film.webm", data, "text/html")},
        )
        item = answer.json()
        assert answer.status_code == 201
        assert answer.headers["location"] == f"/api/v1/media/{item['id']}"
        assert (item["title"], item["file_name"]) == ("Über alles", "My Film.webm")
        assert (item["content_type"], item["duplicate_of"]) == ("video/webm", [])
        assert source(either_server, item) == data
        assert (
            client.get(f"{either_server.url}{answer.headers['location']}").json()["id"]
            == item["id"]
        )


def form(*parts: tuple[str, bytes], boundary: str = "xyz", end: bool = True) -> dict[str, Any]:
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        + (b'; filename="a.webm"' if name == "file" else b"")
        + b"\r\n\r\n"
        + value
        + b"\r\n"
        for name, value in parts
    ]
    body = b"".join(lines) + (f"--{boundary}--\r\n".encode() if end else b"")
    kind = f"multipart/form-data; boundary={boundary}"
    return {"content": body, "headers": {"Content-Type": kind}}


def test_fields_may_come_after_the_file(sender: Sender) -> None:
    parts = (("file", film(MIB)), ("title", b"Later"), ("transcribe", b"false"))
    answer = sender.client.post("/media", **form(*parts))
    assert answer.json()["title"] == "Later"
    assert [job["kind"] for job in answer.json()["jobs"]] == ["transcode"]


def test_the_same_file_again_is_pointed_out(sender: Sender) -> None:
    first = sender.client.post("/media", files={"file": film(1000)}).json()
    again = sender.client.post("/media", files={"file": film(1000)})
    assert again.json()["duplicate_of"] == [first["id"]]
    assert again.headers["rushes-duplicate-of"] == first["id"]


def test_the_same_file_in_the_trash_is_pointed_out(sender: Sender) -> None:
    data, client = film(1000), sender.client
    first = client.post("/media", files={"file": data}).json()["id"]
    assert client.delete(f"/media/{first}").status_code == 204
    again = client.post("/media", files={"file": data})
    assert (again.json()["duplicate_of"], again.json()["duplicate_in_trash"]) == ([], [first])
    resumable = sender.post(1000, data)
    for answer in (again, resumable):
        assert answer.headers["rushes-duplicate-in-trash"] == first
    assert resumable.headers["rushes-duplicate-of"] == again.json()["id"]
    assert client.post(f"/media/{first}/restore").status_code == 200
    found = client.get(f"/media/{again.json()['id']}").json()
    assert first in found["duplicate_of"]
    assert found["duplicate_in_trash"] == []
    # What was deleted for good cannot be offered.
    client.delete(f"/media/{first}")
    client.delete(f"/media/{first}", params={"permanently": True})
    assert client.get(f"/media/{again.json()['id']}").json()["duplicate_in_trash"] == []


FILM = ("file", film(5000))
WRONG_FORMS: dict[str, tuple[int, dict[str, Any]]] = {
    "no file": (422, form(("title", b"x"))),
    "two files": (422, form(FILM, FILM)),
    "a field twice": (422, form(("title", b"x"), ("title", b"y"), FILM)),
    "an unknown field": (422, form(("owner", b"usr_1"), FILM)),
    "an option that makes no sense, after the file": (422, form(FILM, ("diarize", b"perhaps"))),
    "a title that is too long": (422, form(FILM, ("title", b"x" * 301))),
    "a field without end": (422, form(("title", b"x" * 100_000), FILM)),
    "a form that breaks off": (422, form(FILM, end=False)),
    "an empty file": (415, form(("file", b""))),
    "a page": (415, form(("file", b"<html>" * 5000))),
    "a small page": (415, form(("file", b"<html>"))),
    "nothing": (
        422,
        {"content": b"", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
    ),
    "no boundary": (415, {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}),
    "json": (415, {"json": {"file": "x"}}),
    "another boundary": (
        422,
        {**form(FILM), "headers": {"Content-Type": "multipart/form-data; boundary=q"}},
    ),
}


@pytest.mark.parametrize("name", WRONG_FORMS)
def test_a_form_that_cannot_be_used_leaves_nothing_behind(
    server: Running, sender: Sender, name: str
) -> None:
    status, request = WRONG_FORMS[name]
    answer = sender.client.post("/media", **request)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert keys(server) == []
    assert sender.client.get("/media").json()["items"] == []


def test_a_form_whose_sender_leaves_is_thrown_away(server: Running, sender: Sender) -> None:
    where = urlsplit(server.url)
    line = socket.create_connection((str(where.hostname), where.port or 0), 10)
    request = form(("file", film(2 * MIB)))
    body = request["content"]
    line.sendall(
        f"POST /api/v1/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
        f"Content-Type: {request['headers']['Content-Type']}\r\n"
        f"Content-Length: {len(body) + 1000}\r\n\r\n".encode()
        + body[:-1000]
    )
    until(lambda: keys(server) != [])
    line.close()
    until(lambda: keys(server) == [])


def test_a_form_above_the_limit_is_refused_however_long_it_says_it_is(
    serve: Callable[..., Running],
) -> None:
    server = serve(max_upload_size=MIB)

    def chunks(body: bytes) -> Iterator[bytes]:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    request = form(("file", film(5 * MIB)))
    with server.client() as client:
        for content in (request["content"], chunks(request["content"])):
            answer = client.post("/media", content=content, headers=request["headers"])
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert keys(server) == []


def test_a_form_sent_again_with_its_key_is_answered_as_the_first_time(
    server: Running, sender: Sender
) -> None:
    def send(data: bytes, title: str = "One") -> Any:
        return sender.client.post(
            "/media",
            files={"file": data},
            data={"title": title},
            headers={"Idempotency-Key": "k1"},
        )

    first, again = send(film(5000)), send(film(5000))
    assert (again.status_code, again.json()) == (201, first.json())
    assert len(sender.client.get("/media").json()["items"]) == 1
    assert len(keys(server)) == 1
    assert send(film(5000, seed=1)).status_code == 422
    assert send(film(5000), title="Two").status_code == 422
    assert len(keys(server)) == 1


def test_a_long_file_name_in_a_form_is_cut(sender: Sender) -> None:
    answer = sender.client.post("/media", files={"file": ("x" * 10_000, film(100))})
    assert (answer.status_code, len(answer.json()["file_name"])) == (201, 255)


def test_no_answer_tells_where_the_files_are(server: Running, sender: Sender) -> None:
    storage = Path(server.settings.data_dir) / "storage" / "sources"
    url = sender.create(1000)
    sender.patch(url, film(10))
    (storage / url.rpartition("/")[2]).unlink()
    answer = sender.patch(url, b"x", 10)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_down")
    assert "sources" not in json.dumps(answer.json())
    assert str(server.settings.data_dir) not in answer.text
