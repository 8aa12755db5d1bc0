"""The table of verbs: transports, routes, documents are made of it, and one more is three edits."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import APIRouter
from msgspec import Meta

import running as servers
from running import Running
from rushes import errors, ids, protocol, serving, verbs
from rushes.dispatch import Dispatch
from rushes.in_process import Local
from rushes.protocol import (
    VERBS,
    Claim,
    Completion,
    Coordinator,
    Hello,
    Part,
    Progress,
    Standing,
)
from rushes.verbs import verb
from rushes.web.api import worker as routes
from rushes.web.openapi import document
from rushes.web.server import bare_app, create_app
from rushes.worker.remote import Remote
from worker.harness import Harness

GUIDE = Path(__file__).parents[2] / "docs" / "worker-protocol.md"
CLAIM = Claim("job_1", "clm_1")


@cache
def api_document() -> dict[str, Any]:
    return document(bare_app())


@pytest.mark.parametrize("row", VERBS.values(), ids=lambda row: row.name)
def test_every_verb_is_served(row: verbs.Verb) -> None:
    served = inspect.signature(getattr(Dispatch, row.name, None) or getattr(Local, row.name))
    assert served is not None
    operation = api_document()["paths"][f"/api/v1/worker{row.path}"][row.method.lower()]
    assert operation["summary"] == row.summary


def test_the_guide_has_the_table_as_it_is() -> None:
    text = GUIDE.read_text()
    stale = "run: python -m rushes.protocol docs/worker-protocol.md"
    assert text == verbs.with_reference(text, VERBS), stale


def test_names_in_the_document_are_not_places_in_the_source() -> None:
    assert [name for name in api_document()["components"]["schemas"] if "__" in name] == []


def test_what_is_told_is_what_is_understood() -> None:
    parts = [Part(kind="span", args={"claim": {"job_id": "no"}}, needs=["gpu"])]
    said: list[tuple[verbs.Verb, dict[str, Any]]] = [
        (VERBS["release"], {"claim": CLAIM}),
        (VERBS["progress"], {"report": Progress(claim=CLAIM, progress=0.5, detail={"speed": 2})}),
        (
            VERBS["heartbeat"],
            {
                "claims": [CLAIM],
                "stalled": [],
                "answered": ["req_1"],
                "standing": Standing(declined={"demo": "full"}, notes=["late"]),
            },
        ),
        (VERBS["divide"], {"claim": CLAIM, "parts": parts, "checkpoint": {"claim": "mine"}}),
        (VERBS["hello"], {"hello": Hello(kinds=["demo"], capabilities=["cpu"], boot_id="b")}),
    ]
    for row, arguments in said:
        assert row.understood(row.told(arguments)) == arguments, row.name


# One more


class Weighing(Coordinator):
    @verb("POST", "/weigh", "Weigh a job", reply="weight")
    def weigh(self, claim: Claim, unit: Annotated[str, Meta(max_length=5)] = "gram") -> int:
        """How heavy the job is."""

    @verb("POST", "/weigh-report", "Weigh a report", reply="weight")
    def weigh_report(self, report: Progress) -> int:
        """How heavy a report is, whose claim is in it."""

    @verb("POST", "/weigh-nothing", "Weigh nothing", reply="weight")
    def weigh_nothing(self, unit: str = "gram") -> int:
        """Nobody could say whose that is."""


def weigh(dispatch: Dispatch, claim: Claim, unit: str = "gram") -> int:
    return {"gram": 12, "stone": 0}[unit]


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    """A server whose protocol has one verb more: in the table, and in what serves it."""
    rows = verbs.of(Weighing)
    for name in rows:
        monkeypatch.setattr(Coordinator, name, getattr(Weighing, name), raising=False)
        monkeypatch.setattr(Dispatch, name, lambda self, **given: 7, raising=False)
    monkeypatch.setattr(Dispatch, "weigh", weigh)
    router = APIRouter(prefix="/api/v1/worker")
    routes.add_routes(router, rows.values())

    def with_weight(services: Any) -> Any:
        app = create_app(services)
        app.include_router(router)
        return app

    monkeypatch.setattr(serving, "create_app", with_weight)
    with Running(data_dir=tmp_path) as running:
        yield running
    # Not for others.
    servers._idle.clear()


def test_a_new_verb_needs_a_row_and_what_serves_it(weighed: Running) -> None:
    rushes = weighed.rushes
    near: Any = Local(
        rushes.dispatch, rushes.db, rushes.bell, worker_id=ids.new("wrk"), worker_name="near"
    )
    far: Any = Remote(weighed.url, weighed.worker_key("far"))
    thief: Any = Remote(weighed.url, weighed.worker_key("thief"))
    harness = Harness(weighed, far, lambda name: far)
    claim = harness.claimed()
    assert near.weigh(claim) == far.weigh(claim) == 12
    assert near.weigh(claim, "stone") == far.weigh(claim, unit="stone") == 0
    with pytest.raises(errors.Invalid):
        far.weigh(claim, "pounds")
    with pytest.raises(errors.ClaimLost):
        thief.weigh(claim)
    assert far.weigh_report(Progress(claim=claim)) == 7
    with pytest.raises(errors.ClaimLost):
        thief.weigh_report(Progress(claim=claim))
    with pytest.raises(NotImplementedError):
        near.weigh_nothing()
    with pytest.raises(ValueError, match="longer"):
        near.weigh(claim, "gram", "more")
    assert "| `POST weigh` | claim, `unit` | `weight` |" in verbs.reference(verbs.of(Weighing))
    for each in (far, thief):
        each.close()


def test_what_the_protocol_says_if_nothing_else_holds_for_both_transports(harness: Harness) -> None:
    claim = harness.claimed()
    assert harness.worker.fail(claim) == "queued"
    assert (harness.job(claim).error_code, harness.job(claim).attempt) == ("failed", 1)


def test_a_result_that_is_refused_is_told_alike_by_both_transports(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Dispatch, completion: Completion) -> None:
        raise errors.BadField("result", "cannot be kept")

    claim = harness.claimed()
    monkeypatch.setattr(Dispatch, "complete", refuse)
    made = Completion(claim, None, {})
    assert harness.worker.complete_all([made]) == {claim.job_id: "invalid"}
    monkeypatch.undo()
    harness.worker.release(claim)


def test_a_server_that_answers_nonsense_is_taken_for_one_that_is_away(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Remote(server.url, server.worker_key())
    monkeypatch.setitem(VERBS, "claim", verbs.of(Odd)["claim"])
    with pytest.raises(errors.Unavailable):
        worker.claim(1)
    worker.close()


class Odd(Coordinator):
    @verb("POST", "/claim", "Claim jobs", reply="works")
    def claim(
        self,
        limit: int = 1,
        wait_seconds: float = 0,
        request_id: str | None = None,
        boot_id: str | None = None,
        kinds: Sequence[str] | None = None,
        terms_etag: str | None = None,
        answered: Sequence[str] = (),
    ) -> list[protocol.Assignment]:
        """As some other server would have it."""
