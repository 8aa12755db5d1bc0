"""What a server needs before it is one: a data directory, a port, services that are up."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

import msgspec

from rushes import config, errors
from rushes.settings import Settings

T = TypeVar("T")
log = logging.getLogger("rushes")

LOCK_FILE = "serve.lock"
BACKLOG = 2048
# Between two looks whether a service that is waited for is up.
WAIT_SECONDS = 0.5
WAITED_FOR = (
    errors.DatabaseDown,
    errors.SchemaTooOld,
    errors.SchemaInUse,
    errors.StorageDown,
    errors.RedisDown,
)


def once_up(
    call: Callable[[], T], settings: Settings, announce: Callable[[str], None], *, waits: bool
) -> T:
    """Machines start their services in any order. What is no server of its own is not waited for:
    a wrong path does not become right."""
    give_up_at = time.monotonic() + (settings.startup_wait if waits else 0)
    said = ""
    while True:
        try:
            return call()
        except WAITED_FOR as error:
            if time.monotonic() >= give_up_at:
                raise
            why = errors.for_operators(error)
            if why != said:
                announce(f"Waiting up to {settings.startup_wait:g} s: {why}")
            said = why
            time.sleep(WAIT_SECONDS)


@contextmanager
def owned(settings: Settings) -> Iterator[None]:
    """One server per data directory: two on one SQLite file would each think they are alone."""
    config.make_data_dir(settings.data_dir)
    if settings.data_dir.stat().st_mode & 0o077:
        log.warning(
            "other users of this machine may look into the data directory: chmod 700 %s",
            settings.data_dir,
        )
    with _lock_file(settings) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.WrongState(
                "another server is using this data directory; stop it first, or give this one"
                " a RUSHES_DATA_DIR of its own"
            ) from None
        yield


def _lock_file(settings: Settings) -> IO[str]:
    """The first thing that is written there."""
    try:
        return open(settings.data_dir / LOCK_FILE, "a", opener=private)
    except OSError as error:
        raise errors.BadSetting(
            f"RUSHES_DATA_DIR: {settings.data_dir} cannot be written: {error.strerror}; make room"
            " there, make it belong to the user who runs this, or choose another"
        ) from error


@contextmanager
def listening(settings: Settings) -> Iterator[tuple[Settings, list[socket.socket]]]:
    """Bound before anything else is started, so that a taken port is known at once. The settings
    come back with the real port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise errors.BadSetting(
                f"RUSHES_HOST and RUSHES_PORT: cannot listen on {settings.host} port"
                f" {settings.port}: {error.strerror}{_remedy(error, settings.port)}"
            ) from error
        # Until it listens, another program could still take the same port.
        listener.listen(BACKLOG)
        port = listener.getsockname()[1]
        if port != settings.port:
            base_url = settings.base_url if settings.has_base_url else ""
            settings = msgspec.structs.replace(settings, port=port, base_url=base_url)
        yield settings, [listener]
    finally:
        listener.close()


def _remedy(error: OSError, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            free = port + 1 if port < 65535 else port - 1
            return f"; stop what uses it (another Rushes?), or choose another: RUSHES_PORT={free}"
        case errno.EACCES:
            return "; choose a port above 1023"
        case errno.EADDRNOTAVAIL:
            return "; this machine has no such address: 127.0.0.1 is itself, 0.0.0.0 all it has"
        case _:
            return ""


def private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
