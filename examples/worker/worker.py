"""A worker in plain Python, written from docs/worker-protocol.md: it needs nothing of Rushes.

It runs jobs of the kind `digest`: SHA-256 and size of the source, published as `digest.json`.
"""

import errno
import hashlib
import http.client
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path

KIND = "digest"
BOOT_ID = uuid.uuid4().hex
CLAIM_SECONDS, ANSWER_SECONDS, FILE_SECONDS, REST_SECONDS = 30, 15, 60, 0.5
# A job that does not move on for so long is left to its lease.
STALL_SECONDS = 300
NO_ANSWER = (OSError, http.client.HTTPException)
log = logging.getLogger("worker")


class Leaving(BaseException):
    """A signal wants this process to end."""


class Refused(Exception):
    """Any answer but 2xx. `status` 0: none, or none that knows of claims."""

    def __init__(self, status, code, detail="", rest_seconds=REST_SECONDS):
        super().__init__(detail or code)
        self.code, self.rest_seconds = code, rest_seconds
        self.is_to_be_repeated = status in (0, 408, 429) or (status >= 500 and status != 507)


class Lost(Refused):
    """The claim is not held any more: stop, and say nothing."""


class Staying(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given):
        """Followed by hand: the storage must not see the key."""


OPENER = urllib.request.build_opener(Staying)


class Worker:
    def __init__(self, server, key=None):
        self.url = f"{server.rstrip('/')}/api/v1/worker/"
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        # What heartbeats tell of; the lock keeps an answer and its job together.
        self.job, self.answered, self.lock = None, [], threading.Lock()
        self.is_drained, self.refused = False, None
        self.heartbeat_seconds = self.lease_seconds = 0

    def open(self, method, path, headers, body=None, seconds=FILE_SECONDS):
        """`path`: of a call, or a whole address of the storage, which must not see the key."""
        silence = "storage_down" if path.startswith("http") else "server_away"
        if silence == "server_away":
            path, headers = self.url + path, {**self.headers, **headers}
        request = urllib.request.Request(path, body, headers, method=method)
        try:
            return OPENER.open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            raise refusal(error, silence) from None
        except NO_ANSWER as error:
            raise Refused(0, silence, str(error)) from None

    def post(self, path, said, seconds=ANSWER_SECONDS):
        headers = {"Content-Type": "application/json"}
        with self.open("POST", path, headers, json.dumps(said).encode(), seconds) as answer:
            try:
                return json.load(answer)
            except (*NO_ANSWER, ValueError) as error:
                raise Refused(0, "server_away", str(error)) from None

    def repeat(self, ask, check=lambda: None):
        """Until there is an answer. A storage may be down for as long as a lease."""
        began = time.monotonic()
        while True:
            check()
            try:
                return ask()
            except Refused as error:
                is_late = time.monotonic() - began > self.lease_seconds
                if not error.is_to_be_repeated or (error.code == "storage_down" and is_late):
                    raise
                log.info("%s (%s): asking again", error.code, error)
                rest_seconds = error.rest_seconds
            time.sleep(rest_seconds)

    def work(self):
        hello = {"kinds": [KIND], "metadata": {"host": socket.gethostname()}, "boot_id": BOOT_ID}
        terms = self.repeat(lambda: self.post("hello", hello))
        self.heartbeat_seconds = terms["heartbeat_seconds"]
        self.lease_seconds = terms["lease_seconds"]
        log.info("working as %s", terms["name"])
        threading.Thread(target=self.beat, daemon=True).start()
        while True:
            if self.is_drained:
                time.sleep(REST_SECONDS)
            else:
                self.claim_and_run(uuid.uuid4().hex)

    def claim_and_run(self, request_id):
        said = {"wait_seconds": CLAIM_SECONDS, "request_id": request_id, "boot_id": BOOT_ID}
        seconds = CLAIM_SECONDS + ANSWER_SECONDS
        jobs = self.repeat(lambda: self.post("claim", said, seconds))["jobs"]
        with self.lock:
            self.answered.append(request_id)
            self.job = Job(self, jobs[0]) if jobs else None
        if self.job:
            self.job.run()
        self.job = None

    def beat(self):
        while True:
            time.sleep(self.heartbeat_seconds)
            with self.lock:
                job, answered = self.job, self.answered[:1000]
            sent_at = time.monotonic()
            stalls = job is not None and sent_at - job.moved_at > STALL_SECONDS
            held = {"stalled" if stalls else "claims": [job.claim] if job else []}
            try:
                pulse = self.post("heartbeat", {**held, "answered": answered})
            except Refused as error:
                # Without an answer the job holds itself up in time.
                self.refused = None if error.is_to_be_repeated else error
                continue
            with self.lock:
                del self.answered[: len(answered)]
            self.is_drained = pulse["drain"]
            if job and not stalls:
                job.hear(pulse["claims"][job.claim["claim_id"]], sent_at)


def refusal(error, silence):
    if error.code == 307:
        return Refused(307, "elsewhere", error.headers["Location"])
    if error.headers.get_content_type() != "application/problem+json":
        return Refused(0, silence, f"HTTP {error.code}")
    # An answer to HEAD has no body to say more.
    said = json.loads(error.read() or b"{}")
    code = said.get("code") or {404: "not_found", 409: "claim_lost"}.get(error.code, "refused")
    rest_seconds = float(error.headers.get("Retry-After", REST_SECONDS))
    kind = Lost if code == "claim_lost" else Refused
    return kind(error.code, code, said.get("detail"), rest_seconds)


class Job:
    def __init__(self, worker, given):
        self.worker, self.id = worker, given["job_id"]
        self.claim = {"job_id": self.id, "claim_id": given["claim_id"]}
        self.proof = {"Rushes-Claim": given["claim_id"]}
        self.fence_seconds = 0.75 * given["lease_seconds"]
        self.renewed_at = self.moved_at = time.monotonic()
        self.is_lost = self.is_canceled = self.has_failed = False

    def run(self):
        log.info("job %s", self.id)
        try:
            with tempfile.TemporaryFile() as file:
                made = {"sha256": self.fetch(file), "size_bytes": file.tell()}
            self.say("logs", lines=[f"the source has {made['size_bytes']} bytes"])
            self.progress(0.9, "writing")
            manifest = {"digest.json": self.put("digest.json", json.dumps(made).encode())}
            self.say("complete", result=made, manifest=manifest)
        except Lost:
            log.warning("job %s is lost", self.id)
        except Exception as error:
            log.exception("job %s failed", self.id)
            self.has_failed = True
            with suppress(Lost):
                self.say("fail", **failure(error))

    def hear(self, beat, sent_at):
        """Answers may overtake each other: what is lost or canceled stays so."""
        self.is_lost = self.is_lost or not beat["held"]
        self.is_canceled = self.is_canceled or beat["cancel"]
        self.renewed_at = max(self.renewed_at, sent_at)

    def check(self):
        """Between any two steps. Waits while only the server knows whose the job is."""
        while not self.is_lost and time.monotonic() - self.renewed_at > self.fence_seconds:
            if self.worker.refused:
                raise self.worker.refused
            self.moved_at = time.monotonic()
            time.sleep(REST_SECONDS)
        self.moved_at = time.monotonic()
        if self.is_lost:
            raise Lost(409, "claim_lost")
        if self.is_canceled and not self.has_failed:
            raise Refused(409, "cancel_requested")

    def repeat(self, ask):
        return self.worker.repeat(ask, self.check)

    def say(self, verb, **said):
        return self.repeat(lambda: self.worker.post(verb, {**self.claim, **said}, FILE_SECONDS))

    def progress(self, share, stage):
        sent_at = time.monotonic()
        self.hear(self.say("progress", progress=share, stage=stage), sent_at)

    def fetch(self, file):
        """The source into a file; returns its SHA-256."""
        path = f"source?job_id={self.id}"
        head = self.repeat(lambda: self.worker.open("HEAD", path, self.proof)).headers
        size, sha256 = int(head["Rushes-Source-Size"]), head["Rushes-Source-SHA256"]
        while file.tell() < size:
            self.repeat(lambda: self.fetch_on(path, file, size))
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 not in (None, found):
            raise ValueError("the source arrived damaged")
        return found

    def fetch_on(self, path, file, size):
        """As much as comes, from where it ended."""
        start = file.tell()
        part = {"Range": f"bytes={start}-"}
        try:
            answer = self.worker.open("GET", path, {**part, **self.proof})
        except Refused as error:
            if error.code != "elsewhere":
                raise
            answer = self.worker.open("GET", str(error), part)
        with answer:
            if answer.status != 206:
                file.seek(0)
            while chunk := read(answer):
                file.write(chunk)
                self.check()
                if time.monotonic() - self.renewed_at > 1:
                    self.progress(0.9 * file.tell() / size, "fetching")
        if file.tell() == start:
            raise Refused(0, "storage_down", "no bytes came")

    def put(self, name, content):
        sha256 = hashlib.sha256(content).hexdigest()
        headers = {
            "Content-Type": "application/octet-stream",
            "Rushes-SHA256": sha256,
            **self.proof,
        }
        path = f"artifacts/{self.id}/{name}"
        self.repeat(lambda: self.worker.open("PUT", path, headers, content).close())
        return sha256


def read(answer):
    try:
        return answer.read(2**20)
    except NO_ANSWER:
        # The next request goes on behind what has come.
        return b""


def failure(error):
    code = error.code if isinstance(error, Refused) else type(error).__name__
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    error_class = "transient"
    if is_full or isinstance(error, MemoryError) or code in ("disk_full", "storage_down"):
        error_class = "resource"
    elif isinstance(error, Refused) and code not in ("cancel_requested", "manifest_mismatch"):
        error_class = "permanent"
    return {"error_class": error_class, "code": code, "message": str(error)}


def joined(server, code, file):
    """A code works once, so the key that it gives is kept."""
    if not file.exists():
        key = Worker(server).post("join", {"code": code, "name": socket.gethostname()})["key"]
        file.touch(0o600)
        file.write_text(key)
    return file.read_text()


def leave(*given):
    """Once; a second signal ends the process there and then."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)
    raise Leaving


def main(server, code=""):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, leave)
    worker = Worker(server)
    try:
        key = os.environ.get("RUSHES_WORKER_KEY") or joined(server, code, Path("worker.key"))
        worker = Worker(server, key)
        worker.work()
    except Leaving:
        if worker.job:
            with suppress(Refused):
                worker.post("release", worker.job.claim, seconds=1)
        return 0
    except Refused as error:
        log.error("%s: %s", error.code, error)
    return 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: worker.py SERVER [CODE]; or with a key in RUSHES_WORKER_KEY")
    sys.exit(main(*sys.argv[1:]))
