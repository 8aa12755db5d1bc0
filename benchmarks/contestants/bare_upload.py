"""The least a server can do with an upload: Starlette writes what comes to a file, and syncs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(sys.argv[2])


async def put(request: Request) -> Response:
    with open(FOLDER / request.path_params["name"], "ab") as file:  # noqa: ASYNC230
        async for chunk in request.stream():
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return Response(status_code=204)


app = Starlette(routes=[Route("/{name}", put, methods=["PUT"])])

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
