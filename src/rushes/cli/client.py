"""Finding the API: a named server, the one running here, or this very process.

One code path and one output for all three. Must stay light: every command's help imports it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rushes import config, errors

if TYPE_CHECKING:
    from rushes.client import Client

# As `serving` writes it; importing that would bring the whole server.
ADDRESS_FILE = "server.json"
PROBE_SECONDS = 3.0
NO_SERVER = (
    "no server is running here: start one with 'rushes serve', or set RUSHES_SERVER and"
    " RUSHES_TOKEN to use another"
)
NO_TOKEN = (
    "RUSHES_SERVER is set, but RUSHES_TOKEN is not: make a token there with 'rushes tokens create'"
)


@contextmanager
def connect(*, needs_server: bool = False) -> Iterator[Client]:
    """`needs_server`: this process alone would not do."""
    settings = config.load()
    found = _named(settings) or _running_here(settings)
    if found is not None:
        with found:
            yield found
    elif needs_server:
        raise errors.Unavailable(NO_SERVER)
    else:
        with _inside(settings) as inside:
            yield inside


def address_of_server_here(settings: config.Settings) -> dict[str, str] | None:
    """`url` and `token` as a server on this data directory has left them; it may be gone."""
    try:
        said = json.loads((settings.data_dir / ADDRESS_FILE).read_text())
        return {"url": str(said["url"]), "token": str(said["token"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _named(settings: config.Settings) -> Client | None:
    if not settings.server:
        return None
    from rushes.client import Client

    # Workers may know several; any of them will do.
    server = settings.server.partition(",")[0].rstrip("/")
    here = address_of_server_here(settings)
    if settings.token:
        return Client(server, settings.token)
    if here is None or here["url"] != server:
        raise errors.BadSetting(NO_TOKEN)
    return Client(server, here["token"])


def _running_here(settings: config.Settings) -> Client | None:
    here = address_of_server_here(settings)
    if here is None:
        return None
    from rushes.client import Client

    # No proxy knows this machine better than we do.
    with Client(here["url"], here["token"], trust_env=False, seconds=PROBE_SECONDS) as probe:
        try:
            probe.get("/session")
        except errors.RushesError:
            # Left behind by a server that was killed; the address may be another's by now.
            return None
    return Client(here["url"], settings.token or here["token"], trust_env=False)


@contextmanager
def _inside(settings: config.Settings) -> Iterator[Client]:
    from rushes.cli import inside
    from rushes.client import Client

    with inside.Inside(settings) as transport:
        token = settings.token or transport.token
        with Client(settings.base_url, token, transport=transport, trust_env=False) as api:
            yield api
