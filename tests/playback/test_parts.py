from __future__ import annotations

import pytest

from rushes.playback import parts
from rushes.tools import playlist

MASTER = """#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="captions",NAME="en",URI="subs/playlist.m3u8"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="a",URI="audio/playlist.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=2,AUDIO="audio",SUBTITLES="captions"
original/playlist.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="audio",SUBTITLES="captions"
720p/playlist.m3u8
#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="720p/frames.m3u8"
"""


def files(*lengths: float | None) -> dict[str, float | None]:
    return {"init.mp4": None} | {
        playlist.segment_name(number): length for number, length in enumerate(lengths)
    }


@pytest.mark.parametrize(
    ("start", "end", "first", "count"),
    [
        (9, 19, 2, 3),
        (8, 12, 2, 1),
        (0, 1, 0, 1),
        (0, 400, 0, 5),
        # A moment of a segment, by which sound and picture differ, is none.
        (8.05, 12.05, 2, 1),
        (7.95, 11.95, 2, 1),
        (7.8, 12.2, 1, 3),
    ],
)
def test_segments_are_shown_whole_and_none_besides(
    start: float, end: float, first: int, count: int
) -> None:
    cut = parts.cut(files(4, 4, 4, 4, 4), start, end)
    assert cut is not None
    assert (cut.first, len(cut.lengths), cut.start) == (first, count, first * 4)
    shown = [n for n in range(9) if cut.has(playlist.segment_name(n))]
    assert shown == [*range(first, first + count)]
    assert cut.has("init.mp4")
    assert not cut.has("playlist.m3u8")
    assert cut.playlist().count("#EXTINF") == count
    assert f"#EXT-X-MEDIA-SEQUENCE:{first}\n" in cut.playlist()


@pytest.mark.parametrize(
    "given",
    [
        {},
        files(),
        # Nobody knows how long it is, or where the next begins.
        files(None, 4, 4),
        # Nearly all of it is outside.
        files(4, 400, 4),
        {"seg_00000.m4s": 4.0, "seg_00001.m4s": 4.0},
    ],
)
def test_what_is_not_known_well_enough_is_not_shown(given: dict[str, float | None]) -> None:
    assert parts.cut(given, 5, 7) is None


def test_nothing_is_shown_past_the_end() -> None:
    assert parts.cut(files(4, 4), 8, 12) is None


def test_a_master_playlist_names_neither_texts_nor_the_source() -> None:
    text = parts.master(MASTER)
    assert text is not None
    assert parts.folders(text) == ["720p"]
    assert "audio/playlist.m3u8" in text
    for each in ("SUBTITLES", "subs/", "original/", "I-FRAME"):
        assert each not in text


def test_a_recording_that_was_only_copied_has_none() -> None:
    assert parts.master(MASTER.replace("720p/", "original/")) is None
