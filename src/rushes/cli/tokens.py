"""`rushes tokens`: keys to the API for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts

from rushes import errors
from rushes.cli import client, output
from rushes.units import parse_seconds

if TYPE_CHECKING:
    from rushes.client.shapes import Document

app = cyclopts.App(name="tokens", help="List, create and revoke API tokens.", help_epilogue="")

Name = Annotated[str, cyclopts.Parameter(help="What it is for, to tell it from others.")]
Scopes = Annotated[
    list[Literal["read", "write", "admin"]] | None,
    cyclopts.Parameter(
        name="--scope",
        negative="",
        help="What it may do: read, write (which includes reading; the default) or admin.",
    ),
]
Expires = Annotated[
    str | None, cyclopts.Parameter(help="How long it works, such as 12h or 90d; for ever if not.")
]
Id = Annotated[str, cyclopts.Parameter(help="The token's id, as 'ls' prints it.")]


@app.command(name="ls")
def list_tokens(*, json: output.Json = False) -> None:
    """List your tokens; what they are is not kept, only how they begin."""
    with client.connect() as api:
        found = api.get("/tokens")["items"]
    if json:
        output.print_json(found)
    elif found:
        columns = ("id", "name", "begins", "scopes", "created", "expires", "last used")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("no tokens")


@app.command
def create(
    name: Name,
    /,
    *,
    scope: Scopes = None,
    expires: Expires = None,
    json: output.Json = False,
) -> None:
    """Make a token and print it, once."""
    body: dict[str, object] = {"name": name, "scopes": scope or ["write"]}
    if expires is not None:
        body["expires_seconds"] = _seconds(expires)
    with client.connect() as api:
        made = api.post("/tokens", body)
    if json:
        output.print_json(made)
        return
    print(made["token"])
    output.note("It is shown only now. Scripts and this command line take it as RUSHES_TOKEN.")


@app.command
def revoke(id: Id, /, *, json: output.Json = False) -> None:
    """End a token at once."""
    with client.connect() as api:
        api.delete(f"/tokens/{id}")
    if json:
        output.print_json({"id": id, "revoked": True})
    else:
        print(f"{id} is revoked")


def _seconds(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds is None:
        raise errors.BadField("--expires", f"must be a duration such as 12h or 90d, not {text!r}")
    return seconds


def _row(token: Document) -> tuple[str, ...]:
    return (
        token["id"],
        token["name"],
        f"{token['prefix']}…",
        ",".join(token["scopes"]),
        output.when(token["created_at"]),
        output.when(token["expires_at"]) or "never",
        output.when(token["last_used_at"]) or "never",
    )
