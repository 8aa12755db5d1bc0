"""How soon an upload can be watched when many encodes wait before it.

Each figure is one line, `ratio NAME VALUE goal <=…`, of the same clip (H.264 with AAC, which
browsers play), on the same machine in one run:

  playable_behind_60     upload finished → master playlist, behind 60 encodes that wait and one that
                         runs, over the same on an empty queue of an idle server
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_transcode import make_source, median

from running import Process, settings_for

BACKLOG = 60
LOOK_SECONDS = 0.02
WAIT_SECONDS = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        quick = ("-preset", "ultrafast")
        clip = make_source(place / "clip.mp4", 10, "libx264", *quick, size="640x360")
        # Long enough to be at it all the while, and nothing that could be copied.
        film = make_source(place / "film.mkv", 60, "mpeg4", "-q:v", "3")
        other = make_source(place / "other.mkv", 2, "mpeg4", "-q:v", "3", size="320x180")
        with server(place / "idle") as process, process.client() as admin:
            alone = median(
                [first_play(admin, clip, until_ready=True) for _ in range(options.rounds)]
            )
        with server(place / "busy") as process, process.client() as admin:
            upload(admin, film)
            last = [upload(admin, other) for _ in range(BACKLOG)][-1]
            # Those before it are waiting to be encoded, and for nothing else.
            until(lambda: admin.get(f"/media/{last}").json()["thumbnail_url"])
            behind = median([first_play(admin, clip) for _ in range(options.rounds)])
            waiting = admin.get("/queue/stats").json()["kinds"]["transcode"]["queued"]
        print(f"figure playable_s {behind:.2f} behind {waiting} encodes, {alone:.2f} alone")
        print(f"ratio playable_behind_60 {behind / alone:.2f} goal <=1.5", flush=True)


def server(data_dir: Path) -> Process:
    """As it is by default; tests look for work ten times as often."""
    usual: dict[str, Any] = {"poll_interval": 2.0, "sweep_interval": 10.0}
    return Process(settings_for(data_dir=data_dir, transcription_workers=0, **usual))


def upload(admin: Any, path: Path) -> str:
    with path.open("rb") as file:
        data = {"transcribe": "false"}
        added = admin.post("/media", files={"file": (path.name, file)}, data=data)
    assert added.status_code == 201, added.text
    return str(added.json()["id"])


def first_play(admin: Any, clip: Path, *, until_ready: bool = False) -> float:
    """Seconds from the answer to the upload. `until_ready`: leave an empty queue behind."""
    id = upload(admin, clip)
    began = time.perf_counter()
    address = f"/media/{id}/stream/master.m3u8"
    until(lambda: admin.get(address, follow_redirects=True).status_code == 200)
    seconds = time.perf_counter() - began
    if until_ready:
        until(lambda: admin.get(f"/media/{id}").json()["status"] == "ready")
    return seconds


def until(condition: Any) -> None:
    deadline = time.perf_counter() + WAIT_SECONDS
    while not condition():
        assert time.perf_counter() < deadline
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
