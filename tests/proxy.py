"""A way to a server over loopback that a test opens, closes, silences and slows down."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType


class Proxy:
    """Forwards to `port` once it is opened. `silence` swallows all that goes through, of the
    connections there are and of those to come, and keeps them open: a network that fails without
    a word."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._loud = threading.Event()
        self._loud.set()
        self._open: list[socket.socket] = []
        self._silenced: list[socket.socket] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._listener: socket.socket | None = None
        self._is_cut = False
        self._pace = _Pace()

    def open(self) -> Proxy:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()
        return self

    def silence(self) -> None:
        self._loud.clear()

    def speak(self) -> None:
        """To connections that are made from now on; what was swallowed stays so."""
        self._silenced += self._open
        self._open = []
        self._loud = threading.Event()
        self._loud.set()

    def cut(self) -> None:
        """The connections there are, and each that is made from now on, at once."""
        self._is_cut = True
        _close(self._open)
        self._open = []

    def mend(self) -> None:
        self._is_cut = False

    def slow_down(self, seconds: float, chunk_bytes: int) -> None:
        """Each way: so long for every so many bytes, or fewer. It never stands still."""
        self._pace.seconds, self._pace.chunk_bytes = seconds, chunk_bytes

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pace.closing.set()
        listener = [] if self._listener is None else [self._listener]
        _close([*listener, *self._open, *self._silenced])

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    args = (*pair, self._loud, self._pace)
                    threading.Thread(target=_pump, args=args, daemon=True).start()


@dataclass(slots=True)
class _Pace:
    seconds: float = 0.0
    chunk_bytes: int = 65536
    closing: threading.Event = field(default_factory=threading.Event)


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _pump(source: socket.socket, target: socket.socket, loud: threading.Event, pace: _Pace) -> None:
    with suppress(OSError):
        while chunk := source.recv(pace.chunk_bytes):
            if pace.seconds:
                pace.closing.wait(pace.seconds)
            if loud.is_set():
                target.sendall(chunk)
        if loud.is_set():
            target.shutdown(socket.SHUT_WR)
