"""One suite over files, S3 and a package's own, then what only one of them can get wrong."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memory_storage
import services
from rushes import errors
from rushes.storage import local as local_storage
from rushes.storage import s3 as s3_storage
from rushes.storage import storage
from rushes.storage.storage import Storage, StoredObject

T = TypeVar("T")
MIB = 2**20
HOSTILE = [
    *("", ".", "..", "/", "//", "a/", "/a", "a//b", "./a", "../a", "a/.", "a/..", "a/../b"),
    *("../../etc/passwd", "/etc/passwd", "a/../../b", "a/b/../../../c", "....//a", "..../../a"),
    *("%2e%2e/a", "..%2fa", "%2e%2e%2fa", "..%252fa", "%00", "a%00.mp4", "..%c0%afa", "a%5cb"),
    *("..\\a", "a\\b", "C:\\a", "C:/a", "\\\\host\\share", "file:///etc/passwd", "http://a/b"),
    *("a\0b", "\0", "a\nb", "a\n", "\na", "a\r", "a\tb", "a b", " a", "a ", "a\x7f", "a\x1b[2J"),
    *(
        "ä",
        "a/ä",
        "\uff0e\uff0e/a",
        "..\u2215a",
        "a\u2044b",
        "a\u202eb",
        "\ufeffa",
        "日本",
        "\ud800",
    ),
    *("~a", "~drafts/a", "$HOME", "`id`", "a;b", "a|b", "a*", "a?b", "a#b", "a&b", "<a>", "'", '"'),
    *(
        "a:b",
        "a@b",
        "a=b",
        "a+b",
        "a,b",
        "(a)",
        "{a}",
        "[a]",
        "a!",
        "a^b",
        "x" * 201,
        "x/" * 400 + "x",
    ),
]


@pytest.fixture(params=["file", "s3", "memory"])
def stored(
    request: pytest.FixtureRequest, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Storage]:
    """An empty storage of each kind; the third comes from a package."""
    name = uuid.uuid4().hex
    if request.param == "file":
        url = root.as_uri()
    elif request.param == "s3":
        url = request.getfixturevalue("seaweed").url(prefix=name)
    else:
        memory_storage.install(tmp_path / "site", monkeypatch)
        url = f"memory://{name}"
    opened = storage.open(url)
    yield opened
    opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def files(root: Path) -> Storage:
    return storage.open(root.as_uri())


@pytest.fixture
def bucket(seaweed: services.Seaweed, request: pytest.FixtureRequest) -> Storage:
    return storage.open(seaweed.url(prefix=request.node.name[:100].replace("[", "-").rstrip("]")))


def content(stored: Storage, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join(stored.read(key, start, end))


def keys(stored: Storage, prefix: str = "") -> list[str]:
    return sorted(entry.key for entry in stored.list(prefix))


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


# What all keep


def test_what_was_put_comes_back_with_its_size_and_hash(stored: Storage) -> None:
    for size in (0, 1, 5, MIB, MIB + 1, 9 * MIB):
        data = os.urandom(size)
        answer = stored.put("media/a/source", data)
        assert answer.size_bytes == size
        assert answer.sha256 == hashlib.sha256(data).hexdigest()
        assert stored.size("media/a/source") == size
        assert content(stored, "media/a/source") == data


def test_a_path_and_an_iterable_are_sources_too(stored: Storage, tmp_path: Path) -> None:
    data = os.urandom(3 * MIB + 7)
    path = tmp_path / "source"
    path.write_bytes(data)
    from_path = stored.put("a", path)
    from_chunks = stored.put("b", [data[:10], b"", data[10:]])
    assert from_path == from_chunks
    assert content(stored, "a") == content(stored, "b") == data
    assert path.read_bytes() == data


def test_a_source_that_cannot_be_read_is_the_callers_own_error(
    stored: Storage, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        stored.put("a", tmp_path / "missing")
    assert keys(stored) == []


def test_chunks_are_at_most_a_mebibyte(stored: Storage) -> None:
    stored.put("a", os.urandom(10 * MIB))
    assert max(len(chunk) for chunk in stored.read("a")) <= MIB
    assert b"" not in list(stored.read("a"))


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (0, 0), (5, 5), (3, 9), (9, None), (10, None), (11, None), (0, 99), (8, 99), (50, 60)],
)
def test_a_range_is_the_same_slice_that_python_takes(
    stored: Storage, start: int, end: int | None
) -> None:
    data = b"0123456789"
    stored.put("a", data)
    assert content(stored, "a", start, end) == data[start:end]


def test_a_range_of_a_large_object_crosses_its_chunks(stored: Storage) -> None:
    data = os.urandom(9 * MIB)
    stored.put("a", data)
    assert content(stored, "a", MIB - 3, 8 * MIB + 3) == data[MIB - 3 : 8 * MIB + 3]


def test_an_empty_object_has_every_range(stored: Storage) -> None:
    stored.put("a", b"")
    assert stored.size("a") == 0
    assert content(stored, "a") == content(stored, "a", 0, 10) == content(stored, "a", 3) == b""


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (-3, -1)])
def test_a_range_that_is_none_is_refused(stored: Storage, start: int, end: int | None) -> None:
    stored.put("a", b"0123456789")
    with pytest.raises(errors.Invalid):
        stored.read("a", start, end)


def test_putting_again_replaces(stored: Storage) -> None:
    stored.put("a", os.urandom(9 * MIB))
    stored.put("a", b"short")
    assert content(stored, "a") == b"short"
    assert keys(stored) == ["a"]


def test_one_who_reads_is_not_disturbed_by_a_delete_or_a_replacement(stored: Storage) -> None:
    data = os.urandom(300_000)
    for disturb in (lambda: stored.put("a", b"other"), lambda: stored.delete(["a"])):
        stored.put("a", data)
        reading = stored.read("a")
        disturb()
        assert b"".join(reading) == data


def test_what_is_missing_is_missing(stored: Storage) -> None:
    stored.put("folder/inner/a", b"1")
    for key in ("b", "folder", "folder/inner", "folder/b", "folder/inner/a/b"):
        assert stored.size(key) is None
        assert not stored.exists(key)
        with pytest.raises(errors.NotFound):
            stored.read(key)
        with pytest.raises(errors.NotFound):
            stored.read(key, 0, 0)
        with pytest.raises(errors.NotFound):
            stored.copy(key, "c")
    assert stored.exists("folder/inner/a")
    assert keys(stored) == ["folder/inner/a"]


def test_list_tells_what_lies_below_a_folder(stored: Storage) -> None:
    wanted = ["a/b", "a-b", "a.b", "a/b.c", "a/c/d", "a/c-d", "a0", "ab/c", "b", "B", "a_b/x"]
    for key in wanted:
        stored.put(key, key.encode())
    assert keys(stored) == sorted(wanted)
    assert keys(stored, "a") == sorted(key for key in wanted if key.startswith("a/"))
    assert keys(stored, "a/c") == ["a/c/d"]
    assert keys(stored, "a/b") == keys(stored, "b") == keys(stored, "none/at/all") == []


def test_an_entry_tells_size_and_time(stored: Storage) -> None:
    stored.put("a/b", b"12345")
    (entry,) = stored.list("a")
    assert entry == StoredObject(key="a/b", size_bytes=5, modified_at_ms=entry.modified_at_ms)
    assert abs(entry.modified_at_ms - time.time_ns() // 10**6) < 3_600_000


def test_many_objects_are_listed_and_deleted_in_pages(stored: Storage) -> None:
    wanted = [f"a/{number:04}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda key: stored.put(key, b""), wanted):
            pass
    stored.put("b", b"")
    assert keys(stored, "a") == wanted
    stored.delete(entry.key for entry in stored.list("a"))
    assert keys(stored) == ["b"]


def test_deleting_what_is_missing_is_fine(stored: Storage) -> None:
    stored.put("a/b/c", b"1")
    stored.delete([])
    stored.delete(["a", "a/b", "x/y", "a/b/c/d", "a/b/c", "a/b/c"])
    assert keys(stored) == []


def test_a_copy_lives_on_its_own(stored: Storage) -> None:
    stored.put("a/source", b"first")
    stored.put("b/target", b"something longer")
    stored.copy("a/source", "b/target")
    stored.copy("a/source", "c/new")
    stored.put("a/source", b"second")
    assert content(stored, "b/target") == content(stored, "c/new") == b"first"
    stored.delete(["a/source", "c/new"])
    assert content(stored, "b/target") == b"first"


class ClientGone(Exception):
    pass


class Stop(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [ClientGone(), OSError(28, "elsewhere"), FileNotFoundError(2, "elsewhere"), Stop()]
)
@pytest.mark.parametrize("chunks", [0, 1, 30])
def test_a_source_that_fails_leaves_what_was_there_and_nothing_else(
    stored: Storage,
    root: Path,
    request: pytest.FixtureRequest,
    error: BaseException,
    chunks: int,
) -> None:
    def source() -> Iterator[bytes]:
        yield from itertools.repeat(bytes(MIB), chunks)
        raise error

    stored.put("a/old", b"old")
    for key in ("a/old", "b/new"):
        with pytest.raises(BaseException) as raised:
            stored.put(key, source())
        assert raised.value is error
    assert keys(stored) == ["a/old"]
    assert content(stored, "a/old") == b"old"
    if isinstance(stored, s3_storage.S3Storage):
        assert request.getfixturevalue("seaweed").unfinished_uploads() == []
    elif isinstance(stored, local_storage.LocalStorage):
        assert files_below(root) == ["a/old"]


def test_a_reader_sees_one_whole_object_while_many_write_the_same_key(stored: Storage) -> None:
    versions = [bytes([number]) * (200_000 + number) for number in range(8)]
    stored.put("a", versions[0])
    writing = threading.Event()
    writing.set()

    def write(version: bytes) -> None:
        for _ in range(8):
            stored.put("a", version)

    def watch() -> int:
        seen = 0
        while writing.is_set() or not seen:
            assert content(stored, "a") in versions
            seen += 1
        return seen

    with ThreadPoolExecutor(8) as pool:
        watching = pool.submit(watch)
        try:
            list(pool.map(write, versions[:6]))
        finally:
            writing.clear()
        assert watching.result() > 0
    assert content(stored, "a") in versions
    assert keys(stored) == ["a"]


def test_a_put_survives_a_neighbour_that_empties_the_folder(stored: Storage) -> None:
    def come_and_go(name: str) -> None:
        for _ in range(60):
            stored.put(f"a/b/{name}", name.encode())
            assert content(stored, f"a/b/{name}") == name.encode()
            stored.delete([f"a/b/{name}"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, "wxyz"))
    assert keys(stored) == []


MEASURE = """
import resource, sys
from rushes.storage import storage

def highest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

stored = storage.open(sys.argv[1])
stored.put("small", b"1")
list(stored.read("small"))
before = highest()
block = bytes(range(256)) * 4096
stored.put("large", (block for _ in range(64)))
assert sum(len(chunk) for chunk in stored.read("large")) == 64 * 2**20
print(highest() - before)
"""


def test_memory_does_not_grow_with_the_object(storage_url: str) -> None:
    run = [sys.executable, "-c", MEASURE, storage_url]
    grown = subprocess.run(run, capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 48 * MIB
    stored = storage.open(storage_url)
    assert stored.size("large") == 64 * MIB
    digest = hashlib.sha256()
    for chunk in stored.read("large"):
        digest.update(chunk)
    assert digest.digest() == hashlib.sha256(bytes(range(256)) * 4096 * 64).digest()


def test_a_source_may_read_from_the_same_storage(stored: Storage) -> None:
    first, second = os.urandom(9 * MIB), os.urandom(9 * MIB)
    stored.put("part/1", first)
    stored.put("part/2", second)
    stored.put("whole", itertools.chain(stored.read("part/1"), stored.read("part/2")))
    assert content(stored, "whole") == first + second


# Names


def operations(stored: Storage) -> dict[str, Callable[[str], Any]]:
    return {
        "put": lambda key: stored.put(key, b"1"),
        "size": stored.size,
        "exists": stored.exists,
        "read": stored.read,
        "aread": lambda key: asyncio.run(everything(stored, key)),
        "copy from": lambda key: stored.copy(key, "good"),
        "copy to": lambda key: stored.copy("good", key),
        "delete": lambda key: stored.delete([key]),
        "list": lambda key: stored.list(key or "/"),
        "local_path": stored.local_path,
        "upload_path": stored.upload_path,
    }


async def everything(stored: Storage, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in stored.aread(key, start, end)])


def test_nothing_but_a_plain_key_is_accepted_by_any_verb(stored: Storage) -> None:
    stored.put("good", b"1")
    for name, operation in operations(stored).items():
        for key in HOSTILE:
            with pytest.raises(errors.Invalid):
                pytest.fail(f"{name} took {key!r}: {operation(key)!r}")
    assert keys(stored) == ["good"]


def test_the_plain_keys_are_accepted(stored: Storage) -> None:
    wanted = [
        "a",
        "-",
        "_",
        "...",
        ".hidden",
        "a..b",
        "A-z_0.9",
        "x" * 200,
        "/".join(["y" * 99] * 8),
    ]
    for key in wanted:
        stored.put(key, key.encode())
    assert keys(stored) == sorted(wanted)
    assert all(content(stored, key) == key.encode() for key in wanted)


@given(st.text(alphabet=st.sampled_from("./\\aA0~%\0 -_\n"), max_size=30) | st.text(max_size=30))
def test_a_key_never_leads_out_of_its_root(key: str) -> None:
    try:
        storage.check_key(key)
    except errors.Invalid:
        return
    root = Path("/srv/rushes")
    assert Path(os.path.normpath(root / key)) == root / key
    assert (root / key).is_relative_to(root)
    assert str(root / key) == f"{root}/{key}"


# Reading from the event loop


def test_aread_is_read_for_the_event_loop(stored: Storage) -> None:
    data = os.urandom(9 * MIB + 5)
    stored.put("a", data)
    assert asyncio.run(everything(stored, "a")) == data
    assert asyncio.run(everything(stored, "a", 3, 5 * MIB)) == data[3 : 5 * MIB]
    assert asyncio.run(everything(stored, "a", len(data))) == b""
    with pytest.raises(errors.NotFound):
        asyncio.run(everything(stored, "b"))
    with pytest.raises(errors.Invalid):
        asyncio.run(everything(stored, "a", -1))


def test_a_viewer_who_leaves_leaves_nothing_open(stored: Storage) -> None:
    stored.put("a", os.urandom(9 * MIB))

    async def leave() -> None:
        chunks = stored.aread("a")
        assert await anext(chunks)
        await chunks.aclose()
        waiting = asyncio.ensure_future(everything(stored, "a"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(leave())
    assert next(stored.read("a"))
    stored.read("a")
    assert content(stored, "a", 0, 1)
    if isinstance(stored, local_storage.LocalStorage):
        assert not [link for link in open_files() if link.endswith("storage/a")]


def open_files() -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return found


# Checking, and the words for what goes wrong


def test_check_passes_and_leaves_nothing(stored: Storage) -> None:
    stored.check()
    assert keys(stored) == []


def assert_down(stored: Storage, *, missing_is_unknown: bool = False) -> None:
    """Every verb says so, and says no more."""
    verbs = operations(stored)
    if missing_is_unknown:
        for name in ("size", "exists"):
            del verbs[name]
    verbs |= {"list": lambda key: keys(stored, key), "check": lambda key: stored.check()}
    if isinstance(stored, s3_storage.S3Storage):
        del verbs["local_path"], verbs["upload_path"]

    def problem(verb: Callable[[str], Any]) -> errors.StorageDown:
        with pytest.raises(errors.StorageDown) as raised:
            verb("some/key")
        return raised.value

    with ThreadPoolExecutor(len(verbs)) as pool:
        problems = dict(zip(verbs, pool.map(problem, verbs.values()), strict=True))
    for name, error in problems.items():
        assert error.message == str(error) == "the storage is not available", name
        assert error.code == "storage_down"
        assert error.detail


def test_a_root_that_is_gone_is_a_storage_that_is_down_not_missing_files(
    files: Storage, root: Path
) -> None:
    files.put("good", b"1")
    root.rename(root.with_name("elsewhere"))
    assert_down(files)
    with pytest.raises(errors.StorageDown):
        files.free_bytes()
    assert not root.exists()
    root.with_name("elsewhere").rename(root)
    assert content(files, "good") == b"1"


def until_it_works(read: Callable[[], T]) -> T:
    """A server that has just come back may still be looking for its objects."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return read()
        except errors.StorageDown:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_server_that_is_killed_is_down_and_works_again_afterwards() -> None:
    with tempfile.TemporaryDirectory(prefix="rushes-s3-") as directory:
        server = services.Seaweed.start(Path(directory))
        try:
            stored = storage.open(server.url())
            stored.check()
            stored.put("good", b"1")
            server.crash()
            assert_down(stored)
            server.recover()
            assert until_it_works(lambda: content(stored, "good")) == b"1"
            stored.check()
        finally:
            server.stop()


def test_a_server_that_is_killed_half_way_ends_the_put_and_the_read() -> None:
    with tempfile.TemporaryDirectory(prefix="rushes-s3-") as directory:
        server = services.Seaweed.start(Path(directory))

        def source() -> Iterator[bytes]:
            yield from itertools.repeat(bytes(MIB), 20)
            server.crash()
            yield from itertools.repeat(bytes(MIB), 80)

        try:
            stored = storage.open(server.url())
            stored.put("a", bytes(40 * MIB))
            with pytest.raises(errors.StorageDown):
                stored.put("b", source())
            server.recover()
            reading = until_it_works(lambda: stored.read("a"))
            assert keys(stored) == ["a"]
            assert next(reading)
            server.crash()
            with pytest.raises(errors.StorageDown):
                list(reading)
        finally:
            server.stop()


def test_a_wrong_secret_is_told_apart_from_a_missing_file(seaweed: services.Seaweed) -> None:
    assert_down(storage.open(seaweed.url(secret="wrong")))


def test_a_missing_bucket_is_told_apart_from_a_missing_file(seaweed: services.Seaweed) -> None:
    # An answer to HEAD has no body that could tell the two apart.
    assert_down(storage.open(seaweed.url(bucket="other")), missing_is_unknown=True)


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"s3://k:s@bucket/?endpoint=http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, errors.StorageDown), (503, errors.StorageDown), (507, errors.DiskFull)],
)
def test_what_a_troubled_server_answers_has_a_name(
    status: int, error: type[errors.Unavailable]
) -> None:
    with answering(status) as url, pytest.raises(error):
        storage.open(url).put("a", b"1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_has_a_name_and_is_over_when_space_is_free_again(small_disk: Path) -> None:
    stored = storage.open((small_disk / "storage").as_uri())
    stored.put("a/first", bytes(3 * MIB))
    for source in (bytes(2 * MIB), (bytes(MIB) for _ in range(9))):
        with pytest.raises(errors.DiskFull) as raised:
            stored.put("a/second", source)
        assert str(raised.value) == "the storage is full"
        assert raised.value.code == "disk_full"
    assert files_below(small_disk) == ["storage/a/first"]
    free = stored.free_bytes()
    assert free is not None
    assert free <= MIB
    stored.delete(["a/first"])
    stored.put("a/second", bytes(2 * MIB))
    assert stored.size("a/second") == 2 * MIB
    stored.check()


# Files only


def test_a_put_is_on_the_disk_when_it_returns(
    files: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def sync(file: int, really: Callable[[int], None] = os.fsync) -> None:
        really(file)
        synced.append(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fsync", sync)
    files.put("a/b/c", b"1")
    assert synced[-1] == (root / "a/b").stat().st_ino
    wanted = [root, root / "a", root / "a/b/c"]
    assert {path.stat().st_ino for path in wanted} <= set(synced)


def test_deleting_takes_empty_folders_away_but_never_the_root(files: Storage, root: Path) -> None:
    files.put("a/b/c/d", b"1")
    files.put("a/e", b"1")
    files.delete(["a/b/c/d"])
    assert sorted(path.name for path in (root / "a").iterdir()) == ["e"]
    files.delete(["a/e"])
    assert root.is_dir()
    assert not (root / "a").exists()


def test_local_path_is_the_file_itself(files: Storage, root: Path) -> None:
    files.put("a/b", b"1")
    assert files.local_path("a/b") == root / "a" / "b"
    for key in ("a", "a/c", "c"):
        with pytest.raises(errors.NotFound):
            files.local_path(key)


def test_a_name_is_a_file_or_a_folder_not_both(files: Storage) -> None:
    files.put("a/b", b"1")
    for key in ("a", "a/b/c"):
        with pytest.raises(errors.Invalid):
            files.put(key, b"2")
    assert keys(files) == ["a/b"]
    assert content(files, "a/b") == b"1"


def test_files_have_no_signed_addresses(files: Storage) -> None:
    files.put("a", b"1")
    assert files.presign("GET", "a", 60) is None


def test_free_space_is_known_for_files_only(files: Storage, bucket: Storage) -> None:
    assert bucket.free_bytes() is None
    free = files.free_bytes()
    assert free is not None
    assert free > 0


@pytest.mark.parametrize("target", ["outside", "storage/inside", "storage"])
def test_a_planted_folder_link_is_never_followed(
    files: Storage, root: Path, tmp_path: Path, target: str
) -> None:
    files.put("good", b"1")
    (tmp_path / target).mkdir(exist_ok=True)
    (tmp_path / target / "key").write_bytes(b"secret")
    (root / "some").symlink_to(tmp_path / target)
    before = files_below(tmp_path)
    verbs = operations(files)
    del verbs["list"]
    for name, verb in verbs.items():
        with pytest.raises(errors.Invalid):
            pytest.fail(f"{name} answered {verb('some/key')!r}")
    assert not [key for key in keys(files) if key.startswith("some")]
    assert files_below(tmp_path) == before
    assert (tmp_path / target / "key").read_bytes() == b"secret"


def test_a_planted_file_link_is_never_followed(files: Storage, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    files.put("good", b"1")
    (root / "a").symlink_to(outside)
    verbs = operations(files)
    for name in ("size", "exists", "read", "aread", "copy from", "local_path", "upload_path"):
        with pytest.raises(errors.Invalid):
            pytest.fail(f"{name} answered {verbs[name]('a')!r}")
    assert keys(files) == ["good"]
    files.put("a", b"ours")
    assert not (root / "a").is_symlink()
    assert outside.read_bytes() == b"secret"
    (root / "b").symlink_to(outside)
    files.delete(["b"])
    assert files_below(root) == ["a", "good"]
    assert outside.read_bytes() == b"secret"


def test_what_is_no_file_is_no_object(files: Storage, root: Path) -> None:
    files.put("good", b"1")
    os.mkfifo(root / "pipe")
    assert keys(files) == ["good"]
    assert files.size("pipe") is None
    with pytest.raises(errors.NotFound):
        files.read("pipe")


def test_a_root_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "real")
    stored = storage.open((tmp_path / "named").as_uri())
    stored.put("a", b"1")
    assert (tmp_path / "real" / "a").read_bytes() == b"1"


def test_a_draft_that_a_crash_left_behind_goes_a_day_later(files: Storage, root: Path) -> None:
    drafts = root / local_storage.DRAFTS
    for name, age_seconds in (("old", 25 * 3600), ("young", 3600)):
        (drafts / name).write_bytes(b"half")
        then = time.time() - age_seconds
        os.utime(drafts / name, (then, then))
    assert keys(files) == []
    storage.open(root.as_uri())
    assert [path.name for path in drafts.iterdir()] == ["young"]


def test_the_path_in_an_address_may_have_any_letters(tmp_path: Path) -> None:
    place = tmp_path / "my films #1 ä 100%25?"
    storage.open(place.as_uri()).put("a", b"1")
    assert (place / "a").read_bytes() == b"1"


# S3 only


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes, Any]:
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def signed(stored: Storage, method: storage.Method, key: str) -> str:
    url = stored.presign(method, key, 600)
    assert url is not None
    return url


def test_a_signed_address_lets_a_stranger_put_and_get(bucket: Storage) -> None:
    data = os.urandom(MIB)
    assert fetch(signed(bucket, "PUT", "a/b"), "PUT", data)[0] == 200
    assert content(bucket, "a/b") == data
    status, body, _ = fetch(signed(bucket, "GET", "a/b"))
    assert (status, body) == (200, data)
    assert bucket.local_path("a/b") is None


def test_a_signed_address_is_good_for_nothing_else(bucket: Storage) -> None:
    bucket.put("a/b", b"mine")
    bucket.put("a/c", b"secret")
    get, put = signed(bucket, "GET", "a/b"), signed(bucket, "PUT", "a/b")
    forged = [
        (get.replace("a/b?", "a/c?"), "GET"),
        (get.replace("X-Amz-Expires=600", "X-Amz-Expires=60000"), "GET"),
        (get[:-1] + ("0" if get[-1] != "0" else "1"), "GET"),
        (get.partition("&X-Amz-Signature")[0], "GET"),
        (get.partition("?")[0], "GET"),
        (get, "PUT"),
        (get, "DELETE"),
        (put, "GET"),
        (put.replace("a/b?", "a/c?"), "PUT"),
    ]
    for url, method in forged:
        status, body, _ = fetch(url, method, b"theirs" if method == "PUT" else None)
        assert status in (400, 401, 403), (method, url)
        assert b"secret" not in body
    assert content(bucket, "a/b") == b"mine"
    assert content(bucket, "a/c") == b"secret"


def parts_of(stored: Storage, key: str) -> int:
    """As told by the tag that S3 gives to what came in parts."""
    _, _, headers = fetch(signed(stored, "HEAD", key), "HEAD")
    tag = headers["ETag"].strip('"')
    return int(tag.partition("-")[2] or 1)


def test_parts_grow_with_an_object_whose_size_is_known(
    bucket: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = bytes(24 * MIB)
    bucket.put("plain", data)
    assert parts_of(bucket, "plain") == 3
    monkeypatch.setattr(s3_storage, "MOST_PARTS", 2)
    bucket.put("told", iter([data]), size_bytes=len(data))
    assert parts_of(bucket, "told") == 2
    (tmp_path / "file").write_bytes(data)
    bucket.put("file", tmp_path / "file")
    assert parts_of(bucket, "file") == 2
    assert bucket.size("plain") == bucket.size("told") == bucket.size("file") == len(data)


def test_what_the_server_will_not_copy_is_copied_by_us(
    bucket: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(9 * MIB)
    bucket.put("a", data)
    monkeypatch.setattr(s3_storage, "LARGEST_COPY_BYTES", MIB)
    bucket.copy("a", "b")
    assert content(bucket, "b") == data


def test_storages_with_different_prefixes_do_not_see_each_other(seaweed: services.Seaweed) -> None:
    ours = uuid.uuid4().hex
    one, two = (storage.open(seaweed.url(f"{ours}/{name}")) for name in ("one", "on"))
    one.put("a", b"1")
    assert keys(one) == ["a"]
    assert keys(two) == []
    assert keys(storage.open(seaweed.url()), ours) == [f"{ours}/one/a"]


def test_credentials_may_come_from_the_environment(
    seaweed: services.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", seaweed.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", seaweed.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    endpoint = f"http://127.0.0.1:{seaweed.port}"
    storage.open(f"s3://{seaweed.bucket}/env?endpoint={endpoint}").check()


def test_credentials_of_the_address_win_over_the_environment(
    seaweed: services.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION"):
        monkeypatch.setenv(f"AWS_{name}", "other")
    storage.open(seaweed.url("env")).check()


# Settings


@pytest.mark.parametrize(
    "url",
    [
        *("", "storage", "/srv/rushes", "ftp://host/a", "file:", "file:/srv", "http://host/bucket"),
        *("file://", "file://srv/rushes", "file://host:80/a", "file:///a%00b", "file:///a?b=c"),
        *("file:///a#b", "s3://", "s3:///prefix", "s3://a", "s3://b_/../c", "s3://bucket/a b"),
        *("s3://bucket/a/../b", "s3://bucket:9000/a", "s3://KEY@bucket/a", "s3://:SECRET@bucket/"),
        *("s3://KEY:SEC/RET@bucket/", "s3://bucket?endpoint=host:9000", "s3://bucket?endpoint="),
        *("s3://bucket?endpoint=ftp://host", "s3://bucket?endpoint=http://", "s3://bucket?region="),
        *("s3://bucket?endpont=http://host", "s3://K:SECRET@bucket?x=1", "s3://bucket#f"),
        *("s3://[::1/a", "s3://bucket?endpoint=http://KEY:SECRET@host"),
    ],
)
def test_a_bad_address_is_a_bad_setting_and_a_sentence(url: str) -> None:
    with pytest.raises(errors.BadSetting) as raised:
        storage.open(url)
    assert raised.value.message.startswith("STORAGE_URL: ")
    assert "SEC" not in raised.value.message.replace("KEY:SECRET@ before", "")


def test_an_unknown_scheme_names_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.BadSetting, match=r"must begin with file:// or s3://$"):
        storage.open("myfs://KEY:SECRET@host/a")
    memory_storage.install(tmp_path, monkeypatch, "myfs")
    with pytest.raises(errors.BadSetting, match=r"must begin with file:// or myfs:// or s3://$"):
        storage.open("ftp://host/a")
    with pytest.raises(errors.BadSetting, match="memory:// takes a name"):
        storage.open("myfs://host/a")


def test_a_scheme_that_is_claimed_twice_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_storage.install(tmp_path, monkeypatch, "s3")
    with pytest.raises(errors.BadSetting, match="both claim s3://"):
        storage.open((tmp_path / "storage").as_uri())


def test_a_package_that_cannot_be_imported_is_a_bad_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_storage.install(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "memory_storage", None)
    with pytest.raises(errors.BadSetting, match="the package for memory:// cannot be imported"):
        storage.open("memory://a")


def test_a_file_in_the_way_of_the_root_is_a_bad_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(errors.BadSetting):
            storage.open(place.as_uri())
    assert (tmp_path / "file").read_bytes() == b""
