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


def test_who_knows_only_the_address_finds_the_document_and_the_lists(server: Running) -> None:
    with server.client(None, base_url=server.url) as anybody:
        answers = [anybody.get(path) for path in ("/api", "/api/v1")]
        assert {each.status_code for each in answers} == {200}
        [said] = [json.loads(each) for each in {each.text for each in answers}]
        assert said["links"]["media"] == "/api/v1/media"
        assert not any("{" in path or "/worker/" in path for path in said["links"].values())
        found = anybody.get(said["openapi"])
        assert found.json() == document(bare_app())
        unchanged = anybody.get(said["openapi"], headers={"If-None-Match": found.headers["etag"]})
        assert unchanged.status_code == 304
        assert "<title>Rushes" in anybody.get(said["documentation"]).text
        assert anybody.get(said["health"]).status_code == 200
    with server.client() as admin:
        # It opens a stream, and search wants words.
        lists = said["links"].keys() - {"events", "search"}
        assert {admin.get(f"/{each}").status_code for each in lists} == {200}


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
