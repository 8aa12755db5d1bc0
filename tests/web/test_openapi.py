"""The API's document is complete, fresh, and what the server says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from running import Running
from rushes.web.openapi import document
from rushes.web.server import bare_app

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


def operations() -> list[tuple[str, dict[str, Any]]]:
    made = document(bare_app())
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_committed_document_is_fresh(server: Running) -> None:
    made = document(bare_app())
    stale = "run: python -m rushes.web.openapi > docs/openapi.json"
    assert json.loads(COMMITTED.read_text()) == made, stale
    with server.client() as admin:
        assert admin.get("/openapi.json").json() == made


def test_every_operation_is_described() -> None:
    found = operations()
    assert len(found) > 80
    assert [name for name, each in found if not each.get("summary")] == []
    ids = [each["operationId"] for _, each in found]
    assert len(ids) == len(set(ids))
    for name, each in found:
        good = [status for status in each["responses"] if status.startswith(("2", "3"))]
        assert good, name
        assert [status for status in each["responses"] if status.startswith("4")] or not (
            each.get("parameters") or "requestBody" in each
        ), name
