"""`rushes media share` and `unshare`: links for whoever has them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts

from rushes import errors, units
from rushes.cli import client, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushes.client.shapes import Document

Id = Annotated[str, cyclopts.Parameter(help="The media's id, such as med_0198a3….")]


def share(
    id: Id,
    /,
    *,
    expires: Annotated[
        str | None, cyclopts.Parameter(help="When it ends: 12h, 7d, a date, or never.")
    ] = None,
    password: Annotated[
        bool | None, cyclopts.Parameter(help="Ask here for a password for it, or take it away.")
    ] = None,
    password_stdin: Annotated[
        bool, output.FLAG, cyclopts.Parameter(help="Read a password from standard input.")
    ] = False,
    download: Annotated[
        bool | None, cyclopts.Parameter(help="Whether original and transcript can be downloaded.")
    ] = None,
    from_: Annotated[
        str | None,
        cyclopts.Parameter(name="--from", help="Show a part alone, from 12.5 or 1:02:03 on."),
    ] = None,
    to: Annotated[str | None, cyclopts.Parameter(help="Where that part ends.")] = None,
    end: Annotated[
        bool, output.FLAG, cyclopts.Parameter(help="The link stops working; as unshare.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Print a link that shows this media to whoever has it."""
    terms = _terms(expires, True if password_stdin else password, download)
    part = _part(from_, to)
    if end and (terms or part):
        raise errors.Invalid("--end goes alone: nothing is left to say of a link that has ended")
    if end:
        unshare(id, json=json)
        return
    with client.connect() as api:
        shared = api.post(f"/media/{id}/share", terms or None)
        if part:
            shared |= api.post(f"/media/{id}/share/clips", part)
    if json:
        output.print_json({"id": id, **shared})
        return
    print(shared["share_url"])
    if part:
        output.note(f"from {shared['start']:g} s to {shared['end']:g} s: segments are shown whole")
    for each in _about_link(shared):
        output.note(each)


def _terms(expires: str | None, password: bool | None, download: bool | None) -> Document:
    """Only what was said."""
    terms: dict[str, Any] = _end(expires) if expires is not None else {}
    if password is not None:
        terms["password"] = output.read_password() if password else None
    if download is not None:
        terms["allow_download"] = download
    return terms


def _part(start: str | None, end: str | None) -> Document:
    """Empty: the whole."""
    if start is None and end is None:
        return {}
    if start is None or end is None:
        raise errors.Invalid("--from and --to go together")
    return {"start": output.seconds("--from", start), "end": output.seconds("--to", end)}


def _end(text: str) -> Document:
    """A duration, a date or a time."""
    if text == "never":
        return {"expires_at": None}
    if (seconds := units.parse_seconds(text)) is not None:
        return {"expires_in": seconds}
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        said = f"must be like 7d, 2030-01-31, 2030-01-31T18:00, or never, not {text!r}"
        raise errors.BadField("--expires", said) from None
    # Without a zone it is what the clock on the wall shows here.
    return {"expires_at": moment.astimezone().isoformat()}


def _about_link(shared: Document) -> Iterator[str]:
    if shared["expired"]:
        yield "it has expired: --expires 7d makes it work again"
    elif shared["expires_at"]:
        yield f"until {output.when(shared['expires_at'])} UTC"
    if shared["has_password"]:
        yield "with a password"
    if shared["allow_download"]:
        yield "with downloads"
    if shared["views"]:
        last = output.when(shared["last_viewed_at"])
        yield f"watched {output.count(shared['views'], 'time')}, last {last} UTC"
    if shared["reach"] != "anywhere":
        yield f"this address works only on this {shared['reach']}: set RUSHES_BASE_URL"


def unshare(id: Id, /, *, json: output.Json = False) -> None:
    """Make the link stop working."""
    with client.connect() as api:
        api.delete(f"/media/{id}/share")
    if json:
        output.print_json({"id": id, "share_url": None})
    else:
        print(f"{id} is not shared any more")
