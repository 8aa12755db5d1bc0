"""`rushes profiles`: what is made of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
import msgspec

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.client.shapes import Document

app = cyclopts.App(
    name="profiles", help="List, set and remove what videos are made into.", help_epilogue=""
)

Name = Annotated[str, cyclopts.Parameter(help="The profile's name, such as default.")]
TIMES = ("created_at", "updated_at")


@app.command(name="ls")
def list_profiles(*, json: output.Json = False) -> None:
    """List profiles, the default first."""
    with client.connect() as api:
        found = api.get("/profiles")["items"]
    if json:
        output.print_json(found)
        return
    columns = ("name", "ladder", "codecs", "preset", "crf", "encoder", "changed")
    output.print_table(columns, [_row(each) for each in found])


@app.command
def show(name: Name, /, *, json: output.Json = False) -> None:
    """Show a profile's settings."""
    with client.connect() as api:
        profile = api.get(f"/profiles/{name}")
    _print(profile, json)


@app.command(name="set")
def set_profile(
    name: Name,
    settings: Annotated[
        str,
        cyclopts.Parameter(help='JSON such as \'{"crf": 20, "codecs": ["h264", "hevc"]}\'.'),
    ],
    /,
    *,
    json: output.Json = False,
) -> None:
    """Make a profile, or set all of its settings anew; what is not said is the built-in default."""
    try:
        body = msgspec.json.decode(settings)
    except msgspec.DecodeError as error:
        raise errors.Invalid(f"the settings must be JSON: {error}") from None
    with client.connect() as api:
        profile = api.send("PUT", f"/profiles/{name}", json=body).json()
    _print(profile, json)


@app.command(name="rm")
def remove(name: Name, /, *, json: output.Json = False) -> None:
    """Remove a profile; the default is set back to what it was."""
    with client.connect() as api:
        api.delete(f"/profiles/{name}")
    if json:
        output.print_json({"name": name, "removed": True})
    else:
        print(f"{name} is {'as it was' if name == 'default' else 'removed'}")


def _print(profile: Document, json: bool) -> None:
    if json:
        output.print_json(profile)
        return
    values = {**profile, "ladder": _ladder(profile), "changed": output.when(profile["updated_at"])}
    names = [name for name in values if name not in TIMES]
    output.print_pairs((name, output.text(values[name])) for name in names if values[name] != "")


def _row(profile: Document) -> tuple[str, ...]:
    return (
        profile["name"],
        " ".join(f"{rung['height']}p" for rung in profile["ladder"]),
        ",".join(profile["codecs"]),
        profile["preset"],
        str(profile["crf"]),
        profile["encoder"],
        output.when(profile["updated_at"]) or "never",
    )


def _ladder(profile: dict[str, Any]) -> str:
    return " ".join(f"{rung['height']}p:{rung['bitrate']}" for rung in profile["ladder"])
