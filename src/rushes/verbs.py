"""A method of the worker protocol as a row of a table. Pure.

A row is read off the method that `verb` marks: its parameters are what is said, its return type
what is answered, its docstring the reference. Whoever implements `call` has a transport; what is
said as JSON and back is the same for all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args, get_type_hints

import msgspec

from rushes.records import JsonObject

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Field:
    """A member of what is said."""

    name: str
    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """`path`: with `{job_id}` in it, the claim is told by path and header, else with the rest.
    `reply`: the member that holds what the method returns; None: its members are the reply.
    `status`: of a reply. `slow`: it may take as long as files do. `words`: of a handler, which are
    no reason to refuse it, whatever they hold. `own`: transports implement it themselves, because
    it waits or carries bytes; `says` and `answers` are the reference of those with bytes."""

    name: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    summary: str
    about: str
    parameters: Mapping[str, Field]
    returns: Any
    reply: str | None = None
    status: int = 200
    slow: bool = False
    words: bool = False
    own: bool = False
    says: str = ""
    answers: str = ""

    @property
    def by_header(self) -> bool:
        """Whether the claim is proved there, since addresses end up in logs."""
        return "{job_id}" in self.path

    def members(self) -> list[Field]:
        """What is said, with the members of data that stands for itself in its place."""
        spread = [each for given in self.parameters.values() for each in _spread(given)]
        return [each for each in spread if not (self.by_header and each.name in _CLAIM)]

    def told(self, arguments: JsonObject) -> JsonObject:
        """As JSON has it."""
        said: dict[str, Any] = {}
        for name, value in arguments.items():
            plain = msgspec.to_builtins(value)
            said |= _flat(plain) if is_data(self.parameters[name].type) else {name: plain}
        return said

    def understood(self, said: JsonObject) -> JsonObject:
        """The arguments of the method; `said` has been checked."""
        return {name: _made(each, said) for name, each in self.parameters.items()}


# The members of a claim, wherever one is said.
_CLAIM = ("job_id", "claim_id")


def verb(
    method: Literal["GET", "POST", "PUT"], path: str, summary: str, **facts: Any
) -> Callable[[F], F]:
    """Marks a method: its call goes to `call` of the object, with the row and the arguments."""

    def mark(function: F) -> F:
        hints = get_type_hints(function, include_extras=True)
        given = list(inspect.signature(function).parameters.values())[1:]
        row = Verb(
            name=function.__name__,
            method=method,
            path=path,
            summary=summary,
            about=inspect.cleandoc(function.__doc__ or ""),
            parameters=MappingProxyType(
                {each.name: Field(each.name, hints[each.name], each.default) for each in given}
            ),
            returns=hints["return"],
            **facts,
        )
        names = list(row.parameters)
        defaults = {
            name: each.default for name, each in row.parameters.items() if not each.is_required
        }

        @wraps(function)
        def call(self: Any, *values: Any, **named: Any) -> Any:
            given = dict(zip(names[: len(values)], values, strict=True))
            return self.call(row, {**defaults, **given, **named})

        call.verb = row  # type: ignore[attr-defined]
        return cast(F, call)

    return mark


def of(protocol: type) -> dict[str, Verb]:
    """The rows of a class, by name."""
    return {name: each.verb for name, each in vars(protocol).items() if hasattr(each, "verb")}


MARKS = ("<!-- verbs -->\n", "<!-- end of verbs -->")


def with_reference(document: str, table: Mapping[str, Verb]) -> str:
    """A document with the table as it is now between its marks."""
    begin, end = (document.index(mark) for mark in MARKS)
    return document[: begin + len(MARKS[0])] + reference(table) + document[end:]


def reference(table: Mapping[str, Verb]) -> str:
    """A table for the documentation: every call, what it says, what is answered."""
    lines = ["| call | says | answer | |", "|---|---|---|---|"]
    for each in table.values():
        says = each.says or _says(each)
        answer = each.answers or _answer(each)
        about = " ".join(each.about.split())
        lines.append(f"| `{each.method} {each.path[1:]}` | {says} | {answer} | {about} |")
    return "\n".join(lines) + "\n"


def _says(row: Verb) -> str:
    names = [each.name for each in row.members() if each.name not in _CLAIM]
    if row.by_header:
        claim = ["header `Rushes-Claim`"]
    else:
        claim = ["claim"] if any(each.name in _CLAIM for each in row.members()) else []
    return ", ".join([*claim, *[f"`{name}`" for name in names]])


def _answer(row: Verb) -> str:
    if row.reply:
        return f"`{row.reply}`"
    shown = data_of(row.returns)
    return ", ".join(f"`{each.name}`" for each in fields(shown))


def data_of(kind: Any) -> Any:
    """The data in `Data | None`."""
    found = [each for each in getattr(kind, "__args__", ()) if is_data(each)]
    return found[0] if found else kind


def is_data(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def _spread(given: Field) -> list[Field]:
    if not is_data(given.type):
        return [given]
    return [inner for each in data_members(given.type) for inner in _spread(each)]


@cache
def data_members(kind: Any) -> list[Field]:
    """What a class of data holds, as members of JSON."""
    hints = get_type_hints(kind, include_extras=True)
    return [Field(each.name, hints[each.name], _default(each)) for each in fields(kind)]


def _default(each: Any) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return inspect.Parameter.empty if each.default is MISSING else each.default


def _flat(plain: JsonObject) -> JsonObject:
    """A claim inside other data stands in its place there, too."""
    inner = plain.get("claim")
    rest = {name: value for name, value in plain.items() if name != "claim"}
    return {**inner, **rest} if isinstance(inner, dict) else dict(plain)


def _made(given: Field, said: JsonObject) -> Any:
    if is_data(given.type):
        return given.type(**{each.name: _made(each, said) for each in data_members(given.type)})
    value = said.get(given.name, given.default)
    # Only for the data in it: it may be of an address, where anything can stand.
    return msgspec.convert(value, given.type) if _holds_data(given.type) else value


@cache
def _holds_data(kind: Any) -> bool:
    return is_data(kind) or any(_holds_data(each) for each in get_args(kind))
