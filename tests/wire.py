"""A line to a server that tests can hold, cut, and count bytes on."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

PIECE = 64 * 1024
WAIT_SECONDS = 60


class Wire:
    """Passes connections on to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._hold_at: int | None = None
        self._cut_at: int | None = None
        self._cut_before: bytes | None = None
        self._refused: bytes | None = None
        self._go_on = threading.Event()
        self.held = threading.Event()
        self.was_cut = threading.Event()
        # From the client to the server.
        self.passed_bytes = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def hold_after(self, count: int) -> None:
        """So many more bytes pass; then nothing does until `release`."""
        self._go_on.clear()
        self._hold_at = self.passed_bytes + count

    def release(self) -> None:
        self._hold_at = None
        self._go_on.set()

    def cut_after(self, count: int) -> None:
        """Once so many more bytes have passed, every connection is cut; new ones are fine."""
        self._cut_at = self.passed_bytes + count

    def cut_before_answer(self, part: bytes) -> None:
        """The first answer with this in it never arrives."""
        self._cut_before = part

    def refuse(self, part: bytes) -> None:
        """Requests with this in them find no server."""
        self._refused = part

    def __enter__(self) -> Wire:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        # Closing alone would not wake up whoever waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._pass, args=(source, target, source is client), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, target: socket.socket, upward: bool) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                if not (self._may_go_up(data) if upward else self._may_go_down(data)):
                    break
                target.sendall(data)
        for each in (source, target):
            self._close(each)

    def _may_go_up(self, data: bytes) -> bool:
        if self._refused is not None and self._refused in data:
            return False
        self.passed_bytes += len(data)
        if self._hold_at is not None and self.passed_bytes >= self._hold_at:
            self.held.set()
            self._go_on.wait(WAIT_SECONDS)
        if self._cut_at is not None and self.passed_bytes >= self._cut_at:
            self._cut_at = None
            self.was_cut.set()
            self._cut()
            return False
        return True

    def _may_go_down(self, data: bytes) -> bool:
        if self._cut_before is not None and self._cut_before in data.lower():
            self._cut_before = None
            self.was_cut.set()
            return False
        return True

    def _cut(self) -> None:
        with self._lock:
            cut, self._open = self._open, set()
        for each in cut:
            self._close(each)

    def _close(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
