"""The fleet: who works, what they can do, and what an admin says about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from rushes import clock, errors
from rushes.accounts import access
from rushes.accounts import store as accounts
from rushes.db.database import Tx
from rushes.fleet import store as fleet
from rushes.fleet.worker import AdminState
from rushes.jobs import read_store
from rushes.jobs.read_store import JobFilter
from rushes.web import auth, models, views
from rushes.web.api.worker_models import GRANTED, KindNames
from rushes.web.http import idempotency
from rushes.web.http.problems import documented
from rushes.web.models import SHOWN_ONCE, Body
from rushes.web.services import Here

router = APIRouter(prefix="/workers", tags=["workers"], responses=documented(401, 403, 404, 422))

WorkerId = Annotated[str, Path(max_length=100)]
Text = Annotated[str, Field(max_length=1000)]


class InviteRequest(Body):
    name: str = Field("", max_length=100, description="The worker's name; its host's if empty.")
    kinds: KindNames | None = Field(None, description=GRANTED)


class KeyRequest(Body):
    kinds: KindNames | None = Field(
        None, description="What it is for; those of the worker's newest key, if it is not said."
    )


class SettingsRequest(Body):
    """All of them also as a text, as the command line has them."""

    schedule: Text | None = Field(
        None,
        description="When it takes work, in its local time: `22:00-06:00`, `mon-fri 19:00-07:00;"
        " sat,sun 00:00-24:00`, or `always`.",
    )
    rest: Text | None = Field(
        None,
        description="What becomes of the work in hand when that is over: `finish`, or `release`"
        " to give it back.",
    )
    nice: int | Text | None = Field(
        None, description="Of its tools, from 0 to 19; more leaves more to other programs."
    )
    concurrency: int | dict[str, int] | Text | None = Field(
        None,
        description="How many jobs at once: of each kind, and of all others together as `*`;"
        " `transcode=1,transcribe=2`, or only a number.",
    )
    tags: list[Text] | Text | None = Field(
        None, description="Words for which jobs may ask with `tag:WORD` among their `needs`."
    )
    scratch_budget: int | Text | None = Field(
        None,
        description="How many bytes its jobs may take on its disk together; `50GB`, or `none`.",
    )
    idle_unload: float | Text | None = Field(
        None,
        description="After how many seconds without speech its models leave the memory; `10min`,"
        " or `never`.",
    )


class WorkerKey(BaseModel):
    worker_id: str
    key: Annotated[str, SHOWN_ONCE] = Field(description="Shown once; keep it.")
    prefix: str


@router.get("")
def list_workers(who: auth.Admin, services: Here) -> models.Page[models.Worker]:
    with services.db.read() as tx:
        now = read_store.now(tx)
        keys = accounts.worker_keys(tx)
        busy = read_store.list_jobs(tx, JobFilter(state="processing"), limit=1000)
        found = fleet.all_workers(tx)
    return models.Page(
        items=[
            views.worker(
                services,
                each,
                now,
                keys=keys,
                holding=[job.id for job in busy if job.claimed_by == each.id],
            )
            for each in found
        ]
    )


@router.get("/{worker_id}")
def get(worker_id: WorkerId, who: auth.Admin, services: Here) -> models.Worker:
    with services.db.read() as tx:
        return _view(services, tx, worker_id)


@router.post("/invite", status_code=201, responses=documented(409))
def invite(
    body: InviteRequest, who: auth.Admin, services: Here, once: idempotency.Once
) -> models.Invite:
    """A code that lets one worker join, within a day."""
    grant = access.grant_of(body.kinds)

    def make(tx: Tx) -> models.Invite:
        row, code = access.invite(tx, body.name, grant, who.user_id)
        return models.Invite(
            id=row.id,
            name=row.name,
            kinds=None if grant.kinds is None else list(grant.kinds),
            code=code,
            command=f"rushes worker --server {services.base_url} --join {code}",
            expires_at=clock.rfc3339(row.expires_at),
        )

    return once.run(services, who, body, models.Invite, make)


@router.patch("/{worker_id}")
def change(
    worker_id: WorkerId, body: SettingsRequest, who: auth.Admin, services: Here
) -> models.Worker:
    """How it is to work: it hears of it within seconds, and needs no restart. What is said here
    wins over what it was started with; null takes it back."""
    said = body.model_dump(exclude_unset=True)

    def set_settings(tx: Tx) -> models.Worker:
        access.set_worker_settings(tx, worker_id, said)
        tx.wake_after_commit(services.bell.ring)
        return _view(services, tx, worker_id)

    shown = services.db.run(set_settings)
    services.known_workers.forget(worker_id)
    return shown


@router.post("/{worker_id}/disable")
def disable(worker_id: WorkerId, who: auth.Admin, services: Here) -> models.Worker:
    """It gets no more work until it is enabled again; what it holds it may finish."""
    return _set(services, worker_id, AdminState.DISABLED)


@router.post("/{worker_id}/enable")
def enable(worker_id: WorkerId, who: auth.Admin, services: Here) -> models.Worker:
    return _set(services, worker_id, AdminState.ENABLED)


@router.post("/{worker_id}/drain")
def drain(worker_id: WorkerId, who: auth.Admin, services: Here) -> models.Worker:
    """It finishes what it holds and takes nothing new."""
    return _set(services, worker_id, AdminState.DRAINING)


@router.post("/{worker_id}/keys", status_code=201, responses=documented(409))
def add_key(
    worker_id: WorkerId,
    who: auth.Admin,
    services: Here,
    once: idempotency.Once,
    body: KeyRequest | None = None,
) -> WorkerKey:
    """Another key, to replace one without a gap."""
    grant = access.grant_of(body.kinds) if body and body.kinds is not None else None

    def add(tx: Tx) -> WorkerKey:
        _view(services, tx, worker_id)
        made = access.add_worker_key(tx, worker_id, grant)
        return WorkerKey(worker_id=worker_id, key=made.text, prefix=made.prefix)

    return once.run(services, who, body, WorkerKey, add)


@router.delete("/{worker_id}/keys/{prefix}", status_code=204)
def revoke_key(
    worker_id: WorkerId,
    prefix: Annotated[str, Path(max_length=20)],
    who: auth.Admin,
    services: Here,
) -> None:
    """The key stops working at once."""
    services.db.run(lambda tx: access.revoke_worker_key(tx, worker_id, prefix))
    services.known_workers.forget(worker_id)


def _set(services: Here, worker_id: str, state: AdminState) -> models.Worker:
    def change(tx: Tx) -> models.Worker:
        access.set_worker_state(tx, worker_id, state)
        tx.wake_after_commit(services.bell.ring)
        return _view(services, tx, worker_id)

    shown = services.db.run(change)
    services.known_workers.forget(worker_id)
    return shown


def _view(services: Here, tx: Tx, worker_id: str) -> models.Worker:
    worker = fleet.get(tx, worker_id)
    if worker is None:
        raise errors.NotFound(f"no worker {worker_id}")
    busy = read_store.list_jobs(tx, JobFilter(state="processing", worker_id=worker_id), limit=1000)
    return views.worker(
        services,
        worker,
        read_store.now(tx),
        keys=accounts.worker_keys(tx),
        holding=[job.id for job in busy],
    )
