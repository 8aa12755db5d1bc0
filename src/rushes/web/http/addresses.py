"""Addresses of this server that people can use, and pass on.

What the operator has set counts. Otherwise whoever asks gets the address they used themselves: it
has reached the server, so it will again. Only on the machine itself is that of no use to others.
"""

from __future__ import annotations

import io
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from rushes.settings import Settings, web_address

# The scheme and host of the request that is being answered; set for each by `guard`.
used: ContextVar[str | None] = ContextVar("used_address", default=None)

NO_TLS = (
    "WARNING: there is no TLS. Everybody on this network can read passwords and recordings on their"
    " way. Put a proxy with a certificate in front, and set RUSHES_BASE_URL=https://…"
    " (docs/operating.md)."
)


def public(settings: Settings) -> str:
    """Without a slash at its end."""
    if settings.has_base_url:
        return settings.base_url.rstrip("/")
    asked = used.get()
    if asked is not None and not _is_here_alone(_host(asked)):
        return asked
    if settings.host not in ANY:
        return asked or settings.base_url
    return web_address(lan() or "127.0.0.1", settings.port)


def is_own(settings: Settings, origin: str) -> bool:
    """Whether a page with this `Origin` is one of ours: scheme, host and port are those of the
    request or of the setting. Behind a proxy that does not tell the scheme, a request to the
    setting's https address looks like http: a page that was sent without TLS must not count."""
    asker, told, asked = origin_of(origin), _of(settings.base_url), _of(used.get() or "")
    if asker is None:
        return False
    if told and asked and told.scheme == "https" and told.authority == asked.authority:
        return asker == told
    return asker in (told, asked)


def reach(url: str) -> Literal["anywhere", "network", "machine"]:
    """From where an address works, as far as it tells."""
    host = urlsplit(url).hostname or ""
    if _is_here_alone(host):
        return "machine"
    try:
        return "anywhere" if ipaddress.ip_address(host).is_global else "network"
    except ValueError:
        return "network" if "." not in host or host.endswith(LOCAL_NAMES) else "anywhere"


def greeting(settings: Settings) -> Iterator[str]:
    """For whoever has started the server."""
    yield f"Rushes is running at {public(settings)}"
    if settings.host in ANY and not settings.has_base_url:
        yield f"On this machine: {web_address('127.0.0.1', settings.port)}"
    if not is_open(settings) and not settings.has_base_url:
        yield "For phones and other machines: set RUSHES_HOST=0.0.0.0 (docs/operating.md)"
    if is_open(settings) and not settings.base_url.startswith("https://"):
        yield NO_TLS


def qr_code(lines: Iterable[str], settings: Settings) -> str:
    """For a phone's camera: the link that signs in, if one of the lines has it."""
    import segno

    words = (word for line in lines for word in line.split())
    link = next((word for word in words if "/sign-in?" in word), public(settings))
    drawn = io.StringIO()
    segno.make(link, error="l", micro=False).terminal(drawn, compact=True)
    return drawn.getvalue()


def is_open(settings: Settings) -> bool:
    """Whether other machines can reach it."""
    return settings.host in ANY or not _is_here_alone(settings.host)


def lan() -> str | None:
    """This machine's address in its network. Nothing is sent: a datagram socket that is connected
    only chooses where it would send from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # An address that documentation may use, and nobody has.
            probe.connect(("192.0.2.1", 9))
            found = str(probe.getsockname()[0])
        except OSError:
            return None
    return None if _is_here_alone(found) else found


ANY = ("", "0.0.0.0", "::")
# Names that only a network of one's own knows.
LOCAL_NAMES = (".local", ".lan", ".home", ".internal", ".home.arpa")
DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    scheme: str
    # Host and port; no port where it is the scheme's own.
    authority: tuple[str, int | None]


def _of(url: str) -> Origin | None:
    return origin_of("/".join(url.split("/")[:3]))


def origin_of(text: str) -> Origin | None:
    """RFC 6454: a scheme, a host and a port; None when there is anything else in it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    more = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    if more or not host or parts.scheme not in DEFAULT_PORTS:
        return None
    return Origin(parts.scheme, (host, None if port == DEFAULT_PORTS[parts.scheme] else port))


def _host(address: str) -> str:
    authority = address.partition("://")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def _is_here_alone(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or number.is_unspecified
