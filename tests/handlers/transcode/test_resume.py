"""Killed at any moment, and run again: nothing that was finished is made twice, and the result is
that of a run that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ffmpegs
from running import Process, Running, clean_environment
from rushes.tools import boxes
from shell import everything_below

pytestmark = pytest.mark.timeout(280)


def film(path: Path, seconds: int, size: str = "320x180", *codec: str) -> Path:
    argv = [
        *(ffmpegs.known(), "-v", "error", "-y", "-f", "lavfi"),
        *("-i", f"testsrc2=s={size}:r=25:d={seconds},noise=alls=20:allf=t", "-f", "lavfi"),
        *("-i", f"sine=440:r=48000:d={seconds}"),
        *(codec or ("-c:v", "mpeg4", "-q:v", "5", "-c:a", "pcm_s16le")),
        str(path),
    ]
    subprocess.run(argv, check=True, timeout=60)
    return path


class Command:
    """`rushes process` on one file, in a process group of its own."""

    def __init__(self, source: Path, out: Path, *more: str) -> None:
        self.folder = out / source.stem
        self._argv = [sys.executable, "-m", "rushes", "process", str(source), "--out", str(out)]
        self._argv += more

    def run(self) -> str:
        done = subprocess.run(
            self._argv, capture_output=True, text=True, timeout=200, env=clean_environment()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill_when(self, is_time: Callable[[], bool]) -> None:
        started = subprocess.Popen(
            self._argv,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
        )
        try:
            deadline = time.monotonic() + 100
            while not is_time():
                assert started.poll() is None, "it was quicker than the test"
                assert time.monotonic() < deadline
                time.sleep(0.005)
        finally:
            started.kill()
            started.wait()

    def remembered(self) -> list[str]:
        try:
            lines = (self.folder / ".rushes" / "files.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["name"] for line in lines if line.endswith("}")]


def segments(folder: Path) -> dict[str, tuple[int, int]]:
    """By name: when it begins, and how many frames it has."""
    found = {}
    for path in sorted(folder.rglob("*.m4s")):
        if path.parent.name.startswith("."):
            continue
        cutter = boxes.Cutter()
        parts = list(cutter.feed(path.read_bytes()))
        name = path.relative_to(folder).as_posix()
        found[name] = (parts[0].start, sum(part.frames for part in parts))
    return found


def playlists(folder: Path) -> dict[str, str]:
    """Without what was measured: an encoder that starts again uses other bits."""
    return {
        path.relative_to(folder).as_posix(): re.sub(r"BANDWIDTH=\d+", "", path.read_text())
        for path in folder.rglob("*.m3u8")
    }


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.thorough)])
def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path: Path, kills: int) -> None:
    dice = random.Random(kills)
    source = film(tmp_path / "film.avi", 40)
    calm, rough = Command(source, tmp_path / "calm"), Command(source, tmp_path / "rough")
    calm.run()
    whole = len(segments(calm.folder))
    made: dict[str, int] = {}
    for kill in range(kills):
        least = round(whole * (kill + dice.random()) / (kills + 1))
        rough.kill_when(lambda least=least: len(set(rough.remembered())) >= least)  # type: ignore[misc]
        made = _unchanged(made, rough)
    rough.run()
    _unchanged(made, rough, over=True)
    assert segments(rough.folder) == segments(calm.folder)
    assert playlists(rough.folder) == playlists(calm.folder)
    assert not list(rough.folder.rglob(".*"))


def _unchanged(before: Mapping[str, int], command: Command, over: bool = False) -> dict[str, int]:
    """Pictures that were finished are still the same files; returns all there are now."""
    names = before if over else set(command.remembered())
    now = {
        name: (command.folder / name).stat().st_mtime_ns
        for name in names
        if name.endswith(".m4s") and not name.startswith("audio")
    }
    assert {name: now[name] for name in before} == before
    return now


def test_interrupted_by_a_person_it_says_how_to_go_on(tmp_path: Path) -> None:
    source = film(tmp_path / "film.avi", 20)
    out = tmp_path / "out"
    argv = [sys.executable, "-m", "rushes", "process", str(source), "--out", str(out)]
    started = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    command = Command(source, out)
    while not any(name.startswith("180p/seg") for name in command.remembered()):
        assert started.poll() is None
        time.sleep(0.01)
    began = time.monotonic()
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=20)
    assert started.returncode == 130
    assert time.monotonic() - began < 10
    assert "run it again to go on" in said
    assert not _children_of(str(source))
    assert "180p" in command.run()
    assert "there already" in command.run()
    (tmp_path / "other").mkdir()
    other = Command(film(tmp_path / "other" / "film.avi", 1), out)
    with pytest.raises(AssertionError):
        other.run()
    assert "180p" in Command(tmp_path / "other" / "film.avi", out, "--again").run()


def _children_of(source: str) -> list[str]:
    """Programs that still work on a file."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if (
            source in line
            and "ffmpeg" in line.split(" ", 1)[0]
            and path.parent.name != str(os.getpid())
        ):
            found.append(line)
    return found


# On a server


def settings(profile: str = "test", **more: Any) -> dict[str, Any]:
    return {"name": profile, "preset": "medium", "segment_seconds": 1, **more}


def upload(server: Running | Process, source: Path, **profile: Any) -> str:
    with server.client() as admin:
        assert admin.post("/profiles", json=settings(**profile)).status_code == 201
        with source.open("rb") as file:
            options = {"transcribe": "false", "profile": "test"}
            added = admin.post("/media", files={"file": (source.name, file)}, data=options)
        assert added.status_code == 201, added.text
        return str(added.json()["id"])


def media(server: Running | Process, media_id: str) -> dict[str, Any]:
    with server.client() as admin:
        found: dict[str, Any] = admin.get(f"/media/{media_id}").json()
    assert found["status"] != "failed", found["error"]
    return found


def done(server: Running | Process, media_id: str) -> int:
    found = media(server, media_id)["renditions"]
    return sum(each["segments_completed"] or 0 for each in found if each["name"] != "original")


def wait_until(condition: Callable[[], Any], seconds: float = 100) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_server_that_is_killed_goes_on_after_the_last_segment(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    source = film(tmp_path / "film.avi", 12)
    # Its own workers died with it, which it knows: nobody has to wait for their leases.
    server = process(claim_duration=600, heartbeat_interval=60)
    media_id = upload(server, source)
    wait_until(lambda: done(server, media_id) >= 3)
    server.kill()
    keys = _stored(server)
    server.start()
    wait_until(lambda: media(server, media_id)["status"] == "ready")
    assert {key: _stored(server).get(key) for key in keys} == keys
    with server.client() as admin:
        (job,) = admin.get("/jobs", params={"kind": "transcode"}).json()["items"]
        tries = admin.get(f"/jobs/{job['id']}/executions").json()["items"]
    assert (job["status"], len(tries)) == ("completed", 2)


def _stored(server: Process) -> dict[str, int]:
    """The segments of the picture, by where they lie."""
    return {
        str(path): known.st_mtime_ns
        for path, known in everything_below(server.data_dir / "storage").items()
        if path.match("180p/seg_*.m4s")
    }
