"""Watching: whole files and parts of them, from files and from S3."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from running import Running
from web import library

ONE, TWO = b"#EXTM3U\n# one\n", b"#EXTM3U\n# two\n"
MASTER = b"#EXTM3U\n"
SEGMENT = bytes(range(256)) * 4096


@pytest.fixture
def stored(storage_url: str, serve: Callable[..., Running]) -> Running:
    return serve(storage_url=storage_url)


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        (None, 200, slice(None)),
        ("bytes=0-", 206, slice(None)),
        ("bytes=0-0", 206, slice(0, 1)),
        ("bytes=100-199", 206, slice(100, 200)),
        ("bytes=-300", 206, slice(-300, None)),
        ("bytes=1000000-99999999999", 206, slice(1000000, None)),
        ("bytes=99999999-", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=5-2", 416, slice(0, 0)),
        ("bytes=0-1,5-6", 200, slice(None)),
        ("bytes=--5", 200, slice(None)),
        ("lines=1-2", 200, slice(None)),
    ],
)
def test_parts(stored: Running, asked: str | None, status: int, part: slice) -> None:
    with stored.client() as admin:
        media_id = library.add(stored, library.user_id(admin))
        library.publish(stored, media_id, {"720p/seg_1.m4s": SEGMENT})
        headers = {"Range": asked} if asked else {}
        answer = admin.get(f"/media/{media_id}/stream/720p/seg_1.m4s", headers=headers)
        assert answer.status_code == status
        if status != 416:
            assert answer.content == SEGMENT[part]
            assert answer.headers["content-length"] == str(len(SEGMENT[part]))
            assert answer.headers["content-type"] == "video/iso.segment"
        if status == 206:
            first = (part.start or 0) % len(SEGMENT)
            last = first + len(SEGMENT[part]) - 1
            assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(SEGMENT)}"
        if status == 416:
            assert answer.headers["content-range"] == f"bytes */{len(SEGMENT)}"


def test_what_never_changes_is_kept_and_what_may_change_is_asked_for_again(
    server: Running,
) -> None:
    with server.client(follow_redirects=True) as admin:
        media_id = library.add(server, library.user_id(admin))
        library.publish(server, media_id, {"master.m3u8": ONE, "a.m4s": SEGMENT})
        base = f"/media/{media_id}/stream"
        segment = admin.get(f"{base}/a.m4s")
        assert segment.headers["cache-control"] == "no-cache"
        tag = segment.headers["etag"]
        assert admin.get(f"{base}/a.m4s", headers={"If-None-Match": tag}).status_code == 304
        part = {"Range": "bytes=0-9", "If-Range": tag}
        assert admin.get(f"{base}/a.m4s", headers=part).status_code == 206
        other = {"Range": "bytes=0-9", "If-Range": '"other"'}
        assert admin.get(f"{base}/a.m4s", headers=other).content == SEGMENT
        head = admin.head(f"{base}/a.m4s")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(SEGMENT))
        playlist = admin.get(f"{base}/master.m3u8")
        assert playlist.history[0].headers["cache-control"] == "no-cache"
        # There may be captions the next time.
        assert playlist.headers["cache-control"] == "no-cache"
        segment = admin.get(playlist.url.join("a.m4s"))
        assert "immutable" in segment.headers["cache-control"]
        library.publish(server, media_id, {"master.m3u8": TWO})
        assert admin.get(f"{base}/master.m3u8").content == TWO
        assert admin.get(f"{base}/a.m4s").status_code == 404


def test_whoever_has_begun_with_a_version_goes_on_with_it(server: Running) -> None:
    with server.client(follow_redirects=True) as admin:
        media_id = library.add(server, library.user_id(admin))
        names = ("master.m3u8", "720p/index.m3u8", "storyboard.vtt", "thumbnail.jpg")
        first, second = (
            {name: track if name.endswith(".vtt") else text for name in names}
            for text, track in ((ONE, b"WEBVTT one\n"), (TWO, b"WEBVTT two\n"))
        )
        library.publish(server, media_id, first)
        begun = [admin.get(f"/media/{media_id}/stream/{name}") for name in names[:2]]
        begun.append(admin.get(f"/media/{media_id}/storyboard.vtt"))
        library.publish(server, media_id, second)
        assert [each.content for each in begun] == [first[name] for name in names[:3]]
        for each in begun:
            assert admin.get(each.url).content == each.content
        for name in names:
            assert admin.get(begun[0].url.join(name)).content == first[name]
            assert admin.get(f"/media/{media_id}/stream/{name}").content == second[name]
        other = library.add(server, library.user_id(admin))
        stolen = str(begun[0].url).replace(media_id, other)
        assert admin.get(stolen).status_code == 404


def test_a_share_link_shows_nothing_that_was_cut_out(server: Running) -> None:
    """Whoever watches what is encoded anew goes on; what was cut out is for its owner only."""
    with (
        server.client(follow_redirects=True) as admin,
        server.client(None, base_url=server.url, follow_redirects=True) as stranger,
    ):
        media_id = library.add(server, library.user_id(admin))
        names = ("thumbnail.jpg", "720p/seg_00001.m4s")
        whole = {"master.m3u8": MASTER, **dict.fromkeys(names, b"whole")}
        library.publish(server, media_id, whole, {"duration": 20.0})
        url = admin.post(f"/media/{media_id}/share").json()["share_url"]
        link = url.removeprefix(server.url)
        old = stranger.get(f"{link}/stream/master.m3u8").url
        mine = admin.get(f"/media/{media_id}/stream/master.m3u8").url
        again = {"master.m3u8": MASTER, **dict.fromkeys(names, b"again")}
        library.publish(server, media_id, again, {"duration": 20.0})
        assert [stranger.get(old.join(name)).content for name in names] == [b"whole"] * 2
        cut = admin.post(f"/media/{media_id}/trim", json={"start": 5, "end": 10})
        assert cut.status_code == 202, cut.text
        held = library.claim(server, "trim")
        library.put(server, held, {"master.m3u8": MASTER, **dict.fromkeys(names, b"cut")})
        library.finish(server, held, {"duration": 5.0})
        assert [stranger.get(old.join(name)).status_code for name in names] == [404] * 2
        assert [admin.get(mine.join(name)).content for name in names] == [b"whole"] * 2
        now = stranger.get(f"{link}/stream/master.m3u8").url
        assert [stranger.get(now.join(name)).content for name in names] == [b"cut"] * 2


def test_the_source_can_be_downloaded_again(stored: Running) -> None:
    with stored.client() as admin:
        media_id = library.add(stored, library.user_id(admin), content=SEGMENT)
        answer = admin.get(f"/media/{media_id}/source")
        assert answer.content == SEGMENT
        assert answer.headers["content-disposition"].startswith('attachment; filename="holiday.mov')
        assert "sandbox" in answer.headers["content-security-policy"]
