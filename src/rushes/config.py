"""The settings: one frozen object from `RUSHES_*` variables and an optional TOML file.

Owns their names, bounds, defaults and sentences; `docs/settings.md` is printed by
`python -m rushes.config`. All problems are reported together. Passed in, never a global. Must not
import SQLAlchemy or anything else that is slow to start.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from rushes import errors

PREFIX = "RUSHES_"
CONFIG = "RUSHES_CONFIG"
TEST_PREFIX = "RUSHES_TEST_"
DEFAULT_FILE = "rushes.toml"
HIDDEN = "***"

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
UNITS = {"ms": 0.001, "s": 1.0, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
# SQLAlchemy reads a URL in the same way: user, a colon, anything, an at sign.
PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@", re.DOTALL)
PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&]*")


def _seconds(description: str, lowest: float, highest: float) -> msgspec.Meta:
    return msgspec.Meta(ge=lowest, le=highest, description=description, extra={"duration": True})


def _later(
    description: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    pattern: str | None = None,
    **extra: Any,
) -> msgspec.Meta:
    """A setting of a part that is still to be built: its name and bounds are fixed already."""
    extra["later"] = True
    if pattern is not None:
        return msgspec.Meta(pattern=pattern, description=description, extra=extra)
    return msgspec.Meta(ge=ge, le=le, description=description, extra=extra)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are seconds. `extra` marks what is secret: all of it, or the password in a URL."""

    data_dir: Annotated[
        Path, msgspec.Meta(description="The directory for everything Rushes keeps in files.")
    ] = Path("data")
    database_url: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(sqlite|postgres|postgresql)(\+[a-z0-9]+)?://.",
            description="Where the jobs are kept.",
            extra={
                "secret": "url",
                "default": "sqlite:///DATA_DIR/rushes.db",
                "expected": "a URL such as sqlite:///rushes.db or"
                " postgresql://user:password@host/name",
            },
        ),
    ] = ""
    claim_duration: Annotated[
        float,
        _seconds(
            "How long a worker holds a job without a sign of life; then it is lost.", 0.1, DAY
        ),
    ] = 60.0
    heartbeat_interval: Annotated[
        float,
        _seconds(
            "How often a worker renews its claims; at most a third of their duration.", 0.01, HOUR
        ),
    ] = 15.0
    offline_threshold: Annotated[
        float,
        _seconds("How long after its last sign of life a worker counts as offline.", 0.1, 30 * DAY),
    ] = 300.0
    sweep_interval: Annotated[
        float,
        _seconds("How often lost jobs are looked for; at most the claim duration.", 0.01, HOUR),
    ] = 10.0
    poll_interval: Annotated[
        float,
        _seconds("How often an idle worker asks for work when nobody wakes it.", 0.01, HOUR),
    ] = 2.0
    attempt_timeout: Annotated[
        float, _seconds("How long one attempt may take, unless its job says.", 0.1, 7 * DAY)
    ] = 6 * HOUR
    max_attempts: Annotated[
        int,
        msgspec.Meta(ge=1, le=100, description="How often a job is tried, unless it says."),
    ] = 3
    policy: Annotated[
        Literal["fifo", "fair"],
        msgspec.Meta(description="Who is next: the oldest job, or each user in turn."),
    ] = "fifo"
    prefer_wait: Annotated[
        float,
        _seconds("How long a job that prefers, say, a GPU is kept for a worker with one.", 0, HOUR),
    ] = 15.0
    event_retention: Annotated[
        float, _seconds("How long events are kept for those who catch up.", 1, 3650 * DAY)
    ] = 7 * DAY
    storage_url: Annotated[
        str,
        _later(
            "Where media and what is made of them are kept.",
            pattern=r"^(file|s3)://.",
            secret="url",
            default="file://DATA_DIR/storage",
            expected="a URL such as file:///srv/rushes or s3://bucket/prefix",
        ),
    ] = ""
    keep_completed_qualities: Annotated[
        bool, _later("Whether a new attempt adopts the finished qualities of the last.")
    ] = True
    cleanup_partial_on_failure: Annotated[
        bool, _later("Whether what a failed job left behind is removed.")
    ] = True
    redis_url: Annotated[
        str, _later("The Redis for faster hints.", pattern=r"^(|rediss?://.+)$", secret="url")
    ] = ""
    queue_mode: Annotated[
        Literal["database", "redis", "hybrid"],
        _later("How waiting workers hear of work; the claim always goes through the database."),
    ] = "database"
    redis_pool_size: Annotated[
        int, _later("How many connections to Redis are kept.", ge=1, le=1000)
    ] = 10
    alert_webhook_url: Annotated[
        str, _later("Where alerts are sent.", pattern=r"^(|https?://.+)$", secret="whole")
    ] = ""
    alert_rate_limit: Annotated[
        float, _later("How long alerts of one type are held together.", ge=0, le=DAY, duration=True)
    ] = 300.0
    alert_webhook_timeout: Annotated[
        float, _later("How long a receiver of alerts may take.", ge=0.1, le=300, duration=True)
    ] = 10.0
    engine: Annotated[
        str, _later("The speech engine.", pattern=r"^[a-z][a-z0-9_-]*$", expected="a name")
    ] = "local"
    engine_cache_dir: Annotated[
        Path | None, _later("Where models are kept.", default="DATA_DIR/models", expected="a path")
    ] = None
    engine_device: Annotated[
        Literal["auto", "cpu", "cuda"], _later("What the speech engine runs on.")
    ] = "auto"
    engine_threads: Annotated[
        int, _later("Threads of the speech engine; 0 means as many as cores.", ge=0, le=1024)
    ] = 0
    engine_max_loaded: Annotated[int, _later("How many models stay in memory.", ge=1, le=100)] = 2
    engine_auto_download: Annotated[
        bool, _later("Whether a missing model is downloaded when a job needs it.")
    ] = True
    transcription_workers: Annotated[
        int, _later("Transcription workers inside the server.", ge=0, le=1000)
    ] = 1
    transcode_workers: Annotated[
        int, _later("Transcoding workers inside the server.", ge=0, le=1000)
    ] = 1
    admin_secret: Annotated[str, _later("Lets scripts register workers.", secret="whole")] = ""
    admin_token: Annotated[
        str, _later("A first admin API token, for automation.", secret="whole")
    ] = ""
    host: Annotated[str, _later("The address the server listens on.")] = "127.0.0.1"
    port: Annotated[int, _later("The port the server listens on.", ge=0, le=65535)] = 8484
    base_url: Annotated[
        str,
        _later(
            "The server's address as people see it.",
            pattern=r"^(|https?://.+)$",
            default="http://HOST:PORT",
            expected="a URL such as https://rushes.example.org",
        ),
    ] = ""

    def __post_init__(self) -> None:
        derived = {
            "database_url": f"sqlite:///{self.data_dir / 'rushes.db'}",
            "storage_url": f"file://{self.data_dir.absolute() / 'storage'}",
            "engine_cache_dir": self.data_dir / "models",
            "base_url": f"http://{self.host}:{self.port}",
        }
        for name, value in derived.items():
            if not getattr(self, name):
                msgspec.structs.force_setattr(self, name, value)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={show(name, getattr(self, name))}" for name in FIELDS)
        return f"Settings({shown})"


@dataclass(frozen=True, slots=True)
class Origin:
    """`source` is the variable or the file that said it; empty for a default."""

    kind: Literal["default", "environment", "file"]
    source: str = ""


DEFAULT = Origin("default")


def load(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """From the process's environment and working directory, unless others are given."""
    return load_with_origins(environ, directory)[0]


def load_with_origins(
    environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> tuple[Settings, dict[str, Origin]]:
    """The settings, and where each came from. Raises one BadSetting that names every problem."""
    given = _Given()
    directory = directory or Path.cwd()
    environ = os.environ if environ is None else environ
    _read_file(given, environ, directory)
    _read_environment(given, environ)
    _check_together(given)
    if given.problems:
        raise errors.BadSetting(_sentence(given.problems))
    data_dir = directory / given.values.get("data_dir", FIELDS["data_dir"].default)
    settings = Settings(**{**given.values, "data_dir": data_dir})
    return settings, {name: given.origins.get(name, DEFAULT) for name in FIELDS}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def show(name: str, value: Any) -> str:
    """The value for people, without what is secret."""
    if FIELDS[name].is_duration:
        return format_seconds(value)
    return str(hide(value, FIELDS[name].secret))


def hide(value: Any, secret: str | None) -> Any:
    """`secret` as a field is marked: None, "whole", or "url" for the password inside a URL."""
    if secret == "url":
        return PASSWORD_OPTION.sub(rf"\1{HIDDEN}", PASSWORD.sub(rf"\1:{HIDDEN}@", str(value)))
    return HIDDEN if secret and value else value


def format_seconds(seconds: float) -> str:
    """In the largest unit that leaves no fraction: 6h, 90s, 500ms."""
    for unit in ("d", "h", "min", "s"):
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{int(seconds // UNITS[unit])}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def describe() -> str:
    """docs/settings.md."""
    rows = [
        f"| `{variable(each.name)}` | `{each.shown_default}` | {each.sentence} |"
        for each in FIELDS.values()
    ]
    return "\n".join([INTRODUCTION, *rows, ""])


INTRODUCTION = f"""\
<!-- Made by `python -m rushes.config > docs/settings.md`; do not edit. -->

# Settings

Every setting is an environment variable, or a key in a TOML file with the same name in lower case
and without `{PREFIX}`. The file is `{DEFAULT_FILE}` in the working directory, or the one `{CONFIG}`
names. The environment wins. An empty value counts as not set.

Names that are unknown and values that cannot be used stop the start, with one message that lists
them all. `rushes config` prints what is in effect and where it came from, without secrets.

Durations are seconds (`60`) or have a unit: `500ms`, `60s`, `5min`, `2h`, `7d`. What holds a
secret can be read from a file instead: `{PREFIX}DATABASE_URL_FILE=/run/secrets/database_url`.

| name | default | meaning |
|---|---|---|"""


@dataclass(frozen=True, slots=True)
class Field:
    """One setting, read off the annotations of `Settings`."""

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
    def shown_default(self) -> str:
        written = (self.meta.extra or {}).get("default")
        return str(written or show(self.name, self.default))

    @property
    def sentence(self) -> str:
        later = " Not used yet." if (self.meta.extra or {}).get("later") else ""
        return f"{self.meta.description} Must be {self.expected}.{later}"

    @property
    def expected(self) -> str:
        """What fits in "must be …"."""
        kind, low, high = typing.get_args(self.type)[0], self.meta.ge, self.meta.le
        if written := (self.meta.extra or {}).get("expected"):
            return str(written)
        if self.is_duration:
            assert low is not None
            assert high is not None
            return f"a duration from {format_seconds(low)} to {format_seconds(high)}"
        if kind is int:
            return f"a whole number from {low} to {high}"
        if kind is bool:
            return "true or false"
        if choices := typing.get_args(kind):
            return f"{', '.join(choices[:-1])} or {choices[-1]}"
        return "a path" if kind is Path else "text"

    def convert(self, value: Any) -> Any:
        """Raises msgspec.ValidationError."""
        if isinstance(value, str):
            value = value.strip()
            if self.is_duration and (match := DURATION.fullmatch(value)):
                value = float(match[1]) * UNITS[match[2] or "s"]
            elif typing.get_origin(typing.get_args(self.type)[0]) is Literal:
                value = value.lower()
        return msgspec.convert(value, self.type, strict=False, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"not a {kind.__name__}")


def _fields() -> Iterator[Field]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    for each in msgspec.structs.fields(Settings):
        meta = typing.get_args(hints[each.name])[1]
        yield Field(name=each.name, type=hints[each.name], meta=meta, default=each.default)


FIELDS = {each.name: each for each in _fields()}


@dataclass(slots=True)
class _Given:
    """What was read so far. A later source overwrites an earlier one; problems add up."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)

    def take(self, name: str, value: Any, origin: Origin, label: str) -> None:
        try:
            self.values[name] = FIELDS[name].convert(value)
            self.origins[name] = origin
        except msgspec.ValidationError:
            said = "" if FIELDS[name].secret else f", not {_short(value)}"
            self.problems.append(f"{label}: must be {FIELDS[name].expected}{said}")
            self.wrong.add(name)

    def refuse_unknown(self, name: str, label: str, known: Mapping[str, str]) -> None:
        """`known` maps the names that are compared to the names that are suggested."""
        near = difflib.get_close_matches(name.lower().removeprefix("rushes_"), known, n=1)
        hint = f"; did you mean {known[near[0]]}?" if near else ""
        self.problems.append(f"{label}: there is no such setting{hint}")


def _read_file(given: _Given, environ: Mapping[str, str], directory: Path) -> None:
    named = environ.get(CONFIG)
    path = directory / (named or DEFAULT_FILE)
    label = named or DEFAULT_FILE
    if not named and not path.exists():
        return
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        prefix = f"{CONFIG}: " if named else ""
        given.problems.append(f"{prefix}{label} cannot be read: {error.strerror}")
        return
    except ValueError as error:
        given.problems.append(f"{label}: not valid TOML: {error}")
        return
    for name, value in values.items():
        if name not in FIELDS:
            given.refuse_unknown(name, f"{name} in {label}", {each: each for each in FIELDS})
        elif value != "":
            given.take(name, value, Origin("file", label), f"{name} in {label}")


def _read_environment(given: _Given, environ: Mapping[str, str]) -> None:
    variables = {variable(name): name for name in FIELDS}
    files = {f"{variable(name)}_FILE": name for name, each in FIELDS.items() if each.secret}
    for label in sorted(environ):
        value = environ[label]
        if not label.startswith(PREFIX) or label.startswith(TEST_PREFIX) or label == CONFIG:
            continue
        if label in variables:
            if value:
                given.take(variables[label], value, Origin("environment", label), label)
        elif label in files:
            if value:
                _read_secret(given, files[label], label, environ)
        else:
            known = {name.lower().removeprefix("rushes_"): name for name in (*variables, *files)}
            given.refuse_unknown(label, label, known)


def _read_secret(given: _Given, name: str, label: str, environ: Mapping[str, str]) -> None:
    if environ.get(variable(name)):
        given.problems.append(f"{label}: {variable(name)} is set, too; keep one of them")
        return
    try:
        value = Path(environ[label]).read_text().rstrip("\r\n")
    except OSError as error:
        given.problems.append(f"{label}: {environ[label]} cannot be read: {error.strerror}")
    except ValueError:
        given.problems.append(f"{label}: {environ[label]} is not text")
    else:
        given.take(name, value, Origin("environment", label), label)


def _check_together(given: _Given) -> None:
    """Each rule needs two good values; a bad one was reported already."""
    claim = given.values.get("claim_duration", FIELDS["claim_duration"].default)
    rules = {
        "heartbeat_interval": (claim / 3, "at most a third of"),
        "sweep_interval": (claim, "at most"),
    }
    for name, (highest, words) in rules.items():
        value = given.values.get(name, FIELDS[name].default)
        if value > highest + 1e-9 and not given.wrong & {name, "claim_duration"}:
            given.problems.append(
                f"{variable(name)}: must be {words} {variable('claim_duration')}"
                f" ({format_seconds(claim)}), not {format_seconds(value)}"
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sentence(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} settings are wrong:", *problems])


if __name__ == "__main__":
    sys.stdout.write(describe())
