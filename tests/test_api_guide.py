"""The examples of docs/api-guide.md, and the commands of docs/getting-started.md, are run as they
stand, against a real server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spoken
from running import Running, clean_environment
from rushes.transcripts import passages
from rushes.uploads import sample
from rushes.worker.context import JobContext
from rushes.worker.loop import Handler

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = DOCS / "api-guide.md"
SAID = "Now search for the word lighthouse."


def blocks(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) > 8
    return "\n".join(found)


def hears(job: JobContext) -> dict[str, Any]:
    """No model is needed to hear what the sample says."""
    if not job.passages():
        job.put_passage(0, passages.encode(spoken.passage(spoken.said(SAID))))
    engine = {"provider": "local", "transcription_model": "whisper-base"}
    return {"language": "en", "duration": 5.0, "engine": engine}


@pytest.mark.parametrize(
    ("language", "program"),
    [("sh", ["sh", "-eu", "guide"]), ("python", [sys.executable, "-W", "error", "guide"])],
)
def test_the_examples_run(
    language: str, program: list[str], serve: Callable[..., Running], tmp_path: Path
) -> None:
    place = tmp_path / "guide"
    place.mkdir()
    shutil.copy(sample.CLIP, place / "recording.mp4")
    (place / "guide").write_text(blocks(language))
    assert "lighthouse" in said_by(program, place, serve)
    assert (place / "original.mp4").read_bytes() == sample.CLIP.read_bytes()


def test_the_commands_of_the_first_five_minutes_run(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    text = (DOCS / "getting-started.md").read_text()
    commands = re.findall(r"^\.venv/bin/rushes (.+)$", text, re.MULTILINE)
    assert len(commands) == 2
    place = tmp_path / "place"
    place.mkdir()
    shutil.copy(sample.CLIP, place / "holiday.mov")
    script = "\n".join(f"{sys.executable} -m rushes {each}" for each in commands)
    assert "lighthouse" in said_by(["sh", "-euc", script], place, serve)


def said_by(program: list[str], place: Path, serve: Callable[..., Running]) -> str:
    """Run in a folder of its own by a user of a new server."""
    server = serve(handlers_table={"transcribe": Handler(hears)}, transcodes=True)
    with server.user("ada") as ada:
        token = ada.headers["authorization"].partition(" ")[2]
    environment = clean_environment() | {
        "RUSHES_SERVER": server.url,
        "RUSHES_TOKEN": token,
        "XDG_CACHE_HOME": str(place.parent / "cache"),
    }
    done = subprocess.run(
        program, cwd=place, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
