"""`rushes process`: what is surely no media is refused before anything is made of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rushes.cli import process as command


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"just some words\n" * 99, "this is text, not a video or audio file"),
        (b"PK\x03\x04" + bytes(999), "this is an archive, not a video or audio file"),
        (b"%PDF-1.7\n" + bytes(999), "this is a document, not a video or audio file"),
        (b"GIF89a" + bytes(999), "this is an image, not a video or audio file"),
        (b"", "the file is empty"),
        # A server finds out about these when it looks into them.
        (random.Random(1).randbytes(9999), "the file is damaged, or no video or audio at all"),
    ],
)
def test_what_a_server_refuses_is_refused_in_the_same_words(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "video.mp4"
    source.write_bytes(content)
    out = tmp_path / "out"
    assert command.run(source, out=out, transcribe=False, json=True) != 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["status"], found["error"]) == ("failed", said)
    assert not out.exists() or not list(out.iterdir())
