"""Captions beside what is watched: they follow the transcript, for owners and by a link."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import m3u8  # type: ignore[import-untyped]
import pytest

from running import Running
from rushes.tools import playlist
from rushes.web.api.captioned import Memory
from web import library

MASTER = b"""#EXTM3U
#EXT-X-VERSION:7
#EXT-X-STREAM-INF:BANDWIDTH=3000,CODECS="avc1.4d401f,mp4a.40.2",RESOLUTION=1280x720,AUDIO="audio"
720p/playlist.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=1000,CODECS="avc1.4d401f,mp4a.40.2",RESOLUTION=640x360,AUDIO="audio"
360p/playlist.m3u8
"""
LISTED = ("720p/playlist.m3u8", "360p/playlist.m3u8")
FILES = {"master.m3u8": MASTER, **dict.fromkeys(LISTED, b"#EXTM3U\n")}


@pytest.fixture
def admin(server: Running) -> Iterator[Any]:
    with server.client(follow_redirects=True) as client:
        yield client


@pytest.fixture
def media_id(server: Running, admin: Any) -> str:
    found = library.add(server, library.user_id(admin))
    library.publish(server, found, FILES, {"duration": 12.5})
    return found


@pytest.fixture(params=["owner", "link"])
def place(request: pytest.FixtureRequest, admin: Any, media_id: str) -> str:
    """Where the media is, for its owner and for whoever has the link."""
    if request.param == "owner":
        return f"/media/{media_id}"
    link = admin.post(f"/media/{media_id}/share").json()["share_url"]
    return f"/s/{link.rsplit('/', 1)[-1]}"


@pytest.fixture
def viewer(server: Running, admin: Any, place: str) -> Iterator[Any]:
    if place.startswith("/media"):
        yield admin
    else:
        with server.client(base_url=server.url, token=None, follow_redirects=True) as anybody:
            yield anybody


def test_captions_are_there_as_soon_as_there_is_a_transcript(
    server: Running, viewer: Any, place: str, media_id: str
) -> None:
    assert viewer.get(f"{place}/captions.vtt").status_code == 404
    library.transcribe(server, media_id, "Hello <b>there</b>.", "Yes.")
    answer = viewer.get(f"{place}/captions.vtt")
    assert answer.text == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n"
        "<v SPEAKER_00>Hello &lt;b&gt;there&lt;/b&gt;.\n\n"
        "00:00:01.000 --> 00:00:02.000\n<v SPEAKER_00>Yes.\n"
    )
    assert answer.headers["content-type"] == "text/vtt; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_captions_follow_every_change(
    server: Running, admin: Any, viewer: Any, place: str, media_id: str
) -> None:
    library.transcribe(server, media_id, "Helo.")
    first = viewer.get(f"{place}/captions.vtt")
    again = {"If-None-Match": first.headers["etag"]}
    assert viewer.get(f"{place}/captions.vtt", headers=again).status_code == 304
    library.correct(server, media_id, "Hello.")
    second = viewer.get(f"{place}/captions.vtt", headers=again)
    assert "Hello." in second.text
    names = {"names": {"SPEAKER_00": "Ann & Co"}}
    assert admin.put(f"/media/{media_id}/transcript/speakers", json=names).is_success
    assert "<v Ann &amp; Co>Hello." in viewer.get(f"{place}/captions.vtt").text
    assert viewer.head(f"{place}/captions.vtt").status_code == 200


def test_the_dash_manifest_lists_the_captions(server: Running, admin: Any) -> None:
    media_id = library.add(server, library.user_id(admin))
    plain = playlist.manifest([], 12.5, [playlist.Text(name="subtitles", language="de")])
    files = {"manifest.mpd": plain.encode(), "subtitles/captions.vtt": b"WEBVTT\n"}
    library.publish(server, media_id, files, {"duration": 12.5})
    address = f"/media/{media_id}/stream/manifest.mpd"
    assert admin.get(address).text == plain
    library.transcribe(server, media_id, "Hello.")
    answer = admin.get(address)
    assert answer.headers["content-type"].startswith("application/dash+xml")
    named = re.findall("<BaseURL>(.*?)</BaseURL>", answer.text)
    assert named == ["subtitles/captions.vtt", "captions.vtt"]
    assert 'lang="en"' in answer.text
    there = str(answer.url).rpartition("/")[0]
    assert "Hello." in admin.get(f"{there}/captions.vtt").text


def test_the_master_playlist_lists_the_captions(
    server: Running, viewer: Any, place: str, media_id: str
) -> None:
    before = viewer.get(f"{place}/stream/master.m3u8")
    assert before.content == MASTER
    assert before.headers["cache-control"] == "no-cache"
    library.transcribe(server, media_id, "Hello there.")
    again = {"If-None-Match": before.headers["etag"]}
    after = viewer.get(before.url, headers=again)
    assert after.status_code == 200
    assert after.headers["cache-control"] == "no-cache"
    listed = m3u8.loads(after.text, uri=str(after.url))
    assert [each.stream_info.subtitles for each in listed.playlists] == ["captions"] * 2
    [media] = [each for each in listed.media if each.type == "SUBTITLES"]
    assert (media.group_id, media.language, media.default) == ("captions", "en", "NO")
    captions = m3u8.loads(viewer.get(media.absolute_uri).text, uri=media.absolute_uri)
    assert captions.is_endlist
    [segment] = captions.segments
    assert segment.duration == 12.5
    file = viewer.get(segment.absolute_uri)
    assert file.text.startswith("WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n\n")
    assert "Hello there." in file.text
    assert file.headers["cache-control"] == "no-cache"


def test_an_old_version_has_no_captions_of_the_new_one(
    server: Running, admin: Any, media_id: str
) -> None:
    library.transcribe(server, media_id, "Hello there.")
    begun = admin.get(f"/media/{media_id}/stream/master.m3u8").url
    library.publish(server, media_id, FILES)
    assert admin.get(begun).content == MASTER
    assert admin.get(begun.join("captions.vtt")).status_code == 404
    assert admin.get(begun.join("captions.m3u8")).status_code == 404
    assert "captions.m3u8" in admin.get(f"/media/{media_id}/stream/master.m3u8").text


def test_captions_need_nothing_to_watch(server: Running, admin: Any) -> None:
    media_id = library.add(server, library.user_id(admin))
    library.transcribe(server, media_id, "Hello there.")
    assert "Hello there." in admin.get(f"/media/{media_id}/captions.vtt").text
    for name in ("captions.vtt", "captions.m3u8"):
        assert admin.get(f"/media/{media_id}/stream/{name}").status_code == 404


def test_what_is_shared_no_more_has_no_captions(server: Running, admin: Any, media_id: str) -> None:
    library.transcribe(server, media_id, "Hello there.")
    link = admin.post(f"/media/{media_id}/share").json()["share_url"]
    path = f"{server.url}/s/{link.rsplit('/', 1)[-1]}"
    assert admin.get(f"{path}/captions.vtt").status_code == 200
    assert admin.delete(f"/media/{media_id}/share").is_success
    for name in ("captions.vtt", "stream/captions.m3u8", "stream/captions.vtt"):
        assert admin.get(f"{path}/{name}").status_code == 404


def test_without_a_duration_the_captions_end_with_the_last_of_them(
    server: Running, admin: Any
) -> None:
    media_id = library.add(server, library.user_id(admin))
    library.publish(server, media_id, FILES)
    library.transcribe(server, media_id, "One.", "Two.", "Three.")
    assert "#EXTINF:3.000," in admin.get(f"/media/{media_id}/stream/captions.m3u8").text


def test_captions_that_many_ask_for_at_once_are_written_once() -> None:
    memory = Memory(100)
    begun, go_on = threading.Event(), threading.Event()
    written: list[str] = []

    def write() -> str:
        begun.set()
        go_on.wait(60)
        written.append("talk")
        return "talk"

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(memory.get, "key", write)
        assert begun.wait(60)
        others = [pool.submit(memory.get, "key", write) for _ in range(3)]
        go_on.set()
    assert {each.result() for each in (first, *others)} == {"talk"}
    assert written == ["talk"]


def test_captions_are_remembered_up_to_a_size_the_latest_longest() -> None:
    memory = Memory(10)
    written: list[str] = []

    def ask(text: str) -> None:
        def write() -> str:
            written.append(text)
            return text

        assert memory.get(text, write) == text

    for text in ("aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb"):
        ask(text)
    assert written == ["aaaa", "bbbb", "cccc", "bbbb"]
    for text in ("too long to keep", "too long to keep", "aaaa"):
        ask(text)
    assert written[4:] == ["too long to keep", "too long to keep"]


def test_captions_that_could_not_be_written_are_tried_again() -> None:
    def fail() -> str:
        raise OSError

    memory = Memory(10)
    for _ in range(2):
        with pytest.raises(OSError):
            memory.get("key", fail)
    assert memory.get("key", lambda: "talk") == "talk"
