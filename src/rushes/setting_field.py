"""What one setting is: how its value is read, checked, and shown without secrets."""

from __future__ import annotations

import re
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from rushes import units
from rushes.units import DAY

HIDDEN = "***"
# SQLAlchemy reads a URL in the same way: user, a colon, anything, an at sign.
PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@", re.DOTALL)
PASSWORD_OPTION = re.compile(r"([?&](?:ssl_?)?password=)[^&]*")


@dataclass(frozen=True, slots=True)
class SettingField:
    """Read off the annotations of `Settings`."""

    name: str
    type: Any
    meta: msgspec.Meta
    default: Any

    @property
    def secret(self) -> str | None:
        return (self.meta.extra or {}).get("secret")

    @property
    def is_duration(self) -> bool:
        return bool((self.meta.extra or {}).get("duration"))

    @property
    def is_kept(self) -> bool:
        return bool((self.meta.extra or {}).get("kept"))

    @property
    def is_size(self) -> bool:
        return bool((self.meta.extra or {}).get("size"))

    @property
    def shown_default(self) -> str:
        written = (self.meta.extra or {}).get("default")
        return str(written or self.show(self.default))

    def show(self, value: Any) -> str:
        """The value for people, without what is secret."""
        if self.is_duration:
            return "never" if self.is_kept and not value else units.format_seconds(value)
        if self.is_size:
            return units.format_bytes(value)
        return str(hide(value, self.secret))

    @property
    def sentence(self) -> str:
        return f"{self.meta.description} Must be {self.expected}."

    @property
    def expected(self) -> str:
        """What fits in "must be …"."""
        kind, low, high = typing.get_args(self.type)[0], self.meta.ge, self.meta.le
        if written := (self.meta.extra or {}).get("expected"):
            return str(written)
        if self.is_duration:
            assert low is not None
            assert high is not None
            return f"a duration from {units.format_seconds(low)} to {units.format_seconds(high)}"
        if self.is_size:
            return "a size such as 500MB or 10GiB"
        if kind is int:
            return f"a whole number from {low} to {high}"
        if kind is bool:
            return "true or false"
        if choices := [each for each in typing.get_args(kind) if each]:
            return f"{', '.join(choices[:-1])} or {choices[-1]}"
        return "a path" if kind is Path else "text"

    def convert(self, value: Any) -> Any:
        """Raises msgspec.ValidationError."""
        if isinstance(value, str):
            value = value.strip()
            if self.is_kept and value.lower() == "never":
                value = 0.0
            elif self.is_duration and (seconds := units.parse_seconds(value)) is not None:
                value = seconds
            elif self.is_size and (size := units.parse_bytes(value)) is not None:
                value = size
            elif typing.get_origin(typing.get_args(self.type)[0]) is Literal:
                value = value.lower()
        converted = msgspec.convert(value, self.type, strict=False, dec_hook=_path)
        if not self.is_kept or converted == 0 or converted >= DAY:
            return converted
        raise msgspec.ValidationError("shorter than a day")


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"not a {kind.__name__}")


def hide(value: Any, secret: str | None) -> Any:
    """`secret` as a field is marked: None, "whole", or "url" for the password inside a URL."""
    if secret == "url":
        return PASSWORD_OPTION.sub(rf"\1{HIDDEN}", PASSWORD.sub(rf"\1:{HIDDEN}@", str(value)))
    return HIDDEN if secret and value else value
