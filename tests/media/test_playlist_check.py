"""What players follow names nothing but files of its own version."""

from __future__ import annotations

import pytest

from rushes import errors
from rushes.media.playlist_check import references
from rushes.tools import playlist
from rushes.tools.playlist import Audio, DashTrack, Video

VIDEO = Video(
    name="720p",
    width=1280,
    height=720,
    bandwidth=2_500_000,
    average_bandwidth=2_000_000,
    codecs="avc1.64001f",
    frame_rate=29.97,
)
AUDIO = Audio(name="audio", codecs="mp4a.40.2", bandwidth=128_000, language="de", title='Ton "1"')


def test_what_rushes_writes_itself_is_fine() -> None:
    master = playlist.master([VIDEO], [AUDIO])
    assert references("master.m3u8", master.encode()) == {
        "720p/playlist.m3u8",
        "audio/playlist.m3u8",
    }
    captioned = playlist.with_captions(master, "captions.m3u8", "de")
    assert "captions.m3u8" in references("master.m3u8", captioned.encode())
    one = playlist.media_playlist([4.0, 4.0], target_seconds=4, growing=False)
    assert references("720p/playlist.m3u8", one.encode()) == {
        "720p/init.mp4",
        "720p/seg_00000.m4s",
        "720p/seg_00001.m4s",
    }
    tracks = [
        DashTrack(VIDEO, [4.0, 4.0, 2.5], 30_000),
        DashTrack(AUDIO, [4.0, 4.0], 48_000),
    ]
    manifest = playlist.manifest(tracks, 10.5)
    assert references("manifest.mpd", manifest.encode()) == {
        *(f"720p/{name}" for name in ("init.mp4", *map(playlist.segment_name, range(3)))),
        *(f"audio/{name}" for name in ("init.mp4", *map(playlist.segment_name, range(2)))),
    }


def test_what_others_may_write_is_fine() -> None:
    given = "#EXTM3U\r\n# made by hand\r\n#EXTINF:4,\r\n../720p/seg_1.m4s\r\n"
    assert references("low/a.m3u8", given.encode()) == {"720p/seg_1.m4s"}
    sub = '<Representation id="s" bandwidth="1"><BaseURL>subs/de.vtt</BaseURL></Representation>'
    assert references("manifest.mpd", mpd(sub)) == {"subs/de.vtt"}
    text = (
        "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n\n00:01.000 --> 00:02.000\nhttp://x\n"
    )
    assert references("subs/de.vtt", text.encode()) == set()
    board = "WEBVTT\n\n00:00.000 --> 00:05.000\nstoryboard-0.jpg#xywh=0,0,160,90\n"
    assert references("storyboard.vtt", board.encode()) == {"storyboard-0.jpg"}


LINKS = [
    "http://evil.example/a.m3u8",
    "//evil.example/a.m3u8",
    "/api/v1/session",
    "../a.m3u8",
    "720p/../../a.m3u8",
    "a.m3u8?x=1",
    "a.m3u8#x",
    "data:text/plain,x",
    "javascript:x",
    "file:///etc/passwd",
    "\\\\evil\\a.m3u8",
    "%2e%2e/a.m3u8",
    "http:a.m3u8",
    "a b.m3u8",
    "a.html",
]


@pytest.mark.parametrize("link", LINKS)
def test_a_playlist_leads_nowhere_else(link: str) -> None:
    for text in (
        f"#EXTM3U\n{link}\n",
        f"#EXTM3U\n  {link}\n",
        f'#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,NAME="a, b",URI="{link}"\n',
        f'#EXTM3U\n#EXT-X-MAP:URI="{link}"\n',
        f'#EXTM3U\n#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="{link}"\n',
    ):
        with pytest.raises(errors.BadField):
            references("master.m3u8", text.encode())
    board = f"WEBVTT\n\n00:00.000 --> 00:05.000\n{link}#xywh=0,0,1,1\n"
    base = f'<Representation id="s"><BaseURL>{link}</BaseURL></Representation>'
    for name, content in (("storyboard.vtt", board.encode()), ("manifest.mpd", mpd(base))):
        with pytest.raises(errors.BadField):
            references(name, content)


@pytest.mark.parametrize(
    "line",
    [
        '#EXT-X-KEY:METHOD=AES-128,URI="key.bin"',
        '#EXT-X-SESSION-KEY:METHOD=AES-128,URI="key.bin"',
        '#EXT-X-SESSION-DATA:DATA-ID="a",URI="a.json"',
        '#EXT-X-DEFINE:NAME="a",VALUE="http://evil.example"',
        '#EXT-X-DATERANGE:ID="a",X-ASSET-URI="http://evil.example/a.m3u8"',
        '#EXT-X-CONTENT-STEERING:SERVER-URI="http://evil.example"',
        '#EXT-X-PART:DURATION=1,URI="a.m4s"',
        "#EXT-X-MEDIA:TYPE=AUDIO,URI=http://evil.example/a.m3u8",
        '#EXT-X-MEDIA:TYPE=AUDIO,SERVER-URI="a.m3u8"',
        '#EXT-X-MEDIA:TYPE=AUDIO,URI="a.m3u8"junk',
        "#ext-x-key:METHOD=AES-128",
        "#EXTINF:4,\u2028http://evil.example",
        "#EXTINF:4,\rhttp://evil.example/a.m3u8",
        "\0",
    ],
)
def test_a_playlist_uses_what_is_known(line: str) -> None:
    with pytest.raises(errors.BadField):
        references("master.m3u8", f"#EXTM3U\n{line}\n".encode())


def mpd(inner: str, before: str = "", root: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?>{before}<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" {root}><Period>'
        f"<AdaptationSet>{inner}</AdaptationSet></Period></MPD>"
    ).encode()


TEMPLATE = (
    '<Representation id="{id}"><SegmentTemplate initialization="{init}" media="{media}"{more}>'
    "<SegmentTimeline>{runs}</SegmentTimeline></SegmentTemplate></Representation>"
)


def template(
    id: str = "a",
    init: str = "a/i.mp4",
    media: str = "a/$Number%03d$.m4s",
    runs: str = '<S d="5" r="1"/>',
    more: str = "",
) -> bytes:
    return mpd(TEMPLATE.format(id=id, init=init, media=media, runs=runs, more=more))


def test_segments_of_a_manifest_are_named_one_by_one() -> None:
    assert references("m.mpd", template()) == {"a/i.mp4", "a/001.m4s", "a/002.m4s"}
    timed = template(media="$RepresentationID$/$Time$.m4s", runs='<S t="7" d="5"/><S d="5"/>')
    assert references("m.mpd", timed) == {"a/i.mp4", "a/7.m4s", "a/12.m4s"}


@pytest.mark.parametrize(
    "content",
    [
        template(id="http://evil.example"),
        template(id="..", media="$RepresentationID$/../../x.m4s"),
        template(init="http://evil.example/i.mp4"),
        template(media="//evil.example/$Number$.m4s"),
        template(runs='<S d="1" r="999999999"/>'),
        template(runs='<S d="1" r="150000"/><S d="1" r="150000"/>'),
        template(runs='<S d="1" r="-1"/>'),
        template(runs='<S d="1e9"/>'),
        template(more=' index="http://evil.example"'),
        template().replace(b"<SegmentT", b"<BaseURL>a/b.mp4</BaseURL><SegmentT", 1),
        mpd("<BaseURL>a/</BaseURL>"),
        mpd("<ContentProtection/>"),
        mpd('<Role schemeIdUri="http://evil.example"/>'),
        mpd('<Role xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="a.xml"/>'),
        mpd('<Role xmlns="http://evil.example"/>'),
        mpd("text"),
        mpd("&a;", before='<!DOCTYPE MPD [<!ENTITY a "b">]>'),
        mpd("", before='<?xml-stylesheet href="http://evil.example"?>'),
        mpd("<Location>http://evil.example</Location>"),
        mpd('<UTCTiming schemeIdUri="urn:x" value="http://evil.example"/>'),
        b"<MPD/>",
        b"not xml",
        b"",
    ],
)
def test_a_manifest_leads_nowhere_else(content: bytes) -> None:
    with pytest.raises(errors.BadField):
        references("manifest.mpd", content)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("subs/de.vtt", "WEBVTT\n\nSTYLE\n::cue { background: url(http://evil.example) }\n"),
        ("subs/de.vtt", "WEBVTT\n\nSTYLE\n@import 'http://evil.example';\n"),
        ("subs/de.vtt", "<html>"),
        ("storyboard.vtt", "WEBVTT\n\n00:00.000 --> 00:05.000\nhello\n"),
        ("subs/de.vtt", "WEBVTT\n\n\x00"),
        ("master.m3u8", "<html>"),
        ("master.m3u8", ""),
    ],
)
def test_other_texts_are_refused(name: str, text: str) -> None:
    with pytest.raises(errors.BadField):
        references(name, text.encode())


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(errors.BadField):
        references("master.m3u8", b"#EXTM3U\n\xff\xfe")
