"""`make run` from a bare clone: what it says on its way, and when it cannot go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployment.dockerfile import ROOT
from running import clean_environment

PIP_THAT_SAYS = """
import sys
print("Collecting alembic==1.20.0")
print({said!r})
sys.exit(1)
"""

INHERITED = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """In a clone that has nothing but what `make run` begins with."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("Makefile", "bootstrap.py", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)

    # As a person starts it, not as a part of the make that runs the tests.
    mine = {k: v for k, v in clean_environment().items() if k not in INHERITED}

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *arguments],
            cwd=clone,
            env=mine | environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_a_python_that_is_too_old_is_named_with_what_to_do(make: Make, tmp_path: Path) -> None:
    old = tmp_path / "python-of-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = make("run", f"PYTHON={old}")
    assert done.returncode
    assert done.stdout.startswith("1/4 Python environment\n")
    assert "needs Python 3.11 or newer" in done.stdout
    assert "is Python 3.9.2" in done.stdout
    assert "make run PYTHON=python3.12" in done.stdout


def test_without_a_package_index_it_says_what_to_check(make: Make) -> None:
    """Nothing listens there; pip would ask again for some seconds."""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    done = make("run", f"PYTHON={sys.executable}", PIP_CONFIG_FILE=os.devnull, **nowhere)
    assert done.returncode
    assert "1/4 Python environment\n2/4 Libraries (" in done.stdout
    assert "failed after" in done.stdout
    assert "The package index cannot be reached at http://127.0.0.1:9/simple" in done.stdout
    assert "PIP_INDEX_URL" in done.stdout


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("[Errno 13] Permission denied: '/x'", "cannot be written"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "sent something else"),
        ("ERROR: No matching distribution found for x", "no build of it"),
        ("Traceback", "its last lines are above"),
    ],
)
def test_what_pip_says_becomes_a_sentence(said: str, remedy: str, tmp_path: Path) -> None:
    pip = tmp_path / "pip"
    pip.mkdir()
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(PIP_THAT_SAYS.format(said=said))
    command = [
        sys.executable,
        str(ROOT / "bootstrap.py"),
        "2/4 Libraries",
        "-r",
        "requirements.txt",
    ]
    environment = clean_environment() | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stdout
    assert remedy in done.stdout
