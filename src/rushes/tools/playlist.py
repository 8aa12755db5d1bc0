"""HLS playlists and the DASH manifest of a version, growing or whole. Pure text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from xml.sax.saxutils import quoteattr

MASTER, MANIFEST = "master.m3u8", "manifest.mpd"
AUDIO_GROUP, CAPTIONS_GROUP = "audio", "captions"
STREAM = "#EXT-X-STREAM-INF:"
ROLE = "urn:mpeg:dash:role:2011"
# Sets of a manifest are numbered; this one comes later than the others.
CAPTIONS_SET = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """A rendition with a picture. `codecs` is its own, without those of the sound."""

    name: str
    width: int
    height: int
    bandwidth: int
    average_bandwidth: int
    codecs: str
    frame_rate: float
    range: str = "SDR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    name: str
    codecs: str
    bandwidth: int
    channels: int = 2
    language: str | None = None
    title: str = ""
    default: bool = True
    # Of sound without a picture: the same sounds with the same bits, and which of them it is.
    group: str = ""
    track: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Subtitles, as one file of WebVTT."""

    name: str
    language: str | None = None
    title: str = ""
    default: bool = False
    forced: bool = False


def segment_name(number: int) -> str:
    return f"seg_{number:05d}.m4s"


def media_playlist(
    seconds: Sequence[float], *, target_seconds: float, growing: bool, first: int = 0
) -> str:
    """One rendition, from its `first` segment on. A growing one may be asked for again."""
    lines = [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        f"#EXT-X-TARGETDURATION:{target_duration(seconds, target_seconds)}",
        f"#EXT-X-MEDIA-SEQUENCE:{first}",
        f"#EXT-X-PLAYLIST-TYPE:{'EVENT' if growing else 'VOD'}",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MAP:URI="init.mp4"',
    ]
    for number, length in enumerate(seconds, first):
        lines += [f"#EXTINF:{length:.6f},", segment_name(number)]
    if not growing:
        lines.append("#EXT-X-ENDLIST")
    return "\n".join(lines) + "\n"


def target_duration(seconds: Sequence[float], planned: float) -> int:
    """No segment may be longer, when rounded."""
    longest = max((math.floor(each + 0.5) for each in seconds), default=1)
    return max(math.ceil(planned), longest, 1)


def rate(sizes: Sequence[int], seconds: Sequence[float]) -> int:
    """Bits a second, rounded up."""
    return math.ceil(sum(sizes) * 8 / max(sum(seconds), 0.001))


def peak_rate(sizes: Sequence[int], seconds: Sequence[float], target: int) -> int:
    """As RFC 8216 defines it: the most that neighbours need which together are between half and
    one and a half times as long as the target. What is shorter counts with its neighbours only."""
    peak = rate(sizes, seconds)
    for first in range(len(sizes)):
        last = first + 1
        while last <= len(sizes) and sum(seconds[first:last]) <= 1.5 * target:
            if sum(seconds[first:last]) >= 0.5 * target:
                peak = max(peak, rate(sizes[first:last], seconds[first:last]))
            last += 1
    return peak


def master(videos: Sequence[Video], audios: Sequence[Audio], texts: Sequence[Text] = ()) -> str:
    """Best picture first. Without a picture, sound is what is streamed."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"]
    lines += [_subtitles(each, f"{each.name}/playlist.m3u8") for each in texts]
    if videos:
        lines += [_alternate(audio, AUDIO_GROUP) for audio in audios]
        for video in sorted(videos, key=lambda each: -each.bandwidth):
            lines += [_stream(video, audios), f"{video.name}/playlist.m3u8"]
    else:
        lines += _streams_of_sound(audios)
    if texts:
        mark = f',SUBTITLES="{CAPTIONS_GROUP}"'
        lines = [each + mark * each.startswith(STREAM) for each in lines]
    return "\n".join(lines) + "\n"


def _streams_of_sound(audios: Sequence[Audio]) -> list[str]:
    """One for each number of bits. Where there are several tracks, each of them has them all."""
    groups: dict[str, list[Audio]] = {}
    for audio in sorted(audios, key=lambda each: each.track):
        groups.setdefault(audio.group or audio.name, []).append(audio)
    by_rate = sorted(groups.items(), key=lambda group: -max(each.bandwidth for each in group[1]))
    lines = []
    is_chosen = any(len(group) > 1 for group in groups.values())
    if is_chosen:
        lines += [_alternate(each, name) for name, group in by_rate for each in group]
    for name, group in by_rate:
        first = next((each for each in group if each.default), group[0])
        line = _stream_of_sound(first, max(each.bandwidth for each in group))
        lines += [f'{line},AUDIO="{name}"' if is_chosen else line, f"{first.name}/playlist.m3u8"]
    return lines


def with_captions(master: str, uri: str, language: str | None) -> str:
    """A master playlist with the captions listed at `uri`, beside the subtitles there are; a text
    that has them stays as it is."""
    if f'URI="{uri}"' in master:
        return master
    name, mark = _free_name(master, language or "Captions"), f'SUBTITLES="{CAPTIONS_GROUP}"'
    lines = []
    is_listed = False
    for line in master.splitlines():
        if line.startswith(STREAM):
            text = Text(name=name, language=language, title=name)
            lines += [] if is_listed else [_subtitles(text, uri)]
            is_listed = True
            line = line if mark in line else f"{line},{mark}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _free_name(master: str, preferred: str) -> str:
    """In a group, no two may have the same."""
    taken = [line for line in master.splitlines() if f'GROUP-ID="{CAPTIONS_GROUP}"' in line]
    is_taken = any(f'NAME="{_quoted(preferred)}"' in line for line in taken)
    return f"{preferred} {len(taken) + 1}" if is_taken else preferred


def _subtitles(text: Text, uri: str) -> str:
    parts = [
        "TYPE=SUBTITLES",
        f'GROUP-ID="{CAPTIONS_GROUP}"',
        f'NAME="{_quoted(text.title or text.language or text.name)}"',
        *([f'LANGUAGE="{_quoted(text.language)}"'] if text.language else []),
        f"DEFAULT={'YES' if text.default else 'NO'}",
        "AUTOSELECT=YES",
        f"FORCED={'YES' if text.forced else 'NO'}",
        f'URI="{uri}"',
    ]
    return f"#EXT-X-MEDIA:{','.join(parts)}"


def captions(uri: str, seconds: float) -> str:
    """All captions are one segment: a whole film's take less room than a second of it."""
    return (
        "#EXTM3U\n#EXT-X-VERSION:7\n"
        f"#EXT-X-TARGETDURATION:{max(1, math.ceil(seconds))}\n"
        "#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n"
        f"#EXTINF:{max(seconds, 0.001):.3f},\n{uri}\n#EXT-X-ENDLIST\n"
    )


def _stream(video: Video, audios: Sequence[Audio]) -> str:
    sound = max((audio.bandwidth for audio in audios), default=0)
    codecs = [video.codecs, *dict.fromkeys(audio.codecs for audio in audios)]
    parts = [
        f"BANDWIDTH={video.bandwidth + sound}",
        f"AVERAGE-BANDWIDTH={video.average_bandwidth + sound}",
        f'CODECS="{",".join(codecs)}"',
        f"RESOLUTION={video.width}x{video.height}",
        f"FRAME-RATE={video.frame_rate:.3f}",
        f"VIDEO-RANGE={video.range}",
    ]
    if audios:
        parts.append(f'AUDIO="{AUDIO_GROUP}"')
    return f"#EXT-X-STREAM-INF:{','.join(parts)}"


def _stream_of_sound(audio: Audio, bandwidth: int) -> str:
    return (
        f"#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},AVERAGE-BANDWIDTH={bandwidth},"
        f'CODECS="{audio.codecs}"'
    )


def _alternate(audio: Audio, group: str) -> str:
    parts = [
        "TYPE=AUDIO",
        f'GROUP-ID="{group}"',
        f'NAME="{_quoted(audio.title or audio.language or audio.name)}"',
        f"DEFAULT={'YES' if audio.default else 'NO'}",
        "AUTOSELECT=YES",
        f'CHANNELS="{audio.channels}"',
        f'URI="{audio.name}/playlist.m3u8"',
    ]
    if audio.language:
        parts.insert(3, f'LANGUAGE="{_quoted(audio.language)}"')
    return f"#EXT-X-MEDIA:{','.join(parts)}"


def _quoted(text: str) -> str:
    """Inside quotes neither quotes nor line ends may stand."""
    return "".join("'" if char == '"' else char for char in text if char.isprintable())[:100]


# DASH


@dataclass(frozen=True, slots=True)
class DashTrack:
    """A rendition and how long its segments are, for a manifest that counts in `timescale`."""

    media: Video | Audio
    seconds: Sequence[float]
    timescale: int

    @property
    def ticks(self) -> list[int]:
        """Rounded so that the errors do not add up."""
        ends = [round(end * self.timescale) for end in accumulate(self.seconds)]
        return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def presented(tracks: Sequence[DashTrack], seconds: float) -> float:
    """How long the whole is, for a manifest: a moment longer than the longest track, which sound is
    by a part of its last packet. dash.js looks five times a second whether that time has come, and
    if it has before the browser says that all has ended, it seeks back and pauses."""
    ends = (sum(track.ticks) / track.timescale for track in tracks)
    return (math.floor(max(seconds, *ends, 0.0) * 1000) + 1) / 1000


def manifest(tracks: Sequence[DashTrack], seconds: float, texts: Sequence[Text] = ()) -> str:
    videos = [track for track in tracks if isinstance(track.media, Video)]
    sounds = [track for track in tracks if isinstance(track.media, Audio)]
    longest = max((ticks / track.timescale for track in tracks for ticks in track.ticks), default=1)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"'
        ' profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static"'
        f' mediaPresentationDuration="PT{presented(tracks, seconds):.3f}S"'
        f' minBufferTime="PT{longest:.3f}S">',
        '  <Period id="0" start="PT0S">',
    ]
    for number, group in enumerate(_by_codec(videos)):
        lines += _adaptation_set(number, "video", group, "")
    for number, group in enumerate(_by_sound(sounds), start=len(_by_codec(videos))):
        audio = group[0].media
        assert isinstance(audio, Audio)
        role = "main" if audio.default else "alternate"
        lines += _adaptation_set(number, "audio", group, _lang(audio.language), role)
    for number, text in enumerate(texts, start=len(_by_codec(videos)) + len(sounds)):
        lines += _text_set(number, text, f"{text.name}/captions.vtt")
    return "\n".join([*lines, PERIOD_END, "</MPD>"]) + "\n"


PERIOD_END = "  </Period>"


def manifest_with_captions(manifest: str, uri: str, language: str | None) -> str:
    """With the captions at `uri`, beside the subtitles there are."""
    before, end, after = manifest.rpartition(PERIOD_END)
    if not end or f"<BaseURL>{uri}</BaseURL>" in manifest:
        return manifest
    lines = _text_set(CAPTIONS_SET, Text(name="captions", language=language), uri, "caption")
    return before + "\n".join([*lines, end]) + after


def _lang(language: str | None) -> str:
    return f" lang={quoteattr(language)}" if language else ""


def _text_set(number: int, text: Text, uri: str, role: str = "subtitle") -> list[str]:
    role = "forced-subtitle" if text.forced else role
    return [
        f'    <AdaptationSet id="{number}" contentType="text" mimeType="text/vtt"'
        f"{_lang(text.language)}>",
        f'      <Role schemeIdUri="{ROLE}" value="{role}"/>',
        *([f'      <Role schemeIdUri="{ROLE}" value="main"/>'] if text.default else []),
        f'      <Representation id={quoteattr(text.name)} bandwidth="1000">',
        f"        <BaseURL>{uri}</BaseURL>",
        "      </Representation>",
        "    </AdaptationSet>",
    ]


def _by_sound(tracks: Sequence[DashTrack]) -> list[list[DashTrack]]:
    """The same sound with more and with fewer bits together."""
    groups: dict[object, list[DashTrack]] = {}
    for track in tracks:
        audio = track.media
        assert isinstance(audio, Audio)
        groups.setdefault(audio.track if audio.group else audio.name, []).append(track)
    return list(groups.values())


def _by_codec(tracks: Sequence[DashTrack]) -> list[list[DashTrack]]:
    """Players switch inside a set, which they can do between renditions of one codec."""
    groups: dict[str, list[DashTrack]] = {}
    for track in tracks:
        groups.setdefault(track.media.codecs.split(".")[0], []).append(track)
    return list(groups.values())


def _adaptation_set(
    number: int, kind: str, tracks: Sequence[DashTrack], more: str, role: str = ""
) -> list[str]:
    lines = [
        f'    <AdaptationSet id="{number}" contentType="{kind}" mimeType="{kind}/mp4"'
        f' segmentAlignment="true" startWithSAP="1"{more}>'
    ]
    if role:
        lines.append(f'      <Role schemeIdUri="{ROLE}" value="{role}"/>')
    for track in tracks:
        lines += _representation(track)
    return [*lines, "    </AdaptationSet>"]


def _representation(track: DashTrack) -> list[str]:
    media = track.media
    about: dict[str, Any] = {"id": media.name, "bandwidth": media.bandwidth, "codecs": media.codecs}
    if isinstance(media, Video):
        rate = f"{round(media.frame_rate * 1001)}/1001"
        if media.frame_rate == int(media.frame_rate):
            rate = str(int(media.frame_rate))
        about |= {"width": media.width, "height": media.height, "frameRate": rate}
    attributes = " ".join(f"{name}={quoteattr(str(value))}" for name, value in about.items())
    start = '        <SegmentTemplate initialization="$RepresentationID$/init.mp4"'
    return [
        f"      <Representation {attributes}>",
        f'{start} media="$RepresentationID$/seg_$Number%05d$.m4s" startNumber="0"'
        f' timescale="{track.timescale}">',
        "          <SegmentTimeline>",
        *(f"            {line}" for line in _timeline(track.ticks)),
        "          </SegmentTimeline>",
        "        </SegmentTemplate>",
        "      </Representation>",
    ]


def _timeline(ticks: Sequence[int]) -> list[str]:
    """Runs of the same length are one line."""
    runs: list[list[int]] = []
    for length in ticks:
        if runs and runs[-1][0] == length:
            runs[-1][1] += 1
        else:
            runs.append([length, 0])
    begin = ' t="0"'
    lines = []
    for length, repeats in runs:
        again = f' r="{repeats}"' if repeats else ""
        lines.append(f'<S{begin} d="{length}"{again}/>')
        begin = ""
    return lines
