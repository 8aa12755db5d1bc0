"""A storage that a package adds: uploads, artifacts and watching go through it."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

import memory_storage
from running import Running, settings_for
from rushes import errors, serving
from rushes.uploads import sink
from shell import until
from web import library

MASTER = b"#EXTM3U\n"
SEGMENT = os.urandom(3 * 2**20 + 5)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    memory_storage.install(tmp_path / "site", monkeypatch)
    return f"memory://{tmp_path.name}"


@pytest.fixture
def processing(serve: Callable[..., Running], installed: str) -> Running:
    return serve(storage_url=installed, transcodes=True)


@pytest.fixture
def stored(serve: Callable[..., Running], installed: str) -> Running:
    return serve(storage_url=installed)


def keys(server: Running) -> list[str]:
    return sorted(entry.key for entry in server.rushes.storage.list())


def test_a_recording_is_processed_from_it_and_into_it(processing: Running, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "tone.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16_000))
    given = {"file": ("tone.wav", (tmp_path / "tone.wav").read_bytes())}
    with processing.client() as client:
        media = client.post("/media", files=given, data={"transcribe": "false"}).json()
        until(lambda: client.get(f"/media/{media['id']}").json()["status"] == "ready")
        there = f"/media/{media['id']}/stream/master.m3u8"
        master = client.get(there, follow_redirects=True)
        assert (master.status_code, master.text.startswith("#EXTM3U")) == (200, True)
    assert any(key.endswith(".m4s") for key in keys(processing))


def test_an_upload_in_several_parts_becomes_one_object(
    stored: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "PART_BYTES", 2**20)
    data = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm" + os.urandom(5 * 2**20)
    with stored.client() as client:
        media = client.post("/media", files={"file": ("a.webm", data)}).json()
        assert client.get(f"/media/{media['id']}/source").content == data
        until(lambda: len(keys(stored)) == 1)


def test_artifacts_are_read_whole_and_in_parts(stored: Running) -> None:
    with stored.client() as admin:
        media_id = library.add(stored, library.user_id(admin))
        library.publish(stored, media_id, {"master.m3u8": MASTER, "720p/seg_1.m4s": SEGMENT})
        there = f"/media/{media_id}/stream/720p/seg_1.m4s"
        assert admin.get(there).content == SEGMENT
        part = admin.get(there, headers={"Range": "bytes=7-2000007"})
        assert (part.status_code, part.content) == (206, SEGMENT[7:2_000_008])


def test_a_scheme_that_nobody_knows_stops_the_start(tmp_path: Path) -> None:
    settings = settings_for(data_dir=tmp_path, storage_url="myfs://somewhere")
    with pytest.raises(errors.BadSetting, match="must begin with file:// or s3://"):
        serving.serve(settings, announce=lambda line: None)
