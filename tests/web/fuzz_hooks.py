"""What the fuzzer is told: the upload protocol's type is plain bytes, and these ids exist."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

import schemathesis

IDS: dict[str, str] = json.loads(os.environ.get("RUSHES_TEST_FUZZ_IDS", "{}"))
_turn = itertools.count()

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Every other request is about something that is there; nobody deletes it, though."""
    if case.method != "DELETE" and next(_turn) % 2:
        given = case.path_parameters or {}
        for name in IDS.keys() & given.keys():
            given[name] = IDS[name]
