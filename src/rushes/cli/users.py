"""`rushes users`: who may sign in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import cyclopts

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.client.api import Api
    from rushes.client.shapes import Document

app = cyclopts.App(name="users", help="List, add and disable users.", help_epilogue="")

Name = Annotated[str, cyclopts.Parameter(help="The user's name.")]
Admin = Annotated[bool, output.FLAG, cyclopts.Parameter(help="May do everything.")]
PasswordStdin = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Read a password from standard input.")
]


@app.command(name="ls")
def list_users(*, json: output.Json = False) -> None:
    """List the users."""
    with client.connect() as api:
        found = api.get("/users")["items"]
    if json:
        output.print_json(found)
    elif found:
        output.print_table(("name", "role", "password", "created", "id"), [_row(u) for u in found])
    else:
        print("no users")


@app.command
def add(
    name: Name,
    /,
    *,
    admin: Admin = False,
    password_stdin: PasswordStdin = False,
    json: output.Json = False,
) -> None:
    """Add a user, and print a link that signs them in once."""
    body = {"name": name, "role": "admin" if admin else "user"}
    if password_stdin:
        body["password"] = output.read_password()
    with client.connect() as api:
        made = api.post("/users", body)
    if json:
        output.print_json(made)
        return
    print(f"{made['name']} may sign in, as {'an admin' if admin else 'a user'}")
    if not password_stdin:
        _print_link(made["signin_url"])


@app.command
def link(name: Name, /, *, json: output.Json = False) -> None:
    """Print a link that signs a user in once, within a day: also who forgot their password."""
    with client.connect() as api:
        made = api.post(f"/users/{_find(api, name)['id']}/link")
    if json:
        output.print_json(made)
    else:
        _print_link(made["signin_url"])


@app.command
def log(
    *,
    user: Annotated[str | None, cyclopts.Parameter(help="Only what this user did.")] = None,
    action: Annotated[
        str | None, cyclopts.Parameter(help="Only this, such as signin.failed.")
    ] = None,
    limit: Annotated[int, cyclopts.Parameter(help="How many at most.")] = 50,
    json: output.Json = False,
) -> None:
    """Who has signed in or failed to, and what was changed about who may; newest first."""
    with client.connect() as api:
        params = {"user_id": _find(api, user)["id"] if user else None, "action": action}
        found = api.items("/security-log", limit, **params)
    if json:
        output.print_json(found)
    elif found:
        names = ("time", "who", "what", "about", "from")
        output.print_table(names, [_entry(each) for each in found])
    else:
        print("nothing was logged")


@app.command
def disable(name: Name, /, *, json: output.Json = False) -> None:
    """Sign a user out everywhere, and keep them out."""
    _set(name, True, json)


@app.command
def enable(name: Name, /, *, json: output.Json = False) -> None:
    """Let a disabled user in again."""
    _set(name, False, json)


def _set(name: str, disabled: bool, json: bool) -> None:
    with client.connect() as api:
        user = api.patch(f"/users/{_find(api, name)['id']}", {"disabled": disabled})
    if json:
        output.print_json(user)
    else:
        print(f"{user['name']} is {'disabled' if disabled else 'enabled'}")


def _find(api: Api, name: str) -> Document:
    for user in api.get("/users")["items"]:
        if name == user["id"] or name.casefold() == user["name"]:
            return dict(user)
    raise errors.NotFound(f"no user {name}")


def _print_link(url: str) -> None:
    print(url)
    output.note("The link works once, within a day, also to set a new password.")


def _entry(entry: Document) -> tuple[str, ...]:
    who, address = entry["user_name"] or "", entry["address"] or ""
    return (output.when(entry["at"]), who, entry["action"], entry["subject"], address)


def _row(user: Document) -> tuple[str, ...]:
    role = f"{user['role']}, disabled" if user["disabled_at"] else user["role"]
    password = "yes" if user["has_password"] else "no"
    return (user["name"], role, password, output.when(user["created_at"]), user["id"])
