"""`rushes media` and `rushes profiles`: new versions of what is there, and what makes them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from running import ADMIN_TOKEN, Running
from rushes.transcripts import archive
from shell import Shell
from speaking import said
from web import library


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    return serve()


@pytest.fixture
def at(shell: Shell, server: Running) -> Shell:
    shell.set(server=server.url, token=ADMIN_TOKEN)
    return shell


@pytest.fixture
def media_id(server: Running) -> str:
    """Watchable, so that a new version may be asked for."""
    with server.client() as admin:
        added = library.add(server, library.user_id(admin))
    library.publish(server, added, {"master.m3u8": b"#EXTM3U\n"}, {"duration": 3600.0})
    return added


def test_profiles_are_listed_set_shown_and_removed(at: Shell) -> None:
    assert "2160p 1440p 1080p 720p 480p 360p" in at.text("profiles", "ls")
    assert [each["name"] for each in at.json("profiles", "ls")] == ["default"]
    settings = '{"ladder": [{"height": 360, "bitrate": 500}], "codecs": ["h264", "av1"]}'
    assert at.json("profiles", "set", "small", settings)["codecs"] == ["h264", "av1"]
    shown = at.text("profiles", "show", "small")
    assert "360p:500" in shown
    assert '["h264","av1"]' in shown
    assert at.json("profiles", "show", "small")["crf"] == 23
    assert at.text("profiles", "rm", "small") == "small is removed\n"
    assert at.run("profiles", "show", "small") == 4
    at.text("profiles", "set", "default", '{"crf": 30}')
    assert at.json("profiles", "rm", "default") == {"name": "default", "removed": True}
    assert at.json("profiles", "show", "default")["crf"] == 23


@pytest.mark.parametrize("settings", ["{", "[]", '{"crf": 99}', '{"flavour": 1}'])
def test_settings_that_cannot_work_are_refused(at: Shell, settings: str) -> None:
    assert at.run("profiles", "set", "small", settings) == 2
    assert at.err.startswith("rushes: ")


def test_a_media_is_encoded_again(at: Shell, media_id: str) -> None:
    job = at.json("media", "retranscode", media_id, "--quality", "720p", "--quality", "360p")
    assert job["args"]["qualities"] == ["720p", "360p"]
    assert at.run("media", "retranscode", media_id, "--drop-transcript") == 4
    assert "a new version is being made already" in at.err
    at.text("jobs", "cancel", job["id"])
    said = at.text("media", "retranscode", media_id, "--profile", "default")
    assert said.endswith(f" queued, to transcode {media_id}\n")
    assert at.run("media", "retranscode", media_id, "--profile", "huge") == 2
    assert "known are default" in at.err


def test_a_media_is_cut(at: Shell, media_id: str, server: Running) -> None:
    job = at.json("media", "trim", media_id, "--start", "1:30", "--end", "0:59:59.5")
    assert job["args"]["edit"] == {"start": 90, "end": 3599.5}
    held = library.claim(server, "trim")
    library.put(server, held, {"master.m3u8": b"#EXTM3U\n"})
    library.finish(server, held, {"duration": 3509.5})
    assert '{"start":90.0,"end":3599.5' in at.text("media", "show", media_id)
    assert "queued, to trim" in at.text("media", "trim", media_id, "--reset")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--start", "soon"),
        ("--start", "1:2:3:4"),
        ("--start", "nan"),
        ("--start", "-1"),
        ("--start", "2:00:00"),
        ("--start", "1", "--reset"),
    ],
)
def test_a_cut_that_cannot_be_made_is_wrong_usage(
    at: Shell, media_id: str, arguments: tuple[str, ...]
) -> None:
    assert at.run("media", "trim", media_id, *arguments) == 2


def test_a_video_is_laid_over(at: Shell, media_id: str, server: Running) -> None:
    with server.client() as admin:
        webcam = library.add(server, library.user_id(admin), content=b"webcam")
    given = ("--position", "0.5,0.25", "--size", "0.3", "--sound", "both")
    job = at.json("media", "composite", media_id, webcam, *given)
    assert job["args"]["edit"]["overlay"] == {
        "media_id": webcam,
        "position": {"x": 0.5, "y": 0.25},
        "size": 0.3,
        "sound": "both",
    }
    for bad in (("--position", "a,b"), ("--position", "middle"), ("--size", "2")):
        assert at.run("media", "composite", media_id, webcam, *bad) == 2


def test_what_is_said_is_printed_and_found(
    at: Shell, server: Running, media_id: str, tmp_path: Path
) -> None:
    heard = said("Good morning.", "The <b>bright</b> cold day.")
    add = partial(archive.add, media_id=media_id, user_id="", job_id=None, transcript=heard)
    server.rushes.db.run(add)
    assert "Good morning." in at.text("media", "transcript", media_id)
    assert at.text("media", "transcript", media_id, "-f", "vtt").startswith("WEBVTT")
    there = tmp_path / "talk.docx"
    assert at.text("media", "transcript", media_id, "-f", "docx", "-o", str(there)) == ""
    assert zipfile.is_zipfile(there)
    assert at.json("media", "transcript", media_id)["segments"][0]["text"] == "Good morning."
    assert "cold day" in at.text("search", "cold", "da")
    [moment] = at.json("search", "morning")
    assert (moment["media_id"], moment["start"]) == (media_id, 0.0)
    assert "Good morning." in at.text("search", "moring")
    assert "found for: morning" in at.err
    at.text("search", "nothing of this")
    assert "nothing was found" in at.err


def test_its_speakers_are_told_apart(at: Shell, server: Running, media_id: str) -> None:
    assert at.run("media", "diarize", media_id) != 0
    add = partial(
        archive.add, media_id=media_id, user_id="", job_id=None, transcript=said("Good morning.")
    )
    server.rushes.db.run(add)
    assert at.run("media", "diarize", media_id) != 0
    assert "it is being transcribed just now" in at.err
    for each in server.rushes.jobs(media_id=media_id, kind="transcribe"):
        server.rushes.cancel(each.id)
    job = at.json("media", "diarize", media_id, "--speakers", "2")
    assert (job["kind"], job["state"]) == ("transcribe", "queued")
    assert (job["args"]["only"], job["args"]["speakers"]) == ("speakers", 2)


def test_a_media_is_listened_to_again(at: Shell, media_id: str) -> None:
    job = at.json("media", "retranscribe", media_id, "--language", "de", "--speakers", "2")
    assert (job["kind"], job["state"]) == ("transcribe", "queued")
    assert (job["args"]["language"], job["args"]["speakers"]) == ("de", 2)
