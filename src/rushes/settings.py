"""Every setting: its name, bounds, default and sentence.

`config` reads them; `python -m rushes.settings` prints `docs/settings.md`. Must not import anything
that is slow to start.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from rushes.setting_field import (
    DEFAULT,
    PREFIX,
    Page,
    SettingField,
    SettingOrigin,
    kept,
    number,
    reference,
    seconds,
    size,
    text,
)
from rushes.units import DAY, GIB, HOUR, MINUTE

DEFAULTS, RETENTION, LIMITS, ALERTS, WORKERS = Page
ANY = "no limit"
# Whose defaults depend on others, or on the working directory.
DERIVED = {"data_dir", "database_url", "storage_url", "engine_cache_dir", "base_url"}


def web_address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are seconds. `extra` marks what is secret: all of it, or the password in a URL."""

    data_dir: Annotated[Path, text("The directory for everything Rushes keeps in files.")] = Path(
        "data"
    )
    database_url: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(sqlite|postgres|postgresql)(\+[a-z0-9]+)?://.",
            description="Where the jobs are kept.",
            extra={
                "secret": "url",
                "default": "sqlite:///DATA_DIR/rushes.db",
                "expected": "a URL such as sqlite:///rushes.db or"
                " postgresql://user:password@host/name",
            },
        ),
    ] = ""
    claim_duration: Annotated[
        float,
        seconds("How long a worker holds a job without a sign of life; then it is lost.", 0.1, DAY),
    ] = 60.0
    heartbeat_interval: Annotated[
        float,
        seconds(
            "How often a worker renews its claims; at most a third of their duration.", 0.01, HOUR
        ),
    ] = 15.0
    offline_threshold: Annotated[
        float,
        seconds(
            "How long after its last sign of life a worker counts as offline.",
            0.1,
            30 * DAY,
            page=WORKERS,
        ),
    ] = 300.0
    sweep_interval: Annotated[
        float,
        seconds("How often lost jobs are looked for; at most the claim duration.", 0.01, HOUR),
    ] = 10.0
    startup_wait: Annotated[
        float,
        seconds(
            "How long `serve` waits for PostgreSQL, a bucket, or Redis that is not up yet.", 0, HOUR
        ),
    ] = 60.0
    migrate: Annotated[
        Literal["auto", "never"], text("Whether `serve` migrates, or waits for `rushes migrate`.")
    ] = "auto"
    poll_interval: Annotated[
        float,
        seconds("How often an idle worker asks for work when nobody wakes it.", 0.01, HOUR),
    ] = 2.0
    attempt_timeout: Annotated[
        float,
        seconds("How long one attempt may take, unless its job says.", 0.1, 7 * DAY, page=DEFAULTS),
    ] = 6 * HOUR
    max_attempts: Annotated[
        int, number("How often a job is tried, unless it says.", 1, 100, page=DEFAULTS)
    ] = 3
    policy: Annotated[
        Literal["auto", "fifo", "fair"],
        text("Who is next: the oldest, users in turn, or turns once two wait.", page=DEFAULTS),
    ] = "auto"
    prefer_wait: Annotated[
        float,
        seconds(
            "How long a job that prefers, say, a GPU is kept for a worker with one.",
            0,
            HOUR,
            page=DEFAULTS,
        ),
    ] = 15.0
    job_retention: Annotated[
        float,
        kept(
            "How long ended jobs are kept with their attempts and logs; what a recording shows is"
            " kept as long as the recording.",
            page=RETENTION,
        ),
    ] = 90 * DAY
    housekeeping_retention: Annotated[
        float,
        kept("The same for webhook deliveries, clean-ups and parts of encodes.", page=RETENTION),
    ] = 7 * DAY
    worker_retention: Annotated[
        float,
        kept(
            "How long workers that are not heard of any more are kept, with their keys; those that"
            " hold a job or are disabled stay.",
            page=RETENTION,
        ),
    ] = 30 * DAY
    export_retention: Annotated[
        float,
        kept("How long files that were exported of recordings are kept.", page=RETENTION),
    ] = 7 * DAY
    event_retention: Annotated[
        float,
        seconds("How long events are kept for those who catch up.", 1, 3650 * DAY, page=RETENTION),
    ] = 7 * DAY
    event_keep_alive: Annotated[
        float,
        seconds(
            "How often a stream of events on which nothing happens says so; below what proxies"
            " allow to be idle.",
            0.1,
            30,
        ),
    ] = 15.0
    event_retry: Annotated[
        float,
        seconds(
            "After how long a client whose stream of events ended is asked to come back (`retry`);"
            " Rushes' own pages begin sooner and slow down.",
            0.1,
            10 * MINUTE,
        ),
    ] = 2.0
    security_log_retention: Annotated[
        float, seconds("How long entries of the security log are kept.", DAY, 3650 * DAY)
    ] = 90 * DAY
    storage_url: Annotated[
        str,
        text(
            "Where media and what is made of them are kept.",
            pattern=r"^[a-z][a-z0-9+.-]*://.",
            secret="url",
            default="file://DATA_DIR/storage",
            expected="a URL such as file:///srv/rushes or s3://bucket/prefix",
        ),
    ] = ""
    storage_playback: Annotated[
        Literal["server", "redirect"],
        text(
            "How segments, pictures and downloads reach whoever watches: through the"
            " server, or by a redirect to a link of the storage (S3 only), so that their bytes"
            " bypass the server. The bucket must allow the pages' origin then: `rushes storage"
            " setup`."
        ),
    ] = "server"
    storage_link_life: Annotated[
        float,
        seconds(
            "How long such a link works; for so long can whoever has it still read that one file"
            " after a share has ended or a media was deleted.",
            MINUTE,
            HOUR,
        ),
    ] = 5 * MINUTE
    keep_completed_qualities: Annotated[
        bool,
        text(
            "Whether a new attempt goes on with what the last has finished; of the"
            " server, also for workers elsewhere."
        ),
    ] = True
    cleanup_partial_on_failure: Annotated[
        bool, text("Whether what a failed job left behind is removed.", page=RETENTION)
    ] = True
    redis_url: Annotated[
        str,
        text(
            "The Redis for faster hints.",
            pattern=r"^(|rediss?://.+)$",
            secret="url",
            expected="a URL such as redis://user:password@host:6379/0, or rediss://… for TLS",
        ),
    ] = ""
    queue_mode: Annotated[
        Literal["database", "redis", "hybrid"],
        text(
            "How waiting workers hear of work: by the database, by Redis (`serve` does"
            " not start without it), or by Redis as long as it works. The claim always goes through"
            " the database."
        ),
    ] = "database"
    redis_pool_size: Annotated[
        int,
        number("How many connections to Redis are kept, beside two that listen.", 1, 1000),
    ] = 10
    redis_prefix: Annotated[
        str,
        text(
            "What all keys and channels in Redis begin with; each Rushes needs one of its own.",
            pattern=r"^[A-Za-z0-9_.-]{1,64}$",
            expected="up to 64 letters, digits, or _ . -",
        ),
    ] = "rushes"
    alert_webhook_url: Annotated[
        str,
        text(
            "Where alerts are sent.",
            pattern=r"^(|https?://.+)$",
            secret="whole",
            expected="a URL such as https://hooks.example.org/rushes",
            page=ALERTS,
        ),
    ] = ""
    alert_rate_limit: Annotated[
        float, seconds("How long alerts of one type are held together.", 0, DAY, page=ALERTS)
    ] = 300.0
    alert_webhook_timeout: Annotated[
        float,
        seconds("How long a receiver of alerts or webhooks may take.", 0.1, 300, page=ALERTS),
    ] = 10.0
    engine: Annotated[
        str,
        text(
            "The speech engine: local, openai, or one that a package adds.",
            pattern=r"^[a-z][a-z0-9_-]*$",
            expected="a name",
        ),
    ] = "local"
    engine_model: Annotated[
        str,
        text(
            "The model for jobs that name none, on this machine: workers elsewhere have their own.",
            default="whisper-base for the engine local; for others the one they have, or whisper-1",
            pattern=r"^\S{0,200}$",
            expected="a name",
            page=DEFAULTS,
        ),
    ] = ""
    engine_cache_dir: Annotated[
        Path | None,
        text("Where models are kept.", default="DATA_DIR/models", expected="a path"),
    ] = None
    engine_device: Annotated[
        Literal["auto", "cpu", "cuda"], text("What the speech engine runs on.")
    ] = "auto"
    engine_threads: Annotated[
        int,
        number("Threads of the speech engine; 0 means as many as cores.", 0, 1024),
    ] = 0
    engine_max_loaded: Annotated[int, number("How many models stay in memory.", 1, 100)] = 2
    worker_schedule: Annotated[
        str,
        text(
            "When workers take work, in local time: 22:00-06:00, mon-fri 19:00-07:00, always. Of"
            " `rushes worker`, and of the encoding and transcribing inside the server; so are the"
            " other settings of workers. An admin's word for a worker wins."
        ),
    ] = ""
    worker_rest: Annotated[
        Literal["", "finish", "release"],
        text(
            "What becomes of work in hand when those hours are over: it is finished, or given back."
        ),
    ] = ""
    worker_nice: Annotated[
        int,
        number("How nice ffmpeg and the speech engine are to other programs, up to 19.", 0, 19),
    ] = 0
    worker_concurrency: Annotated[
        str,
        text(
            "How many jobs `rushes worker` runs at once: a number, or by kind, such as"
            " transcode=1,transcribe=2; one if it is not said."
        ),
    ] = ""
    worker_tags: Annotated[
        str,
        text("Words that jobs may need of a worker as tag:WORD, separated by commas."),
    ] = ""
    worker_scratch_budget: Annotated[
        int,
        size("How much the temporary files of a worker's jobs may take; 0: what there is."),
    ] = 0
    worker_idle_unload: Annotated[
        float,
        seconds(
            "After how long without speech its models leave the memory, and that of the graphics"
            " card; 0: never.",
            0,
            7 * DAY,
        ),
    ] = 0.0
    engine_auto_download: Annotated[
        bool, text("Whether a missing model is downloaded when a job needs it.")
    ] = True
    engine_hub_url: Annotated[
        str,
        text(
            "The model hub, or a mirror of it.",
            pattern=r"^https?://.+$",
            expected="a URL such as https://hub.example.org",
        ),
    ] = "https://huggingface.co"
    engine_url: Annotated[
        str,
        text(
            "The server of the engine openai, such as http://speech.example.org:8000.",
            pattern=r"^(|https?://.+)$",
            secret="url",
            expected="a URL",
        ),
    ] = ""
    engine_api_key: Annotated[
        str, text("The key for the server of the engine openai.", secret="whole")
    ] = ""
    transcription_workers: Annotated[
        int,
        number(
            "Transcription workers inside the server.", 0, 1000, page=WORKERS, after_restart=True
        ),
    ] = 1
    transcription_wait: Annotated[
        float,
        seconds("How long a request of the OpenAI-compatible API waits for its words.", 0.01, DAY),
    ] = HOUR
    transcripts_dir: Annotated[
        str,
        text(
            "A folder in which each transcription is also kept as a file for other programs:"
            " JOB_ID/transcript.json; none: only in the database."
        ),
    ] = ""
    watch_dir: Annotated[
        str, text("A folder whose files are taken in as they appear; none: nothing is watched.")
    ] = ""
    watch_user: Annotated[
        str, text("Whose recordings they become, by name; none: the first admin's.")
    ] = ""
    watch_after: Annotated[
        Literal["keep", "move", "delete"],
        text("What becomes of a file there once it was taken in; `move`: into `.done`."),
    ] = "keep"
    watch_settle: Annotated[
        float, seconds("How long a file there must stay as it is to count as whole.", 0.1, HOUR)
    ] = 5.0
    openai_store: Annotated[
        bool,
        text(
            "Whether what comes by the OpenAI-compatible API stays in the library,"
            " unless a request says (`store`).",
            page=DEFAULTS,
        ),
    ] = False
    transcode_workers: Annotated[
        int,
        number("Transcoding workers inside the server.", 0, 1000, page=WORKERS, after_restart=True),
    ] = 1
    handlers: Annotated[
        str,
        text(
            "Modules with a table HANDLERS of job kinds of your own, separated by commas.",
            pattern=r"^[\w.,\s]*$",
            expected="names such as mypackage.handlers",
        ),
    ] = ""
    ffmpeg: Annotated[
        str, text("The ffmpeg to use; empty: the system's, else that of the wheel.")
    ] = ""
    ffprobe: Annotated[
        str, text("The ffprobe to use; empty: the system's, else that of the wheel.")
    ] = ""
    admin_secret: Annotated[str, text("Lets scripts register workers.", secret="whole")] = ""
    admin_token: Annotated[
        str,
        text(
            "A first admin API token, for automation.",
            pattern=r"^(|\S{32,1000})$",
            secret="whole",
            expected="at least 32 characters without spaces, such as `openssl rand -hex 32` makes",
        ),
    ] = ""
    host: Annotated[str, text("The address the server listens on.")] = "127.0.0.1"
    port: Annotated[int, number("The port the server listens on.", 0, 65535)] = 8484
    base_url: Annotated[
        str,
        text(
            "The server's address as people see it.",
            pattern=r"^(|https?://.+)$",
            default="http://HOST:PORT",
            expected="a URL such as https://rushes.example.org",
        ),
    ] = ""
    embed_origins: Annotated[
        str,
        text(
            "Sites whose pages may show shared recordings in a frame (`/embed/…`) and read their"
            " streams by script, separated by commas; `*`: every site.",
            pattern=r"^(|\*|https?://[A-Za-z0-9.:\[\]-]+(\s*,\s*https?://[A-Za-z0-9.:\[\]-]+)*)$",
            default="none",
            expected="origins such as https://www.example.org, or *",
        ),
    ] = ""
    trusted_proxies: Annotated[
        str,
        text(
            "Proxies whose word about a client's address is taken, separated by commas.",
            expected="addresses or networks such as 10.0.0.0/8",
        ),
    ] = "127.0.0.1"
    log_format: Annotated[
        Literal["auto", "human", "json"],
        text("How the log is written; auto is human on a terminal."),
    ] = "auto"
    max_upload_size: Annotated[
        int, size("The largest file that is accepted; 0 means any.", page=LIMITS, zero=ANY)
    ] = 0
    user_quota: Annotated[
        int,
        size(
            "How much a user may keep, with what is made of it and what is in the trash, unless set"
            " for the user; 0 means any amount.",
            page=LIMITS,
            zero=ANY,
        ),
    ] = 0
    user_streams: Annotated[
        int,
        number(
            "How many streams of events, and as many followed logs, a user may have"
            " open at once; 0 means any number.",
            0,
            1_000_000,
            page=LIMITS,
            zero=ANY,
        ),
    ] = 20
    user_uploads: Annotated[
        int,
        number(
            "How many unfinished uploads a user may have; 0 means any number.",
            0,
            1_000_000,
            page=LIMITS,
            zero=ANY,
        ),
    ] = 500
    user_jobs: Annotated[
        int,
        number(
            "How many jobs of a user may wait before new work is refused; 0 means any number.",
            0,
            10_000_000,
            page=LIMITS,
            zero=ANY,
        ),
    ] = 10_000
    user_tokens: Annotated[
        int,
        number(
            "How many API tokens a user may have; 0 means any.", 0, 1_000_000, page=LIMITS, zero=ANY
        ),
    ] = 100
    public_health: Annotated[
        bool,
        text("Whether strangers may read `/health` and `/metrics`; if not, only admins."),
    ] = True
    min_free_space: Annotated[
        int,
        size("Uploads are refused when less than this would be left on the disk.", page=LIMITS),
    ] = GIB
    upload_expiry: Annotated[
        float,
        seconds("How long an unfinished upload can be resumed.", 1, 365 * DAY, page=RETENTION),
    ] = DAY
    purge_grace: Annotated[
        float,
        seconds("How long the bytes of a replaced version are kept.", 0, 365 * DAY, page=RETENTION),
    ] = DAY
    trash_period: Annotated[
        float,
        seconds(
            "How long what was deleted can be restored; 0 means not at all.",
            0,
            3650 * DAY,
            zero="not at all",
            page=RETENTION,
        ),
    ] = 30 * DAY
    session_duration: Annotated[
        float, seconds("How long a sign-in lasts.", MINUTE, 365 * DAY, page=LIMITS)
    ] = 30 * DAY
    import_timeout: Annotated[
        float, seconds("How long the import of one file from a URL may take.", 1, 7 * DAY)
    ] = 6 * HOUR
    import_private_sources: Annotated[
        bool, text("Whether files may be imported from private addresses.")
    ] = False
    webhook_private_targets: Annotated[
        bool, text("Whether webhooks may go to private addresses.")
    ] = False
    server: Annotated[
        str,
        text(
            "The server of the command line; `rushes worker` may have several, by commas.",
            pattern=r"^(|https?://.+)$",
            default="the one running here",
            expected="a URL such as https://rushes.example.org",
        ),
    ] = ""
    token: Annotated[str, text("What the command line signs in with.", secret="whole")] = ""
    worker_key: Annotated[str, text("What `rushes worker` signs in with.", secret="whole")] = ""

    # Where the values came from, of those that did not come as they are by default.
    origins: Mapping[str, SettingOrigin] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        derived = {
            "database_url": f"sqlite:///{self.data_dir / 'rushes.db'}",
            "storage_url": (self.data_dir.absolute() / "storage").as_uri(),
            "engine_cache_dir": self.data_dir / "models",
            "base_url": web_address(self.host, self.port),
        }
        for name, value in derived.items():
            if not getattr(self, name):
                msgspec.structs.force_setattr(self, name, value)

    @property
    def has_base_url(self) -> bool:
        """Whether the operator has said under which address people see the server."""
        return self.base_url != web_address(self.host, self.port)

    def origin(self, name: str) -> SettingOrigin:
        if name in self.origins:
            return self.origins[name]
        is_default = name in DERIVED or getattr(self, name) == FIELDS[name].default
        return DEFAULT if is_default else SettingOrigin("code")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={show(name, getattr(self, name))}" for name in FIELDS)
        return f"Settings({shown})"


def variable(name: str) -> str:
    return PREFIX + name.upper()


def show(name: str, value: Any) -> str:
    return FIELDS[name].show(value)


def describe() -> str:
    """docs/settings.md."""
    return reference(FIELDS.values())


def _fields() -> Iterator[SettingField]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    for each in msgspec.structs.fields(Settings):
        if each.name != "origins":
            hint = hints[each.name]
            meta = typing.get_args(hint)[1]
            yield SettingField(name=each.name, type=hint, meta=meta, default=each.default)


FIELDS = {each.name: each for each in _fields()}


if __name__ == "__main__":
    sys.stdout.write(describe())
