"""Objects as files below one directory.

Every step from the root is taken through the directory before it and never through a symbolic
link, so no key leads outside, whatever somebody planted. Drafts lie in a folder whose name cannot
be part of a key; one that a crash left behind goes a day later, when the storage is opened.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rushes import errors
from rushes.storage import storage

DRAFTS = "~drafts"
DRAFT_LIFE_SECONDS = 86_400
PLACE_ATTEMPTS = 100
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NO_SUCH = (FileNotFoundError, NotADirectoryError)
# A name, and what is known of the file; None for a folder.
_Named = tuple[str, os.stat_result | None]


def from_url(url: str) -> LocalStorage:
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise errors.BadSetting("STORAGE_URL: file:// takes a whole path, as file:///srv/rushes")
    if parts.query or parts.fragment:
        raise errors.BadSetting("STORAGE_URL: write ? and # in a path as %3F and %23")
    return LocalStorage(Path(path))


class LocalStorage(storage.Storage):
    on_network = False

    def __init__(self, root: Path) -> None:
        with _renamed(str(root)):
            try:
                root.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise errors.BadSetting("STORAGE_URL: a file is in the way") from error
            self._root = root.resolve(strict=True)
            self._drop_old_drafts()

    def size(self, key: str) -> int | None:
        *folders, name = storage.check_key(key).split("/")
        with _renamed(key), suppress(*NO_SUCH), self._folder(folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            _refuse_link(found)
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return None

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            parts = storage.check_key(key).split("/")
            with _renamed(key):
                self._unlink(parts)
                self._prune(parts[:-1])

    def list(self, prefix: str = "") -> Iterator[storage.StoredObject]:
        storage.check_prefix(prefix)
        return self._below(prefix.split("/") if prefix else [])

    def local_path(self, key: str) -> Path | None:
        with _renamed(key), self._file(storage.check_key(key)):
            return self._root / key

    def upload_path(self, key: str) -> Path | None:
        return self.local_path(key)

    def free_bytes(self) -> int | None:
        with _renamed(""), self._folder([]) as root:
            found = os.fstatvfs(root)
        return found.f_bavail * found.f_frsize

    def total_bytes(self) -> int | None:
        with _renamed(""), self._folder([]) as root:
            found = os.fstatvfs(root)
        return found.f_blocks * found.f_frsize

    def _put(self, key: str, feed: storage.Feed, size_bytes: int | None) -> None:
        with _renamed(key, feed), self._draft() as (drafts, draft):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = os.open(draft, flags, 0o666, dir_fd=drafts)
            try:
                for chunk in feed:
                    _write(file, chunk)
                os.fsync(file)
            finally:
                os.close(file)
            self._place(drafts, draft, key)

    def _stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        with _renamed(key), self._file(key) as file:
            yield b""
            while end is None or start < end:
                wanted = storage.CHUNK_BYTES if end is None else end - start
                chunk = os.pread(file, min(wanted, storage.CHUNK_BYTES), start)
                if not chunk:
                    break
                yield chunk
                start += len(chunk)

    @contextmanager
    def _folder(self, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
        try:
            folder = os.open(self._root, DIRECTORY)
        except OSError as error:
            # Not "no such file": a disk that is not mounted has lost nothing.
            raise errors.StorageDown(storage.DOWN, detail=str(error)) from error
        try:
            for name in names:
                inner = _enter(folder, name, create=create)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _file(self, key: str) -> Iterator[int]:
        *folders, name = key.split("/")
        # O_NONBLOCK, or a planted pipe would hold us up for ever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._folder(folders) as folder:
            file = os.open(name, flags, dir_fd=folder)
        try:
            _require_file(os.fstat(file))
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _draft(self) -> Iterator[tuple[int, str]]:
        """The drafts' folder and a new name in it, gone at the end whatever happens."""
        with self._folder([DRAFTS], create=True) as drafts:
            draft = uuid.uuid4().hex
            try:
                yield drafts, draft
            finally:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=drafts)

    def _place(self, drafts: int, draft: str, key: str) -> None:
        *folders, name = key.split("/")
        for _ in range(PLACE_ATTEMPTS):
            try:
                with self._folder(folders, create=True) as folder:
                    os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=folder)
                    _sync_folder(folder)
                    return
            except FileNotFoundError:
                # A delete took the empty folder away just before the file came in.
                continue
            except NotADirectoryError as error:
                raise errors.Invalid(storage.REFUSED, detail=f"{key}: below a file") from error
        raise errors.StorageDown(storage.DOWN, detail=f"{key}: its folder vanishes again and again")

    def _unlink(self, parts: Sequence[str]) -> None:
        with suppress(*NO_SUCH, IsADirectoryError), self._folder(parts[:-1]) as folder:
            os.unlink(parts[-1], dir_fd=folder)

    def _prune(self, folders: Sequence[str]) -> None:
        """Removes the innermost folder if it is empty, then the one around it, and so on."""
        for depth in range(len(folders), 0, -1):
            try:
                with self._folder(folders[: depth - 1]) as parent:
                    os.rmdir(folders[depth - 1], dir_fd=parent)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                return

    def _below(self, folders: Sequence[str]) -> Iterator[storage.StoredObject]:
        # One folder's names are held at a time, and none is open while somebody looks at an entry.
        for name, found in self._entries(folders):
            if found is None:
                yield from self._below([*folders, name])
            else:
                yield storage.StoredObject(
                    key="/".join([*folders, name]),
                    size_bytes=found.st_size,
                    modified_at_ms=found.st_mtime_ns // 1_000_000,
                )

    def _entries(self, folders: Sequence[str]) -> Iterable[_Named]:
        found: Iterable[_Named] = ()
        with (
            _renamed("/".join(folders)),
            suppress(*NO_SUCH),
            self._folder(folders) as folder,
            os.scandir(folder) as entries,
        ):
            found = [named for entry in entries if (named := _facts(entry))]
        return sorted(found)

    def _drop_old_drafts(self) -> None:
        with self._folder([DRAFTS], create=True) as drafts, os.scandir(drafts) as entries:
            for entry in entries:
                with suppress(OSError):
                    age_seconds = time.time() - entry.stat(follow_symlinks=False).st_mtime
                    if age_seconds > DRAFT_LIFE_SECONDS:
                        os.unlink(entry.name, dir_fd=drafts)


def _facts(entry: os.DirEntry[str]) -> _Named | None:
    """None for what is no object of ours."""
    if storage.is_part(entry.name):
        if entry.is_dir(follow_symlinks=False):
            return entry.name, None
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                return entry.name, entry.stat(follow_symlinks=False)
    return None


def _enter(folder: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            _sync_folder(folder)
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        _refuse_link(os.stat(name, dir_fd=folder, follow_symlinks=False))
        raise


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some network file systems keep their directories safe by themselves and say so like this.
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise


def _refuse_link(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "a symbolic link")


def _require_file(found: os.stat_result) -> None:
    _refuse_link(found)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "not a file")


def _write(file: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]


@contextmanager
def _renamed(key: str, feed: storage.Feed | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if feed is not None and feed.error is error:
            raise
        raise _named(error, f"{key}: {error}") from error


def _named(error: OSError, detail: str) -> errors.RushesError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.DiskFull(storage.FULL, detail=detail)
    if error.errno in (errno.ELOOP, errno.EISDIR):
        return errors.Invalid(storage.REFUSED, detail=detail)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return errors.NotFound(storage.MISSING, detail=detail)
    return errors.StorageDown(storage.DOWN, detail=detail)
