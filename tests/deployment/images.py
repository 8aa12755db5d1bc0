"""`make check-images`: follows deploy/docker/Dockerfile in clean Debian roots, without Docker.

Needs root, debootstrap and some gigabytes. A stage is a folder, RUN is a chroot. Then server and
worker start as their images would, with a read-only root, as their user and below tini: a clip is
uploaded, encoded by the worker and played, and SIGTERM ends both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2

from deployment import dockerfile
from deployment.dockerfile import ROOT, Stage, Step
from running import free_port
from rushes.tools import programs

SUITE = "bookworm"
TOKEN = "image-check-" + "0" * 32
SECRET = "image-check-secret"
# What a machine's own package index or proxy needs; nothing of it stays in an image.
PASSED = ("PIP_", "NPM_CONFIG_", "http_proxy", "https_proxy", "no_proxy")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
WAIT_SECONDS = 180


class Build:
    """The stages of the Dockerfile as folders below `place`."""

    def __init__(self, place: Path, variant: str, debootstrap: str, wheels: Path | None) -> None:
        self.place = place
        self.variant = variant
        self.wheels = wheels
        self._base = place / "base"
        if not self._base.exists():
            draft = place / "base.new"
            shutil.rmtree(draft, ignore_errors=True)
            run([debootstrap, "--variant=minbase", SUITE, str(draft)], quiet=True)
            draft.rename(self._base)

    def root(self, name: str) -> Path:
        return self.place / f"{name}-{self.variant}"

    def make(self, stage: Stage) -> None:
        root = self.root(stage.name)
        if root.exists():
            shutil.rmtree(root)
        base = self.root(stage.base)
        run(["cp", "-a", "--reflink=auto", str(base if base.exists() else self._base), str(root)])
        directory = "/"
        for step in stage.steps:
            if step.word == "WORKDIR":
                directory = step.rest
                (root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif step.word == "COPY":
                self._copy(root, step, directory)
            elif step.word == "RUN":
                began = time.monotonic()
                self._run(root, f"cd {directory} && {step.rest}")
                print(f"{stage.name}: {step.rest}: {time.monotonic() - began:.0f} s", flush=True)

    def _copy(self, root: Path, step: Step, directory: str) -> None:
        words = step.words
        source = ROOT
        if words[0].startswith("--from="):
            source = self.root(words.pop(0).removeprefix("--from="))
        *names, target = words
        place = root / (Path(directory) / target).relative_to("/")
        for name in names:
            origin = source / name.lstrip("/")
            if origin.is_dir():
                keep_out = shutil.ignore_patterns(
                    "node_modules", "static", "__pycache__", "schema.d.ts"
                )
                shutil.copytree(
                    origin,
                    place,
                    symlinks=True,
                    dirs_exist_ok=True,
                    ignore=keep_out if source == ROOT else None,
                )
                continue
            into = place / origin.name if target.endswith(("/", ".")) else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, into)

    def _run(self, root: Path, command: str) -> None:
        given = {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
        # Of this machine, not of the image.
        given = {name: value for name, value in given.items() if "CERT" not in name.upper()}
        binds = [(Path("/etc/resolv.conf"), "run/resolv.conf")]
        if CERTIFICATES.exists():
            binds.append((CERTIFICATES, "run/certificates.pem"))
            for name in ("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE"):
                given[name] = "/run/certificates.pem"
        if self.wheels is not None:
            binds.append((self.wheels, "run/wheels"))
            given |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/run/wheels"}
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        words = [f"{name}={value}" for name, value in {**given, "VARIANT": self.variant}.items()]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inside = ["env", "-i", "HOME=/root", path, *words, "sh", "-c", command]
        run([*chrooted(root, binds, writable=True), *inside])


def run(argv: list[str], *, quiet: bool = False) -> None:
    done = subprocess.run(argv, stdout=subprocess.DEVNULL if quiet else None, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv[-3:])} failed with {done.returncode}")


def chrooted(
    root: Path, binds: list[tuple[Path, str]], *, writable: bool = False, user: str = ""
) -> list[str]:
    """A command prefix: in namespaces of its own, as process 1, in `root`."""
    lines = [f"mount --bind {root} {root}"]
    for origin, target in binds:
        place = root / target
        if origin.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        lines.append(f"mount --rbind {origin} {place}")
    if not writable:
        lines.append(f"mount -o remount,bind,ro {root}")
        lines.append(f"mount -t tmpfs tmpfs {root}/tmp")
    lines += [f"mount --rbind /dev {root}/dev", f"mount -t proc proc {root}/proc"]
    enter = f'exec chroot {f"--userspec={user} " if user else ""}{root} "$@"'
    script = " && ".join([*lines, enter])
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]


class Container:
    """What `docker run` would start of a stage, with more settings and a folder as /data."""

    def __init__(self, build: Build, name: str, data: Path, **settings: str) -> None:
        user = dockerfile.last(name, "USER").rest
        os.chown(data, *map(int, user.split(":")))
        self._environment = dockerfile.environment(name) | settings
        # The stages after it have only words.
        self._prefix = chrooted(build.root("runtime"), [(data, "data")], user=user)
        self._entry = dockerfile.last(name, "ENTRYPOINT").words
        self._command = dockerfile.last(name, "CMD").words
        self._health = dockerfile.last(name, "HEALTHCHECK").rest.partition(" CMD ")[2]

    def start(self) -> None:
        argv = self._argv([*self._entry, *self._command])
        self._process = subprocess.Popen(argv, stdout=sys.stderr, stderr=subprocess.STDOUT)

    def run(self, *arguments: str) -> None:
        run(self._argv([*self._entry, *arguments]))

    def is_healthy(self) -> bool:
        words = Step("CMD", self._health).words
        return subprocess.run(self._argv(words), check=False).returncode == 0

    def stop(self) -> int:
        """As `docker stop`: a signal to process 1 of the container."""
        me = self._process.pid
        [first] = Path(f"/proc/{me}/task/{me}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        return self._process.wait(30)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def _argv(self, words: list[str]) -> list[str]:
        pairs = [f"{name}={value}" for name, value in self._environment.items()]
        return [*self._prefix, "/usr/bin/env", "-i", "-C", "/data", *pairs, *words]


def make_clip(place: Path) -> Path:
    path = place / "clip.mkv"
    # A codec that browsers do not play, so that something has to be encoded.
    source = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4"]
    argv = [
        programs.ffmpeg(),
        "-v",
        "error",
        *source,
        "-c:v",
        "mpeg4",
        "-c:a",
        "libmp3lame",
        str(path),
    ]
    subprocess.run(argv, check=True)
    return path


def try_out(build: Build) -> None:
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="rushes-images-"))
        place = Path(temporary)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        for name in ("server", "worker"):
            (place / name).mkdir(0o700)
        server = Container(
            build,
            "server",
            place / "server",
            RUSHES_PORT=str(port),
            RUSHES_ADMIN_TOKEN=TOKEN,
            RUSHES_ADMIN_SECRET=SECRET,
            RUSHES_TRANSCODE_WORKERS="0",
            RUSHES_TRANSCRIPTION_WORKERS="0",
        )
        worker = Container(
            build, "worker", place / "worker", RUSHES_SERVER=url, RUSHES_ADMIN_SECRET=SECRET
        )
        began = time.monotonic()
        server.start()
        stack.callback(server.kill)
        until(server.is_healthy, "the server to be healthy")
        print(f"server: healthy after {time.monotonic() - began:.1f} s")
        worker.run("worker", "--register")
        worker.start()
        stack.callback(worker.kill)
        until(worker.is_healthy, "the worker to be healthy")
        play(url, make_clip(place))
        for name, each in (("worker", worker), ("server", server)):
            began = time.monotonic()
            code = each.stop()
            print(f"{name}: SIGTERM: exit code {code} after {time.monotonic() - began:.1f} s")
            assert code in (0, 128 + signal.SIGTERM), code


def play(url: str, source: Path) -> None:
    """Through the pages' own addresses: the playlist, and all that it names."""
    began = time.monotonic()
    with httpx2.Client(
        base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
    ) as api:
        assert "<title>" in api.get("/").text, "no pages"
        sent = api.post("/api/v1/media", files={"file": (source.name, source.read_bytes())})
        assert sent.status_code == 201, sent.text
        path = f"/api/v1/media/{sent.json()['id']}"
        until(lambda: api.get(path).json()["status"] == "ready", "the clip to be ready")
        top = api.get(f"{path}/stream/master.m3u8", follow_redirects=True)
        assert top.status_code == 200, top.text
        variant = next(line for line in top.text.splitlines() if line and not line.startswith("#"))
        playlist = api.get(str(top.url.join(variant)), follow_redirects=True)
        names = [line for line in playlist.text.splitlines() if line and not line.startswith("#")]
        sizes = [len(api.get(str(playlist.url.join(name))).content) for name in names]
        assert names, playlist.text
        assert all(sizes)
    print(f"clip: uploaded, encoded by the worker and fetched in {time.monotonic() - began:.1f} s")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"waited too long for {what}")
        time.sleep(0.2)


def size_of(root: Path) -> str:
    done = subprocess.run(["du", "-sxm", str(root)], capture_output=True, text=True, check=True)
    return f"{done.stdout.split()[0]} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=ROOT / ".cache" / "images")
    parser.add_argument("--variant", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--debootstrap", default="debootstrap")
    parser.add_argument("--wheels", type=Path, help="a folder instead of the package index")
    given = parser.parse_args()
    if os.geteuid() != 0 or shutil.which(given.debootstrap) is None:
        sys.exit("needs root and debootstrap (apt-get install debootstrap)")
    place = given.place.resolve()
    place.mkdir(parents=True, exist_ok=True)
    build = Build(place, given.variant, given.debootstrap, given.wheels)
    for name in ("build", "runtime"):
        build.make(dockerfile.stages()[name])
    print(f"image: {size_of(build.root('runtime'))}, of which Debian {size_of(place / 'base')}")
    try_out(build)


if __name__ == "__main__":
    main()
