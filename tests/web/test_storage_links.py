"""Playback whose bytes the storage sends: what is redirected, to where, and for how long."""

from __future__ import annotations

import urllib.parse
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

import services
from running import Running, settings_for
from rushes import errors, serving
from rushes.storage import s3
from rushes.storage.storage import ALIVE, CHECKS, Storage, Stored
from rushes.web.http import probe
from rushes.web.http.probe import StorageCheck
from web import library

MASTER = b"#EXTM3U\n720p/index.m3u8\n"
SEGMENT = bytes(range(256)) * 64
FILES = {
    "master.m3u8": MASTER,
    "720p/index.m3u8": b"#EXTM3U\nseg_1.m4s\n",
    "720p/seg_1.m4s": SEGMENT,
    "thumbnail.jpg": b"\xff\xd8\xffpicture",
    "storyboard.vtt": b"WEBVTT\n",
}


@pytest.fixture
def origin(seaweed: services.Seaweed) -> str:
    return f"http://127.0.0.1:{seaweed.port}"


@pytest.fixture
def redirecting(seaweed: services.Seaweed, serve: Callable[..., Running]) -> Running:
    url = seaweed.url(prefix=uuid.uuid4().hex)
    return serve(storage_url=url, storage_playback="redirect", storage_link_life=120)


@pytest.fixture
def film(redirecting: Running) -> str:
    with redirecting.client() as admin:
        media_id = library.add(redirecting, library.user_id(admin))
    library.publish(redirecting, media_id, FILES)
    return media_id


def link_from(answer: httpx2.Response) -> str:
    assert answer.status_code == 307, answer.text
    return str(answer.headers["location"])


def test_segments_and_pictures_come_from_the_storage_and_playlists_from_here(
    redirecting: Running, film: str, origin: str
) -> None:
    with redirecting.client() as admin:
        base = f"/media/{film}/stream"
        master = admin.get(f"{base}/master.m3u8", follow_redirects=True)
        assert (master.status_code, master.content) == (200, MASTER)
        version = master.url.path.split("/")[-2]
        for name, type in (
            (f"stream/{version}/720p/seg_1.m4s", "video/iso.segment"),
            ("stream/720p/seg_1.m4s", "video/iso.segment"),
            ("thumbnail.jpg", "image/jpeg"),
        ):
            link = link_from(admin.get(f"/media/{film}/{name}"))
            assert link.startswith(f"{origin}/")
            got = httpx2.get(link)
            assert (
                got.content
                == FILES[name.removeprefix(f"stream/{version}/").removeprefix("stream/")]
            )
            assert got.headers["content-type"] == type
        part = admin.get(
            f"{base}/720p/seg_1.m4s", headers={"Range": "bytes=3-5"}, follow_redirects=True
        )
        assert (part.status_code, part.content) == (206, SEGMENT[3:6])
        assert admin.get(f"{base}/{version}/storyboard.vtt").content == FILES["storyboard.vtt"]


def test_a_redirect_is_kept_no_longer_than_its_link_lasts(redirecting: Running, film: str) -> None:
    with redirecting.client() as admin:
        master = admin.get(f"/media/{film}/stream/master.m3u8", follow_redirects=True)
        segment = admin.get(master.url.join("720p/seg_1.m4s"))
        again = admin.get(master.url.join("720p/seg_1.m4s"))
    private, _, seconds = segment.headers["cache-control"].partition(", max-age=")
    assert (private, 0 < int(seconds) < 120) == ("private", True)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link_from(segment)).query))
    assert query["X-Amz-Expires"] == "120"
    # Half a life may just have ended between the two.
    assert link_from(again).split("?")[0] == link_from(segment).split("?")[0]


def test_head_is_answered_here(redirecting: Running, film: str) -> None:
    with redirecting.client() as admin:
        head = admin.head(f"/media/{film}/stream/720p/seg_1.m4s")
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(SEGMENT)))
        tag = {"If-None-Match": head.headers["etag"]}
        assert admin.get(f"/media/{film}/stream/720p/seg_1.m4s", headers=tag).status_code == 304


def test_pages_may_load_from_the_storage(
    redirecting: Running, origin: str, serve: Callable[..., Running]
) -> None:
    policy = httpx2.get(redirecting.url).headers["content-security-policy"]
    allowed = {line.split()[0]: line.split()[1:] for line in policy.split("; ")}
    for name in ("img-src", "media-src", "connect-src"):
        assert origin in allowed[name]
    assert origin not in allowed["script-src"] + allowed["default-src"] + allowed["worker-src"]
    assert origin not in httpx2.get(serve().url).headers["content-security-policy"]


@pytest.mark.parametrize(
    "name",
    ['a"; filename="b.html', "a\r\nSet-Cookie: x=1\r\n.mp4", "日本 &?#%2F../x.mp4", "x" * 400],
)
def test_a_download_has_the_name_of_its_source_whatever_that_is(
    redirecting: Running, name: str
) -> None:
    data = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm" + bytes(5000)
    with redirecting.client() as admin:
        media = admin.post("/media", files={"file": (name, data)}).json()
        assert "id" in media, media
        link = link_from(admin.get(f"/media/{media['id']}/source"))
    got = httpx2.get(link)
    assert (got.status_code, got.content) == (200, data)
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith('attachment; filename="')
    assert got.headers["content-disposition"].count('"') == 2
    assert "set-cookie" not in got.headers


def test_a_link_of_one_media_reaches_no_other(redirecting: Running, film: str) -> None:
    with redirecting.client() as admin:
        other = library.add(redirecting, library.user_id(admin), "Secret")
        library.publish(redirecting, other, FILES)
        link = link_from(admin.get(f"/media/{film}/stream/720p/seg_1.m4s"))
        theirs = link_from(admin.get(f"/media/{other}/stream/720p/seg_1.m4s"))
    forged = theirs.partition("?")[0] + "?" + link.partition("?")[2]
    assert httpx2.get(forged).status_code == 403
    with redirecting.user("eve") as eve:
        assert eve.get(f"/media/{film}/stream/720p/seg_1.m4s").status_code == 404


def test_an_ended_share_a_deleted_media_and_a_disabled_user_get_no_new_link(
    redirecting: Running, film: str
) -> None:
    with (
        redirecting.client() as admin,
        redirecting.client(None, base_url=redirecting.url) as guest,
        redirecting.user("ada") as ada,
    ):
        token = admin.post(f"/media/{film}/share").json()["share_url"].rpartition("/")[2]
        there = f"/s/{token}/stream/720p/seg_1.m4s"
        assert httpx2.get(link_from(guest.get(there))).content == SEGMENT
        admin.delete(f"/media/{film}/share")
        assert guest.get(there).status_code == 404
        mine = library.add(redirecting, library.user_id(ada))
        library.publish(redirecting, mine, FILES)
        place = f"/media/{mine}/stream/720p/seg_1.m4s"
        link_from(ada.get(place))
        admin.delete(f"/media/{mine}")
        assert ada.get(place).status_code == 404
        admin.post(f"/media/{mine}/restore")
        link_from(ada.get(place))
        admin.patch(f"/users/{library.user_id(ada)}", json={"disabled": True})
        assert ada.get(place).status_code == 401


def test_files_have_no_links_to_redirect_to(tmp_path: Path) -> None:
    settings = settings_for(data_dir=tmp_path, storage_playback="redirect")
    with pytest.raises(errors.BadSetting, match="STORAGE_PLAYBACK"):
        serving.serve(settings, announce=lambda line: None)


# Probes


def test_probes_of_a_bucket_write_rarely_and_leave_nothing(
    redirecting: Running, seaweed: services.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: Storage = redirecting.rushes.storage
    written: list[str] = []
    put = stored.put

    def noted(key: str, content: bytes) -> Stored:
        written.append(key)
        return put(key, content)

    monkeypatch.setattr(stored, "put", noted)
    now = [0.0]
    check = StorageCheck(stored, lambda: now[0])
    for _ in range(20):
        check()
    assert len(written) == 2
    now[0] = probe.WRITE_EVERY_SECONDS
    check()
    assert len(written) == 3
    assert [each.key for each in stored.list(CHECKS)] == [ALIVE]


def test_a_probe_notices_a_bucket_that_is_gone_and_writes_when_it_is_back(
    seaweed: services.Seaweed, redirecting: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = redirecting.rushes.storage
    check = StorageCheck(stored)
    check()
    check()
    other = s3.from_url(seaweed.url(bucket="other"))
    with monkeypatch.context() as patch:
        patch.setattr(stored, "_store", other._store)
        with pytest.raises(errors.StorageDown):
            check()
    written: list[str] = []
    monkeypatch.setattr(type(stored), "check", lambda self: written.append("whole"))
    check()
    assert written == ["whole"]
