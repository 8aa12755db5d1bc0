"""Reads the settings from `RUSHES_*` variables and an optional TOML file.

All problems are reported together. Passed in, never a global. Must not import SQLAlchemy or
anything else that is slow to start.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushes import errors
from rushes.setting_field import CONFIG, DEFAULT, DEFAULT_FILE, PREFIX, BadValue
from rushes.setting_field import SettingOrigin as SettingOrigin
from rushes.settings import FIELDS, variable
from rushes.settings import Settings as Settings
from rushes.units import format_seconds

TEST_PREFIX = "RUSHES_TEST_"
# What VLog and Scriberr read, and what means the same here. Only the first two are theirs alone.
OLD_PREFIXES = ("VLOG_", "SPEECH_ENGINE_")
OLD_NAMES = {
    "VLOG_WORKER_CLAIM_DURATION_MINUTES": "claim_duration",
    "VLOG_WORKER_HEARTBEAT_INTERVAL": "heartbeat_interval",
    "VLOG_WORKER_OFFLINE_THRESHOLD_MINUTES": "offline_threshold",
    "VLOG_STALE_JOB_CHECK_INTERVAL": "sweep_interval",
    "VLOG_JOB_STALE_TIMEOUT": "attempt_timeout",
    "VLOG_MAX_RETRY_ATTEMPTS": "max_attempts",
    "VLOG_KEEP_COMPLETED_QUALITIES": "keep_completed_qualities",
    "VLOG_CLEANUP_PARTIAL_ON_FAILURE": "cleanup_partial_on_failure",
    "VLOG_REDIS_URL": "redis_url",
    "VLOG_JOB_QUEUE_MODE": "queue_mode",
    "VLOG_REDIS_POOL_SIZE": "redis_pool_size",
    "VLOG_ALERT_WEBHOOK_URL": "alert_webhook_url",
    "VLOG_ALERT_RATE_LIMIT_SECONDS": "alert_rate_limit",
    "VLOG_ALERT_WEBHOOK_TIMEOUT": "alert_webhook_timeout",
    "VLOG_WORKER_ADMIN_SECRET": "admin_secret",
    "SPEECH_ENGINE_CACHE_DIR": "engine_cache_dir",
    "SPEECH_ENGINE_PROVIDER": "engine_device",
    "SPEECH_ENGINE_THREADS": "engine_threads",
    "SPEECH_ENGINE_MAX_LOADED": "engine_max_loaded",
    "SPEECH_ENGINE_AUTO_DOWNLOAD": "engine_auto_download",
    "TRANSCRIPTION_WORKERS": "transcription_workers",
    "TRANSCRIPTION_QUEUE_POLL_INTERVAL": "poll_interval",
    "TRANSCRIPTION_LEASE_TIMEOUT": "claim_duration",
}


def load(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """From the process's environment and working directory, unless others are given."""
    return load_with_origins(environ, directory)[0]


def load_with_origins(
    environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> tuple[Settings, dict[str, SettingOrigin]]:
    """The settings, and where each came from. Raises one BadSetting that names every problem."""
    given = _PartialSettings()
    directory = directory or Path.cwd()
    environ = os.environ if environ is None else environ
    _read_file(given, environ, directory)
    _read_environment(given, environ)
    _check_together(given)
    if given.problems:
        raise errors.BadSetting(_sentence(given.problems))
    data_dir = directory / given.values.get("data_dir", FIELDS["data_dir"].default)
    settings = Settings(**{**given.values, "data_dir": data_dir}, origins=given.origins)
    return settings, {name: given.origins.get(name, DEFAULT) for name in FIELDS}


def about_old_names(environ: Mapping[str, str] | None = None) -> str | None:
    """What to say to somebody whose environment is still that of VLog or Scriberr; their values
    are not told. None when there is nothing."""
    environ = os.environ if environ is None else environ
    old = sorted(name for name in environ if name in OLD_NAMES or name.startswith(OLD_PREFIXES))
    if not old:
        return None
    told = ", ".join(
        f"{name} (set {variable(OLD_NAMES[name])})" if name in OLD_NAMES else f"{name} (no such)"
        for name in old
    )
    return f"not read are these variables of other systems, and units may differ: {told}"


@dataclass(slots=True)
class _PartialSettings:
    """What was read so far. A later source overwrites an earlier one; problems add up."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, SettingOrigin] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)

    def take(self, name: str, value: Any, origin: SettingOrigin, label: str) -> None:
        try:
            self.values[name] = FIELDS[name].read(value)
            self.origins[name] = origin
        except BadValue as error:
            self.problems.append(f"{label}: {error}")
            self.wrong.add(name)

    def refuse_unknown(self, name: str, label: str, known: Mapping[str, str]) -> None:
        self.problems.append(f"{label}: {no_such(name, known)}")


def no_such(name: str, known: Mapping[str, str]) -> str:
    """`known` maps the names that are compared to the names that are suggested."""
    near = difflib.get_close_matches(name.lower().removeprefix("rushes_"), known, n=1)
    return "there is no such setting" + (f"; did you mean {known[near[0]]}?" if near else "")


def _read_file(given: _PartialSettings, environ: Mapping[str, str], directory: Path) -> None:
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
            given.take(name, value, SettingOrigin("file", label), f"{name} in {label}")


def _read_environment(given: _PartialSettings, environ: Mapping[str, str]) -> None:
    variables = {variable(name): name for name in FIELDS}
    files = {f"{variable(name)}_FILE": name for name, each in FIELDS.items() if each.secret}
    for label in sorted(environ):
        value = environ[label]
        if not label.startswith(PREFIX) or label.startswith(TEST_PREFIX) or label == CONFIG:
            continue
        if label in variables:
            if value:
                given.take(variables[label], value, SettingOrigin("environment", label), label)
        elif label in files:
            if value:
                _read_secret(given, files[label], label, environ)
        else:
            known = {name.lower().removeprefix("rushes_"): name for name in (*variables, *files)}
            given.refuse_unknown(label, label, known)


def _read_secret(
    given: _PartialSettings, name: str, label: str, environ: Mapping[str, str]
) -> None:
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
        given.take(name, value, SettingOrigin("environment", label), label)


def make_data_dir(path: Path) -> None:
    """Raises BadSetting where nothing can be kept."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadSetting(
            f"RUSHES_DATA_DIR: {path} cannot be made: {error.strerror}; name a folder on a disk"
            " that has room and may be written"
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise errors.BadSetting(
            f"RUSHES_DATA_DIR: {path} cannot be written; make it belong to the user who runs this,"
            " or choose another"
        )


def _check_together(given: _PartialSettings) -> None:
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
    mode = given.values.get("queue_mode", "database")
    if mode != "database" and not given.values.get("redis_url") and "redis_url" not in given.wrong:
        given.problems.append(
            f"{variable('queue_mode')}: {mode} needs {variable('redis_url')}, which is not set"
        )


def _sentence(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} settings are wrong:", *problems])
