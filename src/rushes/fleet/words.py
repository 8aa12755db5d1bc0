"""What a worker says, made fit to be kept and shown. Pure."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from rushes import sanitize
from rushes.protocol import Hello, Progress, Standing, capability_words
from rushes.records import JsonObject

# So much of what a worker says is kept; the rest is cut, since its work is not worse for it.
CAPABILITY_LENGTH = 64
HELLO_LIMIT_BYTES = 10 * 1024
DETAIL_LIMIT_BYTES = 64 * 1024


def shown_hello(hello: Hello) -> Hello:
    said = capability_words(hello.capabilities)
    words = [sanitize.line(each, CAPABILITY_LENGTH) for each in said]
    capabilities = dict.fromkeys(word for word in words if word)
    return replace(
        hello,
        capabilities=list(_fitting(capabilities, HELLO_LIMIT_BYTES)),
        metadata=_fitting(sanitize.tree(hello.metadata), HELLO_LIMIT_BYTES),
    )


def shown_standing(standing: Standing) -> Standing:
    declined = {kind[:64]: sanitize.sanitize(why) for kind, why in standing.declined.items()}
    return replace(
        standing,
        declined=_fitting(declined, HELLO_LIMIT_BYTES),
        notes=[sanitize.sanitize(note) for note in standing.notes],
    )


def shown_progress(report: Progress) -> Progress:
    detail = report.detail
    return replace(
        report,
        stage=sanitize.word(report.stage),
        engine_id=sanitize.word(report.engine_id),
        engine_model=sanitize.word(report.engine_model),
        detail=None if detail is None else _fitting(sanitize.tree(detail), DETAIL_LIMIT_BYTES),
    )


def _fitting(members: JsonObject, limit_bytes: int) -> JsonObject:
    """Those that fit into so much JSON, from the first on."""
    kept, room = {}, limit_bytes - len("{}")
    for name, value in members.items():
        room -= len(msgspec.json.encode({name: value}))
        if room < 0:
            break
        kept[name] = value
    return kept
