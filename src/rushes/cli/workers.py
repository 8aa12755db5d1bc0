"""`rushes workers`: who works for this server, and letting others in or out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import errors
from rushes.cli import client, output

if TYPE_CHECKING:
    from rushes.client.api import Api
    from rushes.client.shapes import Document

app = cyclopts.App(name="workers", help="List, admit, drain and disable workers.", help_epilogue="")

Which = Annotated[str, cyclopts.Parameter(name="ID", help="The worker's id, or its name.")]
Name = Annotated[str, cyclopts.Parameter(help="What people will see.")]
OptionalName = Annotated[
    str, cyclopts.Parameter(help="The worker's name; its host's if it is not said.")
]
Kinds = Annotated[
    str | None,
    cyclopts.Parameter(
        help="What the key is for, separated by commas; every kind that may leave the server, if"
        " it is not said."
    ),
]
Changes = Annotated[
    str, cyclopts.Parameter(name="NAME=VALUE", help="Such as schedule=22:00-06:00 or nice=10.")
]
Prefix = Annotated[
    str,
    # Random letters, of which a hyphen is one.
    cyclopts.Parameter(allow_leading_hyphen=True, help="How the key begins, as 'show' prints it."),
]


@app.command(name="ls")
def list_workers(*, json: output.Json = False) -> None:
    """List the workers, oldest first."""
    with client.connect() as api:
        found = api.get("/workers")["items"]
    if json:
        output.print_json(found)
    elif found:
        columns = ("id", "name", "status", "jobs", "kinds", "capabilities", "last seen")
        output.print_table(columns, [_row(each) for each in found])
    else:
        print("no workers")


@app.command
def show(which: Which, /, *, json: output.Json = False) -> None:
    """Show one worker, the jobs it holds and the keys it may use."""
    with client.connect() as api:
        worker = _find(api, which)
    if json:
        output.print_json(worker)
        return
    keys = [
        f"{each['prefix']}… of {output.when(each['created_at'])} for {_granted(each)}"
        for each in worker["keys"]
    ]
    pairs = {
        **{name: worker[name] for name in ("id", "name")},
        "status": _status(worker),
        "kinds": " ".join(worker["kinds"]),
        "capabilities": " ".join(worker["capabilities"]),
        "registered": output.when(worker["registered_at"]),
        "last seen": output.when(worker["last_seen_at"]),
        "jobs": " ".join(worker["jobs"]),
        "keys": ", ".join(keys),
        "protocol": worker["protocol"],
        "notes": "; ".join([*worker["declined"].values(), *worker["notes"]]),
        **dict(_settings(worker)),
        **{name: output.text(value) for name, value in worker["metadata"].items()},
    }
    output.print_pairs((name, value) for name, value in pairs.items() if value)


@app.command
def register(name: Name, /, *, kinds: Kinds = None, json: output.Json = False) -> None:
    """Add a worker and print its key, once."""
    with client.connect() as api:
        made = api.post("/worker/register", {"name": name, "kinds": _listed(kinds)})
        where = api.where
    if json:
        output.print_json(made)
        return
    pairs = [("worker", made["worker_id"]), ("kinds", _granted(made)), ("key", made["key"])]
    output.print_pairs(pairs)
    output.note(
        f"The key is shown only now. On the worker's machine: set RUSHES_WORKER_KEY to it, then"
        f" run 'rushes worker --server {where}'."
    )


@app.command
def invite(name: OptionalName = "", /, *, kinds: Kinds = None, json: output.Json = False) -> None:
    """Print a command that lets one worker join, within a day."""
    with client.connect() as api:
        made = api.post("/workers/invite", {"name": name, "kinds": _listed(kinds)})
    if json:
        output.print_json(made)
        return
    print(made["command"])
    output.note(f"Run it on the worker's machine before {output.when(made['expires_at'])} UTC.")


@app.command
def disable(which: Which, /, *, json: output.Json = False) -> None:
    """Give a worker nothing more until it is enabled again; what it holds it may finish."""
    _change(which, "disable", json)


@app.command
def enable(which: Which, /, *, json: output.Json = False) -> None:
    """Let a disabled or drained worker work again."""
    _change(which, "enable", json)


@app.command
def drain(which: Which, /, *, json: output.Json = False) -> None:
    """Let a worker finish what it holds and take nothing new."""
    _change(which, "drain", json)


@app.command(name="set")
def set_settings(which: Which, /, *changes: Changes, json: output.Json = False) -> None:
    """Say how a worker is to work; it hears of it within seconds. Settings: schedule, rest, nice,
    concurrency, tags, scratch_budget, idle_unload; 'nice=' leaves that to the worker again."""
    said = dict(_setting(each) for each in changes)
    with client.connect() as api:
        path = f"/workers/{_find(api, which)['id']}"
        worker = api.patch(path, said) if said else api.get(path)
    if json:
        output.print_json(worker)
    else:
        output.print_pairs(_settings(worker))


@app.command
def revoke(which: Which, prefix: Prefix, /, *, json: output.Json = False) -> None:
    """End one of a worker's keys at once."""
    with client.connect() as api:
        worker = _find(api, which)
        api.delete(f"/workers/{worker['id']}/keys/{prefix}")
    if json:
        output.print_json({"id": worker["id"], "revoked": prefix})
    else:
        print(f"the key {prefix}… of {output.one_line(worker['name'])} is revoked")


def _change(which: str, verb: str, json: bool) -> None:
    with client.connect() as api:
        worker = api.post(f"/workers/{_find(api, which)['id']}/{verb}")
    if json:
        output.print_json(worker)
    else:
        held = output.count(worker["holds"], "job")
        rest = f"; it may finish {held}" if worker["holds"] and verb != "enable" else ""
        print(f"{output.one_line(worker['name'])} is {worker['state']}{rest}")


def _find(api: Api, which: str) -> Document:
    found = [each for each in api.get("/workers")["items"] if which in (each["id"], each["name"])]
    if not found:
        raise errors.NotFound(f"no worker {which}")
    if len(found) > 1:
        ids = ", ".join(each["id"] for each in found)
        raise errors.Invalid(f"{len(found)} workers have this name; say which by its id: {ids}")
    [worker] = found
    return dict(worker)


def _listed(kinds: str | None) -> list[str] | None:
    return None if kinds is None else [each.strip() for each in kinds.split(",") if each.strip()]


def _granted(made: Document) -> str:
    return "all kinds" if made["kinds"] is None else " ".join(made["kinds"])


def _row(worker: Document) -> tuple[str, ...]:
    return (
        worker["id"],
        worker["name"],
        _status(worker),
        str(worker["holds"]),
        ",".join(worker["kinds"]),
        ",".join(worker["capabilities"]),
        output.when(worker["last_seen_at"]) or "never",
    )


def _status(worker: dict[str, Any]) -> str:
    words = [worker["status"]]
    if worker["state"] == "draining":
        words.append("draining")
    if worker["resting_until"]:
        words.append(f"resting until {output.when(worker['resting_until'])}")
    if worker["upgrade"]:
        words.append(worker["upgrade"])
    return ", ".join(words)


def _settings(worker: Document) -> list[tuple[str, str]]:
    by = {"server": "set here", "worker": "as it was started", "default": "unless said"}
    return [
        (name, f"{each['text'] or 'none'} ({by[each['said_by']]})")
        for name, each in worker["settings"].items()
    ]


def _setting(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise errors.Invalid(f"{text!r} must be NAME=VALUE, such as nice=10")
    return name.strip().replace("-", "_"), value.strip() or None
