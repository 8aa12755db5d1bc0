"""Files of what is watched, made by either ffmpeg of segments as a server hands them out."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from rushes import errors
from rushes.handlers import export
from rushes.protocol import Claim, Excerpt, Source
from rushes.records import JsonObject
from rushes.tools import ffmpeg
from rushes.worker.context import JobContext
from rushes.worker.folder import Folder

SECONDS, SEGMENT_SECONDS = 8, 2
SAID = {
    "text": "At three.",
    "segments": [{"id": "seg_000001", "start": 3.0, "end": 5.0, "text": "MMMMMM WWWWWW"}],
    "words": [],
    "speakers": {},
}


def run(*argv: str | Path) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    while content:
        (size,) = struct.unpack(">I", content[:4])
        yield content[4:8], content[:size]
        content = content[size:]


def segments(path: Path) -> list[bytes]:
    """How all begin, and each of them."""
    made = [b""]
    for name, box in boxes(path.read_bytes()):
        if name in (b"ftyp", b"moov"):
            made[0] += box
        elif name == b"moof":
            made.append(box)
        else:
            made[-1] += box
    return made


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Black, with a key frame every two seconds, and a tone; in step, as the ladder is made."""
    folder = tmp_path_factory.mktemp("film")
    begin: list[str | Path] = [ffmpegs.known(), "-v", "error", "-f", "lavfi", "-i"]
    run(
        *(*begin, f"color=black:s=320x180:r=25:d={SECONDS}", "-c:v", "libx264"),
        *("-preset", "ultrafast", "-bf", "2", "-g", "9999", "-sc_threshold", "0"),
        *("-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT_SECONDS})"),
        *("-pix_fmt", "yuv420p", *ffmpeg.picture_fragments()),
        folder / "picture.mp4",
    )
    run(
        *(*begin, f"sine=f=440:d={SECONDS}:r=48000", "-c:a", "aac", "-f", "mp4"),
        *("-bsf:a", "noise=drop=lt(pts\\,0)", "-avoid_negative_ts", "disabled"),
        *("-movflags", ffmpeg.SOUND_FRAGMENTS, "-frag_duration", f"{SEGMENT_SECONDS}000000"),
        folder / "sound.mp4",
    )
    return {name: segments(folder / f"{name}.mp4") for name in ("picture", "sound")}


class Watched(Folder):
    """A media of which there are segments, and a transcript."""

    def __init__(self, folder: Path, film: dict[str, list[bytes]], said: JsonObject | None = SAID):
        (folder / "source").touch()
        super().__init__(folder / "source", folder / "out")
        self._film = film
        self._said = said
        self.scratch = folder / "scratch"

    def transcript(self, claim: Claim) -> JsonObject | None:
        return self._said

    def _content(self, excerpt: Excerpt | None) -> bytes:
        assert excerpt is not None
        if excerpt.rendition not in self._film:
            raise errors.NotFound("gone")
        first, *rest = self._film[excerpt.rendition]
        start = int(excerpt.start // SEGMENT_SECONDS)
        end = None if excerpt.end is None else int(-(-excerpt.end // SEGMENT_SECONDS))
        return first + b"".join(rest[start:end])

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        return Source(file_name="", size_bytes=len(self._content(excerpt)), sha256=None)

    def read_source(
        self,
        claim: Claim,
        start: int,
        media_id: str | None = None,
        excerpt: Excerpt | None = None,
    ) -> Iterator[bytes]:
        # In pieces, as over a line that breaks.
        yield self._content(excerpt)[start : start + 100_000]

    def export(self, format: str, **args: Any) -> Path:
        name = f"made.{format}"
        given = {"format": format, "sound": "sound", "is_aac": True, "name": name, **args}
        if format == "mp4":
            given["picture"] = given.get("picture", "picture")
        self.scratch.mkdir(exist_ok=True)
        job = JobContext(
            self.assignment("export", given),
            lambda report: None,
            coordinator=self,
            scratch_root=self.scratch,
        )
        try:
            export.export(job)
        finally:
            job.close()
        return self.target / name


@pytest.fixture(params=[ffmpegs.BUNDLED, ffmpegs.INSTALLED])
def watched(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    film: dict[str, list[bytes]],
) -> Iterator[Watched]:
    ffmpegs.find_only(request.param, monkeypatch)
    yield Watched(tmp_path, film)
    ffmpegs.forget()


def streams(path: Path) -> dict[str, Any]:
    """By type: the codec, and how long it plays."""
    shown = ("-show_entries", "stream=codec_type,codec_name,duration", "-of", "json")
    found = json.loads(run(ffmpegs.known("ffprobe"), "-v", "error", *shown, path))["streams"]
    return {each["codec_type"]: (each["codec_name"], float(each["duration"])) for each in found}


def hashes(path: Path) -> list[str]:
    """Of the frames as a player shows them."""
    out = run(ffmpegs.known(), "-v", "error", "-i", path, "-map", "0:v", "-f", "framemd5", "-")
    return [line.split()[-1] for line in out.splitlines() if not line.startswith("#")]


def brightness(path: Path, at: float) -> float:
    """The brightest of the lower third; black where nothing is written."""
    out = run(
        *(ffmpegs.known(), "-v", "error", "-ss", str(at), "-i", path, "-frames:v", "1"),
        *("-vf", "crop=iw:ih/3:0:2*ih/3,signalstats,metadata=print:file=-", "-f", "null", "-"),
    )
    value, *_ = [line for line in out.splitlines() if "YMAX" in line]
    return float(value.partition("=")[2])


def test_a_rendition_and_its_sound_are_copied_into_one_file(watched: Watched) -> None:
    made = watched.export("mp4")
    found = streams(made)
    assert found["video"] == ("h264", pytest.approx(SECONDS, abs=0.05))
    assert found["audio"] == ("aac", pytest.approx(SECONDS, abs=0.1))
    assert len(hashes(made)) == 25 * SECONDS
    # It can be played before all of it is there.
    names = [name for name, _ in boxes(made.read_bytes())]
    assert names.index(b"moov") < names.index(b"mdat")
    silent = watched.export("mp4", sound=None)
    assert [*streams(silent)] == ["video"]


def test_sound_is_copied_or_encoded(watched: Watched) -> None:
    assert streams(watched.export("m4a")) == {"audio": ("aac", pytest.approx(SECONDS, abs=0.1))}
    assert streams(watched.export("mp3"))["audio"] == ("mp3", pytest.approx(SECONDS, abs=0.1))
    clip = streams(watched.export("m4a", start=3.3, end=5.3, is_aac=False))
    assert clip == {"audio": ("aac", pytest.approx(2, abs=0.1))}


def test_a_clip_begins_and_ends_where_it_was_asked_to(watched: Watched) -> None:
    copied = watched.export("mp4", start=3.3, end=5.1)
    for made in (copied, watched.export("mp4", start=3.3, end=5.1, exact=True)):
        found = streams(made)
        assert found["audio"][1] == pytest.approx(1.8, abs=0.06)
        assert len(hashes(made)) == pytest.approx(45, abs=4)
    # To the end: nothing else is said.
    assert len(hashes(watched.export("mp4", start=6.0))) == pytest.approx(50, abs=2)


def test_captions_are_seen_where_something_is_said(watched: Watched) -> None:
    whole = watched.export("mp4", burn_captions=True)
    assert brightness(whole, 1.0) < 40 < 200 < brightness(whole, 4.0)
    clip = watched.export("mp4", burn_captions=True, start=2.5, end=6.5)
    assert brightness(clip, 0.2) < 40
    assert brightness(clip, 1.0) > 200
    assert brightness(clip, 3.5) < 40


def test_what_is_gone_is_not_tried_again(tmp_path: Path, film: dict[str, list[bytes]]) -> None:
    with pytest.raises(errors.PermanentFailure, match="ask for it again"):
        Watched(tmp_path, film).export("mp4", picture="1080p")
    with pytest.raises(errors.PermanentFailure, match="no transcript"):
        Watched(tmp_path, film, None).export("mp4", burn_captions=True)
