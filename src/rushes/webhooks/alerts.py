"""Alerts: what operators are told by themselves, read off the events, at most so often per type.

What happens while a type cools down is held and told together when that is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from rushes import clock
from rushes.db.database import Tx
from rushes.events import Event
from rushes.jobs.lifecycle import MAX_CLAIMS
from rushes.records import JsonObject
from rushes.webhooks import messages, store
from rushes.webhooks.store import HeldAlert, JobFacts, Trouble
from rushes.webhooks.webhook import FAILING, KIND

PREFIX = "alert."
PATTERN_FAILURES = 3
PATTERN_MS = 86_400_000
# So many incidents are told one by one; beyond that only their number.
SHOWN = 20
LOST = frozenset({"worker_lost", "deadline_passed"})
GIVEN_UP = frozenset({"poison", "attempts_exhausted", "too_many_claims"})
NOTHING_HELD = HeldAlert(sent_at=0, held=0, held_since=None, incidents="[]")


class Alert(StrEnum):
    STALE_JOB_RECOVERED = "stale_job_recovered"
    JOB_MAX_RETRIES_EXCEEDED = "job_max_retries_exceeded"
    JOB_FAILED_PATTERN = "job_failed_pattern"
    WORKER_STARTUP = "worker_startup"
    WORKER_SHUTDOWN = "worker_shutdown"
    WEBHOOK_FAILING = "webhook_failing"

    @property
    def type(self) -> str:
        return f"{PREFIX}{self}"


OF_WORKERS = {"worker.online": Alert.WORKER_STARTUP, "worker.offline": Alert.WORKER_SHUTDOWN}

# Told as JSON; each alert has facts of its own.
Incident = JsonObject
Incidents = dict[Alert, list[Incident]]


def find(tx: Tx, page: Sequence[Event]) -> Incidents:
    """What in a page of events is worth an alert, oldest first for each type."""
    troubles = [event for event in page if _is_trouble(event)]
    changes = [event for event in page if event.type in OF_WORKERS]
    found: Incidents = defaultdict(list)
    for event, facts in _with_facts(tx, troubles):
        for alert in alerts_of(event, facts):
            found[alert].append(_of_job(event, facts))
    names = store.worker_names(tx, {event.worker_id or "" for event in changes})
    for event in changes:
        found[OF_WORKERS[event.type]].append(_of_worker(event, names))
    for event in page:
        if event.type == FAILING:
            found[Alert.WEBHOOK_FAILING].append(_of_webhook(event))
    return found


def due(tx: Tx, found: Incidents, *, now: int, cooldown_ms: int) -> list[tuple[str, str]]:
    """The alerts to send now, as type and body; the rest is held until its type has cooled down."""
    rows = store.held_alerts(tx)
    sent = []
    for alert in Alert:
        before, fresh = rows.get(alert, NOTHING_HELD), found.get(alert, [])
        count = before.held + len(fresh)
        if count == 0:
            continue
        latest = (msgspec.json.decode(before.incidents) + fresh)[-SHOWN:]
        since = before.held_since or fresh[0]["at"]
        if before.sent_at + cooldown_ms <= now:
            sent.append((alert.type, body(alert, latest, count, since=since, now=now)))
            _hold(tx, alert, sent_at=now)
        elif fresh:
            _hold(tx, alert, before.sent_at, count, since, latest)
    return sent


def alerts_of(event: Event, facts: JobFacts) -> Iterable[Alert]:
    """Which alerts a job's trouble raises."""
    if event.state == "queued":
        # The code of an earlier loss stays on the job; only the attempt tells how this one ended.
        if facts.outcome in ("lost", "stalled"):
            yield Alert.STALE_JOB_RECOVERED
        return
    used_up = (event.attempt or 0) >= facts.max_attempts or facts.claims >= MAX_CLAIMS
    if used_up or event.error_code in GIVEN_UP:
        yield Alert.JOB_MAX_RETRIES_EXCEEDED
    if event.media_id and facts.failures >= PATTERN_FAILURES:
        yield Alert.JOB_FAILED_PATTERN


def body(alert: Alert, incidents: Sequence[Incident], count: int, *, since: int, now: int) -> str:
    """`incidents` are the latest, `count` is how many there were in all, `since` the first."""
    message = _sentence(alert, incidents[-1])
    if count > 1:
        message = f"{count} times since {clock.rfc3339(since)}, the last: {message}"
    data = {
        "message": message,
        "count": count,
        "since": clock.rfc3339(since),
        "incidents": [{**each, "at": clock.rfc3339(each["at"])} for each in incidents],
    }
    return messages.render(alert.type, now, data)


def _is_trouble(event: Event) -> bool:
    """Deliveries are left out: an alert that cannot be delivered must not raise the next."""
    if event.job_id is None or event.type.startswith(f"{KIND}."):
        return False
    lost = event.type.endswith(".queued") and event.error_code in LOST
    return lost or (event.state == "failed" and event.type.endswith(".failed"))


def _with_facts(tx: Tx, troubles: Sequence[Event]) -> list[tuple[Event, JobFacts]]:
    if not troubles:
        return []
    asked = [
        Trouble(job_id=each.job_id or "", epoch=each.epoch or 0, at=each.at, window_ms=PATTERN_MS)
        for each in troubles
    ]
    facts = store.job_facts(tx, asked)
    keyed = [(event, facts.get((event.job_id or "", event.epoch or 0))) for event in troubles]
    return [(event, known) for event, known in keyed if known is not None]


def _of_job(event: Event, facts: JobFacts) -> Incident:
    return {
        "at": event.at,
        "job_id": event.job_id,
        "kind": facts.kind,
        "media_id": event.media_id,
        "title": facts.title,
        "worker": facts.worker_name,
        "attempt": event.attempt,
        "max_attempts": facts.max_attempts,
        "failures": facts.failures,
        "error_code": event.error_code,
    }


def _of_worker(event: Event, names: Mapping[str, str]) -> Incident:
    return {
        "at": event.at,
        "worker_id": event.worker_id,
        "worker": names.get(event.worker_id or "") or event.worker_id,
    }


def _of_webhook(event: Event) -> Incident:
    return {"at": event.at, **msgspec.json.decode(event.data or "{}")}


def _sentence(alert: Alert, incident: Incident) -> str:
    about = f"{incident.get('kind')} of “{incident.get('title') or incident.get('job_id')}”"
    worker = f"worker {incident.get('worker')}"
    match alert:
        case Alert.STALE_JOB_RECOVERED:
            tries = f"attempt {incident['attempt']} of {incident['max_attempts']}"
            return f"{about} was taken back from {worker} and will run again ({tries} was lost)"
        case Alert.JOB_MAX_RETRIES_EXCEEDED:
            return f"{about} failed and will not be tried again: {incident['error_code']}"
        case Alert.JOB_FAILED_PATTERN:
            times = f"{incident['failures']} failed jobs within 24 hours"
            return f"{about} keeps failing: {times}, the last with {incident['error_code']}"
        case Alert.WORKER_STARTUP:
            return f"{worker} came online"
        case Alert.WORKER_SHUTDOWN:
            return f"{worker} went offline"
        case Alert.WEBHOOK_FAILING:
            why = incident["error_code"]
            return f"a webhook's receiver at {incident['host']} keeps failing: {why}"


def _hold(
    tx: Tx,
    alert: Alert,
    sent_at: int,
    count: int = 0,
    since: int | None = None,
    incidents: Sequence[Incident] = (),
) -> None:
    store.write_alert(
        tx,
        alert,
        sent_at=sent_at,
        held=count,
        held_since=since,
        incidents=msgspec.json.encode(list(incidents)).decode(),
    )
