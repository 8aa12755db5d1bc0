"""Apply each mutant to a copy of the sources, run the suite on it, list the survivors.

    python tests/mutants/run.py [NAME…]

Exit code 1 if any survives. The first run is the right version, which must pass. `killers.json`
remembers which test noticed a mutant, so that this one is asked first the next time; it is written
as they come, because all of them take long.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src"), str(Path(__file__).parent)]

from wrong_versions import MUTANTS, Mutant  # noqa: E402

import services  # noqa: E402
import world  # noqa: E402

SUITE = [
    "tests/jobs/test_lifecycle.py",
    "tests/jobs/test_queue.py",
    "tests/jobs/test_division.py",
    "tests/jobs/test_lanes.py",
    "tests/jobs/test_trails.py",
    "tests/worker/test_loop.py",
    "tests/test_dispatcher.py",
    "tests/test_known_workers.py",
    "tests/test_events.py",
    "tests/jobs/test_races.py",
    "tests/db/test_database.py",
    "tests/jobs/test_counts.py",
    "tests/test_retention.py",
    "tests/web/test_lanes.py",
    "tests/worker/test_conduct.py",
]
KILLERS = Path(__file__).with_name("killers.json")
AT_ONCE = 2
LIMIT_SECONDS = 600
HUNG = "(it hung)"
# Pytest's exit codes for wrong usage and for no test collected.
DID_NOT_RUN = (4, 5)


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant[0] in names]
    known: dict[str, str] = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    started = time.monotonic()
    with _services(), ThreadPoolExecutor(AT_ONCE) as pool:
        if not names and (failed := _first_failure((), SUITE)):
            print(f"the right version does not pass: {failed}")
            return 1
        hunts = pool.map(lambda mutant: _hunt(mutant, known.get(mutant[0])), chosen)
        killers = {}
        for mutant, killer in zip(chosen, hunts, strict=True):
            print(f"{'killed  ' if killer else 'SURVIVED'}  {mutant[0]}  {killer}", flush=True)
            killers[mutant[0]] = killer
            _remember(known | killers)
    survivors = [name for name, killer in killers.items() if not killer]
    seconds = time.monotonic() - started
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed in {seconds:.0f} s")
    return 1 if survivors else 0


def _remember(killers: dict[str, str]) -> None:
    told = {name: killer for name, killer in killers.items() if "::" in killer}
    KILLERS.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


def _hunt(mutant: Mutant, suspect: str | None) -> str:
    """The test that notices the mutant; empty when none does."""
    if suspect and _first_failure(mutant, [suspect]):
        return suspect
    return _first_failure(mutant, SUITE)


def _first_failure(mutant: Mutant, tests: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="rushes-mutant-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant:
            _apply(mutant, source / "rushes" / mutant[1])
        environment = {**os.environ, "PYTHONPATH": f"{source}:{ROOT / 'tests'}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p"]
        command += ["no:cacheprovider", "-p", "no:xdist", "--timeout=60"]
        command += [f"--basetemp={directory}/tmp", *tests]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return HUNG
        # A test's parameters may have spaces; what went wrong comes behind a dash.
        failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode in DID_NOT_RUN:
            raise SystemExit(f"the suite did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        if done.returncode and not failed:
            # A test that hung may take pytest down with it.
            return HUNG
        return failed[1] if failed else ""


def _apply(mutant: Mutant, path: Path) -> None:
    text = path.read_text()
    for right, wrong in zip(mutant[2::2], mutant[3::2], strict=True):
        if right not in text:
            raise SystemExit(f"mutant {mutant[0]} does not fit the sources any more: {right!r}")
        text = text.replace(right, wrong)
    path.write_text(text)


@contextmanager
def _services() -> Iterator[None]:
    """One server for all runs; each run makes its own databases there."""
    with tempfile.TemporaryDirectory(prefix="rushes-mutants-", ignore_cleanup_errors=True) as path:
        postgres = services.Postgres.start(Path(path), vacuums=False)
        redis = services.Redis.start(Path(path))
        os.environ["RUSHES_TEST_POSTGRES"] = postgres.url("")
        os.environ["RUSHES_TEST_REDIS"] = redis.url
        world.make_template(postgres)
        try:
            yield
        finally:
            redis.stop()
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
