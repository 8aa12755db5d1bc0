"""Rushes on PostgreSQL with its worker elsewhere: it waits at a server, in a long poll."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from benchmarks.contestants import rushes_any
from benchmarks.contestants.rushes_any import prepare, send
from benchmarks.contestants.tally import Latencies

from rushes import JobContext, ids
from rushes.accounts import access
from rushes.kinds import Grant
from rushes.protocol import Hello
from rushes.worker.loop import Handler, Worker
from rushes.worker.remote import Remote

TITLE = "Rushes (PostgreSQL, remote worker)"
DATABASE = "postgres"
SHARE = 1.0
START_SECONDS = 60.0

__all__ = ["prepare", "send", "serve"]


def serve(url: str, latencies: Latencies) -> None:
    def noop(job: JobContext) -> None:
        latencies.heard(job.args["sent_at"])

    with rushes_any.open_app(url) as app, tempfile.TemporaryDirectory() as place:
        key = app.db.run(lambda tx: access.register_worker(tx, "bench", Grant()))[1].text
        server = start_server(url, Path(place))
        hello = Hello(kinds=["noop"], boot_id=ids.new("boot"))
        print("ready", flush=True)
        Worker(Remote(server, key), {"noop": Handler(noop, None)}, hello=hello).run()


def start_server(url: str, place: Path) -> str:
    """It ends with this process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {"DATABASE_URL": url, "DATA_DIR": str(place), "HOST": "127.0.0.1", "PORT": str(port)}
    given |= {"TRANSCODE_WORKERS": "0", "TRANSCRIPTION_WORKERS": "0", "MIN_FREE_SPACE": "0"}
    leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    subprocess.Popen(
        [*leash, sys.executable, "-m", "rushes", "serve"],
        env=os.environ | {f"RUSHES_{name}": value for name, value in given.items()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(f"{address}/livez", timeout=5):
            return address
        time.sleep(0.1)
    raise SystemExit("the server did not start")
