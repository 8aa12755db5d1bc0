"""`rushes config`: the settings in effect, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rushes import config
from rushes import settings as known
from rushes.cli import output
from rushes.setting_field import hide


def run(*, json: output.Json = False) -> None:
    settings, origins = config.load_with_origins()
    if json:
        output.print_json(_document(settings, origins))
        return
    output.print_table(
        ("name", "value", "origin"),
        [
            (name, known.show(name, getattr(settings, name)), _words(origin))
            for name, origin in origins.items()
        ],
    )


def _document(
    settings: config.Settings, origins: dict[str, config.SettingOrigin]
) -> dict[str, Any]:
    return {
        name: {
            "value": _plain(hide(getattr(settings, name), known.FIELDS[name].secret)),
            "origin": origin.kind,
            "source": origin.source or None,
        }
        for name, origin in origins.items()
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _words(origin: config.SettingOrigin) -> str:
    return f"{origin.kind} {origin.source}".rstrip()
