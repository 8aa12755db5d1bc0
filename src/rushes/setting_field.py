"""What one setting is: how it is declared, read, checked, described, and shown without secrets."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import msgspec

from rushes import units
from rushes.units import DAY

PREFIX = "RUSHES_"
CONFIG = "RUSHES_CONFIG"
DEFAULT_FILE = "rushes.toml"
HIDDEN = "***"
# SQLAlchemy reads a URL in the same way: user, a colon, anything, an at sign.
PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@", re.DOTALL)
PASSWORD_OPTION = re.compile(r"([?&](?:ssl_?)?password=)[^&]*")


class Page(StrEnum):
    """Where in the pages an admin finds what can be changed there."""

    DEFAULTS = "defaults"
    RETENTION = "retention"
    LIMITS = "limits"
    ALERTS = "alerts"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """`source` is the variable or the file that said it, or the admin who did so in the page; empty
    for a default, and for what the program says that uses Rushes as a library."""

    kind: Literal["default", "environment", "file", "page", "code"]
    source: str = ""

    @property
    def is_locked(self) -> bool:
        """Whether it wins over what is said in the page."""
        return self.kind not in ("default", "page")


DEFAULT = SettingOrigin("default")


# What a setting is declared with. `extra` may say `expected` and `default` in words, what `zero`
# means, what is `secret`, and `page`: that it can be changed there, and holds at once, unless it is
# read at the start only (`after_restart`).


def seconds(description: str, lowest: float, highest: float, **extra: Any) -> msgspec.Meta:
    extra = {"duration": True, **extra}
    return msgspec.Meta(ge=lowest, le=highest, description=description, extra=extra)


def kept(description: str, **extra: Any) -> msgspec.Meta:
    """For how long something is kept: at least a day, or, with 0, for ever."""
    expected = "never, or a duration from 1d to 3650d"
    extra = {"kept": True, "zero": "never", "expected": expected, **extra}
    return seconds(description, 0, 3650 * DAY, **extra)


def size(description: str, **extra: Any) -> msgspec.Meta:
    return msgspec.Meta(ge=0, le=2**53, description=description, extra={"size": True, **extra})


def number(description: str, lowest: int, highest: int, **extra: Any) -> msgspec.Meta:
    return msgspec.Meta(ge=lowest, le=highest, description=description, extra=extra)


def text(description: str, pattern: str | None = None, **extra: Any) -> msgspec.Meta:
    return msgspec.Meta(pattern=pattern, description=description, extra=extra)


class BadValue(ValueError):
    """Its text begins with "must be", whoever has said the value, and wherever."""


@dataclass(frozen=True, slots=True)
class SettingField:
    """Read off the annotations of `Settings`."""

    name: str
    type: Any
    meta: msgspec.Meta
    default: Any

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def _said(self, key: str) -> Any:
        return (self.meta.extra or {}).get(key)

    @property
    def secret(self) -> str | None:
        return typing.cast("str | None", self._said("secret"))

    @property
    def page(self) -> Page | None:
        """None: never to be changed there, such as addresses, paths and passwords."""
        return typing.cast("Page | None", self._said("page"))

    @property
    def change(self) -> Literal["live", "restart"] | None:
        if self.page is None:
            return None
        return "restart" if self._said("after_restart") else "live"

    @property
    def is_duration(self) -> bool:
        return bool(self._said("duration"))

    @property
    def is_kept(self) -> bool:
        return bool(self._said("kept"))

    @property
    def is_size(self) -> bool:
        return bool(self._said("size"))

    @property
    def choices(self) -> tuple[str, ...]:
        """For one of a few words."""
        kind = typing.get_args(self.type)[0]
        return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()

    @property
    def control(self) -> Literal["duration", "size", "number", "switch", "choice", "text"]:
        """How people give it."""
        kind = typing.get_args(self.type)[0]
        if self.is_duration or self.is_size:
            return "duration" if self.is_duration else "size"
        if self.choices:
            return "choice"
        return "switch" if kind is bool else "number" if kind is int else "text"

    @property
    def shown_default(self) -> str:
        return str(self._said("default") or self.show(self.default))

    @property
    def said_default(self) -> str:
        return str(self._said("default") or self.say(self.default))

    def show(self, value: Any) -> str:
        """The value for people, without what is secret."""
        if self.is_duration:
            return "never" if self.is_kept and not value else units.format_seconds(value)
        if self.is_size:
            return units.format_bytes(value)
        return str(hide(value, self.secret))

    def say(self, value: Any) -> str:
        """The same in the units that people write: 30 days, 5 GiB."""
        if not value and (zero := self._said("zero")):
            return str(zero)
        if self.is_duration:
            return units.say_seconds(value)
        return units.say_bytes(value) if self.is_size else self.show(value)

    @property
    def sentence(self) -> str:
        return f"{self.meta.description} Must be {self.expected}."

    @property
    def expected(self) -> str:
        """What fits in "must be …"."""
        kind, low, high = typing.get_args(self.type)[0], self.meta.ge, self.meta.le
        if written := self._said("expected"):
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
        if choices := [each for each in self.choices if each]:
            return f"{', '.join(choices[:-1])} or {choices[-1]}"
        return "a path" if kind is Path else "text"

    def read(self, value: Any) -> Any:
        """What somebody says, checked. Raises BadValue."""
        try:
            return self.convert(value)
        except msgspec.ValidationError:
            said = "" if self.secret else f", not {_short(value)}"
            raise BadValue(f"must be {self.expected}{said}") from None

    def convert(self, value: Any) -> Any:
        """Raises msgspec.ValidationError."""
        if isinstance(value, str):
            value = value.strip()
            if (zero := self._said("zero")) and value.lower() == zero:
                value = 0
            elif self.is_duration and (seconds := units.parse_seconds(value)) is not None:
                value = seconds
            elif self.is_size and (size := units.parse_bytes(value)) is not None:
                value = size
            elif self.choices:
                value = value.lower()
        converted = msgspec.convert(value, self.type, strict=False, dec_hook=_path)
        if not self.is_kept or converted == 0 or converted >= DAY:
            return converted
        raise msgspec.ValidationError("shorter than a day")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"not a {kind.__name__}")


def hide(value: Any, secret: str | None) -> Any:
    """`secret` as a field is marked: None, "whole", or "url" for the password inside a URL."""
    if secret == "url":
        return PASSWORD_OPTION.sub(rf"\1{HIDDEN}", PASSWORD.sub(rf"\1:{HIDDEN}@", str(value)))
    return HIDDEN if secret and value else value


def reference(fields: Iterable[SettingField]) -> str:
    """docs/settings.md."""
    rows = [
        f"| `{each.variable}` | `{each.shown_default}` | {CHANGES[each.change]} | {each.sentence} |"
        for each in fields
    ]
    return "\n".join([INTRODUCTION, *rows, ""])


INTRODUCTION = f"""\
<!-- Made by `python -m rushes.settings > docs/settings.md`; do not edit. -->

# Settings

Every setting is an environment variable, or a key in a TOML file with the same name in lower case
and without `{PREFIX}`. The file is `{DEFAULT_FILE}` in the working directory, or the one `{CONFIG}`
names. Those that say so in the column "page" can also be changed by an admin while the server
runs: in the pages (Settings, Server settings), by `rushes config set`, or by
`PATCH /api/v1/settings`. The environment wins over the file, the file over the page, the page over
the default. An empty value counts as not set.

Names that are unknown and values that cannot be used stop the start, with one message that lists
them all. `rushes config` prints what is in effect and where it came from, without secrets.

Durations are seconds (`60`) or have a unit: `500ms`, `60s`, `5min`, `2h`, `7d`, `30 days`. Sizes
are bytes or have a unit: `500MB`, `10 GiB`. What holds a secret can be read from a file instead:
`{PREFIX}DATABASE_URL_FILE=/run/secrets/database_url`.

| name | default | page | meaning |
|---|---|---|---|"""

CHANGES: dict[str | None, str] = {None: "", "live": "at once", "restart": "after a restart"}
