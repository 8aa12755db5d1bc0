"""Files come in: resumable by tus, or in one piece as a form. Both end in the same intake."""

from __future__ import annotations

import asyncio
import msgspec
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from rushes import errors
from rushes.db.database import Tx
from rushes.media import library, upload, uploads
from rushes.media import store as media_store
from rushes.media.intake import Intake, Writer
from rushes.media.upload import Concat, Metadata, Upload
from rushes.web import auth, idempotency, models, problems, tus, views
from rushes.web.forms import Form
from rushes.web.inlet import Inlet, run
from rushes.web.problems import ProblemResponse, documented
from rushes.web.site import Here, Site

M = TypeVar("M", bound=BaseModel)

# What a sender may still be sending when it is refused: read, so that it comes to hear why.
LINGER_BYTES = 64 * 2**20
LINGER_SECONDS = 5.0
FORM_OVERHEAD_BYTES = 2**20
FIELDS = frozenset({"title", "profile", "transcribe", "language", "diarize"})

UploadId = Annotated[str, Path(max_length=100, description="Such as upl_0198a3….")]


class Farewell:
    """An answer that comes before the body has ended: said at once, then the line is closed.

    Closing at once would throw the answer away with the bytes that are still on their way.
    """

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status_code = response.status_code
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._response
        headers = [*response.raw_headers, (b"connection", b"close")]
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await _discard(receive)
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b""})
