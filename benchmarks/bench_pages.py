"""The pages in a real Chromium: what is loaded, a library of 10,000 items, news from 50 jobs.

Each figure is one line, `ratio NAME VALUE goal <=…`.

pages_first_js_kb       script of the first page, gzipped, without the player
pages_paint_s           largest contentful paint of a library with 10,000 items
pages_longest_task_ms   the longest the page did not answer while all of it was scrolled through
pages_interaction_ms    from a key in the search box to the next frame, p95
pages_news_p95_ms       from the commit of a job's progress to the words on the page
"""

from __future__ import annotations

import gzip
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import Page

from chromium import launched
from pages.conftest import sign_in_link, use_link
from running import Running
from rushes.db.database import Tx
from rushes.media import library as media_library
from rushes.media.media import NewMedia, ProcessingOptions
from rushes.protocol import Claim
from rushes.web import pages
from web import library

ITEMS = 10_000
JOBS = 50
ROUNDS = 40
WATCH = """
    window.tasks = [];
    new PerformanceObserver((seen) => tasks.push(...seen.getEntries().map((each) => each.duration)))
        .observe({ type: "longtask", buffered: true });
    window.paint = 0;
    new PerformanceObserver((seen) => { paint = seen.getEntries().at(-1).startTime; })
        .observe({ type: "largest-contentful-paint", buffered: true });
"""
# Each card tells when it began to say another percentage.
READ = """() => {
    window.seen = {};
    const look = () => {
        for (const found of document.body.innerText.matchAll(/News (\\d+)[^]*?(\\d+) %/g)) {
            seen[`${found[1]} ${found[2]}`] ??= Date.now();
        }
    };
    new MutationObserver(look).observe(document.body, {
        subtree: true, childList: true, characterData: true,
    });
}"""


def main() -> None:
    print(f"ratio pages_first_js_kb {_first_script() / 1000:.1f} goal <=120")
    with launched() as browser, tempfile.TemporaryDirectory() as folder:
        with Running(data_dir=Path(folder) / "many") as server:
            _fill(server, ITEMS)
            page = _open(browser.new_page(), server)
            _scrolling(page)
            _typing(page)
            page.close()
        with Running(data_dir=Path(folder) / "busy") as server:
            claims = _start(server)
            page = browser.new_page(viewport={"width": 1600, "height": 4000})
            _news(_open(page, server), server, claims)


def _first_script() -> int:
    html = (pages.BUILT / "index.html").read_text()
    names = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', html)
    return sum(len(gzip.compress((pages.BUILT / name).read_bytes(), 9)) for name in names)


def _fill(server: Running, count: int) -> None:
    with server.client() as admin:
        owner = library.user_id(admin)
    quiet = ProcessingOptions(transcode=False, transcribe=False)

    def add(tx: Tx) -> None:
        for number in range(500):
            new = NewMedia(user_id=owner, title=f"Recording {number}", kind="video", options=quiet)
            media_library.add(tx, server.rushes.queue, new)

    for _ in range(count // 500):
        server.rushes.db.run(add)


def _open(page: Page, server: Running) -> Page:
    page.add_init_script("localStorage.setItem('rushes.welcomed', '1')")
    use_link(page, server, sign_in_link(server))
    page.add_init_script(WATCH)
    page.goto(server.url)
    page.locator('main a[href^="/watch/"]').nth(3).wait_for()
    return page


def _scrolling(page: Page) -> None:
    print(f"figure pages_paint_s {page.evaluate('paint') / 1000:.2f}")
    page.evaluate("tasks.length = 0")
    began = time.monotonic()
    last = -1
    while (height := page.evaluate("document.documentElement.scrollHeight")) != last:
        last = height
        for _ in range(20):
            page.mouse.wheel(0, 3000)
            page.evaluate("new Promise(requestAnimationFrame)")
        page.wait_for_timeout(300)
        if time.monotonic() - began > 120:
            break
    longest = max(page.evaluate("tasks"), default=0.0)
    cards = page.evaluate("document.querySelectorAll('main a[href^=\"/watch/\"]').length")
    print(f"figure pages_scrolled_px {last} with {cards} links to items on the page")
    print(f"ratio pages_longest_task_ms {longest:.0f} goal <=200")


def _typing(page: Page) -> None:
    page.keyboard.press("Home")
    page.locator("input[type=search]").first.focus()
    waits = []
    for letter in "recording 499":
        waits.append(
            page.evaluate(
                """(letter) => new Promise((done) => {
                    const from = performance.now();
                    document.execCommand("insertText", false, letter);
                    requestAnimationFrame(() => setTimeout(() => done(performance.now() - from)));
                })""",
                letter,
            )
        )
        page.wait_for_timeout(80)
    print(f"ratio pages_interaction_ms {_p95(waits):.0f} goal <=200")


def _start(server: Running) -> list[Claim]:
    with server.client() as admin:
        owner = library.user_id(admin)
    for number in range(JOBS):
        media_id = library.add(server, owner, f"News {number}")
        del media_id
    me = library.worker(server, "transcode")
    return [each.claim for each in server.rushes.dispatch.claim(me, JOBS)]


def _news(page: Page, server: Running, claims: list[Claim]) -> None:
    titles = _titles(server, claims)
    page.evaluate(READ)
    told: dict[str, float] = {}
    for percent in range(1, ROUNDS + 1):
        for claim in claims:
            # Half a percent more, so that rounding down shows this one.
            library.tell(server, claim, (percent + 0.5) / 100, {"renditions": []})
            told[f"{titles[claim.job_id]} {percent}"] = time.time() * 1000
        page.wait_for_timeout(1000)
    seen: dict[str, float] = page.evaluate("seen")
    waits = [seen[key] - told[key] for key in told if key in seen]
    print(
        f"figure pages_news_seen {len(waits)} of {len(told)}, p50 {statistics.median(waits):.0f} ms"
    )
    print(f"ratio pages_news_p95_ms {_p95(waits):.0f} goal <=200")


def _titles(server: Running, claims: list[Claim]) -> dict[str, str]:
    with server.client() as admin:
        found: dict[str, str] = {}
        for claim in claims:
            job: dict[str, Any] = admin.get(f"/jobs/{claim.job_id}").json()
            title = admin.get(f"/media/{job['media_id']}").json()["title"]
            found[claim.job_id] = title.removeprefix("News ")
    return found


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)] if values else float("inf")


if __name__ == "__main__":
    main()
