"""Files that are made to harm: they read nothing else, reach nobody, and cost little."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffmpegs
from handlers.transcode import checks, encoding
from handlers.transcode.checks import Version
from handlers.transcode.clips import Clips
from handlers.transcode.test_damaged import check_nothing_is_left
from rushes import errors
from rushes.tools import probe, process

SECRET = "the-secret-that-nobody-may-read"
LIMIT_SECONDS = 30


class Listener:
    """Counts who calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.calls += 1
            connection.close()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)


@pytest.fixture
def listener() -> Iterator[Listener]:
    opened = Listener()
    yield opened
    opened.close()


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where networks cannot be taken away: then the lists of formats and protocols must do."""
    monkeypatch.setattr(process, "_offline", lambda: ())


def hls(address: str) -> str:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{address}\n#EXT-X-ENDLIST\n"


def hls_master(address: str) -> str:
    return f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{address}\n"


def hls_key(address: str) -> str:
    return f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{address}"\n#EXTINF:10,\n{address}\n'


def concat(address: str) -> str:
    return f"ffconcat version 1.0\nfile '{address}'\n"


def old_concat(address: str) -> str:
    return f"file '{address}'\n"


def dash(address: str) -> str:
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"'
        ' mediaPresentationDuration="PT3S"><Period><AdaptationSet mimeType="video/mp4">'
        f'<Representation id="0" bandwidth="1"><BaseURL>{address}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    )


def sdp(address: str) -> str:
    who = "o=- 0 0 IN IP4 127.0.0.1"
    return f"v=0\n{who}\ns={address}\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"


def svg(address: str) -> str:
    return (
        '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "' + address + '">]>'
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        f' width="99" height="99"><image xlink:href="{address}"/><text>&x;</text></svg>'
    )


def smil(address: str) -> str:
    return f'<smil><body><video src="{address}"/></body></smil>'


def metadata(address: str) -> str:
    return f";FFMETADATA1\ntitle={address}\n[STREAM]\n"


def image_list(address: str) -> str:
    return f"# reference movie\nRTSPtext\n{address}\n"


TRICKS = [hls, hls_master, hls_key, concat, old_concat, dash, sdp, svg, smil, metadata, image_list]


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_a_list_of_other_files_is_no_media(
    trick: object, clips: Clips, tmp_path: Path, target: Path, listener: Listener
) -> None:
    assert callable(trick)
    secret = clips["plain.mp4"]
    (tmp_path / "beside.mp4").write_bytes(secret.read_bytes())
    addresses = [
        str(secret),
        f"file:{secret}",
        "beside.mp4",
        f"subfile,,start,0,end,0,,:{secret}",
        f"concat:{secret}|{secret}",
        f"{listener.url}/stolen.ts",
    ]
    for number, address in enumerate(addresses):
        path = tmp_path / f"trick-{number}.{('mp4', 'mkv', 'avi')[number % 3]}"
        path.write_text(trick(address))
        with pytest.raises(errors.PermanentFailure) as caught:
            encoding.make(path, target)
        assert str(tmp_path) not in caught.value.message
    assert not [each for each in target.rglob("*") if ".rushes" not in str(each)]
    assert listener.calls == 0


@pytest.mark.usefixtures("online")
def test_names_inside_real_media_are_not_followed(
    clips: Clips, tmp_path: Path, target: Path, listener: Listener
) -> None:
    """Subtitles, tags and attachments that name other files; the picture is fine."""
    (tmp_path / "secret.txt").write_text(SECRET)
    style = "[Script Info]\nScriptType: v4.00+\n[Fonts]\nfontname: ../secret.txt\n[Events]\n"
    style += "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    style += f"Dialogue: 0,0:00:00.00,0:00:02.00,,,0,0,0,,{{\\fn{tmp_path}/secret.txt}}x\n"
    (tmp_path / "words.ass").write_text(style)
    path = tmp_path / "trick.mkv"
    checks.tool(
        ffmpegs.known(), "-i", str(clips["ntsc.mp4"]), "-i", str(tmp_path / "words.ass"),
        "-map", "0", "-map", "1", "-c", "copy", "-metadata", f"title={listener.url}/x",
        "-metadata", f"comment=file:{tmp_path}/secret.txt", str(path),
    )  # fmt: skip
    encoding.make(path, target)
    assert len(Version(target)["90p"].frames) == 90
    for each in target.rglob("*"):
        if each.is_file():
            content = each.read_bytes()
            assert SECRET.encode() not in content
            assert os.fsencode(tmp_path) not in content
    assert listener.calls == 0


def test_a_movie_whose_data_is_elsewhere_does_not_get_it(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    other = clips["silent.mp4"]
    data = clips["plain.mp4"].read_bytes()
    path = tmp_path / "reference.mov"
    # Not in this file, says the flag; the name follows where the next box was.
    path.write_bytes(data.replace(b"url \0\0\0\x01", b"url \0\0\0\0"))
    _bounded(path, target)
    alias = b"alis" + bytes(8) + os.fsencode(other)
    path.write_bytes(data.replace(b"url \0\0\0\x01", alias[:8]))
    _bounded(path, target)


def _bounded(source: Path, target: Path) -> str:
    """Refused, or made; soon, and with little memory."""
    began, message = time.monotonic(), ""
    try:
        encoding.make(source, target)
    except errors.PermanentFailure as error:
        message = error.message
        assert str(source.parent) not in message
    assert time.monotonic() - began < LIMIT_SECONDS
    check_nothing_is_left(source, target)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 3_000_000
    return message


def test_a_picture_of_four_thousand_megapixels_is_not_made(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    path = tmp_path / "bomb.avi"
    data = clips["camera.avi"].read_bytes()
    size = bytes.fromhex("00b40140")
    assert size in data
    path.write_bytes(
        data.replace(size, b"\xff\xff\xff\xff")
        .replace((320).to_bytes(4, "little"), (65535).to_bytes(4, "little"))
        .replace((180).to_bytes(4, "little"), (65535).to_bytes(4, "little"))
    )
    if not _bounded(path, target):
        assert not Version(target).videos


def test_a_header_that_lies_about_its_size_costs_little(
    clips: Clips, tmp_path: Path, target: Path
) -> None:
    path = tmp_path / "liar.mkv"
    data = clips["film.mkv"].read_bytes()
    wide = b"\xb0\x82\x01\x40"
    assert wide in data
    path.write_bytes(data.replace(wide, b"\xb0\x82\x3f\xff"))
    _bounded(path, target)


def test_an_absurd_duration_is_refused(clips: Clips, tmp_path: Path, target: Path) -> None:
    path = tmp_path / "forever.mp4"
    data = bytearray(clips["silent.mp4"].read_bytes().replace(b"edts", b"free"))
    at = data.find(b"stts")
    # All frames last this long: two frames are further apart than a day.
    data[at + 16 : at + 20] = (2_000_000_000).to_bytes(4, "big")
    path.write_bytes(data)
    assert "two days" in _bounded(path, target)


def test_hundreds_of_tracks_of_sound_are_not_all_made(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "many.mkv"
    checks.tool(
        ffmpegs.known(), "-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.4", "-f", "lavfi", "-i",
        "sine=d=0.4", "-map", "0", *["-map", "1"] * 200, "-c:v", "mjpeg", "-c:a", "pcm_u8",
        "-ar", "8000", str(path),
    )  # fmt: skip
    assert _bounded(path, target) == ""
    version = Version(target)
    assert 1 < len(version.sounds) <= 32
    assert len(version.encoded[0].frames) == 10


def test_times_before_zero_are_just_times(clips: Clips, tmp_path: Path, target: Path) -> None:
    path = tmp_path / "before.mkv"
    checks.tool(
        ffmpegs.known(), "-i", str(clips["ntsc.mp4"]), "-c", "copy", "-avoid_negative_ts",
        "disabled", "-output_ts_offset", "-1.5", str(path),
    )  # fmt: skip
    message = _bounded(path, target)
    if not message:
        checks.check(Version(target))


def _peak_bytes(path: Path) -> int:
    """What this process takes at most while it looks into a file that is sound all the same."""
    tracemalloc.start()
    try:
        assert probe.probe(path).audios
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_flood_of_tags_does_not_reach_our_memory(tmp_path: Path) -> None:
    body = b"TXXX" + (24 * 2**20).to_bytes(4, "big") + bytes(3)
    body += b"x\0" + b"\x01" * (24 * 2**20 - 3)
    size = bytes((len(body) >> shift) & 0x7F for shift in (21, 14, 7, 0))
    path = tmp_path / "flood.mp3"
    path.write_bytes(b"ID3\x03\0\0" + size + body + _mp3(tmp_path))
    assert _peak_bytes(path) < 4 * 2**20


def test_a_flood_in_a_tag_that_is_used_is_left_out(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_bytes(b";FFMETADATA1\n[STREAM]\ntitle=" + b"\x01" * (3 * 2**20) + b"\n")
    path = tmp_path / "flood.mka"
    checks.tool(
        ffmpegs.known(), "-f", "lavfi", "-i", "sine=d=0.4", "-i", str(words), "-map", "0",
        "-map_metadata:s:a:0", "1:s:0", "-c:a", "flac", str(path),
    )  # fmt: skip
    assert path.stat().st_size > 3 * 2**20
    assert _peak_bytes(path) < 24 * 2**20
    assert probe.probe(path).audios[0].title == ""


def test_thousands_of_chapters_are_not_all_kept(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    chapters = [f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={n}\nEND={n + 1}\n" for n in range(5_000)]
    words.write_text(";FFMETADATA1\n" + "".join(chapters))
    path = tmp_path / "chapters.mka"
    checks.tool(
        ffmpegs.known(), "-f", "lavfi", "-i", "sine=d=6", "-i", str(words), "-map", "0",
        "-map_chapters", "1", "-c:a", "flac", str(path),
    )  # fmt: skip
    assert len(probe.probe(path).chapters) == probe.MOST_CHAPTERS


def _mp3(tmp_path: Path) -> bytes:
    path = tmp_path / "plain.mp3"
    checks.tool(ffmpegs.known(), "-f", "lavfi", "-i", "sine=d=0.4", "-write_id3v2", "0", str(path))
    return path.read_bytes()
