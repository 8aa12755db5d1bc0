"""`rushes config`: the settings in effect, without secrets, and changing those of a server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import config, errors
from rushes import settings as known
from rushes.cli import client, output
from rushes.setting_field import hide

if TYPE_CHECKING:
    from rushes.client.shapes import Document

app = cyclopts.App(
    name="config",
    help="Print the settings in effect and where each came from; change those of a server.",
    help_epilogue="",
)

Name = Annotated[str, cyclopts.Parameter(help="Such as RUSHES_JOB_RETENTION, or job_retention.")]
Value = Annotated[str, cyclopts.Parameter(help="As in the environment: 30d, '30 days', 5GB.")]


@app.default
def show(*, json: output.Json = False) -> None:
    """Print the settings in effect and where each came from."""
    settings, problems = _in_effect(config.load())
    for each in problems:
        output.note(f"rushes: {each}")
    if json:
        output.print_json(_document(settings))
        return
    output.print_table(
        ("name", "value", "origin"),
        [
            (name, known.show(name, getattr(settings, name)), _words(settings.origin(name)))
            for name in known.FIELDS
        ],
    )


@app.command(name="set")
def set_setting(name: Name, value: Value, /, *, json: output.Json = False) -> None:
    """Change a setting of the server while it runs, as in its pages."""
    _change(name, value, json=json)


@app.command
def unset(name: Name, /, *, json: output.Json = False) -> None:
    """Let a setting that was changed in this way go back to its default."""
    _change(name, None, json=json)


def _change(name: str, value: str | None, *, json: bool) -> None:
    with client.connect() as api:
        body = {"changes": [{"name": name, "value": value}]}
        [changed] = api.patch("/settings", body)["items"]
    if json:
        output.print_json(changed)
    else:
        print(_told(changed))


def _told(setting: Document) -> str:
    name, shown = setting["name"], setting["shown"] or "empty"
    if (later := setting["after_restart"]) is not None:
        return f"{name}: {shown}, and {later or 'empty'} after a restart"
    return f"{name}: {shown}" + ("" if setting["origin"] == "page" else ", which is the default")


def _in_effect(settings: config.Settings) -> tuple[config.Settings, list[str]]:
    """With what was changed in the page, and what is wrong with that; where there is no database
    yet, or nobody serves it here, that is nothing."""
    if not _has_database(settings):
        return settings, []
    from rushes import live_settings
    from rushes.db import database, schema

    try:
        with closing(database.Database(settings.database_url)) as db:
            schema.check(db)
            return live_settings.look(db, settings)
    except errors.RushesError as error:
        return settings, [f"what was changed in the page is not shown: {error.message}"]


def _has_database(settings: config.Settings) -> bool:
    """Without asking a server that may be far away."""
    scheme, _, path = settings.database_url.partition(":///")
    if scheme.startswith("sqlite"):
        return Path(path).exists()
    return client.address_of_server_here(settings) is not None


def _document(settings: config.Settings) -> dict[str, Any]:
    document = {}
    for name, field in known.FIELDS.items():
        origin = settings.origin(name)
        document[name] = {
            "value": _plain(hide(getattr(settings, name), field.secret)),
            "origin": origin.kind,
            "source": origin.source or None,
        }
    return document


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _words(origin: config.SettingOrigin) -> str:
    return f"{origin.kind} {origin.source}".rstrip()
