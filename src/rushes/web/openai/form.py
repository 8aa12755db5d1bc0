"""What a request of the OpenAI-compatible API asks for, read off its form. Pure.

Fields that mean nothing here are ignored, as clients send what their own service knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from rushes import errors
from rushes.engines import catalog, custom
from rushes.engines.engine import Capabilities, EngineModel, Task
from rushes.media.media import Origin
from rushes.transcripts.transcript import clean
from rushes.uploads import upload
from rushes.uploads.upload import UploadOptions
from rushes.web.http.forms import Form
from rushes.web.openai.answers import Format

FIELDS = frozenset({"model", "language", "prompt", "response_format", "stream", "store"})
LISTS = frozenset({"timestamp_granularities", "languages", "keywords"})
GRANULARITIES = ("word", "segment")
FORMATS: Sequence[Format] = get_args(Format)
LANGUAGE = re.compile(r"[a-z]{2,3}")
NAME_LIMIT = 200
# Engines listen to the end of a prompt, too.
PROMPT_LIMIT = 1000
KEYWORDS_LIMIT, KEYWORD_LIMIT = 100, 100
# Models of that service, in whose place ours is used.
THEIRS = re.compile(r"whisper-1|gpt-[a-z0-9.-]*transcribe[a-z0-9.-]*")
WHISPER_1 = "whisper-1"
# What is forgotten after its answer has no name either: titles are told in events and webhooks.
UNNAMED = "Transcription request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`model` None: the engine's own choice. `store`: it stays in the library."""

    task: Task
    model: str | None = None
    language: str | None = None
    prompt: str | None = None
    vocabulary: Sequence[str] = ()
    format: Format = "json"
    words: bool = False
    stream: bool = False
    store: bool = False

    def upload_options(self, file_name: str, forget_after_ms: int) -> UploadOptions:
        """Only to be listened to: nobody has asked for something to watch."""
        named = {"filename": file_name.encode()} if self.store else {"title": UNNAMED.encode()}
        plain = upload.options_of({**named})
        speech: dict[str, Any] = {
            "model": self.model,
            "task": self.task if self.task == "translate" else None,
            "prompt": self.prompt,
            "vocabulary": list(self.vocabulary) or None,
        }
        processing = replace(
            plain.processing,
            transcode=False,
            language=self.language,
            diarize=True if self.format == "diarized_json" else None,
            speech=speech,
            is_interactive=True,
        )
        after_ms = None if self.store else forget_after_ms
        return replace(plain, processing=processing, forget_after_ms=after_ms, origin=Origin.API)


def read(form: Form, task: Task, can: Capabilities, *, store: bool = False) -> Asked:
    """BadField names what cannot be used; NoSuchModel. The form need not be whole yet. `store`:
    what holds if it says nothing about that."""
    fields = {name: value.strip() for name, value in form.fields.items()}
    model = find_model(can, fields.get("model", ""))
    _check_task(model, task)
    granularities = [each.strip() for each in form.lists.get("timestamp_granularities", [])]
    _check_among("timestamp_granularities", granularities, GRANULARITIES)
    return Asked(
        task=task,
        model=model.name if model else fields.get("model") or None,
        language=_language(fields, form.lists.get("languages", []), model),
        prompt=clean(fields.get("prompt", ""))[-PROMPT_LIMIT:] or None,
        vocabulary=_keywords(form.lists.get("keywords", [])),
        format=_format(fields, task),
        words="word" in granularities,
        stream=_flag(fields, "stream", False),
        store=_flag(fields, "store", store),
    )


def find_model(can: Capabilities, name: str) -> EngineModel | None:
    """By our name, a shorter one, or one of theirs. None when the engine does not tell what it
    has: then it has to find out for itself."""
    known = {each.name: each for each in can.models if each.purpose == "transcription"}
    if name in known:
        return known[name]
    if len(name) > NAME_LIMIT:
        raise errors.NoSuchModel("no model has so long a name")
    if not known:
        return None
    if not name or THEIRS.fullmatch(name.lower()):
        return next((each for each in known.values() if each.default), None)
    full = custom.known(name)
    if full is None or full not in known:
        raise errors.NoSuchModel(f"there is no model of this name; there are {', '.join(known)}")
    return known[full]


def _check_task(model: EngineModel | None, task: Task) -> None:
    can = model.capabilities if model else ()
    if model and can and task == "translate" and task not in can:
        raise errors.BadField("model", f"{model.name} cannot translate")


def _language(
    fields: dict[str, str], several: Sequence[str], model: EngineModel | None
) -> str | None:
    """Of several that it may be, none is sure."""
    given = fields.get("language") or (several[0].strip() if len(several) == 1 else "")
    if not given:
        return None
    plain = given.lower()
    code: str = catalog.CODES.get(plain, plain.partition("-")[0])
    if not LANGUAGE.fullmatch(code):
        raise errors.BadField("language", "must be a code such as en, or an English name")
    if model and model.languages and code not in model.languages:
        raise errors.BadField("language", f"{model.name} does not know this one")
    return code


def _format(fields: dict[str, str], task: Task) -> Format:
    given = fields.get("response_format") or "json"
    known = [each for each in FORMATS if task == "transcribe" or each != "diarized_json"]
    _check_among("response_format", [given], known)
    return cast(Format, given)


def _flag(fields: dict[str, str], name: str, default: bool) -> bool:
    given = fields.get(name, "").lower()
    if not given:
        return default
    if given not in upload.YES_OR_NO:
        raise errors.BadField(name, "must be true or false")
    return upload.YES_OR_NO[given]


def _keywords(given: Sequence[str]) -> list[str]:
    tidy = (clean(each)[:KEYWORD_LIMIT] for each in given[:KEYWORDS_LIMIT])
    return [each for each in tidy if each]


def _check_among(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    if any(each not in known for each in given):
        raise errors.BadField(name, f"must be one of {', '.join(known)}")


# For the API document


def document(task: Literal["transcribe", "translate"]) -> dict[str, Any]:
    formats = [each for each in FORMATS if task == "transcribe" or each != "diarized_json"]
    granularity = {"type": "string", "enum": list(GRANULARITIES)}
    properties: dict[str, Any] = {
        "file": {"type": "string", "format": "binary"},
        "model": {"type": "string", "description": "As GET /v1/models lists them."},
        "language": {"type": "string", "description": "Such as en; without, it is detected."},
        "prompt": {"type": "string"},
        "keywords[]": {"type": "array", "items": {"type": "string"}},
        "response_format": {"type": "string", "enum": formats, "default": "json"},
        "timestamp_granularities[]": {"type": "array", "items": granularity},
        "stream": {"type": "boolean", "default": False},
        "store": {
            "type": "boolean",
            "description": "Whether it stays in the library; without, as RUSHES_OPENAI_STORE says.",
        },
    }
    schema = {"type": "object", "required": ["file"], "properties": properties}
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }
