"""What workers and the server say to each other over HTTP: models of the table of verbs."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model

from rushes import verbs
from rushes.verbs import Verb
from rushes.web.models import SHOWN_ONCE, Body

GRANTED = "The kinds that the key is for; null: every kind that may leave the server."
CONSTRAINTS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "description")


class Request(Body):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class HandlerWords(Request):
    """A handler's words: what cannot be kept or shown of them is cut or left out by `dispatch`,
    and is no reason to refuse the rest."""

    takes_nul = True


def request(verb: Verb) -> Any:
    base = HandlerWords if verb.words else Request
    return _model(f"{_title(verb)}Request", verb.members(), base)


def reply(verb: Verb) -> Any:
    if verb.reply is None:
        return _data(verbs.data_of(verb.returns), BaseModel)
    fields: dict[str, Any] = {verb.reply: (_understood(verb.returns, BaseModel), ...)}
    return create_model(f"{_title(verb)}Reply", **fields)


def _title(verb: Verb) -> str:
    return "".join(word.capitalize() for word in verb.name.split("_"))


def _model(name: str, members: Sequence[verbs.Field], base: type[BaseModel]) -> Any:
    """Replies have all their members, always."""
    is_reply = base is BaseModel
    fields: dict[str, Any] = {
        each.name: (
            _understood(each.type, base),
            ... if each.is_required or is_reply else each.default,
        )
        for each in members
    }
    return create_model(name, __base__=base, **fields)


@cache
def _data(kind: Any, base: type[BaseModel]) -> Any:
    # Some is said and answered, with other rules for each.
    said = "" if base is BaseModel else "Input"
    return _model(f"Worker{kind.__name__}{said}", verbs.data_members(kind), base)


def _understood(kind: Any, base: type[BaseModel]) -> Any:
    """A type of the protocol in pydantic's words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        told = [_field(each) for each in inner[1:] if isinstance(each, msgspec.Meta)]
        return Annotated[(_understood(inner[0], base), *told)]
    if origin in (list, Sequence):
        return list[_understood(inner[0], base)]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[inner[0], _understood(inner[1], base)]  # type: ignore[misc,valid-type]
    if origin in (Union, types.UnionType):
        return Union[tuple(_understood(each, base) for each in inner)]  # noqa: UP007  a variable
    return _data(kind, base) if verbs.is_data(kind) else kind


def _field(meta: msgspec.Meta) -> Any:
    given = {name: getattr(meta, name) for name in CONSTRAINTS}
    return Field(**{name: value for name, value in given.items() if value is not None})


KindNames = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=256)]


class Register(Body):
    name: str = Field(
        min_length=1,
        max_length=100,
        validation_alias=AliasChoices("name", "worker_name"),
        description="May also be called `worker_name`.",
    )
    kinds: KindNames | None = Field(None, description=GRANTED)
    capabilities: list[str] | dict[str, Any] = Field(
        [],
        description="As in `hello`, and until that says something else. At most 10 KB, as all"
        " that is told of a worker.",
    )
    metadata: dict[str, Any] = Field({}, description="About it, for people.")


class Join(Body):
    code: str = Field(max_length=100)
    name: str = "worker"


class Registered(BaseModel):
    worker_id: str
    name: str
    kinds: list[str] | None = Field(description=GRANTED)
    key: Annotated[str, SHOWN_ONCE] = Field(description="Shown once; keep it.")
    api_key: Annotated[str, SHOWN_ONCE] = Field(description="The same as `key`.")
    prefix: str
