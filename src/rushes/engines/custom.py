"""Models beyond the catalog: repositories of the hub, and directories that the operator has.

Whoever runs the machine fetches one by name; from then on anybody may name it. What its files were
when it first came is kept (a pin, beside the models), and other bytes under that name are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rushes.engines import catalog
from rushes.engines.catalog import CatalogModel, File, Hub, HubFile

PART = r"[A-Za-z0-9](?:[A-Za-z0-9_]|[.-](?![.-])){0,95}"
NAME = re.compile(rf"{PART}/{PART}")
# What came from a directory has no repository.
OWN = "local/"
SYSTRAN = "Systran/faster-"
SHORT = {
    **{name: f"{SYSTRAN}whisper-{name}" for name in ("base.en", "small.en", "medium.en")},
    **{name: f"{SYSTRAN}whisper-{name}" for name in ("large-v1", "large-v2")},
    **{
        f"distil-{name}": f"{SYSTRAN}distil-whisper-{name}"
        for name in ("small.en", "medium.en", "large-v2", "large-v3")
    },
}
PINS = "pins"
# Of a repository, what a model is read from; the rest is not fetched.
NEEDED = ("config.json", "model.bin", "tokenizer.json")
WANTED = (*NEEDED, "preprocessor_config.json", "vocabulary.json", "vocabulary.txt")
# By how many words a vocabulary has.
ENGLISH_WORDS, V3_WORDS = 51864, 51866


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was when it first came. `revision`: of its repository; None for a directory."""

    name: str
    licence: str
    languages: Sequence[str]
    revision: str | None
    files: Sequence[File]

    @property
    def entry(self) -> CatalogModel:
        several = len(self.languages) > 1
        sources = [] if self.revision is None else [hub(self.name, self.revision, self.files)]
        return CatalogModel(
            name=self.name,
            purpose="transcription",
            title="From the hub" if sources else "From a directory",
            licence=self.licence,
            languages=self.languages,
            capabilities=["word_timestamps", *(["language_detection", "translate"] * several)],
            sources=sources,
            own_files=self.files,
        )


def full_name(name: str) -> str | None:
    """The repository that is meant, or the name of an own one; None for what cannot be either."""
    given = name.strip()
    meant = SHORT.get(given.lower().removeprefix("whisper-"), given)
    return meant if NAME.fullmatch(meant) else None


def known(name: str) -> str | None:
    """The full name of a model, of the catalog or beyond it."""
    return catalog.known(name) or full_name(name)


def folder(name: str) -> str:
    """No two names have the same: none has two hyphens in a row."""
    return name.replace("/", "--")


def own_name(directory: Path) -> str | None:
    """Of a model in this directory."""
    return full_name(f"{OWN}{directory.resolve().name}")


def hub(repo: str, revision: str, files: Sequence[File]) -> Hub:
    origins = {each.name: HubFile(repo=repo, revision=revision, path=each.name) for each in files}
    return Hub(files=files, origins=origins)


def problem(names: Sequence[str]) -> str | None:
    """Why files of these names are no model that can be used, if so."""
    missing = [each for each in NEEDED if each not in names]
    return f"it has no {missing[0]}, as Whisper models for CTranslate2 have" if missing else None


# Pins


def read(cache: Path, name: str) -> Pin | None:
    try:
        return msgspec.json.decode(_path(cache, name).read_bytes(), type=Pin)
    except (OSError, msgspec.DecodeError):
        return None


def write(cache: Path, pin: Pin) -> None:
    path = _path(cache, pin.name)
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(pin))
    part.rename(path)


def forget(cache: Path, name: str) -> bool:
    """Whether there was one. After that, any bytes may come under this name."""
    path = _path(cache, name)
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


def pinned(cache: Path) -> Iterator[Pin]:
    """In the order of their names."""
    for path in sorted((cache / PINS).glob("*.json")):
        pin = read(cache, path.stem.replace("--", "/", 1))
        if pin is not None:
            yield pin


def _path(cache: Path, name: str) -> Path:
    return cache / PINS / f"{folder(name)}.json"


# What is in a model


def languages(directory: Path) -> Sequence[str]:
    """By its vocabulary: those for English alone have one word less, the third ones one more."""
    count = _vocabulary(directory)
    if count is not None and count <= ENGLISH_WORDS:
        return ("en",)
    is_third = count is not None and count >= V3_WORDS
    return catalog.V3_LANGUAGES if is_third else catalog.WHISPER_LANGUAGES


def _vocabulary(directory: Path) -> int | None:
    try:
        if (directory / "vocabulary.json").exists():
            return len(msgspec.json.decode((directory / "vocabulary.json").read_bytes(), type=list))
        return len((directory / "vocabulary.txt").read_bytes().splitlines())
    except (OSError, msgspec.DecodeError):
        return None
