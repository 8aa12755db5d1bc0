"""`rushes transcribe` and `rushes process` with a real engine: what is printed and written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import m3u8  # type: ignore[import-untyped]
import pytest

import ffmpegs
import speech
from shell import Shell

ENGLISH = ("--model", "tiny.en", "--language", "en")


@pytest.fixture
def at(shell: Shell, tmp_path: Path) -> Shell:
    shell.set(data_dir=tmp_path / "data", engine_cache_dir=speech.cache_dir(speech.SMALL))
    return shell


def test_what_is_said_is_printed_or_written_beside_the_file(at: Shell, tmp_path: Path) -> None:
    talk = tmp_path / "talk.wav"
    talk.write_bytes(speech.recording("jfk").read_bytes())
    printed = at.text("transcribe", str(talk), *ENGLISH, "-f", "srt", "-o", "-")
    assert printed.startswith("1\n00:00:")
    assert "country" in printed
    at.text("transcribe", str(talk), *ENGLISH, "-f", "json")
    written = json.loads((tmp_path / "talk.json").read_text())
    assert written["engine"]["transcription_model"] == speech.SMALL
    # Nothing that is only of use half way is left.
    assert list((tmp_path / "data" / "transcribe").iterdir()) == []


def test_what_cannot_be_transcribed_is_told(at: Shell, tmp_path: Path) -> None:
    assert at.run("transcribe", str(tmp_path / "none.wav")) == 2
    text = tmp_path / "notes.txt"
    text.write_text("no sound")
    assert at.run("transcribe", str(text), "-f", "txt") == 2
    assert "write over the file itself" in at.err
    assert at.run("transcribe", str(text), *ENGLISH, "-o", "-") == 1
    at.set(engine_cache_dir=tmp_path / "empty", engine_auto_download="false")
    assert at.run("transcribe", str(speech.recording("jfk")), *ENGLISH, "-o", "-") == 1
    assert "rushes models pull whisper-tiny.en" in at.err


def test_what_is_made_streamable_has_captions(
    at: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As people type it: a name in the directory where they are.
    monkeypatch.chdir(tmp_path)
    film, out = tmp_path / "film.mp4", Path("out")
    argv = [ffmpegs.known(), "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=160x90:r=10:d=11"]
    argv += ["-i", str(speech.recording("jfk")), "-c:v", "libx264", "-c:a", "aac", str(film)]
    subprocess.run(argv, check=True)
    assert "words in" in at.text("process", str(film), "--out", str(out), *ENGLISH)
    assert (out / "film" / "storyboard.vtt").exists()
    master = m3u8.load(str(out / "film" / "master.m3u8"))
    [captions] = [each for each in master.media if each.type == "SUBTITLES"]
    listed = m3u8.load(str(out / "film" / captions.uri))
    assert "country" in (out / "film" / listed.segments[0].uri).read_text()
    assert "there already" in at.text("process", str(film), "--out", str(out), *ENGLISH)
