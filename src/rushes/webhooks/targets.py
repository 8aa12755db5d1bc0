"""Sending to addresses that strangers chose, and getting from them, without being turned against
our own network.

A name is looked up once, every address is checked, and the connection goes to a checked address
under the original Host and TLS name. No redirect is followed here; no proxies, one time limit for
everything.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any, TypeVar

import httpcore2
import httpx2

from rushes import errors
from rushes.webhooks import addresses

T = TypeVar("T")

URL_LIMIT = 2_048
ANSWER_LIMIT_BYTES = 64 * 1024
SILENCE_SECONDS = 60.0
PART = re.compile(r"bytes (\d{1,19})-")
LENGTH = re.compile(r"[0-9]{1,19}")
# The authority must not hold what parsers disagree about: users, backslashes, escapes, blanks.
SHAPE = re.compile(r"https?://[^/?#@\\%\s]+([/?#][^\s\\]*)?", re.IGNORECASE)
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(?:\.{LABEL})*\.?")
# 2130706433, 0x7f000001, 0177.0.0.1 and 127.1 are addresses to some programs and names to others.
NUMERIC = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?")

Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What came of a try. The words of the receiver are not kept: they may come from inside."""

    status: int | None = None
    error_code: str | None = None

    @property
    def is_delivered(self) -> bool:
        return self.error_code is None


def check(url: str, *, allow_private: bool) -> httpx2.URL:
    """The URL, taken apart; BadField when it can never be a target, whatever its name means."""
    if len(url) > URL_LIMIT or not SHAPE.fullmatch(url):
        raise errors.BadField("url", "must be an http or https URL without user and password")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise errors.BadField("url", "cannot be read as a URL") from None
    host = parsed.raw_host.decode("ascii")
    address = addresses.literal(host)
    if address is not None:
        if not addresses.all_allowed([address], allow_private=allow_private):
            raise errors.BadField("url", "must not point at this address")
    elif NUMERIC.fullmatch(host) or not NAME.fullmatch(host):
        raise errors.BadField("url", "must name a host, or an address in its usual form")
    if parsed.port is not None and not 1 <= parsed.port <= 65535:
        raise errors.BadField("url", "must have a port from 1 to 65535")
    return parsed


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them; OSError when there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class _Checked:
    """Opens connections to addresses that may be reached, and to no others."""

    def __init__(self, seconds: float, allow_private: bool, resolve: Resolve) -> None:
        self._seconds = seconds
        self._allow_private = allow_private
        self._resolve = resolve

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """When the first address needs it: to read all certificates takes longer than most of what
        a server does at its start."""
        return httpcore2.default_ssl_context()

    def _checked_addresses(self, target: httpx2.URL, deadline: float) -> list[str]:
        host = target.raw_host.decode("ascii")
        if literal := addresses.literal(host):
            return [str(literal)]
        found = _in_time(lambda: self._resolve(host, _port(target)), deadline)
        if not addresses.all_allowed(
            [ip_address(each) for each in found], allow_private=self._allow_private
        ):
            raise errors.BadField("url", "must not lead to this address")
        return list(found)

    @contextmanager
    def _requested(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        silence_seconds: float | None = None,
    ) -> Iterator[httpcore2.Response]:
        """`silence_seconds`: how long nothing at all may come."""
        deadline = time.monotonic() + self._seconds
        target = check(url, allow_private=self._allow_private)
        backend = _Pinned(self._checked_addresses(target, deadline), deadline)
        sent: dict[bytes | str, bytes | str] = {
            "Host": target.netloc.decode("ascii"),
            "User-Agent": "Rushes",
            "Connection": "close",
        }
        sent.update(headers)
        raw = httpcore2.URL(
            scheme=target.raw_scheme,
            host=target.raw_host,
            port=target.port,
            target=target.raw_path,
        )
        tls = self._tls if target.scheme == "https" else None
        waits = {"read": silence_seconds, "connect": silence_seconds} if silence_seconds else {}
        with (
            httpcore2.ConnectionPool(ssl_context=tls, network_backend=backend) as pool,
            pool.stream(
                method, raw, headers=sent, content=content, extensions={"timeout": waits}
            ) as response,
        ):
            yield response


class WebhookSender(_Checked):
    def __init__(
        self, *, timeout_seconds: float, allow_private: bool = False, resolve: Resolve = resolve
    ) -> None:
        super().__init__(timeout_seconds, allow_private, resolve)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        try:
            said = {"Content-Type": "application/json", **headers}
            with self._requested("POST", url, said, body) as response:
                _drain(response)
                return _answer(int(response.status))
        except errors.BadField:
            return DeliveryOutcome(error_code="target_refused")
        except (httpcore2.TimeoutException, TimeoutError):
            return DeliveryOutcome(error_code="timeout")
        except _TlsError:
            return DeliveryOutcome(error_code="tls_failed")
        except httpcore2.ProtocolError:
            return DeliveryOutcome(error_code="bad_answer")
        except (httpcore2.NetworkError, OSError, UnicodeError):
            return DeliveryOutcome(error_code="connection_failed")


class FetchFailed(Exception):
    """`message` is for people; `is_final`: trying again will not help."""

    def __init__(self, code: str, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.is_final = code, message, is_final


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer whose bytes are still to come. `location`: where it redirects to. `validator`: by
    which a part of the same can be asked for, empty if there is none."""

    status: int
    location: str | None
    length: int | None
    begins_at: int
    validator: str
    chunks: Iterator[bytes]


class Fetcher(_Checked):
    """Gets what strangers' addresses name; each redirect is a request of its own."""

    def __init__(
        self, *, seconds: float, allow_private: bool = False, resolve: Resolve = resolve
    ) -> None:
        super().__init__(seconds, allow_private, resolve)

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[Fetched]:
        with ExitStack() as stack:
            with _told():
                asked = self._requested("GET", url, headers, None, SILENCE_SECONDS)
                fetched = _fetched(stack.enter_context(asked))
            yield fetched


def _fetched(response: httpcore2.Response) -> Fetched:
    said = {name.lower(): value.decode("latin-1") for name, value in response.headers}
    if said.get(b"content-encoding", "identity").lower() != "identity":
        raise FetchFailed("bad_answer", "it comes encoded, which was not asked for", is_final=True)
    part = PART.match(said.get(b"content-range", ""))
    length = said.get(b"content-length", "")
    is_strong = said.get(b"etag", "").startswith('"')
    return Fetched(
        status=int(response.status),
        location=said.get(b"location") if 300 <= response.status < 400 else None,
        length=int(length) if LENGTH.fullmatch(length) else None,
        begins_at=int(part[1]) if part else 0,
        validator=said[b"etag"] if is_strong else said.get(b"last-modified", ""),
        chunks=_chunks(response),
    )


def _chunks(response: httpcore2.Response) -> Iterator[bytes]:
    with _told():
        yield from response.iter_stream()


@contextmanager
def _told() -> Iterator[None]:
    """Only around what the other side does: what becomes of its bytes here is another matter."""
    try:
        yield
    except errors.BadField as error:
        if error.field != "url":
            raise
        raise FetchFailed(
            "target_refused", "this address must not be fetched", is_final=True
        ) from None
    except (httpcore2.TimeoutException, TimeoutError):
        raise FetchFailed("timeout", "the address was silent, or took too long") from None
    except _TlsError:
        raise FetchFailed(
            "tls_failed", "the address cannot be trusted: its certificate is not good"
        ) from None
    except httpcore2.ProtocolError:
        raise FetchFailed("bad_answer", "the address broke off, or gave no proper answer") from None
    except (httpcore2.NetworkError, UnicodeError, OSError):
        raise FetchFailed("connection_failed", "the address cannot be reached") from None


def _in_time(call: Callable[[], T], deadline: float) -> T:
    """The system's resolver knows no time limit; a thread that is late is left to itself."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(max(0.0, deadline - time.monotonic()))


def _port(target: httpx2.URL) -> int:
    return target.port or (443 if target.scheme == "https" else 80)


def _answer(status: int) -> DeliveryOutcome:
    return DeliveryOutcome(status, None if 200 <= status < 300 else f"http_{status}")


def _drain(response: httpcore2.Response) -> None:
    """Let the receiver finish its sentence, up to a limit. The status is all that counts, so what
    goes wrong from here on does not matter."""
    length = 0
    try:
        for chunk in response.iter_stream():
            length += len(chunk)
            if length > ANSWER_LIMIT_BYTES:
                return
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        return


class _TlsError(Exception):
    """The receiver was reached but cannot be trusted."""


class _Pinned(httpcore2.NetworkBackend):
    """Connects to the addresses that were checked, whatever the name means by now."""

    def __init__(self, addresses: Sequence[str], deadline: float) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._network = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        *others, last = self._addresses
        for tried, address in enumerate(others):
            # Each gets its share of what is left: a dead IPv6 must not use up IPv4's time.
            share = _left(self._deadline, httpcore2.ConnectTimeout) / (len(self._addresses) - tried)
            try:
                return self._connect(address, port, share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._connect(last, port, _left(self._deadline, httpcore2.ConnectTimeout))

    def _connect(self, address: str, port: int, timeout: float) -> httpcore2.NetworkStream:
        return _Timed(self._network.connect_tcp(address, port, timeout, None, []), self._deadline)


class _Timed(httpcore2.NetworkStream):
    """A stream whose calls share one deadline, so that an answer of single bytes ends in time."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = _left(self._deadline, httpcore2.ReadTimeout)
        return self._stream.read(max_bytes, left if timeout is None else min(left, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, httpcore2.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = _left(self._deadline, httpcore2.ConnectTimeout)
        try:
            stream = self._stream.start_tls(ssl_context, server_hostname, left)
        except httpcore2.ConnectError as error:
            raise _TlsError from error
        return _Timed(stream, self._deadline)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float, late: type[httpcore2.TimeoutException]) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise late("the time is up")
    return left
