"""Watching while it is encoded: what can be seen, by whom, until when, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from running import Running
from rushes.protocol import Claim, Part
from web import library

INIT, SEGMENT = b"head", bytes(range(256)) * 16
DETAIL: dict[str, Any] = {
    "renditions": [
        {
            "name": name,
            "status": "in_progress",
            "width": width,
            "height": height,
            "bandwidth": 5_000_000,
            "average_bandwidth": 4_000_000,
            "codecs": "avc1.640028",
            "frame_rate": 25.0,
            "segments_total": 3,
            "segments_completed": 1,
        }
        for name, width, height in (("1080p", 1920, 1080), ("720p", 1280, 720))
    ],
    "audio": [{"name": "audio", "codecs": "mp4a.40.2", "bandwidth": 128_000, "default": True}],
}
FINAL = b"#EXTM3U\n#EXT-X-ENDLIST\n"


def segments(name: str, *numbers: int) -> dict[str, Any]:
    return {f"{name}/seg_{number:05}.m4s": (SEGMENT, 4.0) for number in numbers}


def beginning(name: str) -> dict[str, Any]:
    return {f"{name}/init.mp4": INIT, **segments(name, 0)}


@dataclass
class Encoding:
    """A new media of Ada's whose first job has begun."""

    running: Running
    ada: httpx2.Client
    media_id: str
    held: Claim

    @property
    def base(self) -> str:
        return f"/media/{self.media_id}/stream"

    def put(self, files: dict[str, Any]) -> None:
        library.put(self.running, self.held, files)

    def begin(self) -> None:
        """All renditions have a segment."""
        library.tell(self.running, self.held, 0.1, DETAIL)
        for name in ("1080p", "720p", "audio"):
            self.put(beginning(name))

    def finish(self) -> None:
        names = ("master.m3u8", "1080p/playlist.m3u8", "720p/playlist.m3u8", "audio/playlist.m3u8")
        self.put(dict.fromkeys(names, FINAL))
        library.finish(self.running, self.held, {"kind": "video", "duration": 12.0})

    def shown(self) -> Any:
        return self.ada.get(f"/media/{self.media_id}").json()


@pytest.fixture
def encoding(either_server: Running) -> Iterator[Encoding]:
    yield from begun(either_server)


def begun(running: Running) -> Iterator[Encoding]:
    with running.user() as ada:
        ada.follow_redirects = True
        media_id = library.add(running, library.user_id(ada))
        yield Encoding(running, ada, media_id, library.claim(running, "transcode"))


def test_there_is_nothing_to_watch_until_every_rendition_has_begun(encoding: Encoding) -> None:
    master = f"{encoding.base}/master.m3u8"
    assert encoding.ada.get(master).status_code == 404
    library.tell(encoding.running, encoding.held, 0.1, DETAIL)
    for name in ("1080p", "720p", "audio"):
        assert encoding.ada.get(master).status_code == 404
        assert encoding.shown()["stream_url"] is None
        encoding.put(beginning(name))
    answer = encoding.ada.get(master)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/vnd.apple.mpegurl"
    assert "1080p/playlist.m3u8" in answer.text
    assert 'URI="audio/playlist.m3u8"' in answer.text
    [redirect] = answer.history
    assert (redirect.status_code, redirect.headers["cache-control"]) == (307, "no-cache")
    assert "/stream/ver_" in str(answer.url)


def test_a_playlist_grows_by_what_has_come_without_a_gap(encoding: Encoding) -> None:
    encoding.begin()
    master = encoding.ada.get(f"{encoding.base}/master.m3u8")
    address = master.url.join("1080p/playlist.m3u8")
    first = encoding.ada.get(address)
    assert first.headers["cache-control"] == "no-cache"
    assert "#EXT-X-PLAYLIST-TYPE:EVENT" in first.text
    assert "ENDLIST" not in first.text
    same = encoding.ada.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    encoding.put(segments("1080p", 2))
    assert encoding.ada.get(address).text == first.text
    encoding.put(segments("1080p", 1))
    grown = encoding.ada.get(address)
    assert grown.text.startswith(first.text)
    assert grown.text.endswith("seg_00002.m4s\n")
    head = encoding.ada.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(grown.content))
    assert head.headers["etag"] == grown.headers["etag"] != first.headers["etag"]


def test_captions_that_are_there_already_are_listed(encoding: Encoding) -> None:
    library.transcribe(encoding.running, encoding.media_id, "Hello there.")
    encoding.begin()
    master = encoding.ada.get(f"{encoding.base}/master.m3u8")
    assert 'TYPE=SUBTITLES,GROUP-ID="captions"' in master.text
    listed = encoding.ada.get(master.url.join("captions.m3u8"))
    assert "#EXTINF:1.000,\ncaptions.vtt\n" in listed.text
    assert "Hello there." in encoding.ada.get(master.url.join("captions.vtt")).text


def test_segments_come_in_parts_and_are_asked_for_again(
    storage_url: str, serve: Callable[..., Running]
) -> None:
    for encoding in begun(serve(storage_url=storage_url)):
        encoding.begin()
        master = encoding.ada.get(f"{encoding.base}/master.m3u8")
        for address in (
            master.url.join("720p/seg_00000.m4s"),
            f"{encoding.base}/720p/seg_00000.m4s",
        ):
            whole = encoding.ada.get(address)
            assert whole.content == SEGMENT
            assert whole.headers["cache-control"] == "no-cache"
            part = encoding.ada.get(address, headers={"Range": "bytes=10-19"})
            assert (part.status_code, part.content) == (206, SEGMENT[10:20])
            tag = {"If-None-Match": whole.headers["etag"]}
            assert encoding.ada.get(address, headers=tag).status_code == 304
            head = encoding.ada.head(address)
            assert (head.status_code, head.headers["content-length"]) == (200, str(len(SEGMENT)))
        assert encoding.ada.get(master.url.join("720p/init.mp4")).content == INIT
        assert encoding.ada.get(master.url.join("720p/seg_00007.m4s")).status_code == 404


def test_after_publishing_the_same_addresses_give_what_never_changes(encoding: Encoding) -> None:
    encoding.begin()
    master = encoding.ada.get(f"{encoding.base}/master.m3u8").url
    addresses = [
        master,
        master.join("1080p/playlist.m3u8"),
        master.join("1080p/seg_00000.m4s"),
    ]
    for address in addresses:
        assert encoding.ada.get(address).headers["cache-control"] == "no-cache"
    encoding.finish()
    for address in addresses:
        answer = encoding.ada.get(address)
        assert answer.status_code == 200
        # There may be captions in the first of them the next time.
        kept = "no-cache" if address == master else "private, max-age=31536000, immutable"
        assert answer.headers["cache-control"] == kept
    assert encoding.ada.get(addresses[0]).content == FINAL
    assert encoding.ada.get(addresses[1]).content == FINAL
    assert encoding.ada.get(f"{encoding.base}/master.m3u8").url == master
    item = encoding.shown()
    assert (item["status"], item["duration"]) == ("ready", 12.0)


def test_what_was_there_is_gone_with_the_job(encoding: Encoding) -> None:
    encoding.begin()
    encoding.put({"thumbnail.jpg": b"jpg"})
    master = encoding.ada.get(f"{encoding.base}/master.m3u8").url
    addresses: list[httpx2.URL | str] = [
        master,
        master.join("720p/seg_00000.m4s"),
        f"{encoding.base}/master.m3u8",
    ]
    assert {encoding.ada.get(each).status_code for each in addresses} == {200}
    encoding.ada.post(f"/jobs/{encoding.held.job_id}/cancel")
    assert {encoding.ada.get(each).status_code for each in addresses} == {404}
    encoding.running.rushes.dispatch.fail(encoding.held, "permanent", "canceled", "")
    assert {encoding.ada.get(each).status_code for each in addresses} == {404}
    item = encoding.shown()
    assert (item["status"], item["stream_url"], item["thumbnail_url"]) == ("failed", None, None)


def test_between_two_attempts_it_can_still_be_watched(encoding: Encoding) -> None:
    encoding.begin()
    master = encoding.ada.get(f"{encoding.base}/master.m3u8").url
    encoding.running.rushes.dispatch.release(encoding.held)
    assert encoding.ada.get(master).status_code == 200
    assert encoding.ada.get(master.join("audio/playlist.m3u8")).status_code == 200


def test_whoever_watches_a_version_sees_nothing_of_the_next(encoding: Encoding) -> None:
    encoding.begin()
    encoding.finish()
    published = encoding.ada.get(f"{encoding.base}/master.m3u8").url
    encoding.ada.post(f"/media/{encoding.media_id}/retranscode", json={})
    held = library.claim(encoding.running, "transcode")
    library.tell(encoding.running, held, 0.1, DETAIL)
    for name in ("1080p", "720p", "audio"):
        library.put(encoding.running, held, beginning(name))
    assert encoding.ada.get(f"{encoding.base}/master.m3u8").url == published
    assert encoding.ada.get(f"{encoding.base}/master.m3u8").content == FINAL
    with encoding.running.rushes.db.read() as tx:
        [row] = tx.all("SELECT id FROM versions WHERE state = 'building'")
    for name in ("master.m3u8", "1080p/playlist.m3u8", "1080p/seg_00000.m4s"):
        assert encoding.ada.get(f"{encoding.base}/{row['id']}/{name}").status_code == 404


def test_it_is_seen_by_its_owner_and_by_whoever_has_the_link(encoding: Encoding) -> None:
    encoding.begin()
    encoding.put({"thumbnail.jpg": b"jpg"})
    master = encoding.ada.get(f"{encoding.base}/master.m3u8").url
    link = encoding.ada.post(f"/media/{encoding.media_id}/share").json()["share_url"]
    running = encoding.running
    anybody = running.client(None, base_url=running.url, follow_redirects=True)
    with running.user("bob") as bob, anybody:
        bob.follow_redirects = True
        for address in (master, f"{encoding.base}/master.m3u8", master.join("720p/init.mp4")):
            assert bob.get(address).status_code == 404
            assert anybody.get(address).status_code in (401, 404)
        shown = anybody.get(f"{link}/media").json()
        playing = anybody.get(shown["stream_url"])
        assert "720p/playlist.m3u8" in playing.text
        growing = anybody.get(playing.url.join("720p/playlist.m3u8"))
        assert "EVENT" in growing.text
        assert anybody.get(growing.url.join("seg_00000.m4s")).content == SEGMENT
        assert anybody.get(shown["thumbnail_url"]).content == b"jpg"
        encoding.ada.delete(f"/media/{encoding.media_id}/share")
        assert anybody.get(playing.url).status_code == 404


def test_the_library_knows_how_far_it_is(encoding: Encoding) -> None:
    assert encoding.shown()["thumbnail_url"] is None
    encoding.put({"thumbnail.jpg": b"jpg"})
    item = encoding.shown()
    assert item["thumbnail_url"] == f"/api/v1/media/{encoding.media_id}/thumbnail.jpg"
    thumbnail = encoding.ada.get(f"/media/{encoding.media_id}/thumbnail.jpg")
    assert (thumbnail.content, thumbnail.headers["cache-control"]) == (b"jpg", "no-cache")
    assert item["stream_url"] is None
    encoding.begin()
    [item] = encoding.ada.get("/media").json()["items"]
    assert item["stream_url"] == f"/api/v1{encoding.base}/master.m3u8"
    assert (item["status"], item["progress"]) == ("processing", 0.1)
    assert (item["width"], item["height"]) == (1920, 1080)
    assert [each["name"] for each in item["renditions"]] == ["1080p", "720p"]
    assert item["renditions"][0]["segments_completed"] == 1


def test_the_original_is_there_first(encoding: Encoding) -> None:
    original = {**DETAIL["renditions"][0], "name": "original"}
    detail = {**DETAIL, "renditions": [original, *DETAIL["renditions"]]}
    library.tell(encoding.running, encoding.held, 0.1, detail)
    encoding.put({**beginning("original"), **beginning("audio")})
    text = encoding.ada.get(f"{encoding.base}/master.m3u8").text
    assert "original/playlist.m3u8" in text
    assert "720p/playlist.m3u8" not in text


def test_a_media_of_sound_is_heard_early(encoding: Encoding) -> None:
    sound = {"name": "audio", "codecs": "mp4a.40.2", "bandwidth": 128_000, "status": "in_progress"}
    library.tell(encoding.running, encoding.held, 0.1, {"renditions": [sound]})
    encoding.put(beginning("audio"))
    master = encoding.ada.get(f"{encoding.base}/master.m3u8")
    assert "audio/playlist.m3u8" in master.text
    assert "RESOLUTION" not in master.text
    assert encoding.ada.get(master.url.join("audio/playlist.m3u8")).status_code == 200


def test_what_the_parts_of_a_divided_job_make_is_seen_as_it_comes(encoding: Encoding) -> None:
    encoding.begin()
    address = encoding.ada.get(f"{encoding.base}/master.m3u8").url.join("1080p/playlist.m3u8")
    parts = [Part(kind="span", args={"first": number}) for number in (1, 2)]
    encoding.running.rushes.dispatch.divide(encoding.held, parts, None)
    first, second = (library.claim(encoding.running, "span") for _ in parts)
    library.put(encoding.running, second, segments("1080p", 2))
    assert "seg_00002" not in encoding.ada.get(address).text
    library.put(encoding.running, first, segments("1080p", 1))
    assert "seg_00002" in encoding.ada.get(address).text
    item = encoding.shown()
    assert item["status"] == "processing"
    jobs = {job["kind"]: job for job in item["jobs"]}
    assert set(jobs) == {"transcode", "transcribe"}
    assert (jobs["transcode"]["state"], jobs["transcode"]["divided_at"] is None) == (
        "blocked",
        False,
    )
    spans = encoding.ada.get("/jobs", params={"kind": "span"}).json()["items"]
    assert {each["parent_id"] for each in spans} == {encoding.held.job_id}
    encoding.running.rushes.dispatch.fail(first, "permanent", "corrupt", "the file is damaged")
    assert encoding.ada.get(address).status_code == 404
    item = encoding.shown()
    assert (item["status"], item["error"]) == ("failed", "the file is damaged")


def told_watchable(encoding: Encoding) -> int:
    with encoding.running.rushes.db.read() as tx:
        rows = tx.all("SELECT media_id FROM events WHERE type = 'media.watchable'")
    assert {row["media_id"] for row in rows} <= {encoding.media_id}
    return len(rows)


def test_it_is_told_once_when_something_can_be_watched(encoding: Encoding) -> None:
    library.tell(encoding.running, encoding.held, 0.1, DETAIL)
    encoding.put(beginning("1080p"))
    encoding.put(beginning("audio"))
    assert told_watchable(encoding) == 0
    encoding.put(beginning("720p"))
    assert encoding.shown()["stream_url"]
    assert told_watchable(encoding) == 1
    encoding.put(segments("720p", 1))
    library.tell(encoding.running, encoding.held, 0.5, DETAIL)
    encoding.finish()
    assert told_watchable(encoding) == 1


def test_what_came_before_it_was_declared_can_be_watched_then(encoding: Encoding) -> None:
    for name in ("1080p", "720p", "audio"):
        encoding.put(beginning(name))
    assert (encoding.shown()["stream_url"], told_watchable(encoding)) == (None, 0)
    library.tell(encoding.running, encoding.held, 0.1, DETAIL)
    assert encoding.shown()["stream_url"]
    assert told_watchable(encoding) == 1


def test_nobody_is_told_of_a_new_version_while_the_old_one_is_watched(encoding: Encoding) -> None:
    encoding.begin()
    encoding.finish()
    assert encoding.ada.post(f"/media/{encoding.media_id}/retranscode").status_code == 202
    again = replace(encoding, held=library.claim(encoding.running, "transcode"))
    again.begin()
    assert told_watchable(encoding) == 1


def test_a_part_declares_nothing_of_its_whole(encoding: Encoding) -> None:
    library.tell(encoding.running, encoding.held, 0.1, DETAIL)
    dispatch = encoding.running.rushes.dispatch
    dispatch.divide(encoding.held, [Part(kind="span")], None)
    part = library.claim(encoding.running, "span")
    only = {"renditions": [DETAIL["renditions"][0]]}
    library.tell(encoding.running, part, 0.5, only)
    library.put(encoding.running, part, beginning("1080p"))
    assert encoding.shown()["stream_url"] is None
