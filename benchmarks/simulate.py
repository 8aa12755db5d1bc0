"""A fleet of thousands on a virtual clock: `simulation.py` with a database and options."""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.simulation import Plan, check, report, simulate

import services
import world as worlds


@contextmanager
def opened(database: str, place: Path) -> Iterator[worlds.World]:
    if database == "sqlite":
        world = worlds.open_sqlite(place)
        yield world
        world.close()
        return
    place.chmod(0o755)
    postgres = services.Postgres.start(place, durable=True)
    try:
        os.environ["RUSHES_TEST_POSTGRES"] = postgres.url("")
        worlds.make_template(postgres)
        world = worlds.open_postgres()
        yield world
        world.close()
        worlds.stack.close()
    finally:
        postgres.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    usual = Plan()
    parser.add_argument("--workers", type=int, default=usual.workers)
    parser.add_argument("--hours", type=float, default=usual.hours)
    parser.add_argument("--load", type=float, default=usual.load)
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="no more arrive than this")
    parser.add_argument("--backlog", type=int, default=0, help="jobs that wait when it begins")
    parser.add_argument("--crashes-per-day", type=float, default=usual.crashes_per_day)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument(
        "--no-drain", dest="drains", action="store_false", help="stop when time is up"
    )
    given = vars(parser.parse_args())
    database = given.pop("database")
    plan = Plan(**given)
    # SQLite in memory, as far as there is such a place: a disk's flushes would be most of the time.
    memory = Path("/dev/shm")
    folder = memory if database == "sqlite" and memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=folder) as directory,
        opened(database, Path(directory)) as world,
    ):
        began = time.monotonic()
        figures = simulate(world, plan)
        took = time.monotonic() - began
        check(world, figures, drained=plan.drains)
        report(plan, figures, took, database)


if __name__ == "__main__":
    main()
