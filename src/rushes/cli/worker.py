"""`rushes worker`: work for a server, over HTTP alone, until told to leave."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts
import msgspec

from rushes import config, errors, ids, worker_settings
from rushes.cli import client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rushes.engines.registry import Registry
    from rushes.worker.loop import Handler, Worker
    from rushes.worker_settings import WorkerSettings

SPEECH, PICTURE = "transcribe", "transcode"
KEY_FILE = "worker.key"
# A handler that listens has ended by then; what others still hold is given back over their heads.
STOP_SECONDS = 0.7
# A server that is away cannot take anything back.
GIVE_BACK_SECONDS = 3.0

Server = Annotated[
    str | None,
    cyclopts.Parameter(
        help="The server, instead of RUSHES_SERVER; or several of one fleet, separated by commas:"
        " another one is asked when one is away."
    ),
]
Key = Annotated[str | None, cyclopts.Parameter(help="Its key, better set as RUSHES_WORKER_KEY.")]
Join = Annotated[
    str | None, cyclopts.Parameter(help="A code of 'rushes workers invite'; the key is kept.")
]
Register = Annotated[
    bool,
    cyclopts.Parameter(
        negative="",
        help="Only see to it that a key is kept here, by RUSHES_ADMIN_SECRET if there is none yet,"
        " and end: for images, before the worker that need not know the secret.",
    ),
]
Name = Annotated[str | None, cyclopts.Parameter(help="The name to join with; this host's if not.")]
Kinds = Annotated[str | None, cyclopts.Parameter(help="Only these kinds, separated by commas.")]
Handlers = Annotated[
    str | None, cyclopts.Parameter(help="Modules with job kinds, instead of RUSHES_HANDLERS.")
]
Capabilities = Annotated[
    list[str] | None,
    cyclopts.Parameter(
        name="--capability", negative="", help="A word that jobs may need; can be said repeatedly."
    ),
]
Schedule = Annotated[
    str | None,
    cyclopts.Parameter(
        help="When to take work, in local time: '22:00-06:00', 'mon-fri 19:00-07:00; sat,sun"
        " 00:00-24:00'. Instead of RUSHES_WORKER_SCHEDULE."
    ),
]
Rest = Annotated[
    str | None,
    cyclopts.Parameter(
        help="What becomes of work in hand when those hours are over: 'finish', or 'release' to"
        " give it back."
    ),
]
Nice = Annotated[
    int | None, cyclopts.Parameter(help="The nice level of ffmpeg and the speech engine, 0 to 19.")
]
Concurrency = Annotated[
    str | None,
    cyclopts.Parameter(help="Jobs at once: a number, or by kind: 'transcode=1,transcribe=2'."),
]
Tags = Annotated[
    str | None,
    cyclopts.Parameter(help="Words that jobs may need as 'tag:WORD', separated by commas."),
]
ScratchBudget = Annotated[
    str | None, cyclopts.Parameter(help="What temporary files may take together, such as 50GB.")
]
IdleUnload = Annotated[
    str | None,
    cyclopts.Parameter(help="After how long without speech models leave memory, such as 10min."),
]


def run(
    *,
    server: Server = None,
    key: Key = None,
    join: Join = None,
    register: Register = False,
    name: Name = None,
    kinds: Kinds = None,
    handlers: Handlers = None,
    capability: Capabilities = None,
    schedule: Schedule = None,
    rest: Rest = None,
    nice: Nice = None,
    concurrency: Concurrency = None,
    tags: Tags = None,
    scratch_budget: ScratchBudget = None,
    idle_unload: IdleUnload = None,
) -> None:
    """Work for a server until Ctrl-C or SIGTERM; what is in hand is then given back at once. An
    admin of the server may say otherwise, with 'rushes workers set'."""
    settings = config.load()
    if register:
        _Access.register(settings, server, name or socket.gethostname())
        return
    said = {
        "schedule": schedule,
        "rest": rest,
        "nice": nice,
        "concurrency": concurrency,
        "tags": tags,
        "scratch_budget": scratch_budget,
        "idle_unload": idle_unload,
    }
    given = {name: value for name, value in said.items() if value is not None}
    own = worker_settings.understood({**worker_settings.of_settings(settings), **given})
    from rushes import handlers as registered
    from rushes.engines.registry import Registry, options
    from rushes.tools import programs

    programs.use(ffmpeg=settings.ffmpeg, ffprobe=settings.ffprobe)
    modules = settings.handlers if handlers is None else handlers
    engines = Registry(options(settings))
    known = registered.table(modules, engines=engines)
    table = _chosen(known, kinds)
    reason = engines.why_not() if SPEECH in table else None
    if reason and kinds:
        raise errors.Invalid(f"nothing can be transcribed here: {reason}")
    access = _Access.find(settings, server, key, join, name)
    try:
        _work(settings, access, table, capability or [], reason, own, engines)
    finally:
        engines.close()


class _Access(msgspec.Struct, frozen=True):
    """Where to work, and the proof of being allowed to."""

    server: str
    key: str

    @classmethod
    def find(
        cls,
        settings: config.Settings,
        server: str | None,
        key: str | None,
        join: str | None,
        name: str | None,
    ) -> _Access:
        path = settings.data_dir / KEY_FILE
        kept = cls._kept(path)
        key = key or settings.worker_key
        server = _server(settings, server, kept)
        if join:
            return cls._joined(path, server, join, name or socket.gethostname())
        if key:
            return cls(server, key)
        if kept is None:
            raise errors.Invalid(
                "this worker has no key: 'rushes workers invite' at the server prints the command"
                " to join with, 'rushes workers register' makes a key for RUSHES_WORKER_KEY"
            )
        if not set(_servers(kept.server)) & set(_servers(server)):
            raise errors.Invalid(
                f"the key that is kept here is for {kept.server}: to work for {server}, --join"
                " with a code from there, or give its --key"
            )
        return cls(server, kept.key)

    @classmethod
    def register(cls, settings: config.Settings, server: str | None, name: str) -> None:
        path = settings.data_dir / KEY_FILE
        kept = cls._kept(path)
        server = _server(settings, server, kept)
        if kept is not None and set(_servers(kept.server)) & set(_servers(server)):
            return
        if not settings.admin_secret:
            raise errors.Invalid("to register here, set RUSHES_ADMIN_SECRET to the server's")
        from rushes.worker import remote

        config.make_data_dir(path.parent)
        _, key = remote.register(server, settings.admin_secret, name)
        cls(server, key)._keep(path)

    @classmethod
    def _kept(cls, path: Path) -> _Access | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise errors.BadSetting(f"{path} cannot be read; remove it and join again") from error

    @classmethod
    def _joined(cls, path: Path, server: str, code: str, name: str) -> _Access:
        from rushes.worker import remote

        # Before the code is used up.
        config.make_data_dir(path.parent)
        _, key = remote.join(server, code, name)
        joined = cls(server, key)
        joined._keep(path)
        return joined

    def _keep(self, path: Path) -> None:
        draft = path.with_suffix(".new")
        with open(draft, "w", opener=_private) as file:
            json.dump({"server": self.server, "key": self.key}, file)
        draft.replace(path)


def _server(settings: config.Settings, named: str | None, kept: _Access | None) -> str:
    if kept is not None and not (named or settings.server):
        return kept.server
    here = client.address_of_server_here(settings) or {}
    server = named or settings.server or here.get("url")
    if not server:
        raise errors.Invalid("say which server to work for: --server URL, or RUSHES_SERVER")
    return ",".join(_servers(server))


def _servers(text: str) -> list[str]:
    from rushes.worker import remote

    return remote.servers_in(text)


def _chosen(table: Mapping[str, Handler], kinds: str | None) -> Mapping[str, Handler]:
    wanted = [each.strip() for each in (kinds or "").split(",") if each.strip()]
    unknown = [kind for kind in wanted if kind not in table]
    if unknown:
        raise errors.Invalid(
            f"this worker has no handlers for {', '.join(unknown)}; it has them for"
            f" {', '.join(sorted(table))}"
        )
    return {kind: table[kind] for kind in wanted} if wanted else table


def _work(
    settings: config.Settings,
    access: _Access,
    table: Mapping[str, Handler],
    capabilities: list[str],
    no_speech: str | None,
    own: WorkerSettings,
    engines: Registry,
) -> None:
    """`no_speech`: why nothing can be transcribed here. Then that is not offered, as a job that
    fails for this reason might succeed elsewhere."""
    from rushes import logs, protocol, tracing
    from rushes.tools import process, programs
    from rushes.worker import capabilities as offers
    from rushes.worker.conduct import Conduct
    from rushes.worker.loop import Worker
    from rushes.worker.remote import Remote

    logs.configure(settings.log_format)
    tracing.configure("rushes-worker")
    if told := config.about_old_names():
        _log().warning("%s", told)
    if no_speech:
        _log().warning("nothing is transcribed here: %s", no_speech)
        table = {kind: handler for kind, handler in table.items() if kind != SPEECH}
    if PICTURE in table and (said := programs.trouble()):
        _log().warning("%s", said)
    hello = protocol.Hello(
        kinds=sorted(table),
        capabilities=offers.proved(capabilities),
        metadata=offers.described(),
        boot_id=ids.new("boot"),
    )
    worker = Worker(
        Remote(access.server, access.key),
        table,
        hello=hello,
        heartbeat_seconds=settings.heartbeat_interval,
        conduct=Conduct(
            own,
            scratch_root=settings.data_dir / "scratch",
            be_nice=process.niceness.set,
            unload_idle=engines.unload_idle,
        ),
    )
    _log().info("working for %s: %s", access.server, ", ".join(sorted(table)))
    try:
        _run_until_asked_to_leave(worker)
    finally:
        tracing.close()
    _log().info("left")


def _run_until_asked_to_leave(worker: Worker) -> None:
    """Raises what ended the worker, if it was not a signal; a second signal ends the process."""
    asked: list[int] = []
    ended: list[errors.RushesError] = []

    def ask(number: int, frame: object) -> None:
        # Nothing that takes a lock: this may interrupt whoever holds it.
        asked.append(number)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)

    def work() -> None:
        try:
            worker.run()
        except errors.RushesError as error:
            ended.append(error)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, ask)
    thread = threading.Thread(target=work, name="worker", daemon=True)
    thread.start()
    # Waiting for work may take a while to end; whoever is refused need not wait for that.
    while thread.is_alive() and not asked and worker.refused is None:
        thread.join(0.1)
    if asked:
        _log().info("asked to leave: giving back what is in hand")
    _give_back(worker, thread)
    if not asked:
        raise _explained(ended[0] if ended else worker.refused)


def _give_back(worker: Worker, thread: threading.Thread) -> None:
    worker.stop()
    thread.join(STOP_SECONDS)
    giving_back = threading.Thread(target=worker.abandon, daemon=True)
    giving_back.start()
    giving_back.join(GIVE_BACK_SECONDS)


def _explained(error: errors.RushesError | None) -> errors.RushesError:
    if isinstance(error, errors.Unauthorized):
        return errors.Unauthorized(
            "the server does not accept this worker's key (any more): join again with a code of"
            " 'rushes workers invite'"
        )
    return error or errors.RushesError("the worker has broken down")


def _log() -> logging.Logger:
    return logging.getLogger("rushes.worker")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
