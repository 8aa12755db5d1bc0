"""The queue's page: every state, live, filtered, explained, and acted upon."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from pages import checks
from pages.conftest import Visit
from running import Process, Running
from rushes import kinds
from rushes.jobs.terms import Claimant
from rushes.kinds import Kind
from rushes.protocol import Claim
from web import library

MARKUP = "<img src=x onerror=\"document.title='broken'\">"
WAV = b"RIFF" + (36).to_bytes(4, "little") + b"WAVEfmt " + bytes(600)


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Queue").locator(".row")


def row(page: Page, job_id: str) -> Locator:
    return rows(page).filter(has=page.locator(f"[data-job='{job_id}']"))


def tab(page: Page, name: str) -> Locator:
    states = page.get_by_role("navigation", name="Jobs by state")
    return states.get_by_role("link", name=re.compile(f"^{name} "))


def fail(
    server: Running, kind: str, code: str, message: str, error_class: str = "permanent"
) -> str:
    held = library.claim(server, kind)
    server.rushes.dispatch.fail(held, error_class, code, message)
    return held.job_id


def one_of_each(server: Running, owner: str) -> dict[str, str]:
    """By state: a job."""
    jobs = {}
    for kind, state in (
        ("demo-done", "completed"),
        ("demo-bad", "failed"),
        ("demo-busy", "processing"),
    ):
        jobs[state] = library.enqueue(server, owner, kind)
    library.finish(server, library.claim(server, "demo-done"))
    fail(server, "demo-bad", "corrupt", f"cannot read {MARKUP}")
    held = library.claim(server, "demo-busy")
    library.tell(server, held, 0.4, {"speed": 2.5, "eta_seconds": 90})
    jobs["queued"] = library.enqueue(server, owner)
    jobs["blocked"] = library.enqueue(server, owner, parent_id=jobs["queued"])
    jobs["canceled"] = library.enqueue(server, owner, "demo-off")
    with server.client() as admin:
        admin.post(f"/jobs/{jobs['canceled']}/cancel")
    return jobs


def test_every_job_is_there_counted_filtered_and_live(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    jobs = one_of_each(server, owner)
    library.enqueue(server, owner, "webhook")
    page = visit(server, "/queue")
    expect(rows(page)).to_have_count(6)
    for name in ("Running", "Queued", "Waiting for another job", "Failed", "Done", "Canceled"):
        expect(tab(page, name)).to_have_text(re.compile(r"1$"))
    expect(row(page, jobs["processing"])).to_contain_text("40 % · 2.5× · 2 min left")
    expect(row(page, jobs["failed"])).to_contain_text(MARKUP)

    page.get_by_label("Show housekeeping").check()
    expect(rows(page)).to_have_count(7)
    page.get_by_label("Show housekeeping").uncheck()
    tab(page, "Failed").click()
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(f"{server.url}/queue?state=failed")
    page.go_back()
    page.get_by_label("Kind").select_option("demo-busy")
    expect(rows(page)).to_have_count(1)
    expect(row(page, jobs["processing"])).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()

    media_id = library.add(server, owner, title=f"Homecoming {MARKUP}")
    expect(rows(page)).to_have_count(8)
    expect(rows(page).nth(1)).to_contain_text(f"Homecoming {MARKUP}")
    page.get_by_label("Search jobs").fill("homecoming")
    expect(rows(page)).to_have_count(2)
    page.get_by_label("Search jobs").fill("no such thing")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()
    page.get_by_role("button", name="Clear filters").last.click()
    expect(page).to_have_url(f"{server.url}/queue")
    with server.client() as admin:
        admin.patch(f"/media/{media_id}", json={"title": "Departure"})
    expect(rows(page).nth(1)).to_contain_text("Departure")
    assert page.title() == "Queue · Rushes"
    assert checks.barriers(page) == []


def test_what_runs_is_on_the_screen_whatever_waits(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    first = library.enqueue(server, owner, "demo-old")
    second = library.enqueue(server, owner, "demo-next")
    for _ in range(60):
        library.enqueue(server, owner, "demo-waiting")
    held = library.claim(server, "demo-old")
    page = visit(server, "/queue")
    expect(rows(page).first.locator(f"[data-job='{first}']")).to_be_visible()
    # They come and go as they begin and end, and nothing is listed twice.
    library.claim(server, "demo-next")
    expect(rows(page).first.locator(f"[data-job='{second}']")).to_be_visible()
    library.finish(server, held)
    expect(rows(page).nth(1)).to_contain_text("demo-waiting")
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(62)
    expect(row(page, first)).to_have_count(1)


def test_a_job_is_canceled_undone_and_seen_by_another_window(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        job_id = library.enqueue(server, library.user_id(admin))
    page = visit(server, "/queue")
    other = visit(server, "/queue", context=page.context, link="")
    page.bring_to_front()
    row(page, job_id).get_by_role("button", name="Cancel").dblclick()
    expect(row(page, job_id)).to_contain_text("Canceled")
    expect(row(other, job_id)).to_contain_text("Canceled")
    expect(tab(other, "Canceled")).to_have_text(re.compile(r"1$"))
    expect(rows(other)).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(rows(other)).to_have_count(2)
    expect(row(other, job_id)).to_contain_text("Queued again")
    expect(tab(other, "Queued")).to_have_text(re.compile(r"1$"))

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("menuitem", name="Pause everything").click()
    banner = "The queue is paused."
    expect(page.get_by_text(banner)).to_be_visible()
    other.evaluate("dispatchEvent(new Event('focus'))")
    expect(other.get_by_text(banner)).to_be_visible()
    other.bring_to_front()
    other.get_by_role("button", name="Resume").click()
    expect(other.get_by_text(banner)).not_to_be_visible()
    page.bring_to_front()
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_text(banner)).not_to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("menuitem", name="Pause: Encode").click()
    expect(page.get_by_text("Paused: Encode.")).to_be_visible()


def test_a_job_is_looked_at_closely_while_it_runs(server: Running, visit: Visit) -> None:
    dispatch = server.rushes.dispatch
    with server.client() as admin:
        owner = library.user_id(admin)
    job_id = library.enqueue(server, owner, args={"note": MARKUP})
    page = visit(server, "/queue")
    page.get_by_role("link", name="Details of demo").press("Enter")
    drawer = page.get_by_role("dialog", name="demo")
    expect(page).to_have_url(f"{server.url}/queue/{job_id}")
    expect(drawer).to_contain_text("No worker is online that can do demo.")
    expect(drawer).to_contain_text("It is number 1 in line.")
    expect(drawer).to_contain_text("No worker has taken it yet.")

    me = library.worker(server, "demo")
    [first] = dispatch.claim(me, 1)
    expect(drawer).to_contain_text("test is working on it.")
    dispatch.fail(first.claim, "transient", "hiccup", f"it stumbled {MARKUP}")
    expect(drawer).to_contain_text(f"it stumbled {MARKUP}")
    expect(drawer.get_by_text("Attempt 1", exact=True)).to_be_visible()
    claim = taken_at_once(server, me, job_id)
    expect(drawer.get_by_text("Attempt 2", exact=True)).to_be_visible()
    expect(
        drawer.get_by_text(re.compile(r"Its lease runs for another \d+ (s|min)"))
    ).to_be_visible()
    shown = {"name": "720p", "status": "in_progress", "segments_total": 8, "segments_completed": 2}
    detail = {"renditions": [{**shown, "progress": 0.25}], "speed": 3.0, "eta_seconds": 20}
    library.tell(server, claim, 0.3, detail)
    expect(drawer).to_contain_text("30 % · 3.0× · 20 s left")
    expect(drawer).to_contain_text("2 of 8 segments · 25 %")

    log = drawer.get_by_role("log")
    dispatch.log(me.id, claim, ["first line"])
    expect(log).to_contain_text("first line")
    dispatch.log(me.id, claim, [f"second {MARKUP}"])
    expect(log).to_contain_text(f"second {MARKUP}")
    drawer.get_by_text("Arguments").click()
    expect(drawer).to_contain_text('"note": "<img src=x')
    assert checks.barriers(page) == []

    drawer.get_by_role("button", name="Cancel job").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(drawer.get_by_role("button", name="Stopping…")).to_be_disabled()
    dispatch.fail(claim, "transient", "canceled", "stopped")
    expect(drawer.get_by_text("Canceled", exact=True).first).to_be_visible()
    drawer.get_by_role("button", name="Retry").click()
    expect(page).not_to_have_url(f"{server.url}/queue/{job_id}")
    expect(drawer).to_contain_text("Queued")
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()
    expect(page).to_have_url(f"{server.url}/queue")
    assert page.title() == "Queue · Rushes"


def taken_at_once(server: Running, worker: Claimant, job_id: str) -> Claim:
    """As if the pause after a failure were over."""
    server.rushes.db.run(lambda tx: tx.all("UPDATE jobs SET run_at = 0 WHERE id = :id", id=job_id))
    [assignment] = server.rushes.dispatch.claim(worker, 1)
    return assignment.claim


def test_failures_are_retried_together_after_a_count(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    for number in range(3):
        library.enqueue(server, owner)
        fail(server, "demo", "corrupt", f"broken {number}")
    library.enqueue(server, owner)
    fail(server, "demo", "disk_full", "no room")
    waiting = [library.enqueue(server, owner, "other") for _ in range(2)]
    page = visit(server, "/queue")
    page.get_by_text("Failures by reason").click()
    group = page.get_by_role("listitem").filter(has_text="corrupt")
    expect(group).to_contain_text("broken 2")
    group.get_by_role("button", name="Show the jobs with corrupt").click()
    expect(rows(page)).to_have_count(3)
    expect(page).to_have_url(re.compile("state=failed&kind=demo&error=corrupt"))
    page.get_by_role("button", name="Retry all 3 with corrupt").click()
    question = page.get_by_role("dialog", name="Retry 3 jobs?")
    question.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Retry all 3 with corrupt").click()
    question.get_by_role("button", name="Retry 3 jobs").click()
    expect(page.get_by_text("3 jobs queued again.")).to_be_visible()
    expect(tab(page, "Queued")).to_have_text(re.compile(r"3$"))

    page.goto(f"{server.url}/queue?kind=other")
    page.get_by_role("button", name="All matching").click()
    page.get_by_role("menuitem", name="Cancel all matching…").click()
    question = page.get_by_role("dialog", name="Cancel 2 jobs?")
    question.get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_text("2 jobs canceled.")).to_be_visible()
    for job_id in waiting:
        expect(row(page, job_id)).to_contain_text("Canceled")
    with server.client() as admin:
        states = admin.get("/queue/stats").json()["kinds"]
    assert (states["other"]["canceled"], states["demo"]["queued"]) == (2, 3)


def test_what_is_being_read_does_not_move(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    oldest = library.enqueue(server, owner)
    for _ in range(119):
        library.enqueue(server, owner)
    page = visit(server, "/queue")
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(120)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    row(page, oldest).scroll_into_view_if_needed()
    place = row(page, oldest).bounding_box()
    new = library.enqueue(server, owner)
    expect(page.get_by_role("button", name="1 new job")).to_be_visible()
    expect(row(page, new)).to_have_count(0)
    assert row(page, oldest).bounding_box() == place
    page.get_by_role("button", name="1 new job").click()
    expect(row(page, new)).to_be_visible()

    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(rows(page).nth(1).locator("[data-job]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("j")
    third = rows(page).nth(2).locator("[data-job]").get_attribute("data-job")
    expect(page).to_have_url(f"{server.url}/queue/{third}")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(rows(page).nth(2).locator("[data-job]")).to_be_focused()


def test_others_see_only_their_own_jobs(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        theirs = library.enqueue(server, library.user_id(admin))
        made = admin.post("/users", json={"name": "ada"}).json()
    mine = library.enqueue(server, made["id"])
    page = visit(server, "/queue", link=made["signin_url"], phone=True)
    expect(rows(page)).to_have_count(1)
    expect(row(page, mine)).to_be_visible()
    expect(tab(page, "Queued")).to_have_text(re.compile(r"1$"))
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.get_by_role("button", name="Filters").click()
    expect(page.get_by_label("Kind")).to_be_visible()
    expect(page.get_by_label("User")).to_have_count(0)
    library.enqueue(server, made["id"], "second")
    expect(rows(page)).to_have_count(2)
    assert not checks.is_too_wide(page)
    assert checks.barriers(page) == []
    page.goto(f"{server.url}/queue/{theirs}")
    expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
    assert not checks.is_too_wide(page)


def test_kinds_of_ones_own_are_listed_labelled_and_told_of(
    server: Running, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Kind(name="acme.summarize", label="Summary")
    monkeypatch.setitem(kinds._declared, kind.name, kind)
    with server.client() as admin:
        owner = library.user_id(admin)
    page = visit(server, "/queue")
    page.get_by_label("Kind").select_option("Summary")
    expect(page).to_have_url(f"{server.url}/queue?kind={kind.name}")
    page.get_by_role("button", name="Clear filters").first.click()
    library.enqueue(server, owner, "webhook")
    job_id = library.enqueue(server, owner, kind.name)
    expect(row(page, job_id)).to_contain_text("Summary")
    expect(rows(page)).to_have_count(1)
    page.goto(f"{server.url}/settings/webhooks")
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Only what I choose").check()
    expect(page.get_by_label(f"{kind.name}.failed")).to_be_checked()
    page.get_by_label("All of Summary").check()
    expect(page.get_by_label(f"{kind.name}.failed")).to_be_disabled()
    expect(page.get_by_label("purge.failed")).to_have_count(0)


def test_no_page_is_shown_before_the_kinds_are_known(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    library.enqueue(server, owner)
    library.enqueue(server, owner, "webhook")
    page = visit(server, "/queue")
    expect(rows(page)).to_have_count(1)
    page.route("**/api/v1/kinds", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("heading", name="Rushes is not responding")).to_be_visible()
    page.unroute_all()
    with page.expect_request("**/api/v1/jobs?*") as asked:
        page.get_by_role("button", name="Retry").click()
    assert "not_kind=prepare%2Cspan%2Cpurge%2Cwebhook" in asked.value.url
    expect(rows(page)).to_have_count(1)


def test_the_charts_say_in_words_what_they_show(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    for _ in range(3):
        library.enqueue(server, owner)
        library.finish(server, library.claim(server, "demo"))
    page = visit(server, "/queue", dark=True)
    chart = page.get_by_role("img", name="Finished")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart).to_have_accessible_description(re.compile("^3 jobs done in the last 6 hours"))
    library.enqueue(server, owner)
    fail(server, "demo", "corrupt", "broken")
    failures = page.get_by_role("img", name="Failed and canceled")
    expect(failures).to_have_accessible_description("1 failed, 0 canceled in the last 6 hours")
    page.get_by_role("button", name="7 d").click()
    expect(chart).to_have_accessible_description(re.compile("in the last 7 days"))
    assert checks.barriers(page) == []
    page.get_by_role("button", name="Hide charts").click()
    expect(chart).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Show charts")).to_be_visible()


def test_the_page_heals_when_the_server_was_away(
    process: Callable[..., Process], visit: Visit
) -> None:
    server = process(transcode_workers=0, transcription_workers=0)
    page = visit(server, "/queue")
    expect(page.get_by_role("heading", name="The queue is empty")).to_be_visible()
    server.kill()
    expect(page.get_by_text("The connection is lost")).to_be_visible()
    server.start()
    page.evaluate("dispatchEvent(new Event('online'))")
    with server.client() as admin:
        assert admin.post("/media", files={"file": ("Homecoming.wav", WAV)}).status_code == 201
    expect(page.get_by_role("link", name="Details of Encode, Homecoming")).to_be_visible()
    expect(tab(page, "Queued")).to_have_text(re.compile(r"[12]$"))


def test_a_waiting_job_is_done_next_and_given_another_priority(
    server: Running, visit: Visit
) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    first, second = (library.enqueue(server, owner) for _ in range(2))
    page = visit(server, "/queue")
    row(page, second).get_by_role("button", name="Run next").click()
    expect(page.get_by_text("It runs next.")).to_be_visible()
    expect(row(page, second)).to_contain_text("High")
    row(page, first).locator("[data-job]").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Priority").click()
    expect(drawer.get_by_role("menuitemradio", name="Set priority to normal")).to_be_checked()
    drawer.get_by_role("menuitemradio", name="Set priority to low").click()
    expect(row(page, first)).to_contain_text("Low")
    assert checks.barriers(page) == []
    assert [library.claim(server, "demo").job_id for _ in range(2)] == [second, first]
    expect(drawer.get_by_role("button", name="Priority")).to_be_hidden()


def test_who_is_no_admin_is_not_offered_what_only_admins_may(server: Running, visit: Visit) -> None:
    with server.client() as admin:
        made = admin.post("/users", json={"name": "ada"}).json()
    job_id = library.enqueue(server, made["id"])
    page = visit(server, f"/queue/{job_id}", link=made["signin_url"])
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Priority").click()
    expect(drawer.get_by_role("menuitem", name="Run next")).to_be_visible()
    expect(drawer.get_by_role("menuitemradio")).to_have_count(2)
    drawer.get_by_role("menuitem", name="Run next").click()
    expect(drawer.get_by_role("alert")).to_have_count(0)
