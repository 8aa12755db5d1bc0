"""Keeps the source of a release, for the test that runs it beside the next one.

`python tests/upgrades/make_release.py [COMMIT]` writes `release.tar.xz`: `src/rushes` of that
commit, without the built pages, and a note of what it is.
"""

from __future__ import annotations

import io
import lzma
import re
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
ARCHIVE = HERE / "release.tar.xz"
NOTE = "RELEASE"
VERSION = re.compile(r"rushes/db/migrations/versions/(\d{4})_\w+\.py")


def make(commit: str) -> str:
    """The note."""
    root = HERE.parents[1]
    told = ["git", "-C", str(root)]
    named = subprocess.check_output([*told, "rev-parse", "--short=12", commit], text=True).strip()
    packed = subprocess.check_output([*told, "archive", commit, "src/rushes"])
    kept: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as source:
        for member in source.getmembers():
            if member.isfile() and (file := source.extractfile(member)):
                kept[member.name.removeprefix("src/")] = file.read()
    schema = max(found[1] for name in kept if (found := VERSION.fullmatch(name)))
    note = f"schema {schema}, commit {named}\n"
    kept[NOTE] = note.encode()
    ARCHIVE.write_bytes(_packed(kept))
    return note


def _packed(files: dict[str, bytes]) -> bytes:
    """The same bytes for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    said = make(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    sys.stdout.write(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size / 1000:.0f} kB, {said}")
