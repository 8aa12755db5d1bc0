"""Clients that mean harm: too slow, too large, malformed, or never ending."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from running import Running
from rushes.accounts import access
from rushes.web.http import guard
from rushes.web.http.connection import HEADER_BYTES, Connection
from web.raw_http import (
    PATIENCE_SECONDS,
    SIGNED,
    ask,
    bodies,
    filled,
    get,
    heard,
    is_well,
    line_to,
    status,
)

# Too slow


@pytest.fixture
def impatient(server: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(Connection, "header_seconds", 0.3)
    monkeypatch.setattr(guard, "SILENCE_SECONDS", 0.3)
    return server


@pytest.mark.parametrize("begin", [b"", b"GET", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: "])
def test_headers_that_stop_coming_end_the_connection(impatient: Running, begin: bytes) -> None:
    assert status(ask(impatient, begin)) == 408


def test_headers_that_come_byte_by_byte_end_it_too(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(b"GET / HTTP/1.1\r\nX: ")
        drip(line)
        assert status(heard(line)) == 408


def drip(line: socket.socket) -> None:
    """A byte now and then, until the other side has enough of it."""
    line.settimeout(0.02)
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            line.send(b"x")
            if line.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    line.settimeout(PATIENCE_SECONDS)


def test_the_second_request_of_a_connection_has_no_more_time(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(line.recv(65536)) == 200
        line.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        assert status(heard(line)) == 408


POST = b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + SIGNED


def test_a_body_that_stops_coming_is_not_waited_for(impatient: Running) -> None:
    answer = ask(impatient, POST + b'Content-Length: 1000\r\n\r\n{"name":')
    assert status(answer) == 408
    assert b'"too_slow"' in answer
    chunked = ask(impatient, POST + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"name":\r\n')
    assert status(chunked) == 408


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(impatient: Running) -> None:
    with line_to(impatient) as line:
        line.sendall(POST + b"Content-Length: 100000\r\n\r\n")
        drip(line)
        assert status(heard(line)) == 408


def test_who_was_answered_cannot_go_on_sending_for_ever(impatient: Running) -> None:
    """A route without a body answers before the body has come."""
    request = get(b"/livez", b"Content-Length: 100000\r\n").replace(b"Connection: close\r\n", b"")
    with line_to(impatient) as line:
        line.sendall(request)
        assert status(line.recv(65536)) == 200
        until = time.monotonic() + PATIENCE_SECONDS
        with pytest.raises(OSError):
            while time.monotonic() < until:
                line.sendall(b"x")
                time.sleep(0.02)


def test_many_idle_connections_keep_nobody_out(server: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    with ExitStack() as stack:
        for number in range(500):
            line = stack.enter_context(line_to(server))
            if number % 2:
                line.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert is_well(server)
        with server.client() as admin:
            assert admin.get("/media").status_code == 200
    assert is_well(server)


# Too large


@pytest.mark.parametrize(
    "headers",
    [
        b"X: " + b"x" * HEADER_BYTES + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (n, b"x" * 100) for n in range(400)),
        b"x:\r\n" * 20_000,
        b"Cookie: rushes_session=" + b"x" * 100_000 + b"\r\n",
    ],
    ids=["one", "many", "tiny ones", "a cookie"],
)
def test_headers_have_a_limit(server: Running, headers: bytes) -> None:
    answer = ask(server, get(b"/livez", headers))
    assert status(answer) == 431
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "headers_too_large"
    assert status(ask(server, get(b"/livez?" + b"x" * 40_000))) == 431
    assert status(ask(server, get(b"/livez", b"X: " + b"x" * 20_000 + b"\r\n"))) == 200


def endless(begin: bytes, more: bytes) -> Iterator[bytes]:
    yield begin
    # Far more than the limit, and far less than a machine's memory.
    for _ in range(256):
        yield more


def send_endlessly(running: Running, begin: bytes, more: bytes) -> tuple[int, bytes]:
    """How much was taken before the server hung up, and what it said."""
    taken = 0
    with line_to(running) as line:
        try:
            for part in endless(begin, more):
                line.sendall(part)
                taken += len(part)
        except OSError:
            pass
        try:
            return taken, heard(line)
        except OSError:
            return taken, b""


CHUNKED = get(b"/livez", b"Transfer-Encoding: chunked\r\n", b"POST")
READ = CHUNKED.replace(b"/livez", b"/api/v1/tokens")


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (READ + b"0\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
        (READ + b"0\r\nX: ", b"x" * 65536),
        (READ + b"1;x=", b"x" * 65536),
        (CHUNKED + b"0\r\n", b"X: " + b"x" * 65536 + b"\r\n"),
    ],
    ids=["headers", "value", "url", "trailers", "trailer", "extension", "after the answer"],
)
def test_what_never_ends_is_ended(server: Running, begin: bytes, more: bytes) -> None:
    taken, answer = send_endlessly(server, begin, more)
    # What the kernel's buffers hold counts as taken.
    assert taken < 256 * len(more)
    assert status(answer) in (0, 400, 404, 405, 431)
    assert is_well(server)


def test_json_bodies_have_a_limit_however_they_come(server: Running) -> None:
    wrong, size = [], guard.BODY_LIMIT_BYTES + 1
    body = b'{"name": "' + b"x" * (size - 12) + b'"}'
    found = bodies(server)
    assert len(found) > 20
    for route in found:
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % size
        chunked = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n" % size
        start = route.method.encode(), filled(route)
        for headers, content in (
            (length, body),
            (form, body),
            (chunked, b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)),
        ):
            answer = ask(server, get(start[1], headers, start[0]) + content)
            if status(answer) != 413 or b'"too_large"' not in answer:
                wrong.append(f"{route} answers {answer[:300]!r} to {headers!r}")
    assert not wrong, "\n".join(wrong)


def test_only_a_worker_may_send_a_long_report(server: Running) -> None:
    report = {"job_id": "job_1", "claim_id": "clm_1", "result": "x" * 2 * guard.BODY_LIMIT_BYTES}
    with server.client(server.worker_key()) as worker:
        assert worker.post("/worker/complete", json=report).status_code == 409
        report["result"] = "x" * (guard.REPORT_LIMIT_BYTES + 1)
        assert worker.post("/worker/complete", json=report).status_code == 413
    with server.client() as admin, server.client(None) as nobody:
        assert admin.post("/worker/complete", json=report).status_code == 413
        assert nobody.post("/worker/complete", json=report).status_code == 413


# Malformed


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: four\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length : 4\r\n",
        b" Content-Length: 4\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"X: a\x00b\r\n",
        b"X\x00: b\r\n",
        b"X: a\rb\r\n",
    ],
)
def test_requests_that_two_readers_would_cut_differently_are_refused(
    server: Running, headers: bytes
) -> None:
    smuggled = b"0\r\n\r\nGET /api/v1/settings HTTP/1.1\r\nHost: x\r\n" + SIGNED + b"\r\n"
    answer = ask(server, get(b"/api/v1/tokens", headers, b"POST") + smuggled)
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1
    assert is_well(server)


def test_a_length_that_lies_is_no_way_in(server: Running) -> None:
    body = b'{"name": "x"}'
    short = POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    with line_to(server) as line:
        line.sendall(short + b"GARBAGE\r\n\r\n")
        answer = heard(line)
    assert b"HTTP/1.1 400" in answer
    with line_to(server) as line:
        line.sendall(POST + b"Content-Length: 1000\r\n\r\n" + body)
        line.shutdown(socket.SHUT_WR)
        assert status(heard(line)) in (0, 400)
    assert is_well(server)


def test_what_comes_after_a_body_is_no_header(server: Running) -> None:
    """Whoever looked at the headers on the way has not seen it."""
    start = b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'd\r\n{"name": "x"}\r\n0\r\n' + SIGNED + b"\r\n"
    assert status(ask(server, start + kind + body)) == 401


ODD_REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"get / http/1.1\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET http://[/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET //evil.example/%2e%2e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"\r\n\r\n\r\n",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("request_bytes", ODD_REQUESTS, ids=range(len(ODD_REQUESTS)))
def test_odd_requests_break_nothing(impatient: Running, request_bytes: bytes) -> None:
    answer = ask(impatient, request_bytes)
    assert status(answer) < 500
    assert b"Traceback" not in answer
    assert is_well(impatient)


def test_a_stranger_costs_no_password_hashing_beyond_the_limit(
    serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, hashed, verify = serve(), [], access._verify

    def counted(password: str, hash: str | None) -> bool:
        hashed.append(hash)
        return verify(password, hash)

    monkeypatch.setattr(access, "_verify", counted)
    with server.client(None) as stranger:
        for _ in range(12):
            stranger.post("/session", json={"name": "ada", "password": "wrong password"})
    assert len(hashed) == 6
