"""The routes in one list, and what every request passes before it reaches one."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from rushes.web import guard, health, pages, playback, problems, uploads, worker_api
from rushes.web.api import (
    accounts,
    events,
    jobs,
    media,
    settings,
    transcriptions,
    webhooks,
    workers,
)
from rushes.web.site import Site

DESCRIPTION = (
    "Sign in with `Authorization: Bearer TOKEN`, `X-API-Key`, or the session cookie."
    " Errors are `application/problem+json` with a stable `code`."
)
API = (
    uploads.router,
    playback.router,
    media.router,
    jobs.router,
    events.router,
    workers.router,
    worker_api.router,
    accounts.router,
    settings.router,
    transcriptions.receiving,
    transcriptions.router,
    webhooks.router,
)
ROOT = (health.router, health.admin, playback.shared, pages.router)


def create_app(site: Site) -> FastAPI:
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
    app.state.site = site
    api = APIRouter(prefix="/api/v1")
    for each in API:
        api.include_router(each)
    app.include_router(api)
    for each in ROOT:
        app.include_router(each)
    problems.install(app)
    app.add_middleware(guard.Guard, https=site.is_https)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, with the one shape of errors that all routes share."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            separate_input_output_schemas=False,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        template = "#/components/schemas/{model}"
        schema = problems.Problem.model_json_schema(ref_template=template)
        schemas.update(schema.pop("$defs", {}))
        schemas["Problem"] = schema
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        app.openapi_schema = document
    return app.openapi_schema
