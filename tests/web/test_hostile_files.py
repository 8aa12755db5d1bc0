"""Ways to somebody else's files that lead nowhere: paths, links, ranges and names."""

from __future__ import annotations

import email.message
import hashlib
import os
import socket
import string
import struct
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from running import Running
from rushes.web.http import ranges
from shell import files_below
from web import library
from web.callers import FORM, Callers
from web.raw_http import PATIENCE_SECONDS, SIGNED, ask, get, is_well, line_to, status

CANARY = b"canary: the host's own file"

# Asking for what is not there


DOTS = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "%c0%ae%c0%ae", "%u002e%u002e", "..%00"]
SLASHES = ["/", "%2f", "%5c", "\\", "%252f", "%c0%af", "//", "/./"]
TRAVERSALS = [
    *(f"{(dots + slash) * 8}TARGET" for dots, slash in product(DOTS, SLASHES)),
    "/TARGET",
    "%2fTARGET",
    "file:///TARGET",
    "720p/../../../../TARGET",
    "720p%2f..%2f..%2f..%2fTARGET",
    "....//....//....//TARGET",
    "..;/..;/TARGET",
    "~/TARGET",
    "TARGET%00.m4s",
    "TARGET%0a.m4s",
    "C:\\TARGET",
    "\\\\host\\TARGET",
    "ver_1/../../TARGET",
    "ver_1/%2e%2e/%2e%2e/TARGET",
]


def test_no_spelling_of_a_path_leads_out(server: Running) -> None:
    secret = server.settings.data_dir / "secret.m4s"
    secret.write_bytes(CANARY)
    callers = Callers(server)
    media_id, share = callers.resources.published("ada"), callers.resources.share_token("ada")
    job_id, claim_id = callers.resources.claim()
    inside = str(secret).lstrip("/")
    targets = [inside, "secret.m4s", "etc/passwd"]
    prefixes = [
        f"/api/v1/media/{media_id}/stream/",
        f"/s/{share}/stream/",
        "/api/v1/media/",
        "/s/",
        f"/api/v1/media/{media_id}/",
    ]
    assert len(TRAVERSALS) >= 40
    for prefix, shape, target in product(prefixes, TRAVERSALS, targets):
        path = (prefix + shape.replace("TARGET", target)).encode()
        answer = ask(server, get(path))
        assert 400 <= status(answer) < 500, (path, answer[:200])
        assert CANARY not in answer
        assert b"root:" not in answer
    before = set(files_below(server.settings.data_dir))
    key = callers.clients["worker"].headers["authorization"].encode()
    digest = hashlib.sha256(b"evil").hexdigest().encode()
    for shape in TRAVERSALS:
        path = f"/api/v1/worker/artifacts/{job_id}/{shape.replace('TARGET', 'evil.txt')}".encode()
        headers = b"Authorization: %s\r\nRushes-Claim: %s\r\n" % (key, claim_id.encode())
        headers += b"Rushes-SHA256: %s\r\nContent-Length: 4\r\n" % digest
        request = get(path, headers, b"PUT").replace(SIGNED, b"", 1) + b"evil"
        answer = ask(server, request)
        assert 400 <= status(answer) < 500, (path, answer[:200])
    callers.close()
    made = set(files_below(server.settings.data_dir)) - before
    assert not [each for each in made if each.exists() and b"evil" in each.read_bytes()]


@pytest.fixture
def shown(server: Running) -> Iterator[tuple[Running, httpx2.Client, str, Path]]:
    """A published file, by its address and where it lies."""
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, {"720p/a.m4s": b"x" * 1000})
        with server.rushes.db.read() as tx:
            [row] = tx.all("SELECT key FROM artifacts")
        path = server.rushes.storage.local_path(row["key"])
        assert path is not None
        yield server, admin, f"/media/{media_id}/stream/720p/a.m4s", path


def test_a_link_that_was_planted_is_not_followed(
    shown: tuple[Running, httpx2.Client, str, Path],
) -> None:
    server, admin, address, path = shown
    secret = server.settings.data_dir / "secret"
    secret.write_bytes(CANARY)
    path.unlink()
    path.symlink_to(secret)
    refused = admin.get(address)
    assert 400 <= refused.status_code < 500
    assert CANARY not in refused.content
    path.unlink()
    os.mkfifo(path)
    assert 400 <= admin.get(address).status_code < 500
    path.unlink()
    path.mkdir()
    assert 400 <= admin.get(address).status_code < 500
    path.rmdir()
    folder = path.parent
    elsewhere = server.settings.data_dir / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / path.name).write_bytes(CANARY)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(elsewhere)
    refused = admin.get(address)
    assert 400 <= refused.status_code < 500
    assert CANARY not in refused.content


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-1,2-3", 200),
        ("bytes=" + ",".join(f"{n}-{n}" for n in range(2500)), 200),
        ("bytes=" + ",".join(["0-"] * 8000), 200),
        ("bytes=0-" + "9" * 5000, 200),
        ("bytes=-1", 206),
        ("bytes=-0", 416),
        ("bytes=--1", 200),
        ("bytes=-1-", 200),
        ("bytes=9223372036854775808-", 416),
        ("bytes=0-9223372036854775808", 206),
        ("bytes=18446744073709551616-18446744073709551617", 200),
        ("bytes=5-1", 416),
        ("bytes=-", 200),
        ("bytes=", 200),
        ("bytes=a-b", 200),
        ("bytes=1 - 2", 206),
        ("BYTES=0-1", 200),
        ("items=0-1", 200),
    ],
)
def test_a_range_costs_no_more_than_one_look(
    shown: tuple[Running, httpx2.Client, str, Path], asked: str, expected: int
) -> None:
    _, admin, address, _ = shown
    answer = admin.get(address, headers={"Range": asked})
    assert answer.status_code == expected
    assert len(answer.content) <= 1000 or expected == 416
    head = admin.head(address, headers={"Range": asked})
    assert (head.status_code, head.headers["content-length"]) == (200, "1000")


@pytest.mark.parametrize("condition", ['"other"', 'W/"x"', "*", "", "x" * 5000, "Mon, 01 Jan 2024"])
def test_a_part_is_a_part_of_the_same_file(
    shown: tuple[Running, httpx2.Client, str, Path], condition: str
) -> None:
    _, admin, address, _ = shown
    headers = {"Range": "bytes=0-9", "If-Range": condition}
    assert admin.get(address, headers=headers).status_code == 200


def test_who_leaves_in_the_middle_leaves_nothing_open(
    shown: tuple[Running, httpx2.Client, str, Path],
) -> None:
    server, admin, address, path = shown
    large = b"x" * 20_000_000
    path.write_bytes(large)
    with server.rushes.db.begin() as tx:
        tx.all("UPDATE artifacts SET size_bytes = :size", size=len(large))
    admin.get("/media")
    before = open_files(path)
    for number in range(60):
        with line_to(server) as line:
            line.sendall(get(f"/api/v1{address}".encode()))
            if number % 2:
                line.recv(1000)
            # Without a goodbye.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until = time.monotonic() + PATIENCE_SECONDS
    while open_files(path) > before and time.monotonic() < until:
        time.sleep(0.02)
    assert open_files(path) == before == 0
    assert is_well(server)


def open_files(path: Path) -> int:
    """How often this process has it open."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            count += each.readlink() == path
        except OSError:
            continue
    return count


# Names of files


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=400))
def test_any_file_name_is_one_header(name: str) -> None:
    header = ranges.attachment(name)
    header.encode("ascii")
    assert len(header) < 1000
    assert not set(header) & set("\r\n\0\x7f")
    message = email.message.Message()
    message["Content-Disposition"] = header
    plain = message.get_params(header="content-disposition")
    assert plain is not None
    assert [key for key, _ in plain] == ["attachment", "filename", "filename"] or len(plain) >= 2
    exact = header.partition("filename*=UTF-8''")[2]
    assert set(exact) <= set(string.ascii_letters + string.digits + "%-._~")


@pytest.mark.parametrize(
    "name",
    [
        'a"; filename="evil.html',
        "a\r\nSet-Cookie: rushes_session=x",
        "a\nX: y",
        "../../etc/passwd",
        "\u202egpj.exe",
        "é日本🎬.mp4",
        "x" * 5000 + ".mp4",
        "",
        ".",
        "a;b,c=d",
        "%0d%0aX: y",
        "nul\0.mp4",
        "'`$(id)`'",
        "-rf",
    ],
)
def test_a_hostile_file_name_stays_a_name(server: Running, name: str) -> None:
    content = FORM["file"][1]
    with server.client() as admin:
        disposition = f'form-data; name="file"; filename="{quote(name, safe="")}"'
        sent = {"file": (name, content, "video/mp4")}
        made = admin.post("/media", files=sent)
        assert made.status_code in (201, 422), disposition
        if made.status_code == 422:
            return
        item = made.json()
        source = admin.get(f"/media/{item['id']}/source")
        assert source.content == content
        assert source.headers["content-type"] == "application/octet-stream"
        header = source.headers["content-disposition"]
        assert header.startswith('attachment; filename="')
        assert "set-cookie" not in source.headers
        assert "x" not in {key.lower() for key in source.headers}
        assert "sandbox" in source.headers["content-security-policy"]
        assert not [char for char in item["title"] if ord(char) < 32]
