"""Limits: how many jobs that have a key in common may run at once. Pure.

A job has up to four keys: its user (`user:usr_…`), its kind (`kind:transcode`), one it names itself
(`engine:openai`), and, once it runs, the name of its worker (`worker:studio`). A limit is for one
key, or, as `user:*`, for each key of a family; that of the very key comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rushes import errors, kinds

USER, KIND, WORKER, ANY = "user", "kind", "worker", "*"
RUSHES_OWN = (USER, KIND, WORKER)
MOST = 100_000
# As much as it takes to name things; each key that jobs name themselves is a lane of its own.
KEY = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}:([a-z0-9][a-z0-9_.:-]{0,63}|\*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`running`: how many jobs with this key run now; of a family, with its busiest key."""

    key: str
    most: int
    running: int = 0


def check(key: str, most: int) -> None:
    if not KEY.fullmatch(key):
        raise errors.BadField(
            "key", "must be such as user:*, kind:transcode or engine:openai, of a-z 0-9 _ . : -"
        )
    if not 1 <= most <= MOST:
        raise errors.BadField("most", f"must be between 1 and {MOST}")


def check_own(key: str) -> None:
    """What a job may name as its key."""
    if not KEY.fullmatch(key) or key.endswith(ANY) or key.partition(":")[0] in RUSHES_OWN:
        raise errors.BadField(
            "limit_key", "must be such as engine:openai, and not of user, kind or worker"
        )


def keys(kind: str, user_id: str | None, limit_key: str | None) -> list[str]:
    """Of a job; what the server does for itself is nobody's share."""
    of_user = [f"{USER}:{user_id}"] if user_id and kind not in kinds.servers_own() else []
    return [f"{KIND}:{kind}", *of_user, *([limit_key] if limit_key else [])]


def worker_key(name: str) -> str:
    return f"{WORKER}:{name.lower()}"


def names(keys: Iterable[str]) -> set[str]:
    """The limits that there may be on jobs with these keys."""
    return {name for key in keys for name in (key, f"{key.partition(':')[0]}:{ANY}")}
