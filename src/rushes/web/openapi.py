"""The API document: FastAPI's, completed with what it cannot know. Prints itself when run:

python -m rushes.web.openapi > docs/openapi.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from rushes.web import auth
from rushes.web.http import problems

# What a request may be answered before its route is asked, by what it brings along.
WITH_BODY = (400, 408, 413, 422)
WITH_PARAMETERS = (422,)
WITH_ID = (404,)
BY_ROLE = {"public": (), "user": (401, 403), "admin": (401, 403), "worker": (401,)}
ALWAYS = (503,)

Operation = dict[str, Any]


def document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    roles = {
        (each.path_format, method): auth.role_of(each.dependant)
        for each in iter_route_contexts(app.routes)
        if getattr(each, "dependant", None) is not None
        for method in each.methods or ()
    }
    for path, method, operation in _operations(made):
        operation["x-role"] = roles[path, method] or "public"
        _complete(path, operation, operation["x-role"])
        operation["summary"] = SUMMARIES.get(f"{method} {path}", operation["summary"])
        operation["operationId"] = _id(method, path)
    _add_problem(made)
    made["paths"] = {path: made["paths"][path] for path in sorted(made["paths"])}
    return made


def _operations(made: dict[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _complete(path: str, operation: Operation, role: str) -> None:
    """Parameters that a route does not look at, errors that all routes of a kind share, and
    answers without a body."""
    given = operation.setdefault("parameters", [])
    for name in re.findall(r"{(\w+)}", path):
        if not any(each["name"] == name for each in given):
            schema = {"type": "string"}
            given.append({"name": name, "in": "path", "required": True, "schema": schema})
    statuses = [*BY_ROLE[role], *ALWAYS]
    if "requestBody" in operation:
        statuses += WITH_BODY
    if operation.get("parameters"):
        statuses += WITH_PARAMETERS
    if "{" in path:
        statuses += WITH_ID
    answers = operation["responses"]
    documented = problems.documented
    if problems.is_openai(path):
        documented = problems.documented_openai
        answers.pop("422", None)
    for status, problem in documented(*statuses).items():
        answers.setdefault(str(status), problem)
    for answer in answers.values():
        if answer.get("content", {}).get("application/json", {}).get("schema") == {}:
            del answer["content"]
    operation["responses"] = {
        status: _shared(status, answers[status]) for status in sorted(answers)
    }


def _shared(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    """A problem is described once and referred to."""
    is_problem = answer == problems.documented(int(status))[int(status)]
    return {"$ref": f"#/components/responses/{status}"} if is_problem else answer


def _id(method: str, path: str) -> str:
    """Such as `get_jobs_job_id_why`: stable, and a name in every language."""
    words = path.removeprefix("/api/v1").replace("{", "").replace("}", "")
    plain = "".join(char if char.isalnum() else "_" for char in f"{method.lower()}{words}")
    return plain.strip("_")


def _add_problem(made: dict[str, Any]) -> None:
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for model in (problems.Problem, problems.OpenAIProblem):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    made["components"]["schemas"] = {name: schemas[name] for name in sorted(schemas)}
    used = {
        int(status)
        for _, _, operation in _operations(made)
        for status, answer in operation["responses"].items()
        if "$ref" in answer
    }
    described = problems.documented(*sorted(used))
    made["components"]["responses"] = {str(status): each for status, each in described.items()}


SUMMARIES = {
    "GET /api": "Ask what there is",
    "GET /api/v1": "Ask what there is in this version",
    "POST /api/v1/jobs": "Add a job of your own kind",
    "PATCH /api/v1/jobs/{job_id}": "Change a job's priority",
    "POST /api/v1/jobs/{job_id}/next": "Do a job next",
    "GET /api/v1/kinds": "List the kinds of jobs",
    "GET /api/v1/limits": "List limits",
    "PUT /api/v1/limits/{key}": "Set a limit",
    "DELETE /api/v1/limits/{key}": "Remove a limit",
    "POST /api/v1/media/actions": "Do one thing with many media",
    "GET /api/v1/tags": "List tags",
    "GET /api/v1/collections": "List collections",
    "POST /api/v1/collections": "Make a collection",
    "GET /api/v1/collections/{collection_id}": "Get a collection",
    "PATCH /api/v1/collections/{collection_id}": "Rename a collection",
    "DELETE /api/v1/collections/{collection_id}": "Delete a collection; its media stay",
    "GET /api/v1/watching": "List what is half watched",
    "GET /api/v1/media/{media_id}/position": "Ask where I stopped watching",
    "PUT /api/v1/media/{media_id}/position": "Keep where I stopped watching",
    "DELETE /api/v1/media/{media_id}/position": "Forget where I stopped watching",
    "GET /api/v1/saved-filters": "List saved filters",
    "POST /api/v1/saved-filters": "Save a filter",
    "DELETE /api/v1/saved-filters/{filter_id}": "Delete a saved filter",
    "PATCH /api/v1/settings": "Change settings",
    "GET /api/v1/media/trash": "Ask how much is in the trash",
    "POST /api/v1/media/{media_id}/jobs": "Run a job of your own kind on a media",
    "GET /api/v1/media/{media_id}/outputs": "List what your own kinds have made of a media",
    "GET /api/v1/media/{media_id}/outputs/{slot}/{name}": "Get a file of such an output",
    "POST /api/v1/media/{media_id}/restore": "Restore a media from the trash",
    "POST /api/v1/media/{media_id}/transcript/restore": "Bring an older transcript back",
    "GET /api/v1/media/{media_id}/transcripts": "List the transcripts of a media",
    "PATCH /api/v1/workers/{worker_id}": "Change how a worker works",
    "POST /api/v1/uploads": "Begin a resumable upload",
    "OPTIONS /api/v1/uploads": "Ask what uploads can do",
    "OPTIONS /api/v1/uploads/{upload_id}": "Ask what an upload can do",
    "HEAD /api/v1/uploads/{upload_id}": "Ask how much of an upload has come",
    "PATCH /api/v1/uploads/{upload_id}": "Send bytes of an upload",
    "DELETE /api/v1/uploads/{upload_id}": "Give an upload up",
    "POST /api/v1/uploads/{upload_id}": "Do one of these by POST",
    "POST /api/v1/media": "Upload a file in one piece",
    "POST /api/v1/media/sample": "Add the sample",
    "POST /api/v1/media/import": "Fetch a media from a URL",
    "GET /api/v1/media": "List media",
    "GET /api/v1/media/{media_id}": "Get a media",
    "PATCH /api/v1/media/{media_id}": "Rename a media",
    "DELETE /api/v1/media/{media_id}": "Delete a media",
    "POST /api/v1/media/{media_id}/share": "Share a media by a link",
    "GET /api/v1/media/{media_id}/share": "Get the share link of a media",
    "PATCH /api/v1/media/{media_id}/share": "Change the share link of a media",
    "DELETE /api/v1/media/{media_id}/share": "Stop sharing a media",
    "POST /api/v1/media/{media_id}/retranscode": "Make a new version",
    "POST /api/v1/media/{media_id}/trim": "Cut off a media's beginning or end",
    "POST /api/v1/media/{media_id}/composite": "Lay a video over another",
    "POST /api/v1/media/{media_id}/retranscribe": "Transcribe a media again",
    "POST /api/v1/media/{media_id}/exports": "Export a media as a file",
    "GET /api/v1/media/{media_id}/exports": "List the exports of a media",
    "DELETE /api/v1/media/{media_id}/exports/{export_id}": "Delete an export",
    "GET /api/v1/media/{media_id}/stream/{name}": "Get a file of the version to watch",
    "GET /api/v1/media/{media_id}/source": "Get the file that was uploaded",
    "GET /api/v1/media/{media_id}/thumbnail.jpg": "Get the thumbnail",
    "GET /api/v1/media/{media_id}/storyboard.vtt": "Get the storyboard",
    "GET /api/v1/media/{media_id}/captions.vtt": "Get the captions",
    "GET /oembed": "Get the player of a share link, as oEmbed",
    "GET /s/{token}/media": "Get a shared media",
    "GET /s/{token}/source": "Get the original of a shared media",
    "GET /s/{token}/transcript": "Read what is said in a shared media",
    "POST /s/{token}/unlock": "Show the password of a share link",
    "POST /s/{token}/views": "Count a visit to a shared media",
    "GET /s/{token}/stream/{name}": "Get a file of a shared media",
    "GET /s/{token}/outputs": "List what a shared media shows besides",
    "GET /s/{token}/outputs/{slot}/{name}": "Get a file of what was made of a shared media",
    "GET /s/{token}/thumbnail.jpg": "Get the thumbnail of a shared media",
    "GET /s/{token}/storyboard.vtt": "Get the storyboard of a shared media",
    "GET /s/{token}/captions.vtt": "Get the captions of a shared media",
    "GET /api/v1/jobs": "List jobs",
    "GET /api/v1/jobs/{job_id}": "Get a job",
    "GET /api/v1/jobs/{job_id}/why": "Ask why a job waits",
    "GET /api/v1/jobs/{job_id}/executions": "List the attempts of a job",
    "GET /api/v1/jobs/{job_id}/logs": "Read the log of a job",
    "POST /api/v1/jobs/{job_id}/cancel": "Cancel a job",
    "POST /api/v1/jobs/{job_id}/retry": "Retry a job",
    "POST /api/v1/jobs/actions": "Cancel or retry many jobs",
    "GET /api/v1/queue/stats": "Get the figures of the queue",
    "GET /api/v1/queue/history": "Get how jobs ended of late",
    "POST /api/v1/queue/pause": "Pause the queue",
    "POST /api/v1/queue/resume": "Resume the queue",
    "POST /api/v1/transcriptions": "Transcribe a media",
    "POST /api/v1/transcriptions/submit": "Upload a file and transcribe it",
    "GET /api/v1/transcriptions": "List transcriptions",
    "GET /api/v1/transcriptions/{job_id}": "Get a transcription",
    "DELETE /api/v1/transcriptions/{job_id}": "Give a transcription up",
    "POST /api/v1/transcriptions/{job_id}/cancel": "Cancel a transcription",
    "POST /api/v1/transcriptions/{job_id}/retry": "Retry a transcription",
    "GET /api/v1/transcriptions/{job_id}/executions": "List the attempts of a transcription",
    "GET /api/v1/transcriptions/{job_id}/logs": "Read the log of a transcription",
    "GET /api/v1/transcriptions/{job_id}/transcript": "Read what a transcription heard",
    "GET /api/v1/media/{media_id}/transcript": "Read what is said in a media",
    "PATCH /api/v1/media/{media_id}/transcript": "Correct a transcript",
    "GET /api/v1/media/{media_id}/transcript/info": "Get the facts about a transcript",
    "GET /api/v1/media/{media_id}/transcript/revisions": "List what was changed in a transcript",
    "POST /api/v1/media/{media_id}/transcript/revert": "Go back to an older text",
    "PUT /api/v1/media/{media_id}/transcript/speakers": "Name the speakers",
    "POST /api/v1/media/{media_id}/transcript/speakers": "Tell the speakers apart",
    "POST /api/v1/media/{media_id}/transcript/import": "Bring captions",
    "GET /api/v1/media/{media_id}/transcript/candidate": "Read a newer transcript",
    "GET /api/v1/media/{media_id}/transcript/candidate/merge": "See what taking it would keep",
    "POST /api/v1/media/{media_id}/transcript/candidate/accept": "Take a newer transcript",
    "DELETE /api/v1/media/{media_id}/transcript/candidate": "Leave a newer transcript",
    "GET /api/v1/search": "Search in titles and in what was said",
    "GET /api/v1/models/transcription": "List the models for transcribing",
    "POST /api/v1/models/transcription/{name}/pull": "Fetch a model",
    "DELETE /api/v1/models/transcription/{name}": "Remove a model",
    "GET /api/v1/events": "Follow changes as they happen",
    "GET /api/v1/webhooks": "List webhooks",
    "POST /api/v1/webhooks": "Add a webhook",
    "GET /api/v1/webhooks/{webhook_id}": "Get a webhook",
    "PATCH /api/v1/webhooks/{webhook_id}": "Change a webhook",
    "DELETE /api/v1/webhooks/{webhook_id}": "Delete a webhook",
    "POST /api/v1/webhooks/{webhook_id}/secret": "Give a webhook a new secret",
    "POST /api/v1/webhooks/{webhook_id}/test": "Send a test message",
    "GET /api/v1/webhooks/{webhook_id}/deliveries": "List the messages of a webhook",
    "POST /api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": "Send one again",
    "GET /api/v1/workers": "List workers",
    "GET /api/v1/workers/{worker_id}": "Get a worker",
    "POST /api/v1/workers/invite": "Invite a worker",
    "POST /api/v1/workers/{worker_id}/disable": "Disable a worker",
    "POST /api/v1/workers/{worker_id}/enable": "Enable a worker",
    "POST /api/v1/workers/{worker_id}/drain": "Let a worker finish and rest",
    "POST /api/v1/workers/{worker_id}/keys": "Give a worker another key",
    "DELETE /api/v1/workers/{worker_id}/keys/{prefix}": "Revoke a worker's key",
    "POST /api/v1/worker/register": "Register a worker",
    "POST /api/v1/worker/join": "Join by an invite's code",
    "GET /api/v1/session": "Ask who I am",
    "POST /api/v1/session": "Sign in by password",
    "DELETE /api/v1/session": "Sign out",
    "POST /api/v1/session/link": "Sign in by link",
    "PUT /api/v1/session/password": "Set my password",
    "GET /api/v1/sessions": "List my sessions",
    "DELETE /api/v1/sessions/{session_id}": "End a session of mine",
    "GET /api/v1/tokens": "List my tokens",
    "POST /api/v1/tokens": "Make a token",
    "DELETE /api/v1/tokens/{token_id}": "Revoke a token",
    "GET /api/v1/security-log": "Read the security log",
    "GET /api/v1/users": "List users",
    "POST /api/v1/users": "Add a user",
    "PATCH /api/v1/users/{user_id}": "Change a user",
    "POST /api/v1/users/{user_id}/link": "Make a sign-in link",
    "GET /api/v1/settings": "List the settings in effect",
    "GET /api/v1/profiles": "List profiles",
    "POST /api/v1/profiles": "Add a profile",
    "GET /api/v1/profiles/{name}": "Get a profile",
    "PUT /api/v1/profiles/{name}": "Set a profile",
    "DELETE /api/v1/profiles/{name}": "Remove or reset a profile",
    "GET /api/v1/transcription-profiles": "List transcription profiles",
    "POST /api/v1/transcription-profiles": "Add a transcription profile",
    "GET /api/v1/transcription-profiles/{name}": "Get a transcription profile",
    "PUT /api/v1/transcription-profiles/{name}": "Set a transcription profile",
    "DELETE /api/v1/transcription-profiles/{name}": "Remove a transcription profile",
    "POST /v1/audio/transcriptions": "Transcribe a file, as OpenAI's API does",
    "POST /v1/audio/translations": "Transcribe a file into English, as OpenAI's API does",
    "GET /v1/models": "List models, as OpenAI's API does",
    "GET /v1/models/{model_id}": "Get a model, as OpenAI's API does",
    "GET /livez": "Is the process alive?",
    "GET /readyz": "Can the server take requests?",
    "GET /health": "How is the server?",
    "GET /api/health": "How are storage, database and queue?",
    "GET /metrics": "Get metrics for Prometheus",
}


def main() -> None:
    from rushes.web.server import bare_app

    text = json.dumps(document(bare_app()), indent=1, ensure_ascii=False)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
