"""Real receivers on loopback, and the part of a server that fans out and delivers to them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rushes import ids
from rushes.dispatch import Dispatch
from rushes.in_process import Local
from rushes.protocol import Hello
from rushes.settings import Settings
from rushes.webhooks import endpoints, fanout
from rushes.webhooks.deliver import Deliver
from rushes.webhooks.targets import WebhookSender
from rushes.webhooks.webhook import Delivery, Webhook
from rushes.worker.loop import Handler, Worker
from world import World


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        decoded = json.loads(self.body)
        assert isinstance(decoded, dict)
        return decoded


Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Receiver:
    port: int
    received: list[Received] = field(default_factory=list)
    respond: Respond = lambda request: answer(request, 204)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def types(self) -> list[str]:
        return [each.message["type"] for each in self.received]


def answer(request: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", "0")
    request.end_headers()


@contextmanager
def receiver(status: int = 204) -> Iterator[Receiver]:
    """A server of its own; `respond` may be replaced while it runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            running.received.append(Received(self.path, headers, self.rfile.read(length)))
            running.respond(self)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Senders hang up on purpose in some tests."""

    server = Server(("127.0.0.1", 0), Handler)
    running = Receiver(server.server_port, respond=lambda request: answer(request, status))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class WebhookHarness:
    """The part of a server that tells others: fan-out and the handler, on a world's database."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        given = {"webhook_private_targets": True, "alert_webhook_timeout": 5.0} | settings
        self.settings = Settings(**given)
        self.deliver = Deliver(world.db, self.settings)
        coordinator = Local(
            Dispatch(world.db, world.queue),
            world.db,
            world.bell,
            worker_id=ids.new("wrk"),
            worker_name="harness",
        )
        self.worker = Worker(
            coordinator,
            {"webhook": Handler(lambda context: self.deliver(context))},
            hello=Hello(kinds=["webhook"]),
            batch=100,
        )

    def use(self, sender: WebhookSender) -> None:
        self.deliver = Deliver(self.world.db, self.settings, sender=sender)

    def user(self, name: str, role: str = "user") -> str:
        id = ids.new("usr")
        self.world.run(
            lambda tx: tx.all(
                "INSERT INTO users (id, name, role, created_at) VALUES (:id, :name, :role, {now})",
                id=id,
                name=name,
                role=role,
            )
        )
        return id

    def media(self, user_id: str, title: str = "A talk") -> str:
        id = ids.new("med")
        self.world.run(
            lambda tx: tx.all(
                "INSERT INTO media (id, user_id, title, created_at)"
                " VALUES (:id, :user_id, :title, {now})",
                id=id,
                user_id=user_id,
                title=title,
            )
        )
        return id

    def hook(self, user_id: str, url: str, *types: str) -> Webhook:
        return self.world.run(
            lambda tx: endpoints.create(tx, user_id, url, list(types) or ["*"], allow_private=True)
        )

    def fan_out(self) -> int:
        """As the chores do: number what has committed, then tell of it."""
        self.world.chores.number_events()
        total = 0
        while True:
            told = self.world.run(lambda tx: fanout.fan_out(tx, self.world.queue, self.settings))
            total += told
            if told < fanout.PAGE:
                return total

    def work(self) -> dict[str, int]:
        """Run the deliveries that are due, each once; returns how many jobs are in each state."""
        self.worker.step()
        rows = self.world.rows(
            "SELECT state, count(*) AS count FROM jobs WHERE kind = 'webhook' GROUP BY state"
        )
        return {row["state"]: row["count"] for row in rows}

    def round(self) -> dict[str, int]:
        self.fan_out()
        return self.work()

    def deliveries(self, webhook_id: str) -> list[Delivery]:
        with self.world.db.read() as tx:
            return endpoints.deliveries(tx, webhook_id)

    def get(self, webhook_id: str) -> Webhook:
        with self.world.db.read() as tx:
            return endpoints.get(tx, webhook_id)


def names_lead_to(table: dict[str, Sequence[str]], **options: Any) -> WebhookSender:
    """A sender whose names mean what the test says."""
    return WebhookSender(
        resolve=lambda host, port: table[host], **{"timeout_seconds": 5.0} | options
    )
