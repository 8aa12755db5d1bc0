"""Uploads against a bare endpoint that writes the same bytes to a file, under the same uvicorn.

Prints a table, then one line per goal. The contestants take turns on the same disk, so that a noisy
moment hits all of them; figures are medians of MB/s. Both sides sync before they answer.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import random
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from running import ADMIN_TOKEN, Process, free_port, settings_for

MIB = 2**20
CHUNK = 8 * MIB
BLOCK = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm" + random.Random(0).randbytes(CHUNK - 12)
TUS = {"Tus-Resumable": "1.0.0", "Authorization": f"Bearer {ADMIN_TOKEN}"}
OCTETS = {"Content-Type": "application/offset+octet-stream"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a trial run; its figures mean little")
    quick = parser.parse_args().quick
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    size, rounds, large = (32, 2, 128) if quick else (512, 7, 4096)
    with tempfile.TemporaryDirectory(prefix="rushes-bench-") as folder, servers(folder) as both:
        bare, rushes = both
        before = memory(rushes, "VmRSS")
        figures = measure(bare, rushes, size * MIB, rounds)
        send_tus(rushes, large * MIB, large * MIB)
        growth = (memory(rushes, "VmHWM") - before) / 1024
    report(figures, growth)


@contextmanager
def servers(folder: str) -> Iterator[tuple[Bare, Process]]:
    bare = Bare(Path(folder) / "bare")
    try:
        with Process(settings_for(data_dir=Path(folder) / "rushes", sweep_interval=10.0)) as rushes:
            yield bare, rushes
    finally:
        bare.stop()


class Bare:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.port = folder, free_port()
        script = f"{ROOT}/benchmarks/contestants/bare_upload.py"
        self._process = subprocess.Popen([sys.executable, script, str(self.port), str(folder)])
        self._wait()

    def _wait(self) -> None:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None:
                raise RuntimeError("the bare server did not start")
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(bare: Bare, rushes: Process, size: int, rounds: int) -> dict[str, list[float]]:
    contestants: dict[str, Callable[[], None]] = {
        "bare, one request": lambda: send_bare(bare, size, size),
        "tus, one PATCH": lambda: send_tus(rushes, size, size),
        "bare, 8 MiB each": lambda: send_bare(bare, size, CHUNK),
        "tus, 8 MiB each": lambda: send_tus(rushes, size, CHUNK),
    }
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, send in contestants.items():
            begin = time.perf_counter()
            send()
            if number:
                figures[name].append(size / 1e6 / (time.perf_counter() - begin))
            tidy(bare, rushes)
    return figures


def tidy(bare: Bare, rushes: Process) -> None:
    """The disk stays as full as it was."""
    for folder in (bare.folder, rushes.data_dir / "storage" / "sources"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()


def send_bare(bare: Bare, size: int, each: int) -> None:
    line = Line(bare.port)
    for start in range(0, size, each):
        line.ask("PUT", "/film", {}, min(each, size - start))
    line.close()


def send_tus(rushes: Process, size: int, each: int) -> None:
    line = Line(rushes.port)
    made = line.ask("POST", "/api/v1/uploads", {**TUS, "Upload-Length": str(size)}, 0)
    path = "/" + made["location"].split("/", 3)[3]
    for start in range(0, size, each):
        headers = {**TUS, **OCTETS, "Upload-Offset": str(start)}
        answer = line.ask("PATCH", path, headers, min(each, size - start))
    if "rushes-media-id" not in answer:
        raise RuntimeError("the upload was not accepted")
    line.close()


class Line:
    """A client that costs next to nothing, so that the servers are what is measured."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method: str, path: str, headers: dict[str, str], size: int) -> dict[str, str]:
        said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{said}\r\n".encode()
        )
        for start in range(0, size, CHUNK):
            self._socket.sendall(memoryview(BLOCK)[: min(CHUNK, size - start)])
        status, *lines = self._socket.recv(65536).decode().split("\r\n")
        if not status.startswith("HTTP/1.1 20"):
            raise RuntimeError(status)
        return dict(line.lower().split(": ", 1) for line in lines if ": " in line)

    def close(self) -> None:
        self._socket.close()


def memory(rushes: Process, name: str) -> int:
    """In KiB; VmHWM is the most it has ever had."""
    lines = Path(f"/proc/{rushes.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def report(figures: dict[str, list[float]], growth: float) -> None:
    middle = {name: statistics.median(values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"{name:20} {middle[name]:7.0f} MB/s  ({min(values):.0f} to {max(values):.0f})")
    whole = middle["tus, one PATCH"] / middle["bare, one request"]
    chunks = middle["tus, 8 MiB each"] / middle["bare, 8 MiB each"]
    print(f"ratio upload_tus {whole:.2f} goal >=0.8")
    print(f"ratio upload_tus_chunks {chunks:.2f} goal >=0.8")
    print(f"ratio upload_rss_growth_mb {growth:.0f} goal <=150")


if __name__ == "__main__":
    main()
