"""Sending to addresses that strangers chose: what is refused, and what a receiver cannot do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from rushes import errors
from rushes.webhooks import targets
from rushes.webhooks.addresses import Reach, literal, reach
from rushes.webhooks.targets import DeliveryOutcome, WebhookSender
from webhooks.receivers import answer, names_lead_to, receiver

NEVER_TARGETS = [
    "http://0.0.0.0/",
    "http://0/",
    "http://0.1.2.3/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.1.1/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://192.0.2.1/",
    "http://[::]/",
    "http://[::ffff:0.0.0.0]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::127.0.0.1]/",
    "http://[::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[fd00:ec2::254]/",
    "http://[2001:db8::1]/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1.:80/",
    "http://127.0.0.0x1/",
    "http://1.2.3.4.5/",
    "http://①②⑦.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://localhost%00.example.com/",
    "http://exa mple.com/",
    "http://example.com/\r\nHost: evil",
    "http://[::1/",
    "http:///hook",
    "http:hook",
    "//example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:80:90/",
    "https://-example.com/",
    "https://example..com/",
    f"https://{'a' * 64}.com/",
    f"https://example.com/{'a' * 2048}",
    "",
]
PRIVATE_TARGETS = [
    "http://127.0.0.1/",
    "http://127.8.8.8:6379/",
    "http://127。0。0。1/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456:789a::1]/",
]
PUBLIC_TARGETS = [
    "https://example.com/hook",
    "http://example.com:8080/hook?token=a%20b",
    "HTTPS://EXAMPLE.COM",
    "https://8.8.8.8/",
    "https://172.32.0.1/",
    "https://[2606:4700:4700::1111]/",
    "https://[64:ff9b::8.8.8.8]/",
    "https://münchen.example/größe",
    "https://my_host.example.com/",
    "https://example.com/a@b:c",
]


@pytest.mark.parametrize("url", NEVER_TARGETS + PRIVATE_TARGETS)
def test_a_url_into_our_own_network_is_refused(url: str) -> None:
    with pytest.raises(errors.BadField, match="url"):
        targets.check(url, allow_private=False)
    assert WebhookSender(timeout_seconds=1).post(url, {}, b"{}") == DeliveryOutcome(
        error_code="target_refused"
    )


@pytest.mark.parametrize("url", NEVER_TARGETS)
def test_some_addresses_are_refused_even_where_private_ones_are_allowed(url: str) -> None:
    with pytest.raises(errors.BadField, match="url"):
        targets.check(url, allow_private=True)


@pytest.mark.parametrize("url", PRIVATE_TARGETS)
def test_an_operator_may_allow_private_addresses(url: str) -> None:
    targets.check(url, allow_private=True)


@pytest.mark.parametrize("url", PUBLIC_TARGETS)
def test_ordinary_urls_are_accepted(url: str) -> None:
    targets.check(url, allow_private=False)


def test_a_name_is_refused_when_any_of_its_addresses_is_not_public() -> None:
    with receiver() as target:
        for address in ("127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%lo"):
            sender = names_lead_to({"rebind.example": ["93.184.216.34", address]})
            url = f"http://rebind.example:{target.port}/"
            assert sender.post(url, {}, b"{}") == DeliveryOutcome(error_code="target_refused")
        assert target.received == []


def test_a_name_that_changes_its_meaning_is_asked_only_once() -> None:
    """The second answer of a rebinding name never matters: the checked address is used."""
    asked = []

    def rebind(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    with receiver() as target:
        sender = WebhookSender(timeout_seconds=5, allow_private=True, resolve=rebind)
        url = f"http://rebind.example:{target.port}/hook?a=b"
        assert sender.post(url, {}, b"{}") == DeliveryOutcome(204)
        assert asked == ["rebind.example"]
        [request] = target.received
        assert request.headers["host"] == f"rebind.example:{target.port}"
        assert request.path == "/hook?a=b"


def test_a_name_without_a_meaning_is_a_failed_connection() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    sender = WebhookSender(timeout_seconds=5, resolve=unknown)
    assert sender.post("https://no.example/", {}, b"{}") == DeliveryOutcome(
        error_code="connection_failed"
    )


def test_a_name_server_that_says_nothing_is_given_up() -> None:
    done = threading.Event()

    def silent(host: str, port: int) -> list[str]:
        done.wait(60)
        return ["127.0.0.1"]

    sent = WebhookSender(timeout_seconds=0.1, resolve=silent).post("https://no.example/", {}, b"{}")
    done.set()
    assert sent == DeliveryOutcome(error_code="timeout")


def test_an_address_that_does_not_answer_gives_way_to_the_next() -> None:
    with receiver() as target:
        sender = names_lead_to({"two.example": ["127.0.0.2", "127.0.0.1"]}, allow_private=True)
        assert sender.post(f"http://two.example:{target.port}/", {}, b"{}") == DeliveryOutcome(204)


def test_what_is_sent_is_a_plain_json_request() -> None:
    with receiver() as target:
        sent = WebhookSender(timeout_seconds=5, allow_private=True).post(
            target.url, {"webhook-id": "dlv_1"}, b'{"a":1}'
        )
        assert sent.is_delivered
        [request] = target.received
    assert request.body == b'{"a":1}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "dlv_1"
    assert request.headers["user-agent"] == "Rushes"


def test_a_redirect_is_not_followed() -> None:
    with receiver() as secret, receiver() as target:
        target.respond = lambda request: answer(request, 307, Location=secret.url)
        sent = WebhookSender(timeout_seconds=5, allow_private=True).post(target.url, {}, b"{}")
        assert sent == DeliveryOutcome(307, "http_307")
        assert secret.received == []


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as proxy, receiver() as target:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (
            WebhookSender(timeout_seconds=5, allow_private=True).post(target.url, {}, b"{}").status
        )
        assert proxy.received == []
        assert len(target.received) == 1


@pytest.mark.parametrize("status", [301, 400, 404, 410, 429, 500, 503])
def test_other_answers_than_success_are_named(status: int) -> None:
    with receiver(status) as target:
        sent = WebhookSender(timeout_seconds=5, allow_private=True).post(target.url, {}, b"{}")
        assert sent == DeliveryOutcome(status, f"http_{status}")


def test_nobody_there_is_a_failed_connection() -> None:
    with receiver() as target:
        url = target.url
    sent = WebhookSender(timeout_seconds=5, allow_private=True).post(url, {}, b"{}")
    assert sent == DeliveryOutcome(error_code="connection_failed")


def test_a_receiver_that_says_nothing_is_given_up() -> None:
    done = threading.Event()
    with receiver() as target:
        target.respond = lambda request: wait(done)
        sent = WebhookSender(timeout_seconds=0.2, allow_private=True).post(target.url, {}, b"{}")
        done.set()
    assert sent == DeliveryOutcome(error_code="timeout")


def test_a_receiver_that_answers_byte_by_byte_is_given_up() -> None:
    """Each byte is in time; the whole is not."""
    done = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 10_000:
            request.wfile.write(bytes([byte]))
            if done.wait(0.01):
                return

    with receiver() as target:
        target.respond = drip
        sent = WebhookSender(timeout_seconds=0.3, allow_private=True).post(target.url, {}, b"{}")
        done.set()
    assert sent == DeliveryOutcome(error_code="timeout")


def test_an_endless_answer_is_cut_off_and_counts_by_its_status() -> None:
    written = 0
    ended = threading.Event()

    def flood(request: BaseHTTPRequestHandler) -> None:
        nonlocal written
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                written += request.wfile.write(b"x" * 16_384)
        finally:
            ended.set()

    with receiver() as target:
        target.respond = flood
        sent = WebhookSender(timeout_seconds=30, allow_private=True).post(target.url, {}, b"{}")
        assert ended.wait(30)
    assert sent == DeliveryOutcome(200)
    # What fits in the sockets' buffers beyond the limit is a few MiB at most.
    assert written < 64 * 2**20


def test_a_success_counts_although_the_rest_of_the_answer_never_comes() -> None:
    done = threading.Event()

    def stop_halfway(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b"half")
        done.wait(60)

    with receiver() as target:
        target.respond = stop_halfway
        sent = WebhookSender(timeout_seconds=0.3, allow_private=True).post(target.url, {}, b"{}")
        done.set()
    assert sent == DeliveryOutcome(200)


def test_something_that_does_not_speak_http_is_a_bad_answer() -> None:
    with talker(b"220 mail.example ESMTP\r\n") as (port, _):
        url = f"http://127.0.0.1:{port}/"
        sent = WebhookSender(timeout_seconds=5, allow_private=True).post(url, {}, b"{}")
    assert sent == DeliveryOutcome(error_code="bad_answer")


def test_tls_asks_for_the_name_and_not_for_the_address() -> None:
    """The name is in the clear in a TLS client's first words."""
    with talker(b"") as (port, heard):
        sender = names_lead_to({"named.example": ["127.0.0.1"]}, allow_private=True)
        sent = sender.post(f"https://named.example:{port}/", {}, b"{}")
    assert sent == DeliveryOutcome(error_code="tls_failed")
    assert b"named.example" in heard[0]


def test_certificates_are_checked() -> None:
    context = WebhookSender(timeout_seconds=1)._tls
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_receiver_without_tls_fails_at_tls() -> None:
    with receiver() as target:
        url = target.url.replace("http:", "https:")
        sent = WebhookSender(timeout_seconds=5, allow_private=True).post(url, {}, b"{}")
    assert sent == DeliveryOutcome(error_code="tls_failed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.1.1.1", Reach.PUBLIC),
        ("2a00:1450:4001::200e", Reach.PUBLIC),
        ("::ffff:8.8.8.8", Reach.PUBLIC),
        ("64:ff9b::808:808", Reach.PUBLIC),
        ("64:ff9b::10.0.0.1", Reach.NEVER),
        ("5f00::1", Reach.NEVER),
        ("4000::1", Reach.NEVER),
        ("100.127.255.255", Reach.PRIVATE),
        ("100.128.0.1", Reach.PUBLIC),
    ],
)
def test_the_borders_between_public_and_private(text: str, expected: Reach) -> None:
    address = literal(text)
    assert address is not None
    assert reach(address) is expected


def wait(done: threading.Event) -> None:
    done.wait(60)


@contextmanager
def talker(words: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Listens to one caller, says its words, hangs up; returns its port and what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(65_536))
                connection.sendall(words)
                # Hung up on with something unread, the caller would not hear the words.
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield server.getsockname()[1], heard
        thread.join(10)
