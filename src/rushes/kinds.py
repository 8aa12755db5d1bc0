"""The kinds of jobs that Rushes itself knows, and what may be done with each. Pure.

A kind that is not in the table is somebody's own: any worker that was granted it may run it, and a
job of it may be divided into others of one's own, never into one of the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rushes import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`remote`: workers outside the server may run it. `parts`: what it may be divided into."""

    name: str
    remote: bool = False
    parts: tuple[str, ...] = ()


TRANSCODE = Kind(name="transcode", remote=True, parts=("span",))
TRIM = Kind(name="trim", remote=True, parts=("span",))
COMPOSITE = Kind(name="composite", remote=True, parts=("span",))
SPAN = Kind(name="span", remote=True)
TRANSCRIBE = Kind(name="transcribe", remote=True)
PURGE = Kind(name="purge")
WEBHOOK = Kind(name="webhook")

TABLE = {each.name: each for each in (TRANSCODE, TRIM, COMPOSITE, SPAN, TRANSCRIBE, PURGE, WEBHOOK)}


def is_remote(name: str) -> bool:
    return TABLE[name].remote if name in TABLE else True


def may_divide_into(whole: str, part: str) -> bool:
    return part in TABLE[whole].parts if whole in TABLE else part not in TABLE


@dataclass(frozen=True, slots=True)
class Grant:
    """The kinds that a worker's key is for; None: all that may leave the server. A kind brings
    its parts with it."""

    kinds: tuple[str, ...] | None = None

    def covers(self, kind: str) -> bool:
        if not is_remote(kind):
            return False
        given = self.kinds
        return given is None or kind in given or any(_is_part(each, kind) for each in given)

    def check(self, kinds: Iterable[str]) -> None:
        """Raises Denied for the first that the key is not for."""
        for kind in kinds:
            check_remote([kind])
            if not self.covers(kind):
                raise errors.Denied(f"this worker's key is not for jobs of the kind {kind!r}")


def check_remote(kinds: Iterable[str]) -> None:
    """Raises Denied for the first that only the server itself runs."""
    for kind in kinds:
        if not is_remote(kind):
            raise errors.Denied(f"jobs of the kind {kind!r} are run by the server alone")


def _is_part(whole: str, part: str) -> bool:
    return whole in TABLE and part in TABLE[whole].parts
