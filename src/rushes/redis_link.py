"""What Rushes says to Redis: hints in streams, messages in channels. No truth is kept there.

Every key and channel begins with the prefix of the settings:

  PREFIX:jobs:high|normal|low      streams of hints; their consumer group is `servers`
  PREFIX:look                      "look for jobs", for all servers; says who sent it
  PREFIX:events                    "there are new events", for all servers
  PREFIX:worker_status, PREFIX:transcode_progress:MEDIA, PREFIX:transcode_complete:MEDIA
                                   events, for other programs

Entries are read by their id alone: whatever somebody else has written there is a hint, too. Each
call raises RedisDown when it fails, and tells the circuit breaker how it went.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rushes import errors
from rushes.breaker import Breaker
from rushes.settings import Settings
from rushes.wakeup import Hint

if TYPE_CHECKING:
    import redis

T = TypeVar("T")
PRIORITIES = ("high", "normal", "low")
GROUP = "servers"
# In the words of whichever command finds out; UNBLOCKED is for who was waiting just then.
NO_GROUP = ("NOGROUP", "UNBLOCKED", "no such key")
# Of one question; they may be gone again before it is answered.
GROUPS_MADE = 5
LOOK, EVENTS = "look", "events"
# Nothing depends on an entry: what is older than these is of no use to anybody.
STREAM_LENGTH = 10_000
READ_COUNT = 100
# One who takes longer to answer is no help.
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 1.0
CHECK_SECONDS = 15
# Entries that a server has read and not acknowledged for so long: it was killed, or hangs.
STUCK_MS = 60_000
# A consumer that has asked for nothing for so long is gone. It comes back when it asks again.
GONE_MS = 600_000
# So much is believed of an entry that says how many jobs it stands for.
MOST_JOBS = 10_000
# By OpenSSL's numbers.
CERTIFICATE_TROUBLE = {
    9: "the certificate of Redis is not valid yet; compare the clocks",
    10: "the certificate of Redis has expired; renew it",
    **dict.fromkeys(
        (2, 18, 19, 20, 21),
        "the certificate of Redis is by an authority that is not trusted here; give the"
        " authority's own certificate as ssl_ca_certs in the URL",
    ),
    **dict.fromkeys(
        (62, 64),
        "the certificate of Redis is for another host; put the name that it was issued for into"
        " the URL",
    ),
}
# Alerts of a server that wants another certificate of ours, or one at all.
CLIENT_REFUSED = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)")
# How a context takes these options of the URL, and what they must be.
TLS_FILES = (
    (
        ssl.SSLContext.load_verify_locations,
        ("ssl_ca_certs", "ssl_ca_path", "ssl_ca_data"),
        "ssl_ca_certs must be a file with certificates (PEM) that Rushes may read",
    ),
    (
        ssl.SSLContext.load_cert_chain,
        ("ssl_certfile", "ssl_keyfile", "ssl_password"),
        "ssl_certfile and ssl_keyfile must be PEM files that belong together and that Rushes may"
        " read; ssl_password is of the key",
    ),
)


@dataclass(slots=True)
class Entries:
    """What was read and is to be acknowledged; `jobs`: how many these are hints of."""

    ids: dict[str, list[bytes]] = field(default_factory=dict)
    jobs: int = 0

    def __bool__(self) -> bool:
        return bool(self.ids)

    def add(self, stream: str, id: bytes, jobs: int) -> None:
        self.ids.setdefault(stream, []).append(id)
        self.jobs += jobs

    def merge(self, other: Entries) -> None:
        for stream, ids in other.ids.items():
            self.ids.setdefault(stream, []).extend(ids)
        self.jobs += other.jobs


@dataclass(frozen=True, slots=True)
class Backlog:
    """`pending`: read and not acknowledged; `lag`: not read by any server yet."""

    pending: int
    lag: int


class RedisLink:
    """One per process. Connects when it is first needed."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "rushes",
        pool_size: int = 10,
        breaker: Breaker | None = None,
    ) -> None:
        if importlib.util.find_spec("redis") is None:
            raise errors.BadSetting("Redis needs its driver: pip install 'rushes[redis]'")
        self._url = url
        self._is_tls = url.startswith("rediss:")
        self._prefix = prefix
        self._pool_size = pool_size
        self.breaker = breaker or Breaker("Redis")
        # How often others were told by the database instead.
        self.fallbacks = 0
        # Called when another server has published events; they must not block.
        self.on_events: list[Callable[[], None]] = []
        self.streams = {each: f"{prefix}:jobs:{each}" for each in PRIORITIES}
        # Also for people who look into the group: which server it is.
        self.consumer = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"

    def channel(self, *names: str) -> str:
        return ":".join((self._prefix, *names))

    def check(self) -> None:
        """All that is needed works, by doing it once."""
        with self._asking("check"):
            self._try_everything()

    def is_ready(self) -> bool:
        """Whether to use it now. When the pause of the breaker is over, one caller tries first."""
        if self.breaker.may_try():
            try:
                self.check()
            except errors.RedisDown as error:
                self.breaker.open(error.message)
            except BaseException:
                self.breaker.open("the try was cut off")
                raise
            else:
                self.breaker.close()
        return self.breaker.is_closed

    # Streams

    def tell(self, hints: Iterable[Hint], done: Entries, *, look: bool) -> None:
        """In one round trip: new hints, what is acknowledged, whether others are to look."""
        with self._asking("tell"):
            pipe = self._client.pipeline(transaction=False)
            for hint in hints:
                self._add(pipe, hint)
            for stream, ids in done.ids.items():
                pipe.xack(stream, GROUP, *ids)
            if look:
                pipe.publish(self.channel(LOOK), self.consumer)
            pipe.execute()

    def read(self, seconds: float) -> Entries:
        """What is new for this server; waits so long for the first."""
        with self._asking("read"):
            return self._with_groups(lambda: self._read(int(seconds * 1000)))

    def reclaim(self) -> Entries:
        """The stuck entries of servers that are gone; those servers are forgotten."""
        with self._asking("reclaim"):
            return self._with_groups(self._reclaim)

    def leave(self) -> None:
        """This server reads no more; its hints are left to the polls of others."""
        with self._asking("leave"):
            pipe = self._client.pipeline(transaction=False)
            for stream in self.streams.values():
                pipe.xgroup_delconsumer(stream, GROUP, self.consumer)
            pipe.execute(raise_on_error=False)

    def backlog(self) -> Backlog:
        with self._asking("backlog"):
            groups = self._with_groups(self._groups)
        ours = [each for each in groups if each.get("name") == GROUP.encode()]
        return Backlog(
            pending=sum(int(each.get("pending") or 0) for each in ours),
            lag=sum(int(each.get("lag") or 0) for each in ours),
        )

    # Channels

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """To channels without the prefix, in order."""
        with self._asking("publish"):
            pipe = self._client.pipeline(transaction=False)
            for channel, message in messages:
                pipe.publish(self.channel(channel), message)
            pipe.execute()

    @contextmanager
    def listening(self) -> Iterator[Subscription]:
        """To what is meant for servers."""
        listener: Any = self._listener
        pubsub = listener.pubsub(ignore_subscribe_messages=True)
        try:
            with self._asking("subscribe"):
                channels = self.channel(LOOK), self.channel(EVENTS)
                pubsub.subscribe(*channels)
                for _ in channels:
                    # Redis says so for each; what is published before is not heard.
                    pubsub.get_message(timeout=ANSWER_SECONDS)
            yield Subscription(self, pubsub)
        finally:
            pubsub.close()

    def heard(self, pubsub: redis.client.PubSub, seconds: float) -> tuple[str, bytes] | None:
        with self._asking("subscribe"):
            message = pubsub.get_message(timeout=seconds)
        if message is None or not isinstance(message.get("data"), bytes):
            return None
        channel = message["channel"].decode(errors="replace").removeprefix(f"{self._prefix}:")
        return channel, message["data"]

    def close(self) -> None:
        for name in ("_client", "_listener"):
            if client := self.__dict__.pop(name, None):
                client.close()
                client.connection_pool.disconnect(inuse_connections=False)

    # Inside

    @cached_property
    def _client(self) -> redis.Redis:
        return self._connected(ANSWER_SECONDS, self._pool_size)

    @cached_property
    def _listener(self) -> redis.Redis:
        """Two connections of their own: they wait for what there is to hear."""
        return self._connected(2 * ANSWER_SECONDS, 2)

    @cached_property
    def _options(self) -> dict[str, Any]:
        """As the URL has them."""
        from redis import connection

        untyped: Any = connection
        options: dict[str, Any] = untyped.parse_url(self._url)
        if any("ocsp" in name for name in options):
            raise ValueError("the driver does not read these from a URL")
        if self._is_tls:
            # Else OpenSSL asks for it at the terminal, and waits.
            options.setdefault("ssl_password", "")
        return options

    def _connected(self, answer_seconds: float, most: int) -> redis.Redis:
        import redis
        from redis import connection
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        untyped: Any = connection
        ours: dict[str, Any] = {
            "max_connections": most,
            "timeout": ANSWER_SECONDS,
            "socket_timeout": answer_seconds,
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": CHECK_SECONDS,
            "client_name": "rushes",
            # What comes back has one shape, whatever the URL says.
            "protocol": 2,
            "decode_responses": False,
            # Once more on a new connection: those in the pool may be from before a restart.
            "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        }
        try:
            pool = untyped.BlockingConnectionPool(**{**self._options, **ours})
            # Options that nobody knows are noticed here, not with the first question.
            pool.make_connection()
        except (ValueError, TypeError, redis.RedisError):
            raise errors.BadSetting(
                "RUSHES_REDIS_URL cannot be read; it looks like redis://user:password@host:6379/0,"
                " or rediss://… for TLS, with options such as ?ssl_ca_certs=/path"
            ) from None
        return redis.Redis(connection_pool=pool)

    @contextmanager
    def _asking(self, part: str) -> Iterator[None]:
        import redis

        try:
            yield
        except (redis.RedisError, OSError, ValueError, TypeError, LookupError) as error:
            # Whatever it answered, it is not what we asked for.
            down = _renamed(error, self._options if self._is_tls else None)
            # Whoever waits for it again waits as long again.
            is_slow = isinstance(error, (redis.TimeoutError, TimeoutError))
            self.breaker.failed(part, down.message, enough=is_slow)
            raise down from None
        self.breaker.succeeded(part)

    def _try_everything(self) -> None:
        self._make_groups()
        pipe = self._client.pipeline(transaction=False)
        for priority in PRIORITIES:
            # Whatever happened meanwhile: servers that wait have a look.
            self._add(pipe, Hint(priority, "", "", 0))
        pipe.publish(self.channel(LOOK), self.consumer)
        pipe.execute()
        found = self._read(0)
        pipe = self._client.pipeline(transaction=False)
        for stream, ids in found.ids.items():
            pipe.xack(stream, GROUP, *ids)
        pipe.execute()

    def _add(self, pipe: Any, hint: Hint) -> None:
        fields = {"kind": hint.kind, "job": hint.job_id, "jobs": hint.jobs}
        stream = self.streams.get(hint.priority, self.streams["normal"])
        pipe.xadd(stream, fields, maxlen=STREAM_LENGTH, approximate=True)

    def _read(self, block_ms: int) -> Entries:
        asked: dict[Any, Any] = dict.fromkeys(self.streams.values(), ">")
        client = self._listener if block_ms else self._client
        answer: Any = client.xreadgroup(
            GROUP, self.consumer, asked, count=READ_COUNT, block=block_ms or None
        )
        found = Entries()
        for stream, entries in answer or ():
            for id, fields in entries:
                found.add(stream.decode(), id, _jobs_in(fields))
        return found

    def _reclaim(self) -> Entries:
        found = Entries()
        for stream in self.streams.values():
            answer: Any = self._client.xautoclaim(
                stream, GROUP, self.consumer, STUCK_MS, count=READ_COUNT, justid=True
            )
            for id in answer:
                found.add(stream, id, 1)
            self._forget_consumers(stream)
        return found

    def _groups(self) -> list[Any]:
        found: list[Any] = []
        for stream in self.streams.values():
            found += self._client.xinfo_groups(stream)
        return found

    def _with_groups(self, call: Callable[[], T]) -> T:
        """A group that is gone, with all data or without, is made again. Never remembered: it may
        go at any time."""
        import redis

        for _ in range(GROUPS_MADE):
            try:
                return call()
            except redis.ResponseError as error:
                if not str(error).startswith(NO_GROUP):
                    raise
                self._make_groups()
        return call()

    def _make_groups(self) -> None:
        """From now on: of what was told before, everybody is told to look once more."""
        import redis

        made = False
        for stream in self.streams.values():
            try:
                self._client.xgroup_create(stream, GROUP, "$", mkstream=True)
                made = True
            except redis.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
        if made:
            self._client.publish(self.channel(LOOK), b"")

    def _forget_consumers(self, stream: str) -> None:
        for each in self._client.xinfo_consumers(stream, GROUP):
            is_other = each["name"] != self.consumer.encode()
            if is_other and each["idle"] > GONE_MS and not each["pending"]:
                self._client.xgroup_delconsumer(stream, GROUP, each["name"])


class Subscription:
    def __init__(self, link: RedisLink, pubsub: redis.client.PubSub) -> None:
        self._link = link
        self._pubsub = pubsub

    def heard(self, seconds: float) -> tuple[str, bytes] | None:
        """A channel and what came there; None when nothing came in time."""
        return self._link.heard(self._pubsub, seconds)


def open_link(settings: Settings) -> RedisLink | None:
    """None where Redis is not used."""
    if settings.queue_mode == "database":
        return None
    return RedisLink(
        settings.redis_url, prefix=settings.redis_prefix, pool_size=settings.redis_pool_size
    )


def _renamed(error: Exception, tls: Mapping[str, Any] | None) -> errors.RedisDown:
    """Its own words may hold names and addresses; only the code it begins with is told."""
    import redis

    if said := _tls_trouble(error, tls):
        return errors.RedisDown(said)
    code = str(error).partition(" ")[0][:40]
    match error:
        case redis.AuthenticationError():
            return errors.RedisDown("Redis does not accept the user or password of the URL")
        case redis.TimeoutError() | TimeoutError():
            return errors.RedisDown("Redis does not answer in time")
        case redis.exceptions.NoPermissionError():
            return errors.RedisDown("Redis does not permit this user what Rushes does there")
        case redis.ConnectionError() | OSError():
            return errors.RedisDown("Redis cannot be reached")
        case redis.ResponseError() if code.startswith("WRONGTYPE"):
            return errors.RedisDown("a key in Redis has a name of Rushes' and is no stream")
        case redis.ResponseError() if code.isupper() and code.isalpha():
            return errors.RedisDown(f"Redis refuses: {code}")
        case _:
            return errors.RedisDown("Redis answers what nobody understands")


def _tls_trouble(error: Exception, tls: Mapping[str, Any] | None) -> str | None:
    """What to do, if it may be TLS that fails, or that is missing."""
    cause = _cause(error)
    is_closed = isinstance(cause, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError))
    is_closed = is_closed or str(error).startswith("Connection closed by server")
    if tls is None:
        said = "Redis closes the connection; if it speaks TLS, the URL begins with rediss://"
        return said if is_closed else None
    if wrong := _wrong_file(tls):
        return wrong
    reason = str(getattr(cause, "reason", None) or "for a reason unknown")
    match cause:
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=said):
            return CERTIFICATE_TROUBLE.get(code, f"the certificate of Redis is refused: {said}")
        case TimeoutError() if "handshake" in str(cause):
            return "Redis does not answer to TLS in time; without TLS the URL begins with redis://"
        case _ if is_closed or CLIENT_REFUSED.search(reason):
            return (
                "Redis closes the connection; if it asks for certificates, give one by its"
                " authority as ssl_certfile and ssl_keyfile in the URL"
            )
        case ssl.SSLError():
            return f"TLS with Redis fails: {reason.replace('_', ' ').lower()}"
        case _:
            return None


def _cause(error: BaseException | None) -> OSError | None:
    """What the driver has wrapped."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _wrong_file(tls: Mapping[str, Any]) -> str | None:
    for load, names, said in TLS_FILES:
        given: list[Any] = [tls.get(name) for name in names]
        try:
            if any(tls.get(name) for name in names if name != "ssl_password"):
                load(ssl.create_default_context(), *given)
        except (OSError, ValueError, TypeError):
            return said
    return None


def _jobs_in(fields: Any) -> int:
    """At least one, whatever others have written there; none when we have only knocked."""
    said = fields.get(b"jobs", b"1") if isinstance(fields, Mapping) else b"1"
    return min(int(said), MOST_JOBS) if said.isdigit() and len(said) < 9 else 1
