"""Writes `docs/benchmarks.md` and its plots from the logs of benchmarks, `build/bench/NAME.log`.

Reads the lines `ratio NAME VALUE goal GOAL` and `figure NAME WORDS` that every benchmark prints;
the last of a name counts. What has failed, was cut off or never ran is named in the page. Machine
and Python are those that write the page: write it where the logs were made.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path.append(ROOT)

import os
import platform
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import plots
from benchmarks.contestants import speech_peers
from benchmarks.log import LOGS

RATIO = re.compile(r"ratio (\S+) (-?[\d.]+) goal (none|(>=|<=) ?(-?[\d.]+))$")
FIGURE = re.compile(r"figure (\S+) (.+)$")
AGAINST = re.compile(r"(-?[\d.,]+) against (-?[\d.,]+)")
# What other programs and our own notes of progress say.
NOISE = re.compile(r"\d\d:\d\d:\d\d |began |only |ended |make\b|ratio |figure |\s*$")
PINNED = {
    "requirements.txt": ("faster-whisper", "uvicorn"),
    "requirements-bench.txt": ("pgqueuer", "procrastinate", "huey", "celery", "asyncpg"),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """`table`: it prints more than ratios and figures, to be shown as it is."""

    name: str
    title: str
    about: str
    table: bool = False
    command: str = ""

    @property
    def reproduced_by(self) -> str:
        return self.command or f"make bench-{self.name}"


BENCHES = (
    Bench(
        "queue",
        "The queue",
        "Against PGQueuer, Procrastinate, Huey and Celery, all durable, and against its own SQL on"
        " the bare driver.",
        table=True,
    ),
    Bench("fleet", "A thousand remote workers", "On one server with PostgreSQL."),
    Bench(
        "retention",
        "A million old jobs",
        "What a million jobs cost those who ask for figures, against a thousand; and claims while"
        " old jobs are deleted, against claims while they are not.",
    ),
    Bench("sse", "Live events", "One server process, a thousand clients.", table=True),
    Bench("api", "Downloads", "Against Starlette's own static files on the same server."),
    Bench(
        "upload",
        "Uploads",
        "Against a bare endpoint that writes the same bytes, under the same uvicorn.",
        table=True,
    ),
    Bench(
        "transcode",
        "Encoding",
        "A minute of 1080p as a job of a server, against the same ffmpeg called directly.",
    ),
    Bench(
        "stream",
        "From the upload to the picture",
        "A clip that browsers play behind sixty encodes that wait, against an empty queue.",
    ),
    Bench(
        "speech",
        "Speech",
        "Ten minutes of speech as a job of a server, against faster-whisper called directly, and"
        " against whisper.cpp and openai-whisper with models of the same size.",
    ),
    Bench(
        "hearing",
        "Hearing",
        "Wrong words over those of bare faster-whisper with the same model, recording by recording;"
        " `cpu`: the CPU of the engines.",
    ),
    Bench(
        "search",
        "Search",
        "In 1,000 hours of speech; `indexing` against nothing but a full-text index of the same"
        " database.",
    ),
    Bench("pages", "Pages", "In a real Chromium, with a library of 10,000 items and 50 jobs."),
)
WORDS = {
    "queue_drain_pg_vs_procrastinate": "jobs a second, PostgreSQL, against Procrastinate",
    "queue_drain_pg_vs_pgqueuer": "jobs a second, PostgreSQL, against PGQueuer",
    "queue_drain2_pg_vs_pgqueuer": "the same, two processes each",
    "queue_drain_sqlite_vs_huey": "jobs a second, SQLite, against Huey",
    "queue_batch_pg_vs_pgqueuer": "enqueued in batches, PostgreSQL, against PGQueuer",
    "queue_one_by_one_pg_vs_pgqueuer": "enqueued one by one, PostgreSQL, against PGQueuer",
    "queue_one_by_one_sqlite_vs_huey": "enqueued one by one, SQLite, against Huey",
    "queue_writers16_told_vs_untold": "sixteen writers who wake workers, against who do not",
    "queue_drain_pinned_vs_free_pg": "beside a long transaction, against without one",
    "queue_drain_pinned_vs_free_pgqueuer": "the same for PGQueuer, against itself",
    "queue_pickup_p50_remote_vs_celery": "pickup by a remote worker, against Celery with Redis",
    "queue_pickup_p50_pg_vs_pgqueuer": "pickup, PostgreSQL, against PGQueuer",
    "queue_pickup_p50_sqlite_vs_huey": "pickup, SQLite, against Huey",
    "queue_idle_cpu_sqlite_vs_huey": "CPU of an idle worker, SQLite, against Huey",
    "queue_drain_pg_vs_raw": "jobs a second, against the same SQL on bare psycopg",
    "queue_drain_sqlite_vs_raw": "jobs a second, against the same SQL on bare sqlite3",
    "queue_claim_1m_vs_1k_pg": "a claim with a million waiting, against a thousand, PostgreSQL",
    "queue_claim_1m_vs_1k_sqlite": "a claim with a million waiting, against a thousand, SQLite",
    "fleet_idle_tx_per_s": "transactions a second while all wait",
    "fleet_extra_tx_per_job": "transactions a job costs more than with one worker",
    "fleet_pickup_p50_vs_one": "pickup, against one worker",
    "fleet_pickup_p99_ms": "pickup, p99, ms",
    "fleet_heartbeat_p99_ms": "a heartbeat, p99, ms",
    "fleet_viewer_p50_vs_idle": "a viewer's file meanwhile, against without workers",
    "fleet_cpu_ms_per_job": "CPU of the server a job, ms",
    "sse_delivered": "events delivered of those expected",
    "download_whole": "a large file",
    "download_ranges": "the same in ranges of 8 MB",
    "download_segments": "segments of 2 MB",
    "upload_tus": "tus, one request",
    "upload_tus_chunks": "tus, chunks of 8 MB",
    "upload_rss_growth_mb": "memory that 4 GB take, MB",
    "transcode_job": "time of the job, against one bare ffmpeg that decodes once",
    "transcode_job_cpu": "CPU of the job, against the same",
    "transcode_sequence": "time of the job, against one ffmpeg for each quality",
    "transcode_sequence_cpu": "CPU of the job, against the same",
    "first_segment_later_s": "first segment later than bare ffmpeg's, s",
    "first_play_minute_s": "H.264 of a minute plays after, s",
    "first_play_hours_s": "H.264 of two hours plays after, s",
    "playable_behind_60": "upload to playlist behind sixty encodes, against an empty queue",
    "transcode_resume": "killed at half and run again, against undisturbed",
    "transcode_spans": "time in spans, against undivided",
    "transcode_spans_cpu": "CPU in spans, against undivided",
    "two_workers": "spans on two workers, against one, same two cores",
    "speech_job": "time of the job, against bare faster-whisper",
    "speech_job_cpu": "CPU of the job, against bare faster-whisper",
    "speech_first_words": "first words to be read, of the whole time",
    "speech_vs_whispercpp_time": "time, against whisper.cpp",
    "speech_vs_whispercpp_cpu": "CPU, against whisper.cpp",
    "speech_vs_openai_whisper_time": "time, against openai-whisper",
    "speech_vs_openai_whisper_cpu": "CPU, against openai-whisper",
    "pages_first_js_kb": "script of the first page, gzipped, kB",
    "pages_longest_task_ms": "longest task while all of it is scrolled through, ms",
    "pages_interaction_ms": "a key in the search box, p95, ms",
    "pages_news_p95_ms": "news of 50 running jobs on the page, p95, ms",
}
# A plot, the benchmarks that print its figures, and the beginning of their names.
CLAIMS = "queue_claim_ms_"
CPU_PER_MINUTE = "transcode_cpu_s_per_minute_"
WORDS_PER_CPU = "speech_words_per_cpu_s_"


@dataclass(frozen=True, slots=True)
class Ratio:
    name: str
    value: str
    goal: str

    @property
    def is_met(self) -> bool | None:
        """None where nothing was aimed at."""
        if self.goal == "none":
            return None
        value, goal = float(self.value), float(self.goal[2:])
        return value >= goal if self.goal.startswith(">=") else value <= goal


@dataclass(slots=True)
class Log:
    """`exit_code`: None if it does not say how it ended. `parts`: the options of runs that measured
    a part alone."""

    began: str = ""
    exit_code: int | None = None
    runs: int = 0
    parts: list[str] = field(default_factory=list)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def is_whole(self) -> bool:
        return self.runs > len(self.parts)


def parse(text: str) -> Log:
    log = Log(text=text)
    for line in text.splitlines():
        if found := RATIO.match(line):
            log.ratios[found[1]] = Ratio(found[1], found[2], found[3].replace(" ", ""))
        elif found := FIGURE.match(line):
            log.figures[found[1]] = found[2]
        elif found := re.match(r"began (\S+)", line):
            log.began, log.exit_code = found[1], None
            log.runs += 1
        elif found := re.match(r"only (.+)", line):
            log.parts.append(found[1])
        elif found := re.match(r"ended (-?\d+) ", line):
            log.exit_code = int(found[1])
    return log


# The page


def page(logs: Mapping[str, Log], machine: Sequence[tuple[str, str]]) -> str:
    """`logs` by name of the benchmark; of those that never ran there is none."""
    ratios = [ratio for log in logs.values() for ratio in log.ratios.values()]
    missed = [ratio for ratio in ratios if ratio.is_met is False]
    parts = [
        "# Benchmarks",
        "Made by `make bench-report` of what the benchmarks last printed; `make bench` runs all"
        " (one to two hours), and each can be run again alone. How each measures:"
        " [benchmarks/README.md](../benchmarks/README.md). Contestants take turns in one run on one"
        " machine: compare ratios, which move by some percent from run to run, not the seconds of"
        " two machines.",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in machine)]),
        f"{len(ratios)} goals and ratios, {len(missed)} missed"
        + (": " + ", ".join(f"`{each.name}`" for each in missed) if missed else "")
        + ".",
    ]
    if troubles := [line for bench in BENCHES if (line := _trouble(bench, logs.get(bench.name)))]:
        parts.append(
            "Not measured, or not wholly:\n\n" + "\n".join(f"- {line}" for line in troubles)
        )
    parts += [_plotted(title, name, made) for title, name, made in _plots(logs)]
    parts += [_section(bench, logs[bench.name]) for bench in BENCHES if bench.name in logs]
    return "\n\n".join(parts) + "\n"


def _trouble(bench: Bench, log: Log | None) -> str:
    again = f"`{bench.reproduced_by}`"
    if log is None:
        return f"{bench.title}: there is no log; {again} makes one."
    if log.exit_code is None:
        return f"{bench.title}: the run did not end; {again} runs it again."
    if log.exit_code:
        return f"{bench.title}: it failed with exit code {log.exit_code}; {again} runs it again."
    if not log.is_whole:
        return f"{bench.title}: only {', '.join(log.parts)} was run; {again} measures all of it."
    return "" if log.ratios else f"{bench.title}: it printed no ratio; {again} runs it again."


def _section(bench: Bench, log: Log) -> str:
    parts = [f"## {bench.title}", f"{bench.about} `{bench.reproduced_by}`" + _when(log)]
    if log.ratios:
        rows = ["| | value | goal | | measured |", "|---|---:|---|---|---|"]
        rows += [_row(ratio, log.figures) for ratio in log.ratios.values()]
        parts.append("\n".join(rows))
    if (
        bench.table
        and log.is_whole
        and (said := [line for line in log.text.splitlines() if not NOISE.match(line)])
    ):
        parts.append("\n".join(["```", *said, "```"]))
    used = {name for ratio in log.ratios for name in _measured_names(ratio)}
    others = [f"| `{name}` | {words} |" for name, words in log.figures.items() if name not in used]
    if others:
        table = "\n".join(["| | |", "|---|---|", *others])
        parts.append(f"<details><summary>Also measured</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(parts)


def _when(log: Log) -> str:
    return f", {log.began[:10]}." if log.began else "."


def _row(ratio: Ratio, figures: Mapping[str, str]) -> str:
    verdict = {True: "met", False: "**missed**", None: ""}[ratio.is_met]
    goal = "" if ratio.goal == "none" else ratio.goal.replace(">=", "≥ ").replace("<=", "≤ ")
    measured = next((figures[n] for n in _measured_names(ratio.name) if n in figures), "")
    words = WORDS.get(ratio.name) or f"`{ratio.name}`"
    return f"| {words} | {ratio.value} | {goal} | {verdict} | {measured} |"


def _measured_names(ratio: str) -> tuple[str, ...]:
    """Of the figure that says what a ratio was made of."""
    return (f"{ratio}_s", f"{ratio}_ms", ratio)


# The plots


def _plots(logs: Mapping[str, Log]) -> list[tuple[str, str, str | None]]:
    """Title, name of the file, and SVG; None where nothing was measured."""
    figures = {name: words for log in logs.values() for name, words in log.figures.items()}
    return [
        ("Claim latency against backlog", "bench-claims", claims_plot(figures)),
        ("CPU-seconds of a minute of video", "bench-encoding", encoding_plot(figures)),
        ("Words per CPU-second", "bench-speech", speech_plot(figures)),
    ]


def _plotted(title: str, name: str, made: str | None) -> str:
    if made is None:
        return f"({title}: no log has its figures.)"
    return f"![{title}](images/{name}.svg)"


def claims_plot(figures: Mapping[str, str]) -> str | None:
    series = {
        title: {int(at): float(ms) for at, _, ms in (each.partition("=") for each in words.split())}
        for title, name in (("PostgreSQL", "pg"), ("SQLite", "sqlite"))
        if (words := figures.get(f"{CLAIMS}{name}"))
    }
    title = "How long a claim takes, by jobs that wait"
    return plots.lines(title, "ms, median", "jobs waiting", series) if series else None


def encoding_plot(figures: Mapping[str, str]) -> str | None:
    groups = {}
    for name, words in figures.items():
        if name.startswith(CPU_PER_MINUTE) and (found := AGAINST.match(words)):
            ours, bare = (float(each.replace(",", "")) for each in found.groups())
            group = name.removeprefix(CPU_PER_MINUTE).replace("_", " ")
            groups[group] = {"Rushes, the whole job": ours, "bare ffmpeg": bare}
    title = "CPU-seconds for a minute of 1080p video"
    return plots.bars(title, "less is better", groups) if groups else None


def speech_plot(figures: Mapping[str, str]) -> str | None:
    titles = {
        "rushes": "Rushes, the whole job",
        "faster_whisper": "bare faster-whisper",
        "whispercpp": "whisper.cpp",
        "rushes_whisper-tiny.en": "Rushes, tiny model",
        "openai_whisper": "openai-whisper, tiny",
    }
    groups = {
        title: {"words": float(figures[f"{WORDS_PER_CPU}{name}"])}
        for name, title in titles.items()
        if f"{WORDS_PER_CPU}{name}" in figures
    }
    title = "Words transcribed per CPU-second"
    return plots.bars(title, "more is better", groups) if groups else None


# What it was measured with


def machine(logs: Mapping[str, Log], root: Path) -> list[tuple[str, str]]:
    days = sorted({log.began[:10] for log in logs.values() if log.began})
    said = "\n".join(log.text for log in logs.values())
    versions = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    versions += sorted(set(re.findall(r"\b(?:PostgreSQL|Redis|Valkey) \d+(?:\.\d+)+", said)))
    versions += sorted({f"ffmpeg {each}" for each in re.findall(r"with ffmpeg (\S+)", said)})
    peers = [each for file, names in PINNED.items() for each in _pinned(root / file, names)]
    peers += [each for peer in speech_peers.PEERS for each in peer.packages]
    return [
        (
            "measured",
            " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "at an unknown time",
        ),
        ("machine", f"{os.cpu_count()} cores, {_cpu_model()}, {_memory_gb():.0f} GB of memory"),
        ("with", ", ".join(versions)),
        ("and", ", ".join(each.replace("==", " ") for each in peers)),
    ]


def _pinned(file: Path, names: Sequence[str]) -> list[str]:
    lines = file.read_text().splitlines()
    return [line.split()[0] for name in names for line in lines if line.startswith(f"{name}==")]


def _cpu_model() -> str:
    try:
        said = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*: (.+)", said)
    return found[1] if found else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def main() -> None:
    root = Path(ROOT)
    found = {bench.name: LOGS / f"{bench.name}.log" for bench in BENCHES}
    logs = {name: parse(path.read_text()) for name, path in found.items() if path.exists()}
    if not logs:
        sys.exit(f"There is no log in {LOGS}: run `make bench`, or one of its parts, first.")
    (root / "docs" / "benchmarks.md").write_text(page(logs, machine(logs, root)))
    for _, name, made in _plots(logs):
        file = root / "docs" / "images" / f"{name}.svg"
        if made is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(made)
    print(f"docs/benchmarks.md is written of {len(logs)} of {len(BENCHES)} benchmarks")


if __name__ == "__main__":
    main()
