"""What a message says, as JSON text, and the shapes that Slack and Discord want. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rushes import clock
from rushes.events import Event
from rushes.records import JsonObject

FACTS = ("job_id", "media_id", "worker_id", "user_id", "attempt", "progress", "stage", "error_code")
SLACK = re.compile(r"https://hooks\.slack\.com/(services|triggers|workflows)/", re.IGNORECASE)
DISCORD = re.compile(r"https://([a-z]+\.)?discord(app)?\.com/api/(v\d+/)?webhooks/", re.IGNORECASE)
DISCORD_MARKUP = re.compile(r"([\\*_~`|>#\[\]()<@:-])")
# Discord refuses more than 2000 characters; Slack cuts at 4000.
TEXT_LIMIT = 1_900


def render(type: str, at_ms: int, data: JsonObject) -> str:
    body = {"type": type, "timestamp": clock.rfc3339(at_ms), "data": data}
    return msgspec.json.encode(body).decode()


def of_event(event: Event, title: str | None) -> str:
    """`id` is what the event is about; `position` tells the order, which deliveries do not."""
    data: dict[str, Any] = {
        "id": event.job_id or event.media_id or event.worker_id,
        "position": event.pos,
        "status": event.state,
        "title": title,
    }
    data |= {name: getattr(event, name) for name in FACTS}
    more = msgspec.json.decode(event.data) if event.data else {}
    known = {name: value for name, value in data.items() if value is not None}
    return render(event.type, event.at, (more if isinstance(more, dict) else {}) | known)


def shaped_for(url: str, body: str) -> bytes:
    """The bytes to send: chats get a sentence with its markup taken away, all others the body."""
    if SLACK.match(url):
        return msgspec.json.encode({"text": _slack(_sentence(body)), "mrkdwn": False})
    if DISCORD.match(url):
        said = {"content": _discord(_sentence(body)), "allowed_mentions": {"parse": []}}
        return msgspec.json.encode(said)
    return body.encode()


def _sentence(body: str) -> str:
    message = msgspec.json.decode(body)
    data = message["data"]
    about = data.get("title") or data.get("id")
    words = [message["type"], f"“{about}”" if about else "", data.get("error_code") or ""]
    text = str(data.get("message") or " ".join(words))
    # A title with line breaks could pretend to be a second message.
    return " ".join(text.split())


def _slack(text: str) -> str:
    text = text[:TEXT_LIMIT]
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord(text: str) -> str:
    return DISCORD_MARKUP.sub(r"\\\1", text)[:TEXT_LIMIT]
