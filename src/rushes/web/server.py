"""The routes in one list, and what every request passes before it reaches one."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fastapi import APIRouter, FastAPI

from rushes.accounts import access
from rushes.web import openapi, pages
from rushes.web.api import (
    accounts,
    events,
    health,
    jobs,
    limits,
    media,
    metrics,
    models,
    outputs,
    playback,
    profiles,
    search,
    security_log,
    settings,
    transcriptions,
    transcripts,
    trash,
    uploads,
    webhooks,
    workers,
)
from rushes.web.api import worker as worker_api
from rushes.web.http import guard, problems
from rushes.web.openai import api as openai_api
from rushes.web.services import Services

DESCRIPTION = (
    "Sign in with `Authorization: Bearer TOKEN`, `X-API-Key`, or the session cookie."
    " Errors are `application/problem+json` with a stable `code`."
)
API = (
    # Routes are tried one after the other, and nobody asks as often as workers do.
    worker_api.router,
    uploads.router,
    playback.router,
    trash.router,
    media.router,
    outputs.router,
    jobs.router,
    limits.router,
    events.router,
    workers.router,
    accounts.router,
    security_log.router,
    settings.router,
    profiles.router,
    profiles.speech,
    transcriptions.receiving,
    transcriptions.router,
    transcripts.receiving,
    transcripts.router,
    search.router,
    models.router,
    webhooks.router,
)
ROOT = (
    health.router,
    health.admin,
    metrics.router,
    playback.shared,
    outputs.shared,
    openai_api.receiving,
    openai_api.router,
    pages.router,
)


def create_app(services: Services) -> FastAPI:
    app = bare_app()
    app.state.services = services
    app.add_middleware(
        guard.Guard,
        https=services.is_https,
        is_worker=lambda key: access.by_worker_key(app.state.services.db, key) is not None,
        metrics=lambda: app.state.services.metrics,
        storage_origin=services.links.origin if services.links else None,
    )
    return app


def bare_app() -> FastAPI:
    """All routes, not yet connected to anything; enough to describe them."""
    app = FastAPI(
        title="Rushes",
        version=metadata.version("rushes"),
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        # Its page would load a script from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    api = APIRouter(prefix="/api/v1")
    for each in API:
        api.include_router(each)
    app.include_router(api)
    for each in ROOT:
        app.include_router(each)
    problems.install(app, pages.missing)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = openapi.document(app)
    return app.openapi_schema
