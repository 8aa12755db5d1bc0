"""The kinds of jobs: what each is called, what it makes, and what may be done with it. Pure.

Rushes' own are in `TABLE`, because SQL and pipelines are made of them. `declare` adds those of
others, when a process starts. A kind that nobody has declared here may still be run by a worker
that was granted it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rushes import errors

# What people watch, and what is said in it.
WATCH, TRANSCRIPT = "watch", "transcript"
# Families of events that are not a kind's.
OTHER_FAMILIES = frozenset({"alert", "media", "queue", "transcription", "worker"})
NAME = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`output`: the slot of a media that its files are published in. `follows`: it is started by
    itself on a media for which a job of one of these kinds has completed. `needs`: as a job's.
    `housekeeping`: nobody waits for it. `remote`: workers outside the server may run it.
    `by_people`: may be started on a media by whoever it belongs to, with any arguments. `events`:
    the family that its jobs' events are told in, if that is not its name. `parts`: what it may be
    divided into. `shared`: its files are also shown to whoever has a share link of the media.
    `keyed`: a media may have several of its outputs side by side, each in a slot that the job's
    argument `key` names. `limit_key`: what its jobs have in common with others, such as
    `engine:openai`: an admin may limit how many of them run at once. `quick`: people wait for it,
    and it takes seconds: workers have a slot of its own for it, beside all others."""

    name: str
    label: str = ""
    output: str | None = None
    shared: bool = False
    follows: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    housekeeping: bool = False
    remote: bool = True
    by_people: bool = True
    events: str | None = None
    parts: tuple[str, ...] = ()
    keyed: bool = False
    limit_key: str | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        for word in (self.name, self.output):
            if word is not None and not NAME.fullmatch(word):
                raise errors.BadField("kind", f"{word!r} must be of a-z 0-9 _ . : -")
        for name in ("follows", "needs", "parts"):
            if isinstance(getattr(self, name), str):
                raise errors.BadField(name, f"must be several words, such as ({name!r},)")


def _of_ours(name: str, label: str, **facts: object) -> Kind:
    return Kind(name=name, label=label, by_people=False, **facts)  # type: ignore[arg-type]


_MAKES = {"output": WATCH, "parts": ("span",)}
# What makes a recording watchable, of an encode that still waits for its turn (decision 0023).
PREPARE = _of_ours("prepare", "Beginning of an encode", housekeeping=True, quick=True)
TRANSCODE = _of_ours("transcode", "Encode", output=WATCH, parts=("span", PREPARE.name))
TRIM = _of_ours("trim", "Trim", **_MAKES)
COMPOSITE = _of_ours("composite", "Overlay", **_MAKES)
SPAN = _of_ours("span", "Part of an encode", housekeeping=True)
TRANSCRIBE = _of_ours("transcribe", "Transcribe", output=TRANSCRIPT, events="transcription")
EXPORT = _of_ours("export", "Export", output="export", keyed=True)
IMPORT = _of_ours("import", "Import", remote=False)
PURGE = _of_ours("purge", "Clean up", housekeeping=True, remote=False)
WEBHOOK = _of_ours("webhook", "Webhook", housekeeping=True, remote=False)

TABLE = {
    each.name: each
    for each in (
        TRANSCODE,
        TRIM,
        COMPOSITE,
        PREPARE,
        SPAN,
        TRANSCRIBE,
        EXPORT,
        IMPORT,
        PURGE,
        WEBHOOK,
    )
}

_declared: dict[str, Kind] = {}


def declare(kinds: Iterable[Kind]) -> None:
    """Add kinds that are not Rushes' own; what was declared before under such a name gives way."""
    for kind in kinds:
        if kind.remote and TABLE.get(kind.name) is kind:
            # Those that came first have their handlers: nobody else's is taken for them.
            continue
        if kind.name in TABLE:
            raise errors.BadSetting(f"{kind.name!r} is a kind of Rushes' own")
        if kind.output in (WATCH, TRANSCRIPT):
            raise errors.BadSetting(f"the kind {kind.name!r} cannot make {kind.output!r}")
        if not kind.remote or kind.housekeeping:
            raise errors.BadSetting(f"the kind {kind.name!r} cannot be the server's own")
        if kind.quick:
            raise errors.BadSetting(f"the kind {kind.name!r} cannot have a slot of its own")
        if kind.events or kind.name in OTHER_FAMILIES:
            # Whichever server writes an event must call it the same, also one without this kind.
            raise errors.BadSetting(
                f"events of the kind {kind.name!r} must begin with its own name"
            )
        _declared[kind.name] = kind


def get(name: str) -> Kind:
    """One that nobody has declared is as one that says nothing but its name."""
    return TABLE.get(name) or _declared.get(name) or Kind(name=name)


def everything() -> list[Kind]:
    return [*TABLE.values(), *_declared.values()]


def making(output: str) -> tuple[str, ...]:
    """The kinds of Rushes' own whose files are published in this slot."""
    return tuple(each.name for each in TABLE.values() if each.output == output)


def output_of(name: str) -> str:
    """The slot that files of such a job go to. A kind that says nothing has one of its own: it can
    take nobody else's place."""
    return get(name).output or name


def slot_of(name: str, key: str | None) -> str:
    """As `output_of`, of a kind with several side by side."""
    return f"{output_of(name)}:{key}" if key is not None else output_of(name)


def following(name: str) -> list[Kind]:
    """What is to run when a job of this kind has completed."""
    return [each for each in _declared.values() if name in each.follows]


def ones_own_are_followed() -> bool:
    return any(name not in TABLE for each in _declared.values() for name in each.follows)


def is_remote(name: str) -> bool:
    return get(name).remote


def servers_own() -> set[str]:
    """What the server's own workers have to run, because nobody else may."""
    return {each.name for each in TABLE.values() if not each.remote}


def is_quick(name: str) -> bool:
    return get(name).quick


def begins_early(name: str) -> bool:
    """Whether the beginning of such a job may be done by another while it waits."""
    return any(is_quick(part) for part in get(name).parts)


def is_part(name: str) -> bool:
    """Whether its jobs are a share of others, and nothing by themselves."""
    return any(name in each.parts for each in TABLE.values())


def may_divide_into(whole: str, part: str) -> bool:
    if whole not in TABLE:
        return part not in TABLE
    # A beginning is made when its whole is asked for, never by who has it in hand.
    return part in TABLE[whole].parts and not is_quick(part)


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
    return part in get(whole).parts
