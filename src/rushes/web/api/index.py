"""Where the API begins: what there is, and its document, for who knows nothing but the address."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from rushes.web import auth, pages

PREFIX = "/api/v1"
OF_WORKERS = "worker protocol"

router = APIRouter(tags=["index"], dependencies=[auth.Public])


class Index(BaseModel):
    name: str
    version: str
    api: str = PREFIX
    openapi: str = "/openapi.json"
    documentation: str = "/docs"
    health: str = "/health"
    links: dict[str, str] = Field(description="By noun: lists and figures that GET answers.")


@router.get("/api")
@router.get(PREFIX)
def index(request: Request) -> Index:
    """Where to go from here: the document, its page, and what can be listed."""
    document = request.app.openapi()
    return Index(
        name=document["info"]["title"],
        version=document["info"]["version"],
        links={path.removeprefix(f"{PREFIX}/"): path for path in _lists(document)},
    )


def _lists(document: dict[str, Any]) -> list[str]:
    """What can be asked for without knowing an id, by those who use the API."""
    return [
        path
        for path, methods in document["paths"].items()
        if path.startswith(f"{PREFIX}/")
        and "{" not in path
        and OF_WORKERS not in methods.get("get", {"tags": [OF_WORKERS]})["tags"]
    ]


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    return pages.sent(request, _document(request.app), pages.FRESH)


@lru_cache(maxsize=1)
def _document(app: FastAPI) -> pages.Asset:
    body = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
    return pages.asset_of(body, "application/json")
