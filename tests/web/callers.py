"""Who may knock at a server, and something of one user's for each of them to ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2
from fastapi.routing import RouteContext, iter_route_contexts

from running import ADMIN_TOKEN, Running
from rushes import ids, kinds
from rushes.db.database import Tx
from rushes.jobs.job import NewJob
from rushes.jobs.terms import Claimant
from rushes.media import store as media_store
from rushes.protocol import Completion, Hello
from rushes.web import auth, pages
from rushes.web.server import create_app
from web import library

PASSWORD = "correct horse battery"
FILES = {
    "master.m3u8": b"#EXTM3U\n",
    "thumbnail.jpg": b"\xff\xd8\xff",
    "storyboard.vtt": b"WEBVTT\n",
    "720p/seg_1.m4s": bytes(range(256)),
}
TUS = {"Tus-Resumable": "1.0.0"}
# Of something that does not happen in these tests.
HOOK = {"url": "https://hooks.example.org/rushes", "types": ["transcription.failed"]}
FORM = {"file": ("talk.mp4", b"\0\0\0\x18ftypisom" + bytes(200), "video/mp4")}

CAPTIONS = {"file": ("talk.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n", "text/vtt")}
ASKED: dict[str, dict[str, Any]] = {
    "POST /media/{media_id}/transcript/import": {
        "params": {"replace": "true"},
        "files": CAPTIONS,
    },
    "GET /transcriptions/{job_id}/transcript": {"params": {"partial": "true"}},
    "GET /search": {"params": {"q": "holiday"}},
}


@dataclass(frozen=True)
class Call:
    """One request, whoever sends it."""

    method: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)

    def by(self, client: httpx2.Client) -> httpx2.Response:
        return client.request(self.method, self.path, **self.options)


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    role: str | None
    status: int
    in_schema: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def key(self) -> str:
        return f"{self.method} {self.path.removeprefix('/api/v1')}"


def routes(running: Running) -> list[Route]:
    """Off the router itself, one for each method."""
    found = []
    for each in iter_route_contexts(create_app(running.services).routes):
        for method in sorted(each.methods or ()):
            found.append(_route(each, method))
    return found


def _route(each: RouteContext, method: str) -> Route:
    dependant = getattr(each, "dependant", None)
    return Route(
        method=method,
        path=each.path or "",
        role=auth.role_of(dependant) if dependant else None,
        status=getattr(each, "status_code", None) or 200,
        in_schema=bool(getattr(each, "include_in_schema", False)),
    )


class Callers:
    """Clients at the root of one server, by who they are. Ada owns what is asked for."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self._open = ExitStack()
        self.ids: dict[str, str] = {}
        # Those whose things are asked for, beside those who ask.
        self.owners: dict[str, httpx2.Client] = {}
        self.clients: dict[str, httpx2.Client] = {"anonymous": self.with_token(None)}
        self._people()
        self._workers()
        self.resources = Resources(running, self)

    def close(self) -> None:
        self._open.close()

    def _people(self) -> None:
        self._sign_in("ada", "user")
        self._sign_in("bob", "user")
        self._sign_in("eve", "user")
        self._sign_in("root", "admin")
        tokens = {
            "reader": ("ada", "read"),
            "writer": ("ada", "write"),
            "other": ("bob", "write"),
            "disabled": ("eve", "write"),
            "admin": ("root", "admin"),
            "admin's writer": ("root", "write"),
        }
        for who, (name, scope) in tokens.items():
            self.clients[who] = self.with_token(self.token(name, scope))
        for name in ("ada", "bob", "root"):
            self.owners[name] = self.with_token(self.token(name, "write"))
        self.clients["browser"] = self.clients.pop("ada")
        self.clients["ended"] = self.with_token(None)
        self.renew(self.clients["ended"])
        # Signing out ends the session, but this client goes on showing its cookie.
        cookies = httpx2.Cookies(self.clients["ended"].cookies)
        assert self.clients["ended"].delete("/api/v1/session").status_code == 204
        self.clients["ended"].cookies = cookies
        path = f"/api/v1/users/{self.ids['eve']}"
        assert self.clients["admin"].patch(path, json={"disabled": True}).is_success

    def _workers(self) -> None:
        for name in ("worker", "idle worker", "revoked worker"):
            key = self.running.worker_key(name)
            self.clients[name] = self.with_token(key)
            hello = {"kinds": ["demo"] if name == "worker" else []}
            said = self.clients[name].post("/api/v1/worker/hello", json=hello)
            self.ids[name] = said.json()["worker_id"]
        worker_id, admin = self.ids["revoked worker"], self.clients["admin"]
        [key] = admin.get(f"/api/v1/workers/{worker_id}").json()["keys"]
        path = f"/api/v1/workers/{worker_id}/keys/{key['prefix']}"
        assert admin.delete(path).status_code == 204

    def _sign_in(self, name: str, role: str) -> None:
        with self.running.client(ADMIN_TOKEN) as admin:
            body = {"name": name, "role": role, "password": PASSWORD}
            made = admin.post("/users", json=body)
        assert made.status_code == 201, made.text
        self.ids[name] = made.json()["id"]
        self.clients[name] = self.with_token(None)
        self.renew(self.clients[name], name)

    def renew(self, client: httpx2.Client, name: str = "ada") -> None:
        """A session after the one before has ended."""
        client.cookies.clear()
        body = {"name": name, "password": PASSWORD}
        assert client.post("/api/v1/session", json=body).status_code == 201

    def token(self, name: str, scope: str) -> str:
        made = self.clients[name].post("/api/v1/tokens", json={"name": "t", "scopes": [scope]})
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    def with_token(self, token: str | None) -> httpx2.Client:
        return self._open.enter_context(self.running.client(token, base_url=self.running.url))


class Resources:
    """Makes what a route's parameters name, new each time, as the property of `owner`."""

    def __init__(self, running: Running, callers: Callers) -> None:
        self._running = running
        self._callers = callers
        self._count = 0
        self._candidate = self._away = ""
        self._kept: dict[str, str] = {}
        # Messages would go out to nowhere; they can wait.
        running.rushes.pause("webhook")
        running.rushes.pause("import")

    def call(self, route: Route, owner: str = "ada") -> Call:
        """A request to the route that can only fail because of who sends it."""
        key = route.key.replace("HEAD", "GET") if route.method == "HEAD" else route.key
        if "/worker/" in route.path and route.role == "worker":
            return self._worker_call(route)
        special: dict[str, Callable[[Route, str], Call]] = {
            "/uploads": self._upload_call,
            "/s/{token}": self._shared_call,
            "/embed/{token}": self._shared_call,
            "/oembed": self._oembed_call,
            "/webhooks": self._webhook_call,
        }
        for prefix, make in special.items():
            if prefix in route.path:
                return make(route, owner)
        path = route.path
        for name, make_id in self._makers().items():
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", make_id(route, owner))
        if "/models/" in path:
            path = path.replace("{name:path}", self._model())
        path = path.replace("{slot}", "watch").replace("{name:path}", "720p/seg_1.m4s")
        path = path.replace("{model_id:path}", "whisper-1")
        return Call(route.method, path, self._options(key, owner))

    def _makers(self) -> dict[str, Callable[[Route, str], str]]:
        return {
            "media_id}/exports/{export_id": self._export,
            "media_id": self._media,
            "job_id": self._job,
            "collection_id": self._collection,
            "filter_id": self._filter,
            "session_id": self._session,
            "token_id": self._token,
            "user_id": self._user,
            "worker_id}/keys/{prefix": self._key,
            "worker_id": lambda route, owner: self._callers.ids["idle worker"],
            "name": self._named,
            "key": self._limit,
        }

    def _options(self, key: str, owner: str) -> dict[str, Any]:
        bodies: dict[str, Any] = {
            "PATCH /media/{media_id}": {"title": "Renamed"},
            "PATCH /media/{media_id}/share": {"allow_download": True},
            "POST /media/{media_id}/share/clips": {"start": 0, "end": 5},
            "PUT /media/{media_id}/position": {"seconds": 12},
            "PATCH /collections/{collection_id}": {"name": self._name()},
            "POST /collections": {"name": self._name()},
            "POST /saved-filters": {"name": "mine", "filter": {}},
            "POST /media/import": {"url": "https://films.invalid/film.mp4"},
            "POST /media/{media_id}/exports": {"format": "mp4"},
            "POST /media/{media_id}/retranscode": {},
            "POST /media/{media_id}/retranscribe": {"language": "en"},
            "POST /media/{media_id}/trim": {"start": 1},
            "PATCH /media/{media_id}/transcript": {
                "revision": 1,
                "segments": [{"id": "seg_000001", "text": "Good night."}],
            },
            "POST /media/{media_id}/transcript/revert": {"revision": 1, "to": 0},
            "POST /media/{media_id}/transcript/candidate/accept": {
                "id": self._candidate,
                "revision": 1,
            },
            "POST /media/{media_id}/transcript/restore": {"id": self._away, "revision": 1},
            "POST /media/{media_id}/transcript/speakers": {"speakers": 2},
            "PUT /media/{media_id}/transcript/speakers": {"names": {"SPEAKER_00": "Grace"}},
            "PUT /profiles/{name}": {"crf": 20},
            "PUT /transcription-profiles/{name}": {"language": "de"},
            "POST /media/actions": {"action": "restore", "filter": {"ids": []}},
            "POST /jobs": {"kind": "demo"},
            "POST /media/{media_id}/jobs": {"kind": "demo"},
            "POST /jobs/actions": {
                "action": "cancel",
                "filter": {"kind": "none-like-this"},
            },
            "PATCH /jobs/{job_id}": {"priority": "low"},
            "PUT /limits/{key}": {"most": 2},
            "PATCH /settings": {"changes": [{"name": "prefer_wait", "value": "15 s"}]},
            "POST /queue/pause": {"kind": "paused-kind"},
            "POST /queue/resume": {"kind": "paused-kind"},
            "POST /workers/invite": {"name": "studio"},
            "POST /worker/register": {"name": "gpu"},
            "PATCH /workers/{worker_id}": {"nice": 3},
            "POST /session": {"name": "ada", "password": PASSWORD},
            "PUT /session/password": {"password": PASSWORD, "old_password": PASSWORD},
            "POST /tokens": {"name": "script", "scopes": ["read"]},
            "PATCH /users/{user_id}": {"quota_bytes": 10**9},
        }
        if key in ("POST /media", "POST /transcriptions/submit"):
            return {"files": FORM}
        if "/v1/audio/" in key:
            # A stream begins before there are any words.
            return {"files": FORM, "data": {"stream": "true"}}
        if key == "POST /transcriptions":
            return {"json": {"media_id": self._media(None, owner)}}
        if key == "POST /media/{media_id}/composite":
            return {"json": {"overlay_media_id": self.media(owner)}}
        if key in ASKED:
            return ASKED[key]
        if key in ("POST /profiles", "POST /transcription-profiles"):
            return {"json": {"name": self._name()}}
        if key == "POST /users":
            return {"json": {"name": self._name()}}
        if key == "POST /session/link":
            return {"json": {"token": self._link()}}
        if key == "POST /worker/join":
            return {"json": {"code": self._invite(), "name": "joined"}}
        return {"json": bodies[key]} if key in bodies else {}

    def _name(self) -> str:
        self._count += 1
        return f"somebody{self._count}"

    def _admin(self, method: str, path: str, **options: Any) -> Any:
        with self._running.client() as admin:
            answer = admin.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def _media(self, route: Route | None, owner: str) -> str:
        if _plays(route):
            return self.published(owner)
        if route is not None and route.path.endswith(("/exports", "/clips")):
            return self.exportable(owner)
        if route is not None and "{media_id}/transcript" in route.path:
            media_id = self.transcribed(owner)
            for job in self._running.rushes.jobs(media_id=media_id, kind="transcribe"):
                # Who is being transcribed is not told apart beside it.
                self._running.rushes.cancel(job.id)
            return media_id
        media_id = self.media(owner)
        if route is not None and route.path.endswith(("/trim", "/composite")):
            # One version is made at a time.
            for job in self._running.rushes.jobs(media_id=media_id, kind="transcode"):
                self._running.rushes.cancel(job.id)
        if route is not None and route.path.endswith("/share"):
            self._callers.owners[owner].post(f"/api/v1/media/{media_id}/share")
        if route is not None and route.path.endswith("/restore"):
            self._callers.owners[owner].delete(f"/api/v1/media/{media_id}")
        return media_id

    def _collection(self, route: Route, owner: str) -> str:
        return self._made("collections", owner, {"name": self._name()})

    def _filter(self, route: Route, owner: str) -> str:
        # The same one, should there be one.
        return self._made("saved-filters", owner, {"name": "theirs", "filter": {}})

    def _made(self, what: str, owner: str, body: dict[str, Any]) -> str:
        made = self._callers.owners[owner].post(f"/api/v1/{what}", json=body)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def media(self, owner: str) -> str:
        return library.add(self._running, self._callers.ids[owner])

    def transcribed(self, owner: str) -> str:
        """With a transcript that was corrected once, a newer one beside it, and one put away."""
        media_id = self.media(owner)
        library.transcribe(self._running, media_id, "Good morning.")
        library.correct(self._running, media_id, "Good evening.")
        self._away = library.transcribe(self._running, media_id, "Good grief.")
        self._candidate = library.transcribe(self._running, media_id, "Good day.")
        return media_id

    def exportable(self, owner: str) -> str:
        """With a rendition that can be taken along, and shown in parts."""
        media_id = self.media(owner)
        urgent = {"media_id": media_id, "priority": "high"}
        library.enqueue(self._running, self._callers.ids[owner], "composite", **urgent)
        held = library.claim(self._running, "composite")
        segment: dict[str, Any] = {"720p/init.mp4": b"init", "720p/seg_00000.m4s": (b"m4s", 9.0)}
        streams = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n720p/playlist.m3u8\n"
        listed = b"#EXTM3U\n#EXTINF:9,\nseg_00000.m4s\n"
        lists = {"720p/playlist.m3u8": listed, "master.m3u8": streams}
        library.put(self._running, held, {**segment, **lists})
        whole = {"name": "720p", "kind": "video", "status": "completed", "height": 720}
        library.tell(self._running, held, 0.9, {"renditions": [whole]})
        library.finish(self._running, held, {"kind": "video", "duration": 9.0})
        return media_id

    def _export(self, route: Route, owner: str) -> str:
        media_id = self.exportable(owner)
        path = f"/api/v1/media/{media_id}/exports"
        asked = self._callers.owners[owner].post(path, json={"format": "mp4"})
        assert asked.status_code == 202, asked.text
        job_id = asked.json()["id"]
        # Others of the walk wait, too: they are made until it is this one's turn.
        while self._running.rushes.job(job_id).state != "completed":
            held = library.claim(self._running, "export")
            library.put(self._running, held, {"film.mp4": b"film"})
            library.finish(self._running, held)
        return f"{media_id}/exports/{job_id}"

    def published(self, owner: str) -> str:
        """The same one each time."""
        if owner not in self._kept:
            media_id, user_id = self.media(owner), self._callers.ids[owner]
            library.enqueue(self._running, user_id, "publish", media_id=media_id)
            held, rushes = library.claim(self._running, "publish"), self._running.rushes
            for name, content in FILES.items():
                sha256 = hashlib.sha256(content).hexdigest()
                rushes.dispatch.put_artifact(held, name, content, sha256)
            rushes.dispatch.complete(Completion(held))
            library.transcribe(self._running, media_id, "Good morning.")
            self._kept[owner] = media_id
        return self._kept[owner]

    def _job(self, route: Route, owner: str) -> str:
        kind = "transcribe" if "/transcriptions/" in route.path else "shown"
        job_id = library.enqueue(self._running, self._callers.ids[owner], kind)
        if route.path.endswith("/retry"):
            self._running.rushes.cancel(job_id)
        return job_id

    def _session(self, route: Route, owner: str) -> str:
        body = {"name": owner, "password": PASSWORD}
        with self._running.client(None) as browser:
            assert browser.post("/session", json=body).status_code == 201
            items = browser.get("/sessions").json()["items"]
        return str(next(each["id"] for each in items if each["current"]))

    def _token(self, route: Route, owner: str) -> str:
        body = {"name": "t", "scopes": ["read"]}
        return str(self._callers.owners[owner].post("/api/v1/tokens", json=body).json()["id"])

    def _user(self, route: Route, owner: str) -> str:
        return str(self._admin("POST", "/users", json={"name": self._name()})["id"])

    def _named(self, route: Route, owner: str) -> str:
        if "/assets/" in route.path:
            return next(each.name for each in (pages.BUILT / "assets").iterdir())
        if "/models/" in route.path:
            return self._model()
        path = "/profiles" if "/profiles/" in route.path else "/transcription-profiles"
        return str(self._admin("POST", path, json={"name": self._name()})["name"])

    def _limit(self, route: Route, owner: str) -> str:
        path = f"/limits/engine:{self._name()}"
        return str(self._admin("PUT", path, json={"most": 9})["key"])

    def _model(self) -> str:
        """One that is there, so that nobody fetches it."""
        assert self._running.settings.engine_cache_dir is not None
        place = self._running.settings.engine_cache_dir / "whisper-tiny"
        place.mkdir(parents=True, exist_ok=True)
        (place / "model.json").write_text("{}")
        return place.name

    def _key(self, route: Route, owner: str) -> str:
        worker_id = self._callers.ids["idle worker"]
        made = self._admin("POST", f"/workers/{worker_id}/keys")
        return f"{worker_id}/keys/{made['prefix']}"

    def _link(self) -> str:
        made = self._admin("POST", "/users", json={"name": self._name()})
        return str(made["signin_url"].partition("token=")[2])

    def _invite(self) -> str:
        return str(self._admin("POST", "/workers/invite", json={"name": "studio"})["code"])

    def upload(self, owner: str) -> str:
        headers = {**TUS, "Upload-Length": "300"}
        made = self._callers.owners[owner].post("/api/v1/uploads", headers=headers)
        assert made.status_code == 201, made.text
        return str(made.headers["location"].rpartition("/")[2])

    def _upload_call(self, route: Route, owner: str) -> Call:
        path, headers = route.path, dict(TUS)
        options: dict[str, Any] = {"headers": headers}
        if "{upload_id}" in path:
            path = path.replace("{upload_id}", self.upload(owner))
        elif route.method == "POST":
            headers["Upload-Length"] = "300"
        if route.method == "PATCH":
            headers |= {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            options["content"] = FORM["file"][1][:100]
        if route.method == "POST" and "{upload_id}" in route.path:
            headers["X-HTTP-Method-Override"] = "DELETE"
        return Call(route.method, path, options)

    def share_token(self, owner: str, **terms: Any) -> str:
        media_id = self.published(owner)
        path = f"/api/v1/media/{media_id}/share"
        shared = self._callers.owners[owner].post(path, json=terms).json()
        return str(shared["share_url"].rpartition("/")[2])

    def _shared_call(self, route: Route, owner: str) -> Call:
        if "{slot}" in route.path:
            return Call(route.method, self._shared_output(route, owner))
        path = route.path.replace("{token}", self.share_token(owner, allow_download=True))
        bodies: dict[str, Any] = {"/unlock": {"password": "none"}, "/views": {"visit": "v" * 16}}
        body = next((each for end, each in bodies.items() if path.endswith(end)), None)
        return Call(
            route.method,
            path.replace("{name:path}", "720p/seg_1.m4s"),
            {} if body is None else {"json": body},
        )

    def _oembed_call(self, route: Route, owner: str) -> Call:
        url = f"{self._running.url}/s/{self.share_token(owner)}"
        return Call(route.method, route.path, {"params": {"url": url}})

    def _shared_output(self, route: Route, owner: str) -> str:
        token = self.share_token(owner)
        kinds.declare([kinds.Kind(name="notes", shared=True)])
        with self._callers.running.rushes.db.read() as tx:
            item = media_store.by_share_token(tx, token)
        assert item is not None
        library.enqueue(self._callers.running, item.user_id, "notes", media_id=item.id)
        held = library.claim(self._callers.running, "notes")
        library.put(self._callers.running, held, {"notes.md": b"# Notes"})
        library.finish(self._callers.running, held)
        path = route.path.replace("{token}", token).replace("{slot}", "notes")
        return path.replace("{name:path}", "notes.md")

    def webhook(self, owner: str) -> str:
        client = self._callers.owners[owner]
        if before := self._kept.pop(f"webhook of {owner}", None):
            client.delete(f"/api/v1/webhooks/{before}")
        made = client.post("/api/v1/webhooks", json=HOOK)
        assert made.status_code == 201, made.text
        self._kept[f"webhook of {owner}"] = made.json()["id"]
        return str(made.json()["id"])

    def _webhook_call(self, route: Route, owner: str) -> Call:
        path, options = route.path, {}
        if route.method == "POST" and path.endswith("/webhooks"):
            options = {"json": HOOK}
        if "{webhook_id}" in path:
            webhook_id = self.webhook(owner)
            path = path.replace("{webhook_id}", webhook_id)
            if "{delivery_id}" in path:
                test = self._callers.owners[owner].post(f"/api/v1/webhooks/{webhook_id}/test")
                path = path.replace("{delivery_id}", test.json()["id"])
        if route.method == "PATCH" or path.endswith("/secret"):
            options = {"json": {}}
        return Call(route.method, path, options)

    def claim(self) -> tuple[str, str]:
        """A job with a source, held by the worker."""
        rushes, media_id = self._running.rushes, self.media("ada")
        user_id = self._callers.ids["ada"]

        def put(tx: Tx) -> str:
            new = NewJob(kind="demo", media_id=media_id, user_id=user_id)
            return rushes.queue.enqueue(tx, new).id

        job_id = rushes.db.run(put)
        me = Claimant(id=self._callers.ids["worker"], name="worker", kinds=["demo"])
        rushes.dispatch.hello(me.id, Hello(kinds=["demo"]))
        held = {each.job_id: each.claim_id for each in rushes.dispatch.claim(me, 100)}
        return job_id, held[job_id]

    def _worker_call(self, route: Route) -> Call:
        return worker_call(self._running, route, *self.claim())


def worker_call(running: Running, route: Route, job_id: str, claim_id: str) -> Call:
    """A request to a worker's route that can only fail because of the claim."""
    name = route.path.rpartition("/")[2]
    path = route.path.replace("{job_id}", job_id).replace("{name:path}", "a.txt")
    options: dict[str, Any] = {"headers": {"Rushes-Claim": claim_id}}
    held = {"job_id": job_id, "claim_id": claim_id}
    bodies: dict[str, Any] = {
        "hello": {"kinds": ["demo"]},
        "claim": {"limit": 1},
        "heartbeat": {"claims": [held]},
        "progress": {**held, "progress": 0.5},
        "renditions": {**held, "renditions": [{"name": "720p", "kind": "video"}]},
        "complete": {**held, "result": {"ok": True}},
        "fail": {**held, "message": "no luck"},
        "release": held,
        "divide": {**held, "parts": [{"kind": "part"}]},
        "adopt": {"names": ["a.txt"]},
        "discard": {"names": ["a.txt"]},
        "inherit": {"besides": ["720p"]},
        "logs": {**held, "lines": ["hello"]},
        "presign": {"name": "a.txt"},
        "passages": {**held, "number": 0, "content": {}},
    }
    if name in bodies:
        options["json"] = bodies[name]
    elif name == "source":
        options["params"] = {"job_id": job_id}
    elif name == "confirm":
        options["json"] = _confirmation(running, claim_id)
    elif route.method == "PUT":
        options["content"] = b"hello"
        options["headers"]["Rushes-SHA256"] = hashlib.sha256(b"hello").hexdigest()
    return Call(route.method, path, options)


def _confirmation(running: Running, claim_id: str) -> dict[str, Any]:
    """As if it had come past the server."""
    content, ticket = b"hello", ids.new("put")
    running.rushes.storage.put(f"staging/{claim_id}/{ticket}", content)
    return {
        "name": "a.txt",
        "ticket": ticket,
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
    }


def _plays(route: Route | None) -> bool:
    ends = ("/source", "{name:path}", ".jpg", ".vtt")
    return route is not None and route.path.endswith(ends)


def rows_of(running: Running, tables: Iterable[str], besides: set[str]) -> dict[str, list[Any]]:
    """Everything in these tables but the columns that tell when somebody was seen."""
    with running.rushes.db.read() as tx:
        return {
            table: sorted(
                str({name: value for name, value in row.items() if name not in besides})
                for row in tx.all(f"SELECT * FROM {table}")
            )
            for table in tables
        }
