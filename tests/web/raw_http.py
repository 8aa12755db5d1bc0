"""A connection to a server without a client library's manners."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from running import ADMIN_TOKEN, Running
from web.callers import Route, routes

SIGNED = f"Authorization: Bearer {ADMIN_TOKEN}\r\n".encode()
PATIENCE_SECONDS = 20


@contextmanager
def line_to(running: Running) -> Iterator[socket.socket]:
    address = ("127.0.0.1", running.settings.port)
    with socket.create_connection(address, PATIENCE_SECONDS) as line:
        yield line


def heard(line: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    found = b""
    try:
        while chunk := line.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def ask(running: Running, request: bytes) -> bytes:
    with line_to(running) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(request)
        return heard(line)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def get(path: bytes, headers: bytes = b"", method: bytes = b"GET") -> bytes:
    start = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    return start + SIGNED + headers + b"\r\n"


def is_well(running: Running) -> bool:
    with running.client(None, base_url=running.url) as somebody:
        return somebody.get("/livez").status_code == 200


def bodies(running: Running) -> list[Route]:
    """The routes that read JSON, and nothing else."""
    with running.client() as admin:
        # Made when it is first asked for, which takes a busy machine longer than most answers.
        document = admin.get("/openapi.json").json()
    return [
        each
        for each in routes(running)
        if list(
            document["paths"]
            .get(each.path.replace(":path}", "}"), {})
            .get(each.method.lower(), {})
            .get("requestBody", {})
            .get("content", {})
        )
        == ["application/json"]
    ]


def filled(route: Route) -> bytes:
    path = route.path
    for part in [each for each in path.split("/") if "{" in each]:
        path = path.replace(part, "xyz_1")
    return path.encode()
