"""A worker that lies: with a key it can do what its live claims cover, and nothing else."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

import scanner
import services
import world
from resilience.breakpoints import until
from running import Running
from rushes import ids, kinds
from rushes.handlers import built_in
from rushes.jobs.terms import Claimant
from rushes.protocol import Claim, Hello
from rushes.worker.loop import Handler
from rushes.worker.loop import Worker as Loop
from rushes.worker.remote import Remote
from web import library
from web.callers import routes, rows_of, worker_call

Worker = httpx2.Client


@pytest.fixture
def worker(server: Running) -> Iterator[Worker]:
    """A key in the hands of somebody who sends whatever he likes."""
    with server.client(server.worker_key("mallory")) as client:
        yield client


def claimed(server: Running, worker: Worker, kind: str = "demo", **options: Any) -> dict[str, str]:
    """A job on a media of its own, held by the worker."""
    library.enqueue(server, "", kind, media_id=quiet_media(server), **options)
    assert worker.post("/worker/hello", json={"kinds": [kind]}).status_code == 200
    [job] = worker.post("/worker/claim", json={"limit": 1}).json()["jobs"]
    return {"job_id": job["job_id"], "claim_id": job["claim_id"]}


def quiet_media(server: Running) -> str:
    """Without jobs of its own."""
    with server.client() as admin:
        media_id = library.add(server, library.user_id(admin))
    for job in server.rushes.jobs(media_id=media_id):
        server.rushes.cancel(job.id)
    return media_id


def settled(server: Running, kind: str) -> None:
    """All jobs of a kind that somebody will take have ended."""
    deadline = time.monotonic() + 20
    while any(server.rushes.jobs(kind=kind, state=state) for state in ("queued", "processing")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_part_that_removes_what_somebody_else_has_is_refused(
    server: Running, worker: Worker
) -> None:
    with server.user("victim") as victim:
        media_id = library.add(server, library.user_id(victim))
        library.transcribe(server, media_id, "Good morning.")
        library.correct(server, media_id, "Good evening.")
        held = claimed(server, worker)
        parts = [{"kind": "purge", "args": {"media_id": media_id}}]
        answer = worker.post("/worker/divide", json={**held, "parts": parts})
        settled(server, "purge")
        transcript = victim.get(f"/media/{media_id}/transcript")
        assert transcript.status_code == 200
        assert "Good evening." in transcript.text
        assert len(victim.get("/search", params={"q": "evening"}).json()["items"]) == 1
    assert answer.status_code == 403
    assert server.rushes.job(held["job_id"]).state == "processing"
    assert not server.rushes.jobs(kind="purge")


def dismiss(server: Running) -> None:
    """The server's own workers take nothing more."""
    with server.client() as admin:
        # One that has yet to say hello would be missed.
        until(lambda: len(admin.get("/workers").json()["items"]) >= len(server.server._crew))
        for each in admin.get("/workers").json()["items"]:
            admin.post(f"/workers/{each['id']}/disable")


@pytest.mark.parametrize("kind", ["webhook", "purge", "import"])
def test_jobs_of_the_server_are_not_handed_out(server: Running, kind: str) -> None:
    dismiss(server)
    job_id = library.enqueue(server, "", kind)
    with server.client(server.worker_key("mallory")) as worker:
        answer = worker.post("/worker/hello", json={"kinds": [kind, "demo"]})
        taken = worker.post("/worker/claim", json={"limit": 5}).json()["jobs"]
    assert server.rushes.job(job_id).state == "queued"
    assert taken == []
    assert answer.status_code == 403
    assert kind in answer.json()["detail"]


def test_every_kind_that_only_the_server_runs_is_declared(serve: Callable[..., Running]) -> None:
    """What its own workers run besides the table of handlers must not leave it."""
    running = serve(transcodes=True, transcription_workers=1)
    remote = set(built_in.HANDLERS)
    here = {kind for worker in running.server._crew for kind in worker._hello.kinds}
    assert remote < here
    assert {kind for kind in here if kinds.is_remote(kind)} == remote
    assert set(kinds.TABLE) == here


@pytest.mark.parametrize(
    ("whole", "part", "status"),
    [
        ("transcode", "span", 200),
        ("trim", "span", 200),
        ("transcode", "transcode", 422),
        ("transcode", "transcribe", 422),
        ("transcode", "demo", 422),
        ("transcribe", "span", 422),
        ("demo", "piece", 200),
        ("demo", "span", 422),
        ("demo", "transcode", 422),
        ("demo", "webhook", 403),
    ],
)
def test_a_job_has_parts_of_its_own_kinds_only(
    server: Running, worker: Worker, whole: str, part: str, status: int
) -> None:
    held = claimed(server, worker, whole)
    answer = worker.post("/worker/divide", json={**held, "parts": [{"kind": part}]})
    assert answer.status_code == status
    state = "blocked" if status == 200 else "processing"
    assert server.rushes.job(held["job_id"]).state == state


def test_a_part_is_about_the_media_of_its_job(server: Running, worker: Worker) -> None:
    with server.user("victim") as victim:
        foreign = library.add(server, library.user_id(victim))
    overlay = {"edit": {"overlay": {"media_id": "med_overlay"}}}
    held = claimed(server, worker, "composite", args=overlay)
    own = server.rushes.job(held["job_id"]).media_id
    for args in (
        {"media_id": foreign},
        {"edit": {"overlay": {"media_id": foreign}}},
        {"deep": [{"source_media_id": [foreign]}]},
    ):
        parts = [{"kind": "span", "args": overlay}, {"kind": "span", "args": args}]
        answer = worker.post("/worker/divide", json={**held, "parts": parts})
        assert answer.status_code == 422
        assert foreign not in answer.text
    parts = [{"kind": "span", "args": {**overlay, "media_id": own}}]
    assert worker.post("/worker/divide", json={**held, "parts": parts}).status_code == 200


def granted(server: Running, *given: str) -> Worker:
    with server.client() as admin:
        made = admin.post("/worker/register", json={"name": "mallory", "kinds": list(given)})
    assert made.json()["kinds"] == sorted(given)
    return server.client(made.json()["key"])


def test_a_key_is_for_the_kinds_it_was_granted(server: Running) -> None:
    with granted(server, "transcribe", "demo") as worker:
        job_id = library.enqueue(server, "", "transcode")
        hello = worker.post("/worker/hello", json={"kinds": ["transcode", "span"]})
        assert hello.status_code == 403
        assert "transcode" in hello.json()["detail"]
        hello = worker.post("/worker/hello", json={"kinds": ["transcode", "demo"]})
        assert hello.json()["kinds"] == ["demo"]
        held = claimed(server, worker, "demo")
        # A part of a kind that the key is not for would be work that it may not order.
        answer = worker.post("/worker/divide", json={**held, "parts": [{"kind": "other"}]})
        assert answer.status_code == 403
        assert worker.post("/worker/claim", json={"limit": 9}).json()["jobs"] == []
    assert server.rushes.job(job_id).state == "queued"


def test_a_grant_brings_the_parts_of_its_kinds(server: Running) -> None:
    with granted(server, "transcode") as worker:
        held = claimed(server, worker, "transcode")
        parts = [{"kind": "span"}]
        assert worker.post("/worker/divide", json={**held, "parts": parts}).status_code == 200
        hello = worker.post("/worker/hello", json={"kinds": ["span", "transcode", "trim"]})
        assert hello.json()["kinds"] == ["span", "transcode"]
        [job] = worker.post("/worker/claim", json={"limit": 9}).json()["jobs"]
        assert job["kind"] == "span"


def test_a_narrower_key_of_the_same_worker_gets_and_touches_less(server: Running) -> None:
    with server.client() as admin, server.client(server.worker_key("two")) as wide:
        held = claimed(server, wide, "demo")
        library.enqueue(server, "", "demo")
        worker_id = server.rushes.job(held["job_id"]).claimed_by
        asked = {"limit": 1, "request_id": ids.new("req")}
        assert wide.post("/worker/claim", json=asked).json()["jobs"] != []
        library.enqueue(server, "", "demo")
        made = admin.post(f"/workers/{worker_id}/keys", json={"kinds": ["transcribe"]}).json()
        with server.client(made["key"]) as narrow:
            assert narrow.post("/worker/claim", json={"limit": 9}).json()["jobs"] == []
            assert narrow.post("/worker/claim", json=asked).json()["jobs"] == []
            assert narrow.post("/worker/release", json=held).status_code == 409
            beats = narrow.post("/worker/heartbeat", json={"claims": [held]}).json()["claims"]
        assert beats == {held["claim_id"]: {"held": False, "cancel": False}}
        # One that is to take its place is no wider, unless it is said.
        admin.post(f"/workers/{worker_id}/keys")
        keys = admin.get(f"/workers/{worker_id}").json()["keys"]
        assert [key["kinds"] for key in keys] == [None, ["transcribe"], ["transcribe"]]


@pytest.mark.parametrize(
    ("given", "word"), [(["purge"], "server"), (["Not A Kind"], "name"), ([], "least")]
)
def test_a_grant_that_makes_no_sense_is_refused(
    server: Running, given: list[str], word: str
) -> None:
    with server.client() as admin:
        for path in ("/worker/register", "/workers/invite"):
            answer = admin.post(path, json={"name": "x", "kinds": given})
            assert answer.status_code == 422
            assert word in answer.json()["detail"]


def test_an_invite_hands_its_grant_on(server: Running) -> None:
    with server.client() as admin:
        invite = admin.post("/workers/invite", json={"kinds": ["transcribe"]}).json()
        joined = admin.post("/worker/join", json={"code": invite["code"], "name": "studio"}).json()
        assert invite["kinds"] == joined["kinds"] == ["transcribe"]
        [key] = admin.get(f"/workers/{joined['worker_id']}").json()["keys"]
        assert key["kinds"] == ["transcribe"]


# What a worker says

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
SECRET, PLACE = "hunter2-canary", "/srv/canary/models"
POISON = f"\x1b[31m\x00cannot open {PLACE}/x.bin\u202e password={SECRET}"


def verbs() -> list[tuple[str, str, dict[str, Any]]]:
    """Every verb of the protocol that takes JSON: method, path and its schema. The document is kept
    fresh by a test of its own; to make it takes each process seconds."""
    made = json.loads(DOCUMENT.read_bytes())
    found = []
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if path.startswith("/api/v1/worker/") and body is not None:
                schema = _resolved(body["schema"], made["components"]["schemas"])
                found.append((method.upper(), path.removeprefix("/api/v1"), schema))
    return found


def _resolved(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(each, known) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolved(known[schema["$ref"].rpartition("/")[2]], known)
    return {name: _resolved(each, known) for name, each in schema.items()}


def poisoned(schema: dict[str, Any], name: str = "") -> Any:
    """What fits the schema, with poison wherever it takes free text."""
    for option in schema.get("anyOf", []):
        if option.get("type") != "null":
            return poisoned(option, name)
    match schema.get("type"):
        case "string":
            return POISON
        case "integer":
            return 0
        case "number":
            return 0.5
        case "boolean":
            return True
        case "array":
            return [poisoned(schema["items"], name)]
        case "object" if "properties" in schema:
            return {each: poisoned(inner, each) for each, inner in schema["properties"].items()}
        case "object":
            return {"note": POISON, POISON: [{"name": POISON}]}
        case _:
            return {"note": POISON, POISON: [{"name": POISON}], "text": POISON}


VERBS = verbs()
# Of these fields the server knows what they may be.
CLOSED = {
    "job_id", "claim_id", "manifest", "error_class", "kinds", "kind", "needs", "names", "name",
    "ticket", "sha256", "md5", "boot_id", "request_id", "answered", "stalled", "besides",
    "protocol", "terms_etag",
}  # fmt: skip
# Private to the job's next attempt, and shown to nobody.
PRIVATE = {"checkpoint"}


@pytest.mark.parametrize(("method", "path", "schema"), VERBS, ids=[path for _, path, _ in VERBS])
def test_what_a_worker_says_is_shown_to_nobody_as_it_is(
    server: Running, worker: Worker, method: str, path: str, schema: dict[str, Any]
) -> None:
    held = claimed(server, worker)
    said = poisoned(schema)
    good = {**held, "kinds": ["demo"], "error_class": "permanent", "manifest": None}
    body = {
        name: good.get(name, value)
        for name, value in said.items()
        if name not in PRIVATE and (name in good or name not in CLOSED)
    }
    if "parts" in body:
        # Arguments are no text for people: what cannot be kept as it is would be refused.
        args = json.loads(json.dumps(said["parts"][0]["args"]).replace("\\u0000", ""))
        body["parts"] = [{"kind": "piece", "args": args}]
    if "renditions" in body:
        known = {"name": "720p", "kind": "video", "status": "pending"}
        body["renditions"] = [{**said["renditions"][0], **known}]
    if "claims" in body:
        body["claims"] = [held]
    if "standing" in body:
        # By kind, why it is declined.
        body["standing"] = {**said["standing"], "declined": {"demo": POISON}}
    headers = {"Rushes-Claim": held["claim_id"]}
    answer = worker.request(
        method, path.replace("{job_id}", held["job_id"]), json=body, headers=headers
    )
    # Joining takes a code, and registering an admin.
    if SECRET in str(body) and path not in ("/worker/join", "/worker/register"):
        assert answer.is_success, answer.text
    assert_clean(server, answer.text, speech=path == "/worker/passages")


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"name": 7},
        {"name": "../up"},
        {"name": "a\nb"},
        {"kind": "smell"},
        {"status": "odd"},
        {"bandwidth": "much"},
        {"bandwidth": "9" * 4300},
        {"width": -1},
        {"frame_rate": 1e308},
        {"width": 1.5},
        {"segments_total": 2**70},
        {"color": "red"},
    ],
)
def test_renditions_that_cannot_be_are_refused(
    server: Running, worker: Worker, odd: dict[str, Any]
) -> None:
    held = claimed(server, worker)
    listed = [{"name": "720p", "kind": "video", **odd}] if odd else [odd]
    answer = worker.post("/worker/renditions", json={**held, "renditions": listed})
    assert answer.status_code == 422


def assert_clean(server: Running, answer: str, *, speech: bool) -> None:
    """In no answer, event or log that anybody gets."""
    with server.client() as admin:
        shown = [answer, admin.get("/jobs").text, admin.get("/workers").text]
        for job in admin.get("/jobs").json()["items"]:
            shown += [admin.get(f"/jobs/{job['id']}/{of}").text for of in ("logs", "executions")]
            if job["media_id"]:
                shown.append(admin.get(f"/media/{job['media_id']}").text)
    with server.rushes.db.read() as tx:
        shown.append(str(tx.all("SELECT * FROM events")))
    for text in shown:
        if not speech:
            assert SECRET not in text
            assert "srv/canary" not in text
        for char in ("\x1b", "\\u001b", "\\x1b", "\\u0000", "\\x00", "\u202e", "\\u202e"):
            assert char not in text


def test_a_failure_is_told_without_places_and_secrets(server: Running, worker: Worker) -> None:
    held = claimed(server, worker)
    worker.post("/worker/progress", json={**held, "progress": 0.5, "stage": POISON})
    worker.post("/worker/fail", json={**held, "error_class": "permanent", "message": POISON})
    with server.client() as admin:
        job = admin.get(f"/jobs/{held['job_id']}").json()
    assert job["error"].startswith("cannot open …")
    assert job["stage"].startswith("cannot open …")
    assert_clean(server, "", speech=False)


def test_the_name_a_worker_joins_with_is_cleaned_and_cut(server: Running) -> None:
    with server.client() as admin:
        code = admin.post("/workers/invite", json={}).json()["code"]
        name = f"stu\x1b[2Jdio\u202e {'x' * 200}"
        joined = admin.post("/worker/join", json={"code": code, "name": name}).json()
    assert joined["name"].startswith("studio xxx")
    assert len(joined["name"]) == 100


# Past the server


@pytest.fixture
def beside(seaweed: services.Seaweed, serve: Callable[..., Running]) -> Running:
    """Its storage gives and takes files itself."""
    return serve(storage_url=seaweed.url(prefix=uuid.uuid4().hex), claim_duration=30)


def lifetime(address: str) -> int:
    return int(parse_qs(urlsplit(address).query)["X-Amz-Expires"][0])


def test_addresses_of_the_storage_last_no_longer_than_the_claim(beside: Running) -> None:
    with beside.client(beside.worker_key("mallory")) as worker:
        held = claimed(beside, worker)
        proof = {"Rushes-Claim": held["claim_id"]}
        asked = {"job_id": held["job_id"]}
        source = worker.get("/worker/source", params=asked, headers=proof)
        put = worker.post(
            f"/worker/artifacts/{held['job_id']}/presign", json={"name": "a.txt"}, headers=proof
        )
        assert 0 < lifetime(source.headers["location"]) <= 30
        assert 0 < lifetime(put.json()["url"]) <= 30
        worker.post("/worker/release", json=held)
        assert worker.get("/worker/source", params=asked, headers=proof).status_code == 409


class Tampering(httpx2.HTTPTransport):
    """The first address of the storage has run out when it is used."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server
        self.refused = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if not str(request.url).startswith(self._server) and not self.refused:
            self.refused += 1
            request.url = request.url.copy_set_param("X-Amz-Date", "20200101T000000Z")
            answer = super().handle_request(request)
            assert answer.status_code == 403
            return answer
        return super().handle_request(request)


def test_a_worker_asks_again_when_an_address_has_run_out(beside: Running) -> None:
    library.enqueue(beside, "", "demo", media_id=quiet_media(beside))
    transport = Tampering(beside.url)
    with closing(Remote(beside.url, beside.worker_key(), transport=transport)) as remote:
        read: list[bytes] = []
        run = Handler(lambda job: read.append(job.source().read_bytes()))
        assert Loop(remote, {"demo": run}, hello=Hello(kinds=["demo"])).step() == 1
    assert (transport.refused, read) == (1, [library.SOURCE])


# Every verb with a claim that is none, or none any more

# What changes by itself, or by being seen.
SEEN = {"last_seen_at", "last_used_at", "announced", "pos", "beat_at", "grace_until"}
# About the worker itself, not about a claim.
SELF = {"POST /worker/hello", "POST /worker/claim"}
# Repeating a report is harmless, and is answered as the first time.
ENDS = {"POST /worker/complete", "POST /worker/fail", "POST /worker/release", "POST /worker/divide"}

NEVER_HELD = {"another worker's", "never given", "of the server's own kind"}


class HostileHarness:
    """A server, an honest worker and one that is not, and claims in every condition."""

    def __init__(self, running: Running) -> None:
        self.running = running
        dismiss(running)
        self.routes = [each for each in routes(running) if each.role == "worker"]
        self._open = ExitStack()
        enter = self._open.enter_context
        key = running.worker_key("mallory")
        self.honest = enter(running.client(running.worker_key("honest")))
        self.mallory = enter(running.client(key))
        self.mallory_at_root = enter(running.client(key, base_url=running.url))

    def close(self) -> None:
        self._open.close()

    def claimed(self) -> Claim:
        held = claimed(self.running, self.mallory)
        return Claim(held["job_id"], held["claim_id"])

    def stale(self) -> dict[str, Claim]:
        """By how they ended."""
        rushes = self.running.rushes
        theirs = claimed(self.running, self.honest)
        found = {
            "another worker's": Claim(theirs["job_id"], theirs["claim_id"]),
            "never given": Claim("job_nothing", "clm_nothing"),
            "of the server's own kind": self._of_the_server(),
        }
        for name in ("released", "completed", "failed", "canceled", "divided", "lost"):
            found[name] = self.claimed()
        mine = {name: {"job_id": c.job_id, "claim_id": c.claim_id} for name, c in found.items()}
        self._say("complete", mine["completed"])
        self._say("fail", {**mine["failed"], "error_class": "permanent"})
        rushes.cancel(found["canceled"].job_id)
        self._say("fail", mine["canceled"])
        self._say("divide", {**mine["divided"], "parts": [{"kind": "part"}]})
        self._say("release", mine["released"])
        with rushes.db.begin() as tx:
            tx.all("UPDATE jobs SET claim_expires_at = 1 WHERE id = :id", id=found["lost"].job_id)
        assert found["lost"].job_id in rushes.db.run(rushes.queue.sweep)
        return found

    def _of_the_server(self) -> Claim:
        """As if it had been handed out to Mallory before that was forbidden."""
        job_id = library.enqueue(self.running, "", "purge")
        held = self.claimed()
        worker_id = self.running.rushes.job(held.job_id).claimed_by
        assert worker_id is not None
        me = Claimant(id=worker_id, name="mallory", kinds=["purge"])
        [job] = self.running.rushes.dispatch.claim(me, 1)
        assert job.job_id == job_id
        return job.claim

    def _say(self, verb: str, body: Any) -> None:
        answer = self.mallory.post(f"/worker/{verb}", json=body)
        assert answer.is_success, answer.text

    def everything(self) -> dict[str, Any]:
        with self.running.rushes.db.read() as tx:
            names = scanner.tables(tx)
        rows: dict[str, Any] = rows_of(self.running, names, SEEN)
        rows["storage"] = sorted(each.key for each in self.running.rushes.storage.list("media"))
        return rows


def play_hostile(running: Running) -> None:
    with closing(HostileHarness(running)) as harness:
        assert len(harness.routes) > 15
        wrong = list(wrongs(harness))
    assert not wrong, "\n".join(wrong)


def wrongs(harness: HostileHarness) -> Iterator[str]:
    running = harness.running
    for name, claim in harness.stale().items():
        for route in harness.routes:
            if route.key in SELF:
                continue
            call = worker_call(running, route, claim.job_id, claim.claim_id)
            before = harness.everything()
            answer = call.by(harness.mallory_at_root)
            if harness.everything() != before:
                yield f"{route} changed something with a claim that was {name}"
            if route.key == "POST /worker/heartbeat":
                told = answer.json()["claims"]
                good = told == {claim.claim_id: {"held": False, "cancel": False}}
            else:
                may_repeat = route.key in ENDS and name not in NEVER_HELD
                good = answer.status_code == 409 or (may_repeat and answer.status_code == 200)
            if not good:
                yield f"{route}, {name}: {answer.status_code} {answer.text}"
            if library.SOURCE in answer.content or b"oliday" in answer.content:
                yield f"{route} told what it should not with a claim that was {name}"


def test_a_claim_that_is_none_any_more_opens_nothing(serve: Callable[..., Running]) -> None:
    play_hostile(serve(sweep_interval=600.0))


@pytest.mark.thorough
def test_a_claim_that_is_none_any_more_opens_nothing_in_a_fleet(
    seaweed: services.Seaweed, serve: Callable[..., Running]
) -> None:
    with world.postgres_database() as url:
        storage_url = seaweed.url(prefix=uuid.uuid4().hex)
        running = serve(database_url=url, storage_url=storage_url, sweep_interval=600.0)
        play_hostile(running)
        running.stop()


def test_a_live_claim_opens_its_own_source_and_no_other(server: Running, worker: Worker) -> None:
    with server.user("victim") as victim:
        foreign = library.add(server, library.user_id(victim), content=b"private")
    held = claimed(server, worker)
    proof = {"Rushes-Claim": held["claim_id"]}
    for media_id, status in ((foreign, 404), ("med_nothing", 404)):
        asked = {"job_id": held["job_id"], "media_id": media_id}
        for ask in (worker.get, worker.head):
            answer = ask("/worker/source", params=asked, headers=proof)
            assert answer.status_code == status
            assert b"private" not in answer.content
    own = worker.get("/worker/source", params={"job_id": held["job_id"]}, headers=proof)
    assert own.content == library.SOURCE
    # The proof of one job is none for another.
    other = claimed(server, worker)
    crossed = {"job_id": other["job_id"]}
    assert worker.get("/worker/source", params=crossed, headers=proof).status_code == 409


def test_unknown_kinds_are_somebodys_own(server: Running, worker: Worker) -> None:
    assert worker.post("/worker/hello", json={"kinds": ["anything"]}).status_code == 200
    for odd in ("Not A Kind", "", "x" * 65):
        assert worker.post("/worker/hello", json={"kinds": [odd]}).status_code == 422
