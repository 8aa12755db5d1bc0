"""The routes in one list, and what every request passes before it reaches one."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fastapi import FastAPI

from rushes.accounts import access
from rushes.web import openapi, pages
from rushes.web.api import (
    accounts,
    events,
    exports,
    health,
    imports,
    index,
    jobs,
    labels,
    limits,
    media,
    media_actions,
    metrics,
    models,
    oembed,
    outputs,
    playback,
    profiles,
    search,
    security_log,
    settings,
    shares,
    transcriptions,
    transcripts,
    trash,
    uploads,
    watching,
    webhooks,
    workers,
)
from rushes.web.api import worker as worker_api
from rushes.web.http import guard, problems
from rushes.web.http.embedding import Embedding
from rushes.web.openai import api as openai_api
from rushes.web.services import Services

DESCRIPTION = (
    "Sign in with `Authorization: Bearer TOKEN`, `X-API-Key`, or the session cookie."
    " Errors are `application/problem+json` with a stable `code`."
)
V1 = "/api/v1"
API = (
    uploads.router,
    playback.router,
    media_actions.router,
    imports.router,
    trash.router,
    watching.router,
    media.router,
    shares.router,
    labels.router,
    exports.router,
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
    index.router,
    health.router,
    health.admin,
    metrics.router,
    playback.shared,
    playback.shared_parts,
    outputs.shared,
    transcripts.shared,
    shares.locked,
    shares.shared,
    oembed.router,
    openai_api.receiving,
    openai_api.router,
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
        embedding=Embedding(services.settings.embed_origins),
    )
    return app


def bare_app() -> FastAPI:
    """All routes, not yet connected to anything; enough to describe them."""
    app = FastAPI(
        title="Rushes",
        version=metadata.version("rushes"),
        description=DESCRIPTION,
        openapi_url=f"{V1}/openapi.json",
        # Its page would load a script from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    # Routes are tried one after the other: those first that are asked for most. Each router by
    # itself: one within another is searched once more on every level.
    app.include_router(worker_api.router, prefix=V1)
    for each in ROOT:
        app.include_router(each)
    for each in API:
        app.include_router(each, prefix=V1)
    app.include_router(pages.router)
    problems.install(app, pages.missing)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = openapi.document(app)
    return app.openapi_schema
