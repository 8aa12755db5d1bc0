"""The parts that only reckon: timelines, ladders, playlists, boxes, and what ffprobe says."""

from __future__ import annotations

import struct
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from typing import Any

import m3u8  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.tools import boxes, ladder, playlist, probe, profile, timeline
from rushes.tools.playlist import Audio, DashTrack, Video
from rushes.tools.profile import Profile, Rung
from rushes.tools.timeline import Packets

BASES = (Fraction(1, 1000), Fraction(1, 90_000), Fraction(1, 12_800), Fraction(1001, 30_000))


@st.composite
def recordings(draw: st.DrawFn) -> tuple[Packets, Fraction]:
    """Times of frames in the order of a file, whatever they are."""
    base = draw(st.sampled_from(BASES))
    gaps = draw(st.lists(st.integers(1, int(Fraction(3) / base) + 1), min_size=1, max_size=120))
    start = draw(st.integers(-5000, 10_000_000))
    times = [start]
    for gap in gaps:
        times.append(times[-1] + gap)
    shuffled = draw(st.permutations(times)) if len(times) < 20 else times
    return Packets(pts=shuffled, keys=times[::7]), base


@given(recordings(), st.sampled_from([1.0, 2.0, 4.0, 1.1, 6.006]))
def test_every_frame_is_in_exactly_one_segment(
    recording: tuple[Packets, Fraction], seconds: float
) -> None:
    packets, base = recording
    times = timeline.build(packets, base, seconds)
    assert times.frames == len(packets.pts)
    assert [each.number for each in times.segments] == list(range(len(times.segments)))
    starts = [each.start_pts for each in times.segments]
    assert starts == sorted(set(starts))
    assert set(starts) <= set(packets.pts)
    assert times.zero_pts == starts[0] == min(packets.pts)
    assert sum(each.seconds for each in times.segments) == pytest.approx(times.seconds)
    assert all(each.frames > 0 for each in times.segments)


@given(recordings(), st.sampled_from([1.0, 4.0, 1.1]))
def test_no_two_segments_begin_in_one_cell_of_the_grid(
    recording: tuple[Packets, Fraction], seconds: float
) -> None:
    packets, base = recording
    times = timeline.build(packets, base, seconds)
    grid = Fraction(round(seconds * 10), 10)
    cells = [(each.start_pts - times.zero_pts) * base // grid for each in times.segments]
    assert all(earlier < later for earlier, later in pairwise(cells))


@given(recordings(), st.floats(0, 20), st.floats(0.1, 20))
def test_a_trim_keeps_frames_between_its_times_and_no_others(
    recording: tuple[Packets, Fraction], start: float, length: float
) -> None:
    packets, base = recording
    end = start + length
    origin = min(packets.pts)
    inside = [pts for pts in packets.pts if start <= float((pts - origin) * base) < end]
    # At the very edge a microsecond may decide either way.
    near = [
        pts
        for pts in packets.pts
        if min(abs(float((pts - origin) * base) - at) for at in (start, end)) < 2e-6
    ]
    try:
        times = timeline.build(packets, base, 1.0, start=start, end=end)
    except errors.PermanentFailure:
        assert len(inside) <= len(near)
        return
    assert abs(times.frames - len(inside)) <= len(near)


def test_times_that_people_write_are_exact() -> None:
    packets = Packets(pts=[n * 3600 for n in range(100)], keys=[0])
    for tenth in range(1, 39):
        times = timeline.build(packets, Fraction(1, 90_000), 1.0, start=tenth / 10)
        assert times.zero_pts == -(-tenth * 9000 // 3600) * 3600


def test_lines_of_packets_are_read_whatever_a_container_adds() -> None:
    said = "133200,126000,K__,\n\n144000,129600,___,\nN/A,133200,___\n-90,N/A,__D\n7,8,_D_\n"
    packets = timeline.read_packets(said)
    assert packets.pts == [133200, 144000]
    assert packets.keys == [133200]
    assert packets.missing == 1
    assert packets.dts == [126000, 129600, 133200]


def test_what_comes_before_the_first_key_frame_cannot_be_shown() -> None:
    assert timeline.read_packets("9,1,___\n8,2,___\n20,3,K__\n12,4,___\n").pts == [20, 12]
    assert timeline.read_packets("8,1,___\n9,2,___\n").pts == [8, 9]
    assert timeline.read_packets("7,1,K_D\n8,2,___\n9,3,K__\n").pts == [8, 9]


def test_a_step_back_in_decoding_is_a_break() -> None:
    base = Fraction(1, 1000)
    assert timeline.is_regular(Packets([0, 120, 40, 80], [0], dts=[-80, -40, 0, 40]), base)
    assert not timeline.is_regular(Packets([0, 40, 0, 40], [0], dts=[3000, 3040, 0, 40]), base)
    assert not timeline.is_regular(Packets([0, 40], [0], missing=1), base)
    assert not timeline.is_regular(Packets([], []), base)


@given(st.sets(st.integers(0, 60)))
def test_runs_are_the_numbers_again(numbers: set[int]) -> None:
    found = timeline.runs(sorted(numbers))
    assert [n for start, stop in found for n in range(start, stop)] == sorted(numbers)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("tags", "when"),
    [
        ({"creation_time": "2019-07-01T18:30:00.000000Z"}, "2019-07-01T18:30:00Z"),
        ({"CREATION_TIME": "2019-07-01 18:30:00"}, "2019-07-01T18:30:00Z"),
        (
            {
                "creation_time": "2024-01-01T00:00:00Z",
                "com.apple.quicktime.creationdate": "2019-07-01T20:30:00+0200",
            },
            "2019-07-01T18:30:00Z",
        ),
        ({"creation_time": "1904-01-01T00:00:00Z"}, None),
        ({"creation_time": "1970-01-01T00:00:00Z"}, None),
        ({"creation_time": "0001-01-01T00:00:00+23:59"}, None),
        ({"creation_time": "<script>" * 100}, None),
        ({}, None),
    ],
)
def test_when_it_was_recorded_is_read_off_the_file(tags: dict[str, str], when: str | None) -> None:
    stream = {"index": 0, "codec_type": "audio", "codec_name": "aac"}
    streams = [{**stream, "sample_rate": "48000", "channels": 2}]
    found = probe.read({"streams": streams, "format": {"duration": "3", "tags": tags}})
    assert found.recorded_at == when


# The ladder


def video(**given: Any) -> probe.VideoStream:
    stream: dict[str, Any] = {
        "index": 0, "codec_type": "video", "codec_name": "h264", "width": 1920, "height": 1080,
        "avg_frame_rate": "25/1", "r_frame_rate": "25/1", "time_base": "1/90000",
    }  # fmt: skip
    found = probe.read({"streams": [{**stream, **given}], "format": {"duration": "3"}}).video
    assert found is not None
    return found


@given(st.integers(2, 8000), st.integers(2, 8000), st.sampled_from([64, 360, 1080, 2160]))
def test_fitted_pictures_are_even_and_keep_their_shape(width: int, height: int, short: int) -> None:
    made = ladder.fitted((width, height), short)
    assert all(side % 2 == 0 and side >= 2 for side in made)
    assert made[0] <= width + 1
    assert made[1] <= height + 1
    assert min(made) <= max(short, 2) + 1
    if min(made) > 50:
        assert made[0] / made[1] == pytest.approx(width / height, rel=0.05)


@given(st.integers(2, 8000), st.integers(2, 8000))
def test_something_is_always_made_and_nothing_above_the_source(width: int, height: int) -> None:
    found = ladder.renditions(Profile(), video(width=width, height=height))
    made = [each for each in found if not each.skipped]
    assert made
    assert len({each.name for each in found}) == len(found)
    for each in made:
        assert min(each.width, each.height) <= min(width, height) + 1


def test_the_short_side_decides_and_the_rate_of_frames_costs() -> None:
    portrait = ladder.renditions(Profile(), video(width=1080, height=1920))
    assert {each.name: (each.width, each.height) for each in portrait if not each.skipped} == {
        "1080p": (1080, 1920),
        "720p": (720, 1280),
        "480p": (480, 854),
        "360p": (360, 640),
    }
    assert [each.name for each in portrait if each.skipped] == ["2160p", "1440p"]
    fast = ladder.renditions(Profile(), video(avg_frame_rate="50/1", r_frame_rate="50/1"))
    assert {each.name: each.bitrate for each in fast}["1080p"] == 7500
    assert {each.name: each.bitrate for each in portrait}["1080p"] == 5000
    halves = ladder.renditions(Profile(), video(field_order="tt"))
    assert {each.name: each.bitrate for each in halves}["1080p"] == 7500
    assert ladder.frame_rate(video(field_order="tt", avg_frame_rate="50/1")) == 50


def test_chosen_qualities_that_cannot_be_made_do_not_leave_nothing() -> None:
    found = ladder.renditions(Profile(), video(height=360, width=640), ["2160p"])
    assert [each.name for each in found if not each.skipped] == ["360p"]


def test_additional_codecs_have_names_of_their_own() -> None:
    chosen = profile.decode({"codecs": ["av1", "h264"], "ladder": [{"height": 720, "bitrate": 99}]})
    found = ladder.renditions(chosen, video())
    assert [(each.name, each.codec) for each in found] == [("720p", "h264"), ("720p-av1", "av1")]
    assert Rung(height=720, bitrate=99).name == "720p"


# Playlists

TEXT = st.text(max_size=30)


@given(st.lists(st.floats(0.02, 30), min_size=1, max_size=30), st.booleans())
def test_a_media_playlist_is_read_back(seconds: list[float], growing: bool) -> None:
    text = playlist.media_playlist(seconds, target_seconds=4, growing=growing)
    found = m3u8.loads(text)
    assert [each.duration for each in found.segments] == pytest.approx(seconds, abs=1e-6)
    assert [each.uri for each in found.segments] == [
        f"seg_{number:05d}.m4s" for number in range(len(seconds))
    ]
    assert found.is_endlist is not growing
    assert found.playlist_type == ("event" if growing else "vod")
    assert all(round(each) <= found.target_duration for each in seconds)


@given(TEXT, TEXT)
def test_no_title_breaks_a_master_playlist(title: str, language: str) -> None:
    picture = Video(
        name="720p", width=1280, height=720, bandwidth=9, average_bandwidth=8,
        codecs="avc1.64001f", frame_rate=25,
    )  # fmt: skip
    sound = Audio(name="audio", codecs="mp4a.40.2", bandwidth=5, title=title, language=language)
    text = playlist.master([picture], [sound])
    found = m3u8.loads(text)
    assert len(text.splitlines()) == 6
    assert [each.uri for each in found.playlists] == ["720p/playlist.m3u8"]
    assert [each.uri for each in found.media] == ["audio/playlist.m3u8"]
    assert found.playlists[0].stream_info.bandwidth == 14
    assert found.playlists[0].stream_info.codecs == "avc1.64001f,mp4a.40.2"


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0.1, 6)), min_size=1, max_size=20))
def test_the_peak_is_at_least_the_mean_and_that_of_every_whole_segment(
    segments: list[tuple[int, float]],
) -> None:
    sizes, seconds = [each[0] for each in segments], [each[1] for each in segments]
    peak = playlist.peak_rate(sizes, seconds, 6)
    assert peak >= playlist.rate(sizes, seconds)
    for size, length in segments:
        if length >= 3:
            assert peak >= size * 8 / length


@given(st.lists(st.floats(0.02, 10), min_size=1, max_size=50))
def test_ticks_of_a_manifest_do_not_drift(seconds: list[float]) -> None:
    sound = Audio(name="audio", codecs="mp4a.40.2", bandwidth=5)
    ticks = DashTrack(sound, seconds, 90_000).ticks
    assert sum(ticks) == pytest.approx(sum(seconds) * 90_000, abs=1)


# Boxes


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body


def fragment(start: int, durations: list[int], payload: bytes) -> bytes:
    run = struct.pack(">III", 0x000101, len(durations), 0)
    run += b"".join(each.to_bytes(4, "big") for each in durations)
    traf = box(b"tfhd", struct.pack(">II", 0, 1)) + box(b"tfdt", struct.pack(">IQ", 1 << 24, start))
    return box(b"moof", box(b"traf", traf + box(b"trun", run))) + box(b"mdat", payload)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40), st.lists(st.integers(1, 9999), min_size=1, max_size=9),
            st.binary(max_size=99),
        ),
        max_size=8,
    ),
    st.integers(1, 64),
)  # fmt: skip
def test_a_stream_is_cut_the_same_however_it_arrives(
    parts: list[tuple[int, list[int], bytes]], chunk: int
) -> None:
    head = box(b"ftyp", b"iso6") + box(b"moov", box(b"mvhd", bytes(20)))
    stream = head + b"".join(fragment(*part) for part in parts)
    cutter = boxes.Cutter()
    found: list[boxes.Fragment] = []
    for at in range(0, len(stream), chunk):
        found += cutter.feed(stream[at : at + chunk])
    assert cutter.init is not None
    assert cutter.init.data == head
    assert head + b"".join(each.data for each in found) == stream
    told = [(each.start, each.ticks, each.frames) for each in found]
    assert told == [(start, sum(lengths), len(lengths)) for start, lengths, _ in parts]


def reordered(start: int, shown: list[int], sizes: list[int]) -> bytes:
    """Decoded a frame apart from `start` on."""
    run = struct.pack(">IIi", 0x01000F01, len(shown), 0)
    for number, (at, size) in enumerate(zip(shown, sizes, strict=True)):
        flags = 0x01010000 if number else 0x02000000
        run += struct.pack(">IIIi", 3600, size, flags, at - start - number * 3600)
    traf = box(b"tfhd", struct.pack(">II", 0x020000, 1))
    traf += box(b"tfdt", struct.pack(">Iq", 1 << 24, start)) + box(b"trun", run)
    mfhd = box(b"mfhd", struct.pack(">II", 0, 7))
    return box(b"moof", mfhd + box(b"traf", traf)) + box(b"mdat", bytes(sum(sizes)))


def header(*edits: tuple[int, int]) -> bytes:
    """With what is shown of it: length in thousandths, and where it begins in ticks."""
    rows = b"".join(struct.pack(">Iii", length, begin, 1 << 16) for length, begin in edits)
    edts = box(b"edts", box(b"elst", struct.pack(">II", 0, len(edits)) + rows))
    mdhd = box(b"mdhd", struct.pack(">IIIIII", 0, 0, 0, 90_000, 0, 0))
    trak = box(b"trak", box(b"tkhd", bytes(84)) + edts + box(b"mdia", mdhd))
    mvhd = box(b"mvhd", struct.pack(">IIIII", 0, 0, 0, 1000, 0) + bytes(80))
    return box(b"ftyp", b"iso6") + box(b"moov", mvhd + trak + box(b"mvex", b""))


def test_a_fragment_is_shown_when_its_offsets_and_the_edit_list_say() -> None:
    shown = [0, 10_800, 3600, 7200]
    for edits, edit in (
        ([], 0),
        ([(0, 7200)], 7200),
        ([(500, -1), (0, 7200)], 7200 - 45_000),
    ):
        cutter = boxes.Cutter()
        data = header(*edits) + reordered(-7200, shown, [9, 1, 2, 3])
        [found] = cutter.feed(data)
        assert cutter.init is not None
        assert cutter.init.edit == edit
        assert found.start == -7200
        assert found.shown == [at - edit for at in shown]
        assert found.frames == 4
        assert found.begins_by_itself
    [late] = boxes.Cutter().feed(reordered(0, [7200, 3600, 10_800], [1, 1, 1]))
    assert not late.begins_by_itself


def test_a_header_without_edits_is_else_the_same() -> None:
    plain = boxes.without_edits(header((0, 7200)))
    assert b"elst" not in plain
    assert plain == boxes.without_edits(plain)
    assert boxes.read_init(plain).edit == 0
    assert boxes.read_init(plain).timescale == 90_000


@st.composite
def pictures(draw: st.DrawFn) -> list[int]:
    """When frames are shown, in the order in which they are decoded: the first is shown first."""
    start = draw(st.integers(-90_000, 2**30))
    gaps = draw(st.lists(st.integers(20, 900_000), max_size=40))
    times = [start]
    for gap in gaps:
        times.append(times[-1] + gap)
    size = draw(st.integers(1, 6))
    groups = [draw(st.permutations(times[at : at + size])) for at in range(1, len(times), size)]
    return [start, *(at for group in groups for at in group)]


@given(pictures(), st.integers(1, 900_000))
def test_frames_are_decoded_one_after_the_other_and_before_they_are_shown(
    shown: list[int], last: int
) -> None:
    decoded = boxes.decode_times(shown)
    assert decoded[0] == shown[0]
    assert all(earlier < later for earlier, later in pairwise(decoded))
    assert all(at <= other for at, other in zip(decoded, shown, strict=True))
    sizes = [number % 5 for number in range(len(shown))]
    end = max(shown) + last
    [before] = boxes.Cutter().feed(reordered(-7, shown, sizes))
    data = b"".join(boxes.retimed(before, end))
    [found] = boxes.Cutter().feed(data)
    assert found.shown == shown
    assert (found.start, found.ticks) == (shown[0], end - shown[0])
    assert [each.size for each in found.samples] == sizes
    assert [each.flags for each in found.samples] == [each.flags for each in before.samples]
    assert found.payload == before.payload
    assert b"".join(boxes.retimed(found, end)) == data


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_times_of_a_damaged_source_are_put_in_order(shown: list[int]) -> None:
    decoded = boxes.decode_times(shown)
    assert all(earlier < later for earlier, later in pairwise(decoded))


def test_a_recording_with_pauses_is_known() -> None:
    """A hiccup is none; where there are pauses, frames are kept in order."""
    steady = [n * 40 for n in range(2000)]
    hiccup = [at for at in steady if not 1000 < at < 1400]
    paused = [at for at in steady if at % 5000 < 3000]
    packets = [timeline.Packets(pts, pts[:1], 0, pts) for pts in (steady, hiccup, paused)]
    found = [timeline.build(each, Fraction(1, 1000), 4).slow for each in packets]
    assert found == [False, False, True]


@given(st.sampled_from([24, 25, 29.97, 30, 50, 59.94, 60]), st.integers(0, 999))
def test_a_rate_is_that_of_most_frames(rate: float, phase: int) -> None:
    """In milliseconds, with pauses, and every seventh frame missing."""
    at = [phase + round(n * 1000 / rate) for n in range(200) if n % 7]
    paused = [time + 5000 * (n // 50) for n, time in enumerate(at)]
    found = timeline.rate(paused, Fraction(1, 1000)) or 0
    assert found == pytest.approx(rate, rel=0.05)
    assert found < rate + 0.5
    assert timeline.rate([5], Fraction(1, 1000)) is None


@given(st.binary(min_size=8, max_size=200))
def test_nonsense_is_a_plain_failure(data: bytes) -> None:
    cutter = boxes.Cutter()
    with suppress(errors.TransientFailure):
        assert all(each.frames >= 0 for each in cutter.feed(data))


# What ffprobe says

FIELDS = (
    "codec_name", "profile", "width", "height", "pix_fmt", "time_base", "start_pts", "channels",
    "avg_frame_rate", "r_frame_rate", "sample_aspect_ratio", "field_order", "color_transfer",
    "level", "sample_rate", "start_time", "nb_frames", "codec_tag_string",
)  # fmt: skip


def test_shapes_are_as_people_see_them() -> None:
    turned = video(side_data_list=[{"rotation": -90}])
    assert (turned.rotation, turned.shown) == (90, (1080, 1920))
    assert video(side_data_list=[{"rotation": 180}]).shown == (1920, 1080)
    assert video(tags={"rotate": "270"}).rotation == 270
    assert video(width=1440, sample_aspect_ratio="4:3").shown == (1920, 1080)
    assert video(sample_aspect_ratio="0:1").shown == (1920, 1080)
    assert video(sample_aspect_ratio="1:99999").shown == (1920, 1080)
    assert video(field_order="tt").interlaced
    assert video(color_transfer="smpte2084").hdr
    assert video(avg_frame_rate="20/1", r_frame_rate="60/1").variable
    assert video(avg_frame_rate="0/0", r_frame_rate="90000/1").frame_rate == 25


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, "no_streams"),
        ({"streams": [{"codec_type": "data"}]}, "no_streams"),
        ({"streams": [{"codec_type": "video", "codec_tag_string": "encv"}]}, "protected"),
        (
            {"streams": [{"index": 0, "codec_type": "video", "codec_name": "png",
                          "width": 9, "height": 9}]},
            "image_only",
        ),
        (
            {"streams": [{"index": 0, "codec_type": "video", "codec_name": "h264",
                          "width": 20_000, "height": 9}]},
            "unsupported",
        ),
        (
            {"streams": [{"index": 0, "codec_type": "audio", "codec_name": "aac",
                          "sample_rate": "48000", "channels": 2}],
             "format": {"duration": "9999999"}},
            "damaged",
        ),
        (
            {"streams": [{"index": 0, "codec_type": "audio", "codec_name": "aac",
                          "sample_rate": "0", "channels": 2}]},
            "no_streams",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_by_name(said: dict[str, Any], code: str) -> None:
    with pytest.raises(errors.PermanentFailure) as caught:
        probe.read(said)
    assert caught.value.code == code
    assert caught.value.message


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=6)), max_size=4))
def test_no_answer_of_a_probe_breaks_its_reader(streams: list[dict[str, Any]]) -> None:
    for number, each in enumerate(streams):
        each |= {"index": number, "codec_type": ("video", "audio", "subtitle")[number % 3]}
    try:
        found = probe.read({"streams": streams, "format": {}})
    except errors.PermanentFailure:
        return
    assert found.kind in ("video", "audio")


@pytest.mark.parametrize("time_base", [Fraction(1, 90_000), Fraction(1, 1000), Fraction(1, 1)])
def test_the_last_frame_is_held_as_long_as_there_is_sound(time_base: Fraction) -> None:
    ticks = [round(n / time_base) for n in range(3)]
    times = timeline.build(Packets(ticks, ticks[:1]), time_base, 4.0, sound_end=61.0)
    assert times.seconds == 61
    assert times.hold is not None
    held = times.hold.pts
    assert held == sorted(set(held))
    assert held[0] == ticks[-1] + ticks[1]
    assert times.frames == len(ticks) + len(held)
    assert max(each.seconds for each in times.segments) <= 5


def test_the_end_of_the_last_packet_of_sound_holds_nothing() -> None:
    ticks = list(range(0, 3000, 40))
    times = timeline.build(Packets(ticks, [0]), Fraction(1, 1000), 4.0, sound_end=3.05)
    assert times.hold is None
    assert times.seconds == 3
