"""Links to a part of a recording: what they show, and that they show nothing else."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from running import Running
from rushes.media import clips
from web import library
from web.callers import routes
from web.test_sharing import stranger

SECONDS = 40
SHOWN = range(2, 5)
MASTER = b"""#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="captions",NAME="en",URI="subs/playlist.m3u8"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="a",URI="audio/playlist.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=2000,CODECS="avc1.640028,mp4a.40.2",AUDIO="audio",SUBTITLES="captions"
720p/playlist.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=1000,CODECS="avc1.640028,mp4a.40.2",AUDIO="audio",SUBTITLES="captions"
original/playlist.m3u8
"""
# Whoever has a link to a part may ask for these; all other addresses of links refuse it.
FOR_PARTS = {"/s/{token}/stream/{name:path}", "/s/{token}/media", "/s/{token}/transcript"}


def files() -> dict[str, bytes | tuple[bytes, float]]:
    found: dict[str, bytes | tuple[bytes, float]] = {
        "master.m3u8": MASTER,
        "manifest.mpd": b'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>',
        "thumbnail.jpg": b"picture",
        "storyboard.vtt": b"WEBVTT\n",
        "chapters.vtt": b"WEBVTT\n\n00:00.000 --> 00:08.000\nword-1\n",
        "waveform.json": b"{}",
        "subs/playlist.m3u8": b"#EXTM3U\n#EXT-X-TARGETDURATION:40\n#EXTINF:40,\ncaptions.vtt\n",
        "subs/captions.vtt": b"WEBVTT\n\n00:00.000 --> 00:08.000\nword-1\n",
        "original/init.mp4": b"first",
        "original/seg_00000.m4s": (b"all of it", 20.0),
        "original/playlist.m3u8": b"#EXTM3U\n#EXTINF:20,\nseg_00000.m4s\n",
    }
    for folder in ("720p", "audio"):
        found[f"{folder}/init.mp4"] = b"first"
        found[f"{folder}/playlist.m3u8"] = b"#EXTM3U\n#EXTINF:4,\nseg_00000.m4s\n"
        for number in range(SECONDS // 4):
            found[f"{folder}/seg_{number:05d}.m4s"] = (f"{folder} {number}".encode(), 4.0)
    return found


class Clip:
    """Seconds 9 to 19 of a media of 40, in the hands of a stranger."""

    def __init__(self, running: Running, admin: httpx2.Client, **terms: Any) -> None:
        self.running, self.admin = running, admin
        self.media_id = library.add(running, library.user_id(admin), "A talk")
        library.publish(running, self.media_id, files(), {"duration": SECONDS, "kind": "video"})
        library.transcribe(running, self.media_id, *(f"word-{n}" for n in range(1, SECONDS + 1)))
        whole = admin.post(f"/media/{self.media_id}/share", json=terms).json()
        self.whole = whole["share_url"].rpartition("/")[2]
        self.made = self.share(9, 19).json()
        self.path = self.made["share_url"].removeprefix(running.url)
        self.token = self.path.rpartition("/")[2]
        there = admin.get(f"/media/{self.media_id}/stream/master.m3u8", follow_redirects=False)
        self.version = there.headers["location"].partition("/")[0]

    def share(self, start: float, end: float) -> httpx2.Response:
        body = {"start": start, "end": end}
        return self.admin.post(f"/media/{self.media_id}/share/clips", json=body)

    def stream(self, name: str) -> str:
        return f"{self.path}/stream/{self.version}/{name}"


@pytest.fixture
def clip(server: Running) -> Any:
    with server.client() as admin:
        yield Clip(server, admin)


@pytest.fixture
def anybody(server: Running) -> Any:
    with stranger(server) as client:
        yield client


def test_it_begins_and_ends_with_whole_segments(clip: Clip) -> None:
    assert (clip.made["start"], clip.made["end"]) == (8.0, 20.0)
    assert len(clip.token) <= 100


def test_segments_outside_of_it_are_refused(clip: Clip, anybody: httpx2.Client) -> None:
    for folder in ("720p", "audio"):
        shown = [
            number
            for number in range(SECONDS // 4)
            if anybody.get(clip.stream(f"{folder}/seg_{number:05d}.m4s")).status_code == 200
        ]
        assert shown == [*SHOWN]
        assert anybody.get(clip.stream(f"{folder}/init.mp4")).content == b"first"


def test_playlists_name_nothing_else(clip: Clip, anybody: httpx2.Client) -> None:
    master = anybody.get(f"{clip.path}/stream/master.m3u8")
    assert master.status_code == 200
    named = [line for line in master.text.splitlines() if line and not line.startswith("#")]
    assert named == ["720p/playlist.m3u8"]
    assert "subs/" not in master.text
    listed = anybody.get(clip.stream("720p/playlist.m3u8")).text
    found = [line for line in listed.splitlines() if line.endswith(".m4s")]
    assert found == [f"seg_{number:05d}.m4s" for number in SHOWN]


def test_every_other_file_of_the_version_is_refused(clip: Clip, anybody: httpx2.Client) -> None:
    allowed = {"master.m3u8"}
    for folder in ("720p", "audio"):
        allowed |= {f"{folder}/init.mp4", f"{folder}/playlist.m3u8"}
        allowed |= {f"{folder}/seg_{number:05d}.m4s" for number in SHOWN}
    also = ["captions.vtt", "captions.m3u8", "720p/../720p/seg_00000.m4s", "720p//seg_00000.m4s"]
    for name in [*files(), *also]:
        for path in (clip.stream(name), f"{clip.path}/stream/{name}"):
            status = anybody.get(path).status_code
            is_whole_name = path.endswith(f"{clip.version}/{name}") or name == "master.m3u8"
            assert status == (200 if name in allowed and is_whole_name else 404), path


def test_every_other_address_of_links_refuses_it(
    server: Running, clip: Clip, anybody: httpx2.Client
) -> None:
    asked = 0
    for route in routes(server):
        if "/s/{token}/" not in route.path or route.method not in ("GET", "HEAD"):
            continue
        if route.path in FOR_PARTS:
            continue
        path = route.path.replace("{token}", clip.token).replace("{slot}", "watch")
        answer = anybody.request(route.method, path.replace("{name:path}", "720p/seg_00002.m4s"))
        assert answer.status_code == 404, path
        asked += 1
    assert asked >= 8


def test_only_what_is_said_in_it_is_read(
    clip: Clip, server: Running, anybody: httpx2.Client
) -> None:
    said = anybody.get(f"{clip.path}/transcript").json()
    # A segment of a second each: those from 8 s to 20 s, from its own beginning.
    assert [each["text"] for each in said["segments"]] == [f"word-{n}" for n in range(9, 21)]
    assert (said["segments"][0]["start"], said["segments"][-1]["end"]) == (0.0, 12.0)
    assert "word-8" not in str(said).split()
    assert "word-21" not in str(said)
    for format in ("txt", "vtt", "srt"):
        asked = anybody.get(f"{clip.path}/transcript", params={"format": format})
        assert asked.status_code == 403


def test_downloads_that_the_whole_allows_are_not_the_parts(
    clip: Clip, anybody: httpx2.Client
) -> None:
    clip.admin.patch(f"/media/{clip.media_id}/share", json={"allow_download": True})
    assert anybody.get(f"{clip.path}/transcript", params={"format": "txt"}).status_code == 403
    assert anybody.get(f"{clip.path}/source").status_code == 404
    shown = anybody.get(f"{clip.path}/media").json()
    assert (shown["downloads"], shown["download_url"]) == (False, None)


def test_the_page_shows_the_part(clip: Clip, anybody: httpx2.Client) -> None:
    shown = anybody.get(f"{clip.path}/media").json()
    assert shown["duration"] == 12.0
    assert shown["stream_url"] == f"{clip.path}/stream/master.m3u8"
    for name in ("thumbnail_url", "storyboard_url", "chapters_url", "waveform_url"):
        assert shown[name] is None
    for path in (clip.path, clip.path.replace("/s/", "/embed/")):
        page = anybody.get(path)
        assert page.status_code == 200
        assert "A talk" in page.text
    told = anybody.get("/oembed", params={"url": clip.made["share_url"]}).json()
    assert clip.token in told["html"]
    assert "thumbnail_url" not in told


def test_the_link_to_all_of_it_cannot_be_found_out(clip: Clip, anybody: httpx2.Client) -> None:
    clip.admin.patch(f"/media/{clip.media_id}/share", json={"password": "open sesame"})
    answers = [anybody.get(f"{clip.path}/media")]
    assert answers[0].status_code == 401
    answers.append(anybody.post(f"{clip.path}/unlock", json={"password": "open sesame"}))
    assert answers[-1].status_code == 204
    for name in ("media", "transcript", "stream/master.m3u8"):
        answers.append(anybody.get(f"{clip.path}/{name}"))
        assert answers[-1].status_code == 200
    answers += [anybody.get(clip.path), anybody.get(clip.stream("720p/playlist.m3u8"))]
    for each in answers:
        assert clip.whole not in each.text
        assert clip.whole not in str(each.headers)


def test_other_times_need_another_signature(clip: Clip, anybody: httpx2.Client) -> None:
    media, start, end, signature = clip.token.rsplit("-", 3)
    forged = [
        f"{media}-0-{end}-{signature}",
        f"{media}-{start}-40000-{signature}",
        f"{media}-{start}-{end}-{'0' * 32}",
        f"{media}-0{start}-{end}-{signature}",
        f"{media[:-1]}{'1' if media[-1] == '0' else '0'}-{start}-{end}-{signature}",
    ]
    for token in forged:
        assert clips.parse(token) is not None
        assert anybody.get(f"/s/{token}/media").status_code == 404
        assert anybody.get(f"/s/{token}/stream/master.m3u8").status_code == 404


def test_it_ends_with_the_link_to_all_of_it(clip: Clip, anybody: httpx2.Client) -> None:
    assert anybody.get(f"{clip.path}/media").status_code == 200
    assert clip.admin.delete(f"/media/{clip.media_id}/share").status_code == 204
    assert anybody.get(f"{clip.path}/media").status_code == 404
    # Another link to all of it does not bring it back.
    clip.admin.post(f"/media/{clip.media_id}/share")
    assert anybody.get(f"{clip.path}/media").status_code == 404


def test_it_ends_when_the_recording_is_trimmed_anew(clip: Clip, anybody: httpx2.Client) -> None:
    asked = clip.admin.post(f"/media/{clip.media_id}/trim", json={"start": 5})
    assert asked.status_code == 202, asked.text
    held = library.claim(clip.running, "trim")
    library.put(clip.running, held, files())
    library.finish(clip.running, held, {"duration": SECONDS - 5, "kind": "video"})
    assert anybody.get(f"{clip.path}/media").status_code == 404
    segment = anybody.get(clip.stream("720p/seg_00002.m4s"))
    assert segment.status_code == 404


def test_views_of_a_part_are_not_counted(clip: Clip, anybody: httpx2.Client) -> None:
    assert anybody.post(f"{clip.path}/views", json={"visit": "v" * 16}).status_code == 204
    assert clip.admin.get(f"/media/{clip.media_id}/share").json()["views"] == 0


@pytest.mark.parametrize(("start", "end", "status"), [(9, 9.5, 422), (19, 9, 422), (41, 50, 404)])
def test_what_is_no_part_is_refused(clip: Clip, start: float, end: float, status: int) -> None:
    assert clip.share(start, end).status_code == status


def test_nobody_shares_a_part_of_what_is_not_theirs(server: Running, clip: Clip) -> None:
    with server.user("eve") as eve:
        asked = eve.post(f"/media/{clip.media_id}/share/clips", json={"start": 9, "end": 19})
        assert asked.status_code == 404
