"""A model hub, packages and a model of a few bytes, for tests of the cache."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rushes.engines import catalog

NAME = "whisper-toy"
# Larger than what is read at once, so that it can be cut in the middle.
CONTENT = {"model.bin": bytes(range(256)) * 8_000, "config.json": b'{"toy": true}'}
REPO, REVISION = "toys/whisper", "0" * 40
FILES = f"/{REPO}/resolve/{REVISION}/"
# As a repository has it that nobody has put into the catalog.
MODEL = {
    **CONTENT,
    "tokenizer.json": b'{"version": "1.0"}',
    "vocabulary.txt": b"word\n" * 51864,
    "README.md": b"# A toy",
}
PACKAGES = {"toy-data-1": "1.0", "toy-data-2": "1.0"}


def files() -> tuple[catalog.File, ...]:
    return tuple(
        catalog.File(name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        for name, data in CONTENT.items()
    )


def hub_source() -> catalog.Hub:
    origins = {name: catalog.HubFile(repo=REPO, revision=REVISION, path=name) for name in CONTENT}
    return catalog.Hub(files=files(), origins=origins)


def package_source(directory: Path, *, prefix: str = "toy-data") -> catalog.Packages:
    """Made here: two wheels that hold the model in parts."""
    half = len(CONTENT["model.bin"]) // 2
    first = {"model.1": CONTENT["model.bin"][:half], "config.json": CONTENT["config.json"]}
    wheels = (
        _wheel(directory, f"{prefix}-1", first),
        _wheel(directory, f"{prefix}-2", {"model.2": CONTENT["model.bin"][half:]}),
    )
    one, other = (each.name for each in wheels)
    parts = {
        "model.bin": [(one, "data/model.1"), (other, "data/model.2")],
        "config.json": [(one, "data/config.json")],
    }
    return catalog.Packages(files=files(), wheels=wheels, parts=parts)


def _wheel(directory: Path, name: str, members: Mapping[str, bytes]) -> catalog.Wheel:
    stem = f"{name.replace('-', '_')}-1.0"
    path = directory / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in members.items():
            wheel.writestr(f"data/{member}", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return catalog.Wheel(name=name, version="1.0", sha256=digest, size_bytes=len(data))


def entry(*sources: catalog.Source) -> catalog.CatalogModel:
    return catalog.CatalogModel(
        name=NAME,
        purpose="transcription",
        title="A toy",
        licence="MIT",
        languages=["en"],
        capabilities=[],
        sources=sources,
    )


@dataclass
class Hub:
    """Speaks what a hub speaks. `drop_after`: bytes after which each answer breaks off."""

    url: str = ""
    content: dict[str, bytes] = field(default_factory=lambda: dict(CONTENT))
    drop_after: int | None = None
    damaged_answers: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent_bytes: int = 0
    hold: threading.Event | None = None
    reached: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> bytes | None:
        if path == f"/api/models/{REPO}?blobs=true":
            return self._description()
        return self.content.get(path.removeprefix(FILES)) if path.startswith(FILES) else None

    def _description(self) -> bytes:
        """Of large files a hub tells the hash, of small ones only the size."""
        siblings: list[dict[str, Any]] = [
            {"rfilename": name, "size": len(data), "blobId": "0" * 40}
            for name, data in self.content.items()
        ]
        for each in siblings:
            if each["rfilename"] == "model.bin":
                digest = hashlib.sha256(self.content["model.bin"]).hexdigest()
                each["lfs"] = {"sha256": digest, "size": each["size"], "pointerSize": 134}
        card = {"license": "mit", "language": ["en"]}
        told = {"id": REPO, "sha": REVISION, "siblings": siblings, "cardData": card}
        return json.dumps(told).encode()

    def asked_for(self, name: str) -> list[str]:
        """The Range header of each time, or an empty one."""
        return [ranged for asked, ranged in self.asked if asked == name]


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.removeprefix(FILES)
            ranged = self.headers.get("Range", "")
            hub.asked.append((name, ranged))
            hub.reached.set()
            data = hub.answer(self.path)
            if data is None:
                self.send_error(404)
                return
            if hub.damaged_answers and name != self.path:
                hub.damaged_answers -= 1
                data = b"?" + data[1:]
            start = int(ranged.removeprefix("bytes=").rstrip("-")) if ranged else 0
            rest = data[start:]
            self.send_response(206 if ranged else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            given = rest if hub.drop_after is None else rest[: hub.drop_after]
            self.wfile.write(given)
            hub.sent_bytes += len(given)
            if hub.hold is not None:
                hub.hold.wait(60)
            self.close_connection = len(given) < len(rest)

        def log_message(self, *said: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        if hub.hold is not None:
            hub.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


def pull_once(directory: Path, hub_url: str) -> str:
    """In a process of its own."""
    from rushes.engines.cache import Cache

    catalog.MODELS[NAME] = entry(hub_source())
    return Cache(directory, hub_url=hub_url).pull(NAME).source
