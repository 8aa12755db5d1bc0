"""Packages of npm for tests that need them, fetched once and found again by the next run."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

FETCH_SECONDS = 180


def installed(folder: Path) -> Path:
    """A copy of `folder` with what its package-lock.json names. Skips where that cannot be had."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node is not installed")
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"rushes-npm-{lock}"
    with kept.with_suffix(".lock").open("w") as waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX)
        if not kept.exists():
            _fetch(folder, kept)
    return kept


def _fetch(folder: Path, kept: Path) -> None:
    made = Path(tempfile.mkdtemp(prefix="rushes-npm-"))
    shutil.copytree(folder, made, dirs_exist_ok=True)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    fetched = subprocess.run(command, cwd=made, capture_output=True, timeout=FETCH_SECONDS)
    if fetched.returncode:
        shutil.rmtree(made)
        pytest.skip("npm could not fetch packages")
    made.rename(kept)
