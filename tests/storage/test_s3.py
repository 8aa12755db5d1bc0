"""What only S3 has: links for browsers, joined parts, a bucket's rules, what its errors mean."""

from __future__ import annotations

import http.server
import os
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import httpx2
import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st

import services
from proxy import Proxy
from rushes import errors
from rushes.storage import bucket_rules, bucket_setup, joining, s3, s3_calls, s3_errors, storage
from rushes.storage.bucket_rules import Wanted
from rushes.storage.s3_calls import S3Calls
from rushes.storage.sigv4 import Signer
from rushes.uploads import sink

MIB, GIB, TIB = 2**20, 2**30, 2**40
LABELS = storage.Labels(content_type="video/mp4", cache_control="private, max-age=60")


@pytest.fixture
def bucket(seaweed: services.Seaweed) -> s3.S3Storage:
    return s3.from_url(seaweed.url(prefix=uuid.uuid4().hex))


def calls_of(opened: s3.S3Storage) -> S3Calls:
    assert opened.calls is not None
    return opened.calls


def link_to(opened: storage.Storage, key: str, labels: storage.Labels = LABELS) -> str:
    link = opened.link(key, 60, labels)
    assert link is not None
    return link.url


# Signatures and links


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize("prefix", ["", "one/two"])
def test_our_signatures_are_those_of_obstore(
    monkeypatch: pytest.MonkeyPatch, token: str | None, prefix: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA/+x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s/e+c=")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    opened = s3.from_url(f"s3://bucket/{prefix}?endpoint=http://host.example:9000")
    theirs = obstore.sign(opened._store, "GET", "a/b_c-1.m4s", timedelta(seconds=600))
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(theirs).query))
    at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    signer = Signer(access_key="AKIA/+x", secret_key="s/e+c=", region="eu-central-1", token=token)
    ours = signer.presigned("GET", theirs.partition("?")[0], {}, at, 600)
    ours_query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(ours).query))
    assert ours_query == query
    assert link_to(opened, "a/b_c-1.m4s").startswith(theirs.partition("?")[0])


@given(now=st.integers(0, 2**33), life=st.integers(60, 3600), later=st.integers(0, 3600))
def test_a_link_is_the_same_for_a_while_and_never_outlives_its_life(
    now: int, life: int, later: int
) -> None:
    begun, left = s3.link_times(now, life)
    assert life // 2 < left <= life
    assert begun <= now
    again, _ = s3.link_times(now + later, life)
    if begun == again:
        assert begun + life > now + later


def test_a_link_labels_the_answer_and_takes_ranges(bucket: s3.S3Storage) -> None:
    bucket.put("a/b.bin", bytes(range(256)))
    labels = storage.Labels(
        content_type="application/octet-stream",
        cache_control="private, max-age=60",
        disposition="attachment; filename=\"a_b.mp4\"; filename*=UTF-8''%C3%A4%22b.mp4",
    )
    url = link_to(bucket, "a/b.bin", labels)
    part = httpx2.get(url, headers={"Range": "bytes=16-31"})
    assert (part.status_code, part.content) == (206, bytes(range(16, 32)))
    assert part.headers["content-range"] == "bytes 16-31/256"
    assert part.headers["content-type"] == "application/octet-stream"
    assert part.headers["content-disposition"] == labels.disposition
    assert part.headers["cache-control"] == "private, max-age=60"
    assert httpx2.get(url, headers={"Range": "bytes=256-"}).status_code == 416


def test_a_link_is_good_for_one_object_and_a_while(
    bucket: s3.S3Storage, seaweed: services.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = s3.from_url(seaweed.url(prefix=uuid.uuid4().hex))
    for each in (bucket, other):
        each.put("a/b", b"b")
        each.put("a/c", b"c")
    url = link_to(bucket, "a/b")
    elsewhere = url.replace(bucket.address.prefix, other.address.prefix, 1)
    plain = urllib.parse.quote("video/mp4", safe="")
    page = url.replace(plain, urllib.parse.quote("text/html", safe=""))
    forged = [url.replace("a/b?", "a/c?"), url.replace("a/b?", "a/x/../c?"), elsewhere, page]
    assert {httpx2.get(each).status_code for each in forged} == {403}
    assert httpx2.head(url).status_code == httpx2.delete(url).status_code == 403
    past = datetime.now(UTC).timestamp() - 61
    monkeypatch.setattr("rushes.storage.s3.time.time", lambda: past)
    assert httpx2.get(link_to(bucket, "a/b")).status_code == 403
    with pytest.raises(errors.Invalid):
        bucket.link("../a/b", 60, LABELS)


def test_links_name_the_public_endpoint(seaweed: services.Seaweed) -> None:
    with Proxy(seaweed.port).open() as outside:
        url = f"{seaweed.url(prefix=uuid.uuid4().hex)}&public_endpoint=http://127.0.0.1:{outside.port}"
        opened = s3.from_url(url)
        opened.put("a/b", b"b")
        assert opened.link_origin == f"http://127.0.0.1:{outside.port}"
        given = opened.presign("GET", "a/b", 60)
        for each in (link_to(opened, "a/b"), given):
            assert each is not None
            assert each.startswith(f"http://127.0.0.1:{outside.port}/")
            assert httpx2.get(each).content == b"b"


def test_without_known_keys_there_are_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    opened = s3.from_url("s3://bucket/?region=eu-central-1")
    assert (opened.link_origin, opened.link("a", 60, LABELS), opened.calls) == (None, None, None)


# Parts


@pytest.mark.parametrize("size", [1, 8 * MIB, 80_000 * MIB, 5 * TIB])
def test_parts_are_few_and_small_enough(size: int) -> None:
    part = s3.part_bytes(size)
    assert -(-size // part) <= 10_000
    assert 5 * MIB <= part <= 5 * GIB


def test_an_upload_of_known_length_is_kept_in_parts_that_can_be_joined() -> None:
    assert sink.part_bytes(None) == sink.part_bytes(GIB) == sink.PART_BYTES
    assert -(-(500 * GIB) // sink.part_bytes(500 * GIB)) <= 10_000
    # However long it is: so much memory is all that it takes.
    assert sink.part_bytes(5 * TIB) == sink.LARGEST_PART_BYTES


@given(st.lists(st.integers(1, 64 * MIB), max_size=60))
def test_a_plan_covers_everything_once_and_is_allowed(sizes: list[int]) -> None:
    steps = joining.plan(sizes)
    if steps is None:
        assert not any(size >= joining.LEAST_BYTES for size in sizes) or len(sizes) > 1
        return
    covered = [number for step in steps for number in range(step.begin, step.end)]
    assert covered == list(range(len(sizes)))
    for step in steps[:-1]:
        assert sum(sizes[step.begin : step.end]) >= joining.LEAST_BYTES
    for step in steps:
        gathered = sum(sizes[step.begin : step.end])
        assert step.is_copy or gathered < joining.GATHERED_BYTES + 64 * MIB


def test_what_the_server_does_not_take_is_not_planned() -> None:
    assert joining.plan([]) is None
    assert joining.plan([MIB] * 5) is None
    assert joining.plan([6 * GIB]) is None
    assert joining.plan([8 * MIB] * 10_001) is None
    assert joining.plan([8 * MIB] * 10_000) is not None


def test_parts_are_joined_by_the_server(bucket: s3.S3Storage, seaweed: services.Seaweed) -> None:
    pieces = [os.urandom(size) for size in (6 * MIB, MIB, 2 * MIB, 6 * MIB, 5 * MIB, 1000)]
    parts = []
    for number, piece in enumerate(pieces):
        bucket.put(f"u.parts/{number}", piece)
        parts.append(storage.Part(f"u.parts/{number}", len(piece)))
    ticks: list[None] = []
    assert bucket.join(parts, "u", lambda: ticks.append(None))
    assert b"".join(bucket.read("u")) == b"".join(pieces)
    assert ticks
    assert seaweed.unfinished_uploads() == []


def test_a_join_that_fails_leaves_nothing(bucket: s3.S3Storage, seaweed: services.Seaweed) -> None:
    bucket.put("a", bytes(6 * MIB))
    parts = [storage.Part("a", 6 * MIB), storage.Part("missing", 6 * MIB)]
    with pytest.raises(errors.RushesError):
        bucket.join(parts, "u", lambda: None)
    assert not bucket.exists("u")
    assert seaweed.unfinished_uploads() == []


@pytest.mark.parametrize("status", [400, 501])
def test_a_server_that_copies_no_parts_is_not_asked_to_join(
    bucket: s3.S3Storage,
    seaweed: services.Seaweed,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    bucket.put("a", bytes(6 * MIB))
    code = "InvalidRequest" if status == 400 else "NotImplemented"
    once = S3Calls._once

    def copying_nothing(self: S3Calls, *given: Any) -> httpx2.Response:
        if "x-amz-copy-source" in given[3]:
            return httpx2.Response(status, text=error_of(code))
        return once(self, *given)

    monkeypatch.setattr(S3Calls, "_once", copying_nothing)
    assert not bucket.join([storage.Part("a", 6 * MIB)], "u", lambda: None)
    assert not bucket.exists("u")
    assert seaweed.unfinished_uploads() == []


# A bucket's rules

RULE = (
    "<Rule><ID>theirs</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>"
    "<Expiration><Days>3</Days></Expiration></Rule>"
)
THEIRS = f'<LifecycleConfiguration xmlns="{bucket_rules.NAMESPACE}">{RULE}</LifecycleConfiguration>'


def wanted(prefix: str = "", origins: tuple[str, ...] = ("https://a.example",)) -> Wanted:
    return Wanted(prefix=prefix, abort_days=2, origins=origins)


def ids_in(document: bytes | None) -> list[str | None]:
    assert document is not None
    return [each.text for each in ElementTree.fromstring(document).iter() if "ID" in each.tag]


def test_the_rules_of_others_stay() -> None:
    root = "LifecycleConfiguration"
    first = bucket_rules.merged(root, THEIRS.encode(), wanted("a").lifecycle())
    both = bucket_rules.merged(root, first, wanted("b").lifecycle())
    assert len(ids_in(both)) == 1 + 4 + 4
    assert ids_in(both)[0] == "theirs"
    assert bucket_rules.merged(root, both, wanted("a").lifecycle()) is None
    assert bucket_rules.missing(both, wanted("b").lifecycle()) == []
    changed = Wanted(prefix="a", abort_days=5, origins=())
    assert len(ids_in(bucket_rules.merged(root, both, changed.lifecycle()))) == 9


def test_no_rule_reaches_beyond_the_prefix() -> None:
    for prefix in ("", "a", "a/b"):
        for rule in wanted(prefix).lifecycle():
            place = rule.findtext("Filter/Prefix") or ""
            assert place.startswith(f"{prefix}/" if prefix else "")
            folder = place.removeprefix(f"{prefix}/" if prefix else "")
            assert folder in ("media/", "sources/", "staging/", "check/")
            # Sources and versions never end by themselves.
            assert (rule.find("Expiration") is None) == (folder in ("media/", "sources/"))


def set_up(opened: s3.S3Storage, **options: Any) -> dict[str, str]:
    options = {"create": False, "dry_run": False, "region": "us-east-1", **options}
    asked = wanted(opened.address.prefix)
    return {
        each.step: each.state for each in bucket_setup.set_up(calls_of(opened), asked, **options)
    }


def test_a_bucket_is_set_up_once(seaweed: services.Seaweed) -> None:
    name = f"new-{uuid.uuid4().hex[:12]}"
    opened = s3.from_url(seaweed.url(prefix="p", bucket=name))
    assert set_up(opened) == {"bucket": "failed"}
    would = dict.fromkeys(("bucket", "lifecycle", "cors"), "would")
    assert set_up(opened, create=True, dry_run=True) == would
    assert set_up(opened) == {"bucket": "failed"}
    assert set_up(opened, create=True) == dict.fromkeys(would, "done")
    assert set_up(opened, create=True) == dict.fromkeys(would, "already")
    opened.put("a", b"1")
    asked = {"Origin": "https://a.example"}
    allowed = httpx2.get(link_to(opened, "a"), headers=asked).headers
    assert allowed["access-control-allow-origin"] == "https://a.example"
    refused = httpx2.get(link_to(opened, "a"), headers={"Origin": "https://b.example"}).headers
    assert "access-control-allow-origin" not in refused


# What goes wrong


@contextmanager
def answering(status: int, body: str = "", headers: dict[str, str] | None = None) -> Iterator[str]:
    """The address of a storage that answers everything like this."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"s3://k:s@bucket/p?endpoint=http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def error_of(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>no</Message></Error>"


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (403, "SignatureDoesNotMatch", s3_errors.KEYS),
        (403, "InvalidAccessKeyId", s3_errors.KEYS),
        (403, "AccessDenied", s3_errors.RIGHTS),
        (403, "RequestTimeTooSkewed", s3_errors.CLOCK),
        (400, "ExpiredToken", s3_errors.EXPIRED),
        (400, "AuthorizationHeaderMalformed", s3_errors.REGION),
        (301, "PermanentRedirect", s3_errors.REGION),
        (404, "NoSuchBucket", s3_errors.BUCKET),
    ],
)
def test_each_refusal_says_what_to_do(status: int, code: str, hint: str) -> None:
    with answering(status, error_of(code)) as url:
        opened = s3.from_url(url)
        for call in (lambda: opened.put("a", b"1"), lambda: list(opened.read("a"))):
            with pytest.raises(errors.StorageDown) as raised:
                call()
            assert raised.value.message == "the storage is not available"
            assert errors.for_operators(raised.value) == f"{storage.DOWN}: {hint}"
        assert [
            each.said
            for each in bucket_setup.set_up(
                calls_of(opened), wanted("p"), region="us-east-1", create=False, dry_run=False
            )
        ]


def test_real_refusals_say_what_to_do(
    seaweed: services.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for opened, hint in (
        (s3.from_url(seaweed.url(secret="wrong")), s3_errors.KEYS),
        (s3.from_url(seaweed.url(bucket="other")), s3_errors.BUCKET),
    ):
        with pytest.raises(errors.StorageDown) as raised:
            opened.check()
        assert raised.value.hint == hint

    class Late(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Late:
            return cls.fromtimestamp(datetime.now(UTC).timestamp() - 3600, UTC)

    monkeypatch.setattr(s3_calls, "datetime", Late)
    with pytest.raises(errors.StorageDown) as raised:
        calls_of(s3.from_url(seaweed.url())).call("GET")
    assert raised.value.hint == s3_errors.CLOCK


def test_nobody_there_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_calls, "BACKOFF_SECONDS", 0)
    with Proxy(1) as nobody:
        opened = s3.from_url(f"s3://k:s@bucket/?endpoint=http://127.0.0.1:{nobody.port}")
    with pytest.raises(errors.StorageDown) as raised:
        opened.size("a")
    assert raised.value.hint == s3_errors.NOBODY
    with pytest.raises(errors.StorageDown) as raised:
        calls_of(opened).call("GET")
    assert raised.value.hint == s3_errors.NOBODY


def test_a_server_that_does_not_know_a_call_is_told_as_such() -> None:
    with answering(501, error_of("NotImplemented")) as url, pytest.raises(errors.NotSupported):
        calls_of(s3.from_url(url)).configuration("lifecycle")


def test_a_storage_that_leads_elsewhere_gets_no_signature_there() -> None:
    with answering(200, "planted") as other:
        there = {"Location": f"{other.partition('endpoint=')[2]}/x"}
        with answering(307, headers=there) as url, pytest.raises(errors.StorageDown):
            calls_of(s3.from_url(url)).call("GET")
