"""The queue against its peers, and against its own SQL on the bare driver; all durable, in one run.

Prints a table, then one line per goal: `ratio NAME VALUE goal >=X`. Contestants take turns, so that
a noisy moment hits all of them; figures are medians. See `contestants/`: each at its best setting.
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.contestants import arena, claim_cost

import services

NAMES = (
    "rushes_pg",
    "raw_psycopg",
    "pgqueuer_pg",
    "procrastinate_pg",
    "rushes_sqlite",
    "raw_sqlite",
    "huey_sqlite",
    "rushes_pg_untold",
    "rushes_pg_remote",
    "celery_redis",
)
# Who is measured with a transaction held open.
PINNED = ("rushes_pg", "pgqueuer_pg")
# How waiting workers hear of jobs; measured apart, by `--modes`.
MODES = ("rushes_pg", "rushes_pg_redis", "rushes_pg_hybrid", "rushes_pg_away")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything."""

    jobs: int = 10_000
    rounds: int = 3
    one_by_one: int = 1_000
    samples: int = 102
    backlog: int = 200_000
    backlog_jobs: int = 20_000
    backlog_seconds: float = 10.0
    backlogs: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    pinned_jobs: int = 20_000
    pinned_seconds: float = 20.0


QUICK = Plan(
    jobs=1_000,
    rounds=1,
    one_by_one=100,
    samples=10,
    backlog=5_000,
    backlogs=(1_000, 20_000),
    pinned_jobs=1_000,
    pinned_seconds=2.0,
)


class Figures:
    """What was measured: several figures under each name of a contestant and a measurement."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, contestant: str, measurement: str, *values: float) -> None:
        self._all[contestant, measurement] += values

    def get(self, contestant: str, measurement: str, percent: int = 50) -> float | None:
        values = sorted(self._all.get((contestant, measurement), ()))
        if percent == 50:
            return statistics.median(values) if values else None
        return values[min(len(values) * percent // 100, len(values) - 1)] if values else None


def main() -> None:
    options = parse()
    # Asked to stop: still end the server and the children, and remove their files.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    plan = QUICK if options.quick else Plan()
    if options.pinned_seconds:
        plan = replace(plan, pinned_seconds=options.pinned_seconds)
    jobs = options.jobs or plan.jobs
    names = MODES if options.modes else [name for name in NAMES if name in options.only]
    contestants = [arena.Contestant(name) for name in names]
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="rushes-bench-", ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        (directory / "server").mkdir()
        server = services.Postgres.start(directory / "server", durable=True)
        redis = services.Redis.start(directory, durable=not options.modes)
        try:
            if options.modes:
                os.environ["RUSHES_REDIS_URL"] = redis.url
            print(redis.source)
            print(f"{server.source}; {os.cpu_count()} cores; {jobs:,} jobs, {plan.rounds} rounds")
            ground = arena.Arena(directory, server, redis)
            for number in range(0 if options.pinned or options.claims else plan.rounds):
                for contestant in contestants:
                    note(f"round {number + 1}: {contestant.title}")
                    measure_pickup(ground, contestant, plan, figures)
                    if not options.pickup:
                        measure_drains(ground, contestant, jobs, figures)
                        measure_one_by_one(ground, contestant, plan, figures)
                        measure_writers(ground, contestant, plan, figures)
            for contestant in contestants if not options.pickup else ():
                if not (options.pinned or options.claims):
                    measure_backlog(ground, contestant, plan, figures)
                if not (options.no_million or options.pinned):
                    measure_claims(ground, contestant, plan, figures)
                if not options.claims:
                    measure_pinned(ground, contestant, plan, figures)
        finally:
            redis.stop()
            server.stop()
    print_table(contestants, figures)
    print_goals(figures)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help="jobs in a drain (10,000)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--quick", action="store_true", help="little of everything, as a check")
    parser.add_argument("--pickup", action="store_true", help="pickup and idle CPU, nothing else")
    parser.add_argument("--modes", action="store_true", help="pickup by RUSHES_QUEUE_MODE")
    parser.add_argument("--no-million", action="store_true", help="leave out the claims at 1 M")
    parser.add_argument("--claims", action="store_true", help="claims at several backlogs, no more")
    parser.add_argument("--pinned", action="store_true", help="work beside an open transaction")
    parser.add_argument(
        "--pinned-seconds", type=float, help="of work while a transaction is open (20)"
    )
    options = parser.parse_args()
    options.pickup = options.pickup or options.modes
    if unknown := set(options.only) - set(NAMES):
        parser.error(f"--only knows {', '.join(NAMES)}, not {', '.join(sorted(unknown))}")
    return options


def measure_drains(
    ground: arena.Arena, contestant: arena.Contestant, jobs: int, figures: Figures
) -> None:
    if not contestant.can("drain"):
        return
    jobs = contestant.jobs(jobs)
    for processes in (1, 2):
        with ground.database(contestant) as url:
            filled = arena.ask(contestant.name, "fill", url, jobs)
            if contestant.can("enqueue_in_batches"):
                figures.add(contestant.name, "batch", jobs / filled["seconds"])
            arena.settle(url)
            began, answers = arena.race(contestant, url, jobs, arena.CHILD_SECONDS, processes)
            check(contestant, url, jobs, sum(answer["jobs"] for answer in answers))
        seconds = max(answer["last_at"] for answer in answers) - began
        cpu = sum(answer["cpu_seconds"] for answer in answers)
        figures.add(contestant.name, f"drain{processes}", jobs / seconds)
        figures.add(contestant.name, f"cpu{processes}", cpu / jobs * 1e6)
        if settled := max(answer.get("settled_at", 0) for answer in answers):
            figures.add(contestant.name, f"settled{processes}", jobs / (settled - began))


def check(contestant: arena.Contestant, url: str, jobs: int, ran: int) -> None:
    """Every job was run once, and the database knows it."""
    done = arena.read(url, contestant.module.DONE) if contestant.module.DONE else ran
    left = arena.read(url, contestant.module.LEFT)
    if (ran, done, left) != (jobs, jobs, 0):
        raise arena.Failed(f"{contestant.name}: {ran} ran, {done} done, {left} left of {jobs}")


def measure_one_by_one(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    if contestant.can("enqueue_one_by_one"):
        with ground.database(contestant) as url:
            answer = arena.ask(contestant.name, "enqueue_one_by_one", url, plan.one_by_one)
        figures.add(contestant.name, "one_by_one", plan.one_by_one / answer["seconds"])


def measure_writers(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    """Sixteen of them, four in a process."""
    if contestant.can("write"):
        jobs = 4 * plan.one_by_one
        with ground.database(contestant) as url:
            seconds = arena.write(contestant, url, jobs, processes=4)
        figures.add(contestant.name, "writers", jobs / seconds)


def measure_pickup(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    if contestant.can("serve"):
        with ground.database(contestant) as url:
            seconds = arena.pickup(contestant, url, plan.samples // plan.rounds)
        figures.add(contestant.name, "pickup", *(each * 1000 for each in seconds))
        with ground.database(contestant) as url:
            figures.add(contestant.name, "idle", arena.idle(contestant, url))


def measure_backlog(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    if not contestant.can("serve") or not contestant.can("drain"):
        return
    note(f"backlog of {plan.backlog:,}: {contestant.title}")
    with ground.database(contestant) as url:
        arena.ask(contestant.name, "fill", url, plan.backlog)
        arena.settle(url)
        limits = plan.backlog_jobs, plan.backlog_seconds
        began, [answer] = arena.race(contestant, url, *limits, processes=1)
    figures.add(contestant.name, "backlog", answer["jobs"] / (answer["last_at"] - began))


def measure_claims(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    if contestant.name not in ("rushes_pg", "rushes_sqlite"):
        return
    note(f"claims with up to {plan.backlogs[-1]:,} waiting: {contestant.title}")
    with ground.database(contestant) as url:
        found = claim_cost.medians(url, plan.backlogs)
    figures.add(contestant.name, "claim_few", found[plan.backlogs[0]] * 1000)
    figures.add(contestant.name, "claim_many", found[plan.backlogs[-1]] * 1000)
    each = " ".join(f"{waiting}={seconds * 1000:.3f}" for waiting, seconds in found.items())
    print(f"figure queue_claim_ms_{contestant.name.removeprefix('rushes_')} {each}", flush=True)


def measure_pinned(
    ground: arena.Arena, contestant: arena.Contestant, plan: Plan, figures: Figures
) -> None:
    """The last drains of so many seconds of work, with a transaction open all the time and without:
    what has died since it began is in the way of every claim."""
    if contestant.name not in PINNED:
        return
    for name, hold in (("free", nullcontext), ("pinned", arena.pinned)):
        note(f"{plan.pinned_seconds:.0f} seconds of work, {name}: {contestant.title}")
        rates, spent = [], 0.0
        with ground.database(contestant) as url, hold(url):
            while spent < plan.pinned_seconds:
                arena.ask(contestant.name, "fill", url, plan.pinned_jobs)
                limits = plan.pinned_jobs, arena.CHILD_SECONDS
                began, [answer] = arena.race(contestant, url, *limits, processes=1)
                seconds = answer["last_at"] - began
                rates.append(answer["jobs"] / seconds)
                spent += seconds
        figures.add(contestant.name, name, *rates[-max(1, len(rates) // 3) :])


def print_table(contestants: list[arena.Contestant], figures: Figures) -> None:
    heads = ["", "one by one /s", "batch /s", "drain /s", "2 proc. /s", "backlog /s"]
    heads += ["pickup p50 / p99 ms", "CPU µs/job", "idle CPU %"]
    rows = [heads]
    for each in contestants:
        row = [each.title]
        for measurement in ("one_by_one", "batch", "drain1", "drain2", "backlog"):
            row.append(shown(figures.get(each.name, measurement), ",.0f"))
        p50, p99 = figures.get(each.name, "pickup"), figures.get(each.name, "pickup", 99)
        row.append(f"{shown(p50, '.1f')} / {shown(p99, '.1f')}")
        row.append(shown(figures.get(each.name, "cpu1"), ",.0f"))
        row.append(shown(figures.get(each.name, "idle"), ".1f"))
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    for row in rows:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *others]))
    for each in contestants:
        if writers := figures.get(each.name, "writers"):
            print(f"{each.title}: {writers:,.0f} /s enqueued by sixteen writers")
        if settled := figures.get(each.name, "settled1"):
            print(f"{each.title}: {settled:,.0f} /s until the last event has its position, too")
        if few := figures.get(each.name, "claim_few"):
            many = shown(figures.get(each.name, "claim_many"), ".2f")
            print(f"{each.title}: a claim takes {few:.2f} ms with few waiting, {many} with many")


def shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def print_goals(figures: Figures) -> None:
    goals = [
        ("drain_pg_vs_procrastinate", "rushes_pg drain1", "procrastinate_pg drain1", ">=10.0"),
        ("drain_pg_vs_pgqueuer", "rushes_pg drain1", "pgqueuer_pg drain1", ">=1.0"),
        ("drain2_pg_vs_pgqueuer", "rushes_pg drain2", "pgqueuer_pg drain2", ">=1.0"),
        ("drain_sqlite_vs_huey", "rushes_sqlite drain1", "huey_sqlite drain1", ">=5.0"),
        ("batch_pg_vs_pgqueuer", "rushes_pg batch", "pgqueuer_pg batch", ">=1.0"),
        ("one_by_one_pg_vs_pgqueuer", "rushes_pg one_by_one", "pgqueuer_pg one_by_one", ">=1.0"),
        (
            "one_by_one_sqlite_vs_huey",
            "rushes_sqlite one_by_one",
            "huey_sqlite one_by_one",
            ">=1.0",
        ),
        ("writers16_told_vs_untold", "rushes_pg writers", "rushes_pg_untold writers", ">=0.9"),
        ("drain_pinned_vs_free_pg", "rushes_pg pinned", "rushes_pg free", ">=0.9"),
        ("drain_pinned_vs_free_pgqueuer", "pgqueuer_pg pinned", "pgqueuer_pg free", "none"),
        ("pickup_p50_remote_vs_celery", "rushes_pg_remote pickup", "celery_redis pickup", "<=1.0"),
        ("pickup_p50_pg_vs_pgqueuer", "rushes_pg pickup", "pgqueuer_pg pickup", "<=1.0"),
        ("pickup_p50_sqlite_vs_huey", "rushes_sqlite pickup", "huey_sqlite pickup", "<=1.0"),
        ("idle_cpu_sqlite_vs_huey", "rushes_sqlite idle", "huey_sqlite idle", "<=1.0"),
        ("pickup_p50_redis_vs_database", "rushes_pg_redis pickup", "rushes_pg pickup", "<=1.5"),
        ("pickup_p50_hybrid_vs_database", "rushes_pg_hybrid pickup", "rushes_pg pickup", "<=1.5"),
        ("pickup_p50_away_vs_database", "rushes_pg_away pickup", "rushes_pg pickup", "<=1.5"),
        ("drain_pg_vs_raw", "rushes_pg drain1", "raw_psycopg drain1", ">=0.5"),
        ("drain_sqlite_vs_raw", "rushes_sqlite drain1", "raw_sqlite drain1", ">=0.5"),
        ("claim_1m_vs_1k_pg", "rushes_pg claim_many", "rushes_pg claim_few", "<=2.0"),
        ("claim_1m_vs_1k_sqlite", "rushes_sqlite claim_many", "rushes_sqlite claim_few", "<=2.0"),
    ]
    for name, ours, theirs, goal in goals:
        mine, other = of(figures, ours), of(figures, theirs)
        if mine is not None and other is not None:
            print(f"ratio queue_{name} {mine / other:.2f} goal {goal}")


def of(figures: Figures, name: str) -> float | None:
    contestant, measurement = name.split()
    return figures.get(contestant, measurement)


def note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
