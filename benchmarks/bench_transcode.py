"""Encoding: what the whole job costs over bare ffmpeg, and how soon something plays.

Each figure is one line, `ratio NAME VALUE goal <=…`; the contestants take turns in one run, on the
same source (1080p, with sound). CPU seconds steady what a shared machine's clock does not; of a
server they are those between the answer to the upload and `ready`, its own included:

  transcode_job          upload finished → ready, over one bare ffmpeg that decodes once
  transcode_sequence     the same, over one ffmpeg for each quality, one after the other
  transcode_resume       killed at half and run again, over the undisturbed run
  transcode_spans        divided into spans, on one worker, over undivided
  two_workers            divided, on two workers, over one

and `figure transcode_cpu_s_per_minute_…` of the ladder and of each rung, against bare ffmpeg.

`--tools DIRECTORY` names where ffmpeg and ffprobe are, for all contestants; `--tools wheel` takes
those of the wheel. Without it they are those that Rushes finds.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running import Process, settings_for
from rushes.tools import encoders, profile, programs

RUNGS = ((1080, 5000), (720, 2500), (480, 1000), (360, 600))
FINISH_SECONDS = 3600


@dataclass
class Cost:
    """`first`: seconds until something could be played."""

    wall: float
    cpu: float
    first: float
    peak_bytes: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--preset", default="veryfast")
    parser.add_argument("--only", default="", help="names of figures, separated by commas")
    parser.add_argument("--tools", default="", help="a directory with ffmpeg and ffprobe, or wheel")
    options = parser.parse_args()
    use_tools(options.tools)
    print(f"with ffmpeg {programs.told(programs.ffmpeg())}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), options.seconds, options.preset, options.rounds)
        for name, measure in bench.figures().items():
            if not options.only or name in options.only.split(","):
                measure()


def use_tools(where: str) -> None:
    """First on the path, which the servers that are started share."""
    folder = Path(str(programs.in_wheel("ffmpeg"))).parent if where == "wheel" else Path(where)
    if where:
        missing = [name for name in programs.NAMES if not os.access(folder / name, os.X_OK)]
        assert not missing, f"{where} has no {' and no '.join(missing)}"
        os.environ["PATH"] = f"{folder.resolve()}{os.pathsep}{os.environ['PATH']}"


class Bench:
    def __init__(self, place: Path, seconds: int, preset: str, rounds: int) -> None:
        self.place = place
        self.preset = preset
        self.rounds = rounds
        self.seconds = seconds
        x264 = ("-preset", "veryfast", "-crf", "18")
        self.source = make_source(place / "source.mkv", seconds, "libx264", *x264)
        self._jobs: list[Cost] = []

    def figures(self) -> dict[str, Callable[[], None]]:
        return {
            "job": self.job,
            "first": self.first_segment,
            "remux": self.remux,
            "resume": self.resume,
            "spans": self.spans,
            "rungs": self.rungs,
        }

    def job(self) -> None:
        ours, bare, sequence = [], [], []
        for _ in range(self.rounds):
            ours.append(self.rushes())
            bare.append(self.bare())
            sequence.append(self.sequence())
        self._jobs = ours
        ratio("transcode_job", ours, bare, "<=1.05", wall)
        ratio("transcode_job_cpu", ours, bare, "<=1.05", cpu)
        ratio("transcode_sequence", ours, sequence, "<=0.65", wall)
        ratio("transcode_sequence_cpu", ours, sequence, "<=0.65", cpu)
        self._per_minute("whole ladder", ours, bare)
        print(f"figure encode_peak_mb {max(each.peak_bytes for each in ours) / 1e6:.0f}")

    def first_segment(self) -> None:
        """Of a source that browsers do not play: all rungs and the sound have one."""
        source = make_source(self.place / "other.mkv", 20, "mpeg4", "-q:v", "3")
        # In turns: a shared machine is not always as fast.
        pairs = [(self.rushes(source, until_first=True), self.bare(source)) for _ in range(3)]
        ours, bare = (median(map(first, each)) for each in zip(*pairs, strict=True))
        print(f"figure first_segment_s {ours:.2f} against {bare:.2f}")
        print(f"ratio first_segment_later_s {ours - bare:.2f} goal <=1.0", flush=True)

    def remux(self) -> None:
        """H.264 with AAC: playable at once, however long it is."""
        minute = make_source(self.place / "minute.mp4", 60, "libx264", "-preset", "ultrafast")
        small = make_source(
            self.place / "small.mp4", 60, "libx264", "-preset", "ultrafast", size="640x360"
        )
        hours = self.place / "hours.mp4"
        loop = [programs.ffmpeg(), "-v", "error", "-stream_loop", "119", "-i", str(small)]
        subprocess.run([*loop, "-c", "copy", str(hours)], check=True)
        for path in (minute, hours):
            found = median(self.rushes(path, until_first=True).first for _ in range(3))
            print(f"ratio first_play_{path.stem}_s {found:.2f} goal <=1.0", flush=True)

    def resume(self) -> None:
        whole = self.process(None)
        killed = self.process(0.5)
        ratio("transcode_resume", [killed], [whole], "<=1.1", wall)

    def spans(self) -> None:
        one = self._jobs or [self.rushes()]
        # As long as they are by default, if the source has room for two.
        length = 60.0 if self.seconds >= 120 else 16.0
        divided: dict[str, Any] = {"divide_after": 10.0, "span_seconds": length}
        spans = [self.rushes(**divided) for _ in range(self.rounds)]
        two = [self.rushes(workers=2, **divided) for _ in range(self.rounds)]
        ratio("transcode_spans", spans, one, "<=1.05", wall)
        ratio("transcode_spans_cpu", spans, one, "<=1.05", cpu)
        ratio("two_workers", two, spans, "<=1.0", wall)

    def rungs(self) -> None:
        """Each as a job of its own, with all that belongs to one: sound, thumbnails, storyboard."""
        print(f"figure transcode_rungs_source_s {self.seconds}")
        for height, bitrate in RUNGS:
            alone: dict[str, Any] = {"ladder": [{"height": height, "bitrate": bitrate}]}
            ours = [self.rushes(**alone) for _ in range(self.rounds)]
            bare = [self.one_quality(height, bitrate) for _ in range(self.rounds)]
            self._per_minute(f"{height}p", ours, bare)

    def _per_minute(self, name: str, ours: list[Cost], bare: list[Cost]) -> None:
        mine, other = (median(map(cpu, each)) / self.seconds * 60 for each in (ours, bare))
        name = name.replace(" ", "_")
        print(
            f"figure transcode_cpu_s_per_minute_{name} {mine:.1f} against {other:.1f}", flush=True
        )

    # Contestants

    def rushes(
        self,
        source: Path | None = None,
        *,
        workers: int = 1,
        until_first: bool = False,
        **profile: Any,
    ) -> Cost:
        """A server of its own; the clocks start when the upload has been answered."""
        with tempfile.TemporaryDirectory(dir=self.place) as directory:
            # As a server is by default; tests look for work ten times as often.
            usual = {"poll_interval": 2.0, "sweep_interval": 10.0}
            given = settings_for(data_dir=Path(directory), transcode_workers=workers, **usual)
            with Process(given) as server, server.client() as admin:
                wanted = {"preset": self.preset, **profile}
                assert admin.put("/profiles/default", json=wanted).is_success, wanted
                path = source or self.source
                with path.open("rb") as file, peak_of_children(server.process.pid) as peak:
                    data = {"transcribe": "false"}
                    added = admin.post("/media", files={"file": (path.name, file)}, data=data)
                    assert added.status_code == 201, added.text
                    began, before = time.perf_counter(), spent_by(server.process.pid)
                    id = added.json()["id"]
                    played = until(lambda: _plays(admin, id))
                    done = played if until_first else until(lambda: _is_ready(admin, id), 0.5)
                    spent = spent_by(server.process.pid) - before
                server.stop()
            return Cost(done - began, spent, played - began, peak[0])

    def bare(self, source: Path | None = None) -> Cost:
        """One decode for all, nothing else."""
        with tempfile.TemporaryDirectory(dir=self.place) as directory:
            path = str(source or self.source)
            argv = [programs.ffmpeg(), "-v", "error", "-nostdin", "-i", path]
            labels = "".join(f"[s{n}]" for n in range(len(RUNGS)))
            graph = [f"[0:v]split={len(RUNGS)}{labels}"]
            graph += [f"[s{n}]scale=-2:{h},format=yuv420p[v{n}]" for n, (h, _) in enumerate(RUNGS)]
            argv += ["-filter_complex", ";".join(graph)]
            for number, (height, bitrate) in enumerate(RUNGS):
                argv += ["-map", f"[v{number}]", *self._encode(bitrate)]
                argv += self._hls(Path(directory) / str(height))
            argv += ["-map", "0:a", "-c:a", "aac", "-b:a", "128k"]
            argv += self._hls(Path(directory) / "audio")
            return timed(argv, Path(directory), len(RUNGS) + 1)

    def sequence(self) -> Cost:
        """One program for each quality, each with the sound."""
        costs = [self.one_quality(height, bitrate) for height, bitrate in RUNGS]
        return Cost(sum(map(wall, costs)), sum(map(cpu, costs)), costs[0].first)

    def one_quality(self, height: int, bitrate: int) -> Cost:
        with tempfile.TemporaryDirectory(dir=self.place) as directory:
            argv = [programs.ffmpeg(), "-v", "error", "-nostdin", "-i", str(self.source)]
            argv += ["-map", "0:v", "-map", "0:a", "-vf", f"scale=-2:{height},format=yuv420p"]
            argv += [*self._encode(bitrate), "-c:a", "aac", "-b:a", "128k"]
            argv += self._hls(Path(directory) / str(height))
            return timed(argv, Path(directory), 1)

    def process(self, kill_at: float | None) -> Cost:
        """`rushes process`, perhaps killed when so much of it is done."""
        with tempfile.TemporaryDirectory(dir=self.place) as directory, children_cpu() as spent:
            argv = [sys.executable, "-m", "rushes", "process", str(self.source)]
            argv += ["--out", directory, "--preset", self.preset, "--no-transcribe"]
            began = time.perf_counter()
            if kill_at is not None:
                wanted = round(len(RUNGS) * self.seconds / 4 * kill_at)
                run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                until(lambda: len(list(Path(directory).rglob("*p/seg_*.m4s"))) >= wanted)
                run.kill()
                run.wait()
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ended = time.perf_counter()
        return Cost(ended - began, spent[0], 0.0)

    def _encode(self, bitrate: int) -> list[str]:
        software = encoders.BY_NAME[encoders.SOFTWARE]
        crf = profile.DEFAULT.crf
        arguments = software.arguments("h264", bitrate=bitrate, crf=crf, preset=self.preset)
        return [*arguments, "-force_key_frames", "expr:gte(t,n_forced*4)"]

    def _hls(self, folder: Path) -> list[str]:
        folder.mkdir()
        return [
            *("-f", "hls", "-hls_time", "4", "-hls_playlist_type", "event"),
            *("-hls_segment_type", "fmp4", str(folder / "list.m3u8")),
        ]


def make_source(path: Path, seconds: int, codec: str, *more: str, size: str = "1920x1080") -> Path:
    """Something moves, something is fine-grained, something speaks: neither trivial nor noise."""
    picture = f"testsrc2=s={size}:r=30:d={seconds},noise=alls=6:allf=t"
    argv = [programs.ffmpeg(), "-v", "error", "-y", "-f", "lavfi", "-i", picture]
    argv += ["-f", "lavfi", "-i", f"sine=440:beep_factor=4:r=48000:d={seconds}"]
    argv += ["-c:v", codec, *more, "-g", "60", "-pix_fmt", "yuv420p", "-c:a", "aac", str(path)]
    subprocess.run(argv, check=True)
    return path


def timed(argv: list[str], place: Path, lists: int) -> Cost:
    """It can be played when it has so many playlists."""
    with children_cpu() as spent:
        began = time.perf_counter()
        run = subprocess.Popen(argv)
        played = until(lambda: len(list(place.rglob("*.m3u8"))) >= lists or run.poll() is not None)
        assert run.wait() == 0
        ended = time.perf_counter()
    return Cost(ended - began, spent[0], played - began)


def _plays(admin: Any, id: str) -> bool:
    answer = admin.get(f"/media/{id}/stream/master.m3u8", follow_redirects=True)
    return bool(answer.status_code == 200)


def _is_ready(admin: Any, id: str) -> bool:
    found = admin.get(f"/media/{id}").json()
    assert found["status"] != "failed", found["error"]
    return bool(found["status"] == "ready")


def until(condition: Callable[[], Any], pause: float = 0.2) -> float:
    """When it came true. Looking often would cost the contestants their time."""
    deadline = time.perf_counter() + FINISH_SECONDS
    while not condition():
        assert time.perf_counter() < deadline
        time.sleep(pause)
    return time.perf_counter()


@contextmanager
def children_cpu() -> Iterator[list[float]]:
    """Of all programs that were started and ended inside."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = [0.0]
    yield spent
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent[0] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spent_by(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def peak_of_children(pid: int) -> Iterator[list[int]]:
    """The most memory that the programs below `pid` had at once, without the server itself."""
    peak, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            peak[0] = max(peak[0], sum(_resident(child) for child in _below(pid)))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    yield peak
    over.set()
    thread.join()


def _below(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def wall(cost: Cost) -> float:
    return cost.wall


def cpu(cost: Cost) -> float:
    return cost.cpu


def first(cost: Cost) -> float:
    return cost.first


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def ratio(
    name: str, ours: list[Cost], theirs: list[Cost], goal: str, of: Callable[[Cost], float]
) -> None:
    mine, other = median(map(of, ours)), median(map(of, theirs))
    print(f"figure {name}_s {mine:.1f} against {other:.1f}")
    print(f"ratio {name} {mine / other:.3f} goal {goal}", flush=True)


if __name__ == "__main__":
    main()
