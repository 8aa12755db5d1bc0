"""Every setting: its name, bounds, default and sentence.

`config` reads them; `python -m rushes.settings` prints `docs/settings.md`. Must not import anything
that is slow to start.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from rushes.setting_field import SettingField
from rushes.units import DAY, GIB, HOUR, MINUTE

PREFIX = "RUSHES_"
CONFIG = "RUSHES_CONFIG"
DEFAULT_FILE = "rushes.toml"


def _seconds(description: str, lowest: float, highest: float) -> msgspec.Meta:
    return msgspec.Meta(ge=lowest, le=highest, description=description, extra={"duration": True})


def _kept(description: str) -> msgspec.Meta:
    """For how long something is kept: at least a day, or, with 0, for ever."""
    extra = {"duration": True, "kept": True, "expected": "never, or a duration from 1d to 3650d"}
    return msgspec.Meta(ge=0, le=3650 * DAY, description=description, extra=extra)


def _bytes(description: str) -> msgspec.Meta:
    return msgspec.Meta(ge=0, le=2**53, description=description, extra={"size": True})


def _text(description: str, pattern: str | None = None, **extra: Any) -> msgspec.Meta:
    return msgspec.Meta(pattern=pattern, description=description, extra=extra)


def web_address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are seconds. `extra` marks what is secret: all of it, or the password in a URL."""

    data_dir: Annotated[
        Path, msgspec.Meta(description="The directory for everything Rushes keeps in files.")
    ] = Path("data")
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
        _seconds(
            "How long a worker holds a job without a sign of life; then it is lost.", 0.1, DAY
        ),
    ] = 60.0
    heartbeat_interval: Annotated[
        float,
        _seconds(
            "How often a worker renews its claims; at most a third of their duration.", 0.01, HOUR
        ),
    ] = 15.0
    offline_threshold: Annotated[
        float,
        _seconds("How long after its last sign of life a worker counts as offline.", 0.1, 30 * DAY),
    ] = 300.0
    sweep_interval: Annotated[
        float,
        _seconds("How often lost jobs are looked for; at most the claim duration.", 0.01, HOUR),
    ] = 10.0
    startup_wait: Annotated[
        float,
        _seconds(
            "How long `serve` waits for PostgreSQL, a bucket, or Redis that is not up yet.", 0, HOUR
        ),
    ] = 60.0
    migrate: Annotated[
        Literal["auto", "never"], _text("Whether `serve` migrates, or waits for `rushes migrate`.")
    ] = "auto"
    poll_interval: Annotated[
        float,
        _seconds("How often an idle worker asks for work when nobody wakes it.", 0.01, HOUR),
    ] = 2.0
    attempt_timeout: Annotated[
        float, _seconds("How long one attempt may take, unless its job says.", 0.1, 7 * DAY)
    ] = 6 * HOUR
    max_attempts: Annotated[
        int, msgspec.Meta(ge=1, le=100, description="How often a job is tried, unless it says.")
    ] = 3
    policy: Annotated[
        Literal["auto", "fifo", "fair"],
        _text("Who is next: the oldest, users in turn, or turns once two wait."),
    ] = "auto"
    prefer_wait: Annotated[
        float,
        _seconds("How long a job that prefers, say, a GPU is kept for a worker with one.", 0, HOUR),
    ] = 15.0
    job_retention: Annotated[
        float,
        _kept(
            "How long ended jobs are kept with their attempts and logs; what a recording shows is"
            " kept as long as the recording."
        ),
    ] = 90 * DAY
    housekeeping_retention: Annotated[
        float,
        _kept("The same for webhook deliveries, clean-ups and parts of encodes."),
    ] = 7 * DAY
    worker_retention: Annotated[
        float,
        _kept(
            "How long workers that are not heard of any more are kept, with their keys; those that"
            " hold a job or are disabled stay."
        ),
    ] = 30 * DAY
    event_retention: Annotated[
        float, _seconds("How long events are kept for those who catch up.", 1, 3650 * DAY)
    ] = 7 * DAY
    event_keep_alive: Annotated[
        float,
        _seconds(
            "How often a stream of events on which nothing happens says so; below what proxies"
            " allow to be idle.",
            0.1,
            30,
        ),
    ] = 15.0
    event_retry: Annotated[
        float,
        _seconds(
            "After how long a client whose stream of events ended is asked to come back (`retry`);"
            " Rushes' own pages begin sooner and slow down.",
            0.1,
            10 * MINUTE,
        ),
    ] = 2.0
    security_log_retention: Annotated[
        float, _seconds("How long entries of the security log are kept.", DAY, 3650 * DAY)
    ] = 90 * DAY
    storage_url: Annotated[
        str,
        _text(
            "Where media and what is made of them are kept.",
            pattern=r"^[a-z][a-z0-9+.-]*://.",
            secret="url",
            default="file://DATA_DIR/storage",
            expected="a URL such as file:///srv/rushes or s3://bucket/prefix",
        ),
    ] = ""
    storage_playback: Annotated[
        Literal["server", "redirect"],
        msgspec.Meta(
            description="How segments, pictures and downloads reach whoever watches: through the"
            " server, or by a redirect to a link of the storage (S3 only), so that their bytes"
            " bypass the server. The bucket must allow the pages' origin then: `rushes storage"
            " setup`."
        ),
    ] = "server"
    storage_link_life: Annotated[
        float,
        _seconds(
            "How long such a link works; for so long can whoever has it still read that one file"
            " after a share has ended or a media was deleted.",
            MINUTE,
            HOUR,
        ),
    ] = 5 * MINUTE
    keep_completed_qualities: Annotated[
        bool,
        msgspec.Meta(
            description="Whether a new attempt goes on with what the last has finished; of the"
            " server, also for workers elsewhere."
        ),
    ] = True
    cleanup_partial_on_failure: Annotated[
        bool, msgspec.Meta(description="Whether what a failed job left behind is removed.")
    ] = True
    redis_url: Annotated[
        str,
        _text(
            "The Redis for faster hints.",
            pattern=r"^(|rediss?://.+)$",
            secret="url",
            expected="a URL such as redis://user:password@host:6379/0, or rediss://… for TLS",
        ),
    ] = ""
    queue_mode: Annotated[
        Literal["database", "redis", "hybrid"],
        msgspec.Meta(
            description="How waiting workers hear of work: by the database, by Redis (`serve` does"
            " not start without it), or by Redis as long as it works. The claim always goes through"
            " the database."
        ),
    ] = "database"
    redis_pool_size: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=1000,
            description="How many connections to Redis are kept, beside two that listen.",
        ),
    ] = 10
    redis_prefix: Annotated[
        str,
        _text(
            "What all keys and channels in Redis begin with; each Rushes needs one of its own.",
            pattern=r"^[A-Za-z0-9_.-]{1,64}$",
            expected="up to 64 letters, digits, or _ . -",
        ),
    ] = "rushes"
    alert_webhook_url: Annotated[
        str, _text("Where alerts are sent.", pattern=r"^(|https?://.+)$", secret="whole")
    ] = ""
    alert_rate_limit: Annotated[
        float, _seconds("How long alerts of one type are held together.", 0, DAY)
    ] = 300.0
    alert_webhook_timeout: Annotated[
        float, _seconds("How long a receiver of alerts or webhooks may take.", 0.1, 300)
    ] = 10.0
    engine: Annotated[
        str,
        _text(
            "The speech engine: local, openai, or one that a package adds.",
            pattern=r"^[a-z][a-z0-9_-]*$",
            expected="a name",
        ),
    ] = "local"
    engine_model: Annotated[
        str,
        _text(
            "The model for jobs that name none.",
            default="whisper-base for the engine local; for others the one they have, or whisper-1",
            pattern=r"^\S{0,200}$",
            expected="a name",
        ),
    ] = ""
    engine_cache_dir: Annotated[
        Path | None,
        _text("Where models are kept.", default="DATA_DIR/models", expected="a path"),
    ] = None
    engine_device: Annotated[
        Literal["auto", "cpu", "cuda"], _text("What the speech engine runs on.")
    ] = "auto"
    engine_threads: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=1024, description="Threads of the speech engine; 0 means as many as cores."
        ),
    ] = 0
    engine_max_loaded: Annotated[
        int, msgspec.Meta(ge=1, le=100, description="How many models stay in memory.")
    ] = 2
    worker_schedule: Annotated[
        str,
        _text(
            "When workers take work, in local time: 22:00-06:00, mon-fri 19:00-07:00, always. Of"
            " `rushes worker`, and of the encoding and transcribing inside the server; so are the"
            " other settings of workers. An admin's word for a worker wins."
        ),
    ] = ""
    worker_rest: Annotated[
        Literal["", "finish", "release"],
        msgspec.Meta(
            description="What becomes of work in hand when those hours are over: it is finished,"
            " or given back."
        ),
    ] = ""
    worker_nice: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=19,
            description="How nice ffmpeg and the speech engine are to other programs, up to 19.",
        ),
    ] = 0
    worker_concurrency: Annotated[
        str,
        _text(
            "How many jobs `rushes worker` runs at once: a number, or by kind, such as"
            " transcode=1,transcribe=2; one if it is not said."
        ),
    ] = ""
    worker_tags: Annotated[
        str,
        _text("Words that jobs may need of a worker as tag:WORD, separated by commas."),
    ] = ""
    worker_scratch_budget: Annotated[
        int,
        _bytes("How much the temporary files of a worker's jobs may take; 0: what there is."),
    ] = 0
    worker_idle_unload: Annotated[
        float,
        _seconds(
            "After how long without speech its models leave the memory, and that of the graphics"
            " card; 0: never.",
            0,
            7 * DAY,
        ),
    ] = 0.0
    engine_auto_download: Annotated[
        bool, msgspec.Meta(description="Whether a missing model is downloaded when a job needs it.")
    ] = True
    engine_hub_url: Annotated[
        str,
        _text(
            "The model hub, or a mirror of it.",
            pattern=r"^https?://.+$",
            expected="a URL such as https://hub.example.org",
        ),
    ] = "https://huggingface.co"
    engine_url: Annotated[
        str,
        _text(
            "The server of the engine openai, such as http://speech.example.org:8000.",
            pattern=r"^(|https?://.+)$",
            secret="url",
            expected="a URL",
        ),
    ] = ""
    engine_api_key: Annotated[
        str, _text("The key for the server of the engine openai.", secret="whole")
    ] = ""
    transcription_workers: Annotated[
        int, msgspec.Meta(ge=0, le=1000, description="Transcription workers inside the server.")
    ] = 1
    transcription_wait: Annotated[
        float,
        _seconds("How long a request of the OpenAI-compatible API waits for its words.", 0.01, DAY),
    ] = HOUR
    transcripts_dir: Annotated[
        str,
        _text(
            "A folder in which each transcription is also kept as a file for other programs:"
            " JOB_ID/transcript.json; none: only in the database."
        ),
    ] = ""
    watch_dir: Annotated[
        str, _text("A folder whose files are taken in as they appear; none: nothing is watched.")
    ] = ""
    watch_user: Annotated[
        str, _text("Whose recordings they become, by name; none: the first admin's.")
    ] = ""
    watch_after: Annotated[
        Literal["keep", "move", "delete"],
        msgspec.Meta(
            description="What becomes of a file there once it was taken in; `move`: into `.done`."
        ),
    ] = "keep"
    watch_settle: Annotated[
        float, _seconds("How long a file there must stay as it is to count as whole.", 0.1, HOUR)
    ] = 5.0
    openai_store: Annotated[
        bool,
        msgspec.Meta(
            description="Whether what comes by the OpenAI-compatible API stays in the library,"
            " unless a request says (`store`)."
        ),
    ] = False
    transcode_workers: Annotated[
        int, msgspec.Meta(ge=0, le=1000, description="Transcoding workers inside the server.")
    ] = 1
    handlers: Annotated[
        str,
        _text(
            "Modules with a table HANDLERS of job kinds of your own, separated by commas.",
            pattern=r"^[\w.,\s]*$",
            expected="names such as mypackage.handlers",
        ),
    ] = ""
    ffmpeg: Annotated[
        str, _text("The ffmpeg to use; empty: the system's, else that of the wheel.")
    ] = ""
    ffprobe: Annotated[
        str, _text("The ffprobe to use; empty: the system's, else that of the wheel.")
    ] = ""
    admin_secret: Annotated[str, _text("Lets scripts register workers.", secret="whole")] = ""
    admin_token: Annotated[
        str,
        _text(
            "A first admin API token, for automation.",
            pattern=r"^(|\S{32,1000})$",
            secret="whole",
            expected="at least 32 characters without spaces, such as `openssl rand -hex 32` makes",
        ),
    ] = ""
    host: Annotated[str, _text("The address the server listens on.")] = "127.0.0.1"
    port: Annotated[
        int, msgspec.Meta(ge=0, le=65535, description="The port the server listens on.")
    ] = 8484
    base_url: Annotated[
        str,
        _text(
            "The server's address as people see it.",
            pattern=r"^(|https?://.+)$",
            default="http://HOST:PORT",
            expected="a URL such as https://rushes.example.org",
        ),
    ] = ""
    trusted_proxies: Annotated[
        str,
        _text(
            "Proxies whose word about a client's address is taken, separated by commas.",
            expected="addresses or networks such as 10.0.0.0/8",
        ),
    ] = "127.0.0.1"
    log_format: Annotated[
        Literal["auto", "human", "json"],
        _text("How the log is written; auto is human on a terminal."),
    ] = "auto"
    max_upload_size: Annotated[int, _bytes("The largest file that is accepted; 0 means any.")] = 0
    user_quota: Annotated[
        int,
        _bytes(
            "How much a user may keep, with what is made of it and what is in the trash, unless set"
            " for the user; 0 means any amount."
        ),
    ] = 0
    user_streams: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=1_000_000,
            description="How many streams of events, and as many followed logs, a user may have"
            " open at once; 0 means any number.",
        ),
    ] = 20
    user_uploads: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=1_000_000,
            description="How many unfinished uploads a user may have; 0 means any number.",
        ),
    ] = 500
    user_jobs: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=10_000_000,
            description="How many jobs of a user may wait before new work is refused; 0 means any"
            " number.",
        ),
    ] = 10_000
    user_tokens: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=1_000_000, description="How many API tokens a user may have; 0 means any."
        ),
    ] = 100
    public_health: Annotated[
        bool,
        msgspec.Meta(
            description="Whether strangers may read `/health` and `/metrics`; if not, only admins."
        ),
    ] = True
    min_free_space: Annotated[
        int, _bytes("Uploads are refused when less than this would be left on the disk.")
    ] = GIB
    upload_expiry: Annotated[
        float, _seconds("How long an unfinished upload can be resumed.", 1, 365 * DAY)
    ] = DAY
    purge_grace: Annotated[
        float,
        _seconds("How long the bytes of a replaced version are kept.", 0, 365 * DAY),
    ] = DAY
    trash_period: Annotated[
        float,
        _seconds("How long what was deleted can be restored; 0 means not at all.", 0, 3650 * DAY),
    ] = 30 * DAY
    session_duration: Annotated[float, _seconds("How long a sign-in lasts.", MINUTE, 365 * DAY)] = (
        30 * DAY
    )
    webhook_private_targets: Annotated[
        bool, msgspec.Meta(description="Whether webhooks may go to private addresses.")
    ] = False
    server: Annotated[
        str,
        _text(
            "The server of the command line; `rushes worker` may have several, by commas.",
            pattern=r"^(|https?://.+)$",
            default="the one running here",
            expected="a URL such as https://rushes.example.org",
        ),
    ] = ""
    token: Annotated[
        str, _text("The API token that the command line signs in with.", secret="whole")
    ] = ""
    worker_key: Annotated[
        str, _text("The key that `rushes worker` signs in with.", secret="whole")
    ] = ""

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

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={show(name, getattr(self, name))}" for name in FIELDS)
        return f"Settings({shown})"


def variable(name: str) -> str:
    return PREFIX + name.upper()


def show(name: str, value: Any) -> str:
    return FIELDS[name].show(value)


def describe() -> str:
    """docs/settings.md."""
    rows = [
        f"| `{variable(each.name)}` | `{each.shown_default}` | {each.sentence} |"
        for each in FIELDS.values()
    ]
    return "\n".join([INTRODUCTION, *rows, ""])


INTRODUCTION = f"""\
<!-- Made by `python -m rushes.settings > docs/settings.md`; do not edit. -->

# Settings

Every setting is an environment variable, or a key in a TOML file with the same name in lower case
and without `{PREFIX}`. The file is `{DEFAULT_FILE}` in the working directory, or the one `{CONFIG}`
names. The environment wins. An empty value counts as not set.

Names that are unknown and values that cannot be used stop the start, with one message that lists
them all. `rushes config` prints what is in effect and where it came from, without secrets.

Durations are seconds (`60`) or have a unit: `500ms`, `60s`, `5min`, `2h`, `7d`. Sizes are bytes or
have a unit: `500MB`, `10GiB`. What holds a secret can be read from a file instead:
`{PREFIX}DATABASE_URL_FILE=/run/secrets/database_url`.

| name | default | meaning |
|---|---|---|"""


def _fields() -> Iterator[SettingField]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    for each in msgspec.structs.fields(Settings):
        meta = typing.get_args(hints[each.name])[1]
        yield SettingField(name=each.name, type=hints[each.name], meta=meta, default=each.default)


FIELDS = {each.name: each for each in _fields()}


if __name__ == "__main__":
    sys.stdout.write(describe())
