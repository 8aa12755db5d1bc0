"""Large uploads into a bucket: kept in parts, and joined by the storage itself."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy import Proxy
from running import Running
from rushes import errors
from rushes.storage import s3
from rushes.storage.s3 import S3Storage
from rushes.storage.s3_calls import S3Calls
from rushes.uploads import sink
from services import Seaweed
from web.test_uploads import MIB, Sender, film, keys, source

PART = 5 * MIB


@pytest.fixture
def stored(
    seaweed: Seaweed, serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    monkeypatch.setattr(sink, "PART_BYTES", PART)
    yield serve(storage_url=seaweed.url(prefix=uuid.uuid4().hex))
    assert seaweed.unfinished_uploads() == []


@pytest.fixture
def read_keys(stored: Running, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server reads, and that it writes nothing but parts."""
    found: list[str] = []
    opened = stored.rushes.storage
    assert isinstance(opened, S3Storage)
    put, stream = opened._put, opened._stream

    def reading(key: str, start: int, end: int | None) -> Any:
        found.append(key)
        return stream(key, start, end)

    def putting(key: str, *rest: Any) -> None:
        assert ".parts/" in key, "the whole was written from here"
        put(key, *rest)

    monkeypatch.setattr(opened, "_stream", reading)
    monkeypatch.setattr(opened, "_put", putting)
    return found


def check(stored: Running, item: dict[str, Any], data: bytes) -> None:
    assert source(stored, item) == data
    with stored.rushes.db.read() as tx:
        row = tx.one("SELECT sha256 FROM media WHERE id = :id", id=item["id"])
    assert row is not None
    assert row["sha256"] == hashlib.sha256(data).hexdigest()
    assert len(keys(stored)) == 1


def test_an_upload_is_joined_without_its_bytes_coming_back(
    stored: Running, read_keys: list[str]
) -> None:
    data = film(12 * MIB)
    with stored.client() as client:
        sender = Sender(client)
        url = sender.create(len(data))
        # One request for each part: within one they end wherever a chunk of it does.
        assert sender.patch(url, data[:PART]).status_code == 204
        assert sender.patch(url, data[PART : 2 * PART], PART).status_code == 204
        answer = sender.patch(url, data[2 * PART :], 2 * PART)
        # Its beginning only, to see what it is.
        assert len(read_keys) == 1
        check(stored, sender.media(answer), data)


def test_its_hash_is_found_when_nobody_followed_it(stored: Running, read_keys: list[str]) -> None:
    data = film(11 * MIB)
    with stored.client() as client:
        sender = Sender(client)
        url = sender.create(len(data))
        assert sender.patch(url, data[: 6 * MIB]).status_code == 204
        # As after a restart, or at another server.
        stored.services.receiver._digests.clear()
        check(stored, sender.media(sender.patch(url, data[6 * MIB :], 6 * MIB)), data)


def test_partial_uploads_are_concatenated_by_the_storage(
    stored: Running, read_keys: list[str]
) -> None:
    data = film(13 * MIB)
    halves = data[: 6 * MIB], data[6 * MIB :]
    with stored.client() as client:
        sender = Sender(client)
        urls = [sender.create(len(half), Upload_Concat="partial") for half in halves]
        for url, half in zip(urls, halves, strict=True):
            assert sender.patch(url, half).status_code == 204
        final = sender.post(Upload_Concat=f"final;{' '.join(urls)}")
        assert final.status_code == 201, final.text
        check(stored, sender.media(final), data)


def test_an_upload_goes_on_after_the_storage_was_away(
    seaweed: Seaweed, serve: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "PART_BYTES", PART)
    monkeypatch.setitem(s3.RETRY, "max_retries", 0)
    data = film(12 * MIB)
    with Proxy(seaweed.port).open() as way:
        url = seaweed.url(prefix=uuid.uuid4().hex)
        stored = serve(storage_url=url.replace(f":{seaweed.port}", f":{way.port}"))
        with stored.client() as client:
            sender = Sender(client)
            upload = sender.create(len(data))
            assert sender.patch(upload, data[:PART]).status_code == 204
            way.cut()
            answer = sender.patch(upload, data[PART:], PART)
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_down")
            assert answer.json()["detail"] == "the storage is not available"
            way.mend()
            assert sender.offset(upload) == PART
            check(stored, sender.media(sender.patch(upload, data[PART:], PART)), data)
        stored.stop()


def test_an_upload_whose_parts_could_not_be_joined_can_be_finished_again(
    stored: Running, monkeypatch: pytest.MonkeyPatch, seaweed: Seaweed
) -> None:
    data = film(12 * MIB)
    end_parts = S3Calls.end_parts
    failures = iter([errors.StorageDown("away")])

    def fails_once(self: S3Calls, *rest: Any) -> None:
        for each in failures:
            raise each
        end_parts(self, *rest)

    monkeypatch.setattr(S3Calls, "end_parts", fails_once)
    with stored.client() as client:
        sender = Sender(client)
        upload = sender.create(len(data))
        assert sender.patch(upload, data).status_code == 503
        assert seaweed.unfinished_uploads() == []
        offset = sender.offset(upload)
        assert 0 < offset < len(data)
        answer = sender.patch(upload, data[offset:], offset)
        check(stored, sender.media(answer), data)
