"""What an upload is, and what its sender asked for. Pure; nothing of a sender becomes a path."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import msgspec

from rushes import errors
from rushes.media import media
from rushes.media.media import Origin, ProcessingOptions
from rushes.records import Row

FILE_NAME_LIMIT = 255
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
PRIORITY = re.compile("high|normal|low")
ORIGIN = re.compile("|".join(Origin))
YES_OR_NO = {"true": True, "1": True, "yes": True, "on": True}
YES_OR_NO |= {"false": False, "0": False, "no": False, "off": False}

T = TypeVar("T")
# As it was sent: bytes, or nothing at all.
Metadata = dict[str, bytes | None]


class Concat(StrEnum):
    PARTIAL = "partial"
    FINAL = "final"


class UploadPart(msgspec.Struct, frozen=True):
    """Some bytes of an upload that are an object of their own."""

    offset_bytes: int
    size_bytes: int
    key: str


@dataclass(frozen=True, slots=True)
class Durable:
    """Bytes that a crash cannot take away any more, and the parts among them that are new."""

    offset_bytes: int
    parts: tuple[UploadPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    id: str
    user_id: str
    key: str
    # None until the sender has said it.
    length_bytes: int | None
    offset_bytes: int = 0
    metadata: str = "{}"
    concat: Concat | None = None
    # The ids of the partial uploads that a final one is made of.
    parts: str | None = None
    expires_at: int = 0
    writer: str | None = None
    finished_at: int | None = None
    ended_at: int | None = None
    media_id: str | None = None
    # Its bytes were not needed: `media_id` is what had the same ones.
    is_spare: bool = False
    overdue: int = 0
    held: int = 0

    @classmethod
    def from_row(cls, row: Row) -> Upload:
        values = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        values["concat"] = Concat(values["concat"]) if values["concat"] else None
        return cls(**values)

    @property
    def partial_ids(self) -> list[str]:
        return msgspec.json.decode(self.parts, type=list[str]) if self.parts else []

    @property
    def is_over(self) -> bool:
        """Terminated, refused or expired: nothing comes of it any more."""
        return self.ended_at is not None or bool(self.overdue)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOptions:
    """What the sender asked for, made safe."""

    title: str
    file_name: str = ""
    processing: ProcessingOptions = field(default_factory=ProcessingOptions)
    # As in `NewMedia`.
    forget_after_ms: int | None = None
    # What the user has of the same bytes is taken instead.
    skip_duplicates: bool = False
    # Where the file lay; it becomes a collection.
    folder: str | None = None
    origin: Origin = Origin.UPLOAD


def encode_metadata(metadata: Metadata) -> str:
    return msgspec.json.encode(metadata).decode()


def decode_metadata(text: str) -> Metadata:
    return msgspec.json.decode(text, type=Metadata)


def options_of(metadata: Metadata) -> UploadOptions:
    """BadField names what cannot be used; names that mean nothing to us are ignored."""
    given = {
        name: value.decode("utf-8", "replace").strip() for name, value in metadata.items() if value
    }
    title = given.get("title")
    file_name = given.get("filename", "")
    return UploadOptions(
        title=media.check_title(title) if title else media.title_of(file_name),
        file_name=tidy_file_name(file_name),
        processing=ProcessingOptions(
            profile=_matching(given, "profile", WORD, "must be the name of a profile"),
            transcription_profile=_matching(
                given, "transcription_profile", WORD, "must be the name of a transcription profile"
            ),
            transcribe=_yes_or_no(given, "transcribe", True),
            language=_matching(given, "language", LANGUAGE, "must be a code such as en or pt-BR"),
            diarize=_yes_or_no(given, "diarize", None),
            priority=_matching(given, "priority", PRIORITY, "must be high, normal or low"),
        ),
        skip_duplicates=_yes_or_no(given, "skip_duplicates", False),
        folder=given.get("folder"),
        origin=Origin(
            _matching(given, "origin", ORIGIN, "must be upload, watch or api") or Origin.UPLOAD
        ),
    )


def tidy_file_name(name: str) -> str:
    """The last part only, without what is not to be seen; for people, never for the disk."""
    last = re.split(r"[/\\]", name)[-1]
    seen = (char for char in last if unicodedata.category(char)[0] != "C")
    return unicodedata.normalize("NFC", "".join(seen)).strip()[:FILE_NAME_LIMIT]


def _matching(
    given: Mapping[str, str], name: str, pattern: re.Pattern[str], problem: str
) -> str | None:
    value = given.get(name)
    if not value:
        return None
    if not pattern.fullmatch(value):
        raise errors.BadField(name, problem)
    return value


def _yes_or_no(given: Mapping[str, str], name: str, default: T) -> bool | T:
    value = given.get(name, "").lower()
    if not value:
        return default
    if value not in YES_OR_NO:
        raise errors.BadField(name, "must be true or false")
    return YES_OR_NO[value]
