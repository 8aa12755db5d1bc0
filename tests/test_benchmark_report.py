from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import log, plots, report

ROOT = Path(__file__).parents[1]
QUEUE = """began 2026-01-02T03:04:05Z
03:04:06 round 1: Rushes (PostgreSQL)
PostgreSQL 15.1 from /usr/lib; 2 cores
                     drain /s
Rushes (PostgreSQL)    14,966
figure queue_claim_ms_pg 1000=0.50 1000000=0.55
ratio queue_drain_pg_vs_pgqueuer 1.25 goal >=1.0
ratio queue_claim_1m_vs_1k_pg 2.50 goal <=2.0
ratio queue_drain_pinned_vs_free_pgqueuer 0.40 goal none
ended 0 after 9 s
"""
ENCODING = """began 2026-01-03T03:04:05Z
figure transcode_job_s 61.0 against 60.0
ratio transcode_job 1.017 goal <=1.05
figure transcode_cpu_s_per_minute_whole_ladder 120.0 against 118.5
figure transcode_cpu_s_per_minute_360p 30.0 against 29.0
ended 1 after 9 s
"""


def logs(**texts: str) -> dict[str, report.Log]:
    return {name: report.parse(text) for name, text in texts.items()}


def test_a_log_gives_its_ratios_and_its_figures() -> None:
    found = report.parse(QUEUE)
    assert (found.began, found.exit_code) == ("2026-01-02T03:04:05Z", 0)
    assert [each.is_met for each in found.ratios.values()] == [True, False, None]
    assert found.figures == {"queue_claim_ms_pg": "1000=0.50 1000000=0.55"}


@pytest.mark.parametrize(
    ("value", "goal", "met"),
    [
        ("1.0", ">=1.0", True),
        ("0.99", ">=1.0", False),
        ("2.0", "<=2.0", True),
        ("2.01", "<=2.0", False),
        ("-0.26", "<=1.0", True),
    ],
)
def test_a_goal_is_met_at_its_very_value(value: str, goal: str, met: bool) -> None:
    found = report.parse(f"ratio name {value} goal {goal}").ratios["name"]
    assert found.is_met is met


def test_the_last_line_of_a_name_counts() -> None:
    found = report.parse("ratio name 3 goal <=2\nratio name 1 goal <=2\n")
    assert found.ratios["name"].value == "1"


def test_the_page_has_values_goals_and_what_they_were_made_of() -> None:
    page = report.page(logs(queue=QUEUE, transcode=ENCODING), [])
    assert "| jobs a second, PostgreSQL, against PGQueuer | 1.25 | ≥ 1.0 | met |  |" in page
    assert "| **missed** |" in page
    assert "1.017 | ≤ 1.05 | met | 61.0 against 60.0 |" in page
    assert "4 goals and ratios, 1 missed: `queue_claim_1m_vs_1k_pg`." in page
    assert "`make bench-queue`, 2026-01-02." in page


def test_what_a_benchmark_prints_as_a_table_is_shown_without_notes() -> None:
    page = report.page(logs(queue=QUEUE), [])
    assert "Rushes (PostgreSQL)    14,966" in page
    assert "round 1" not in page


def test_what_failed_was_cut_off_or_never_ran_is_named() -> None:
    cut_off = QUEUE.rpartition("ended")[0]
    page = report.page(
        logs(transcode=ENCODING, queue=cut_off, sse="began x\nended 0 after 1 s"), []
    )
    assert "- Encoding: it failed with exit code 1; `make bench-transcode`" in page
    assert "- The queue: the run did not end" in page
    assert "- Live events: it printed no ratio" in page
    assert "- Pages: there is no log; `make bench-pages`" in page


def test_a_part_that_was_run_alone_is_no_whole_run() -> None:
    part = "began 2026-01-04T00:00:00Z\nonly --claims\nratio a 2 goal <=1\nended 0 after 1 s\n"
    alone = report.page(logs(queue=part), [])
    assert "- The queue: only --claims was run; `make bench-queue` measures all of it." in alone
    added = report.page(logs(queue=QUEUE + part), [])
    assert "only --claims" not in added
    assert "| `a` | 2 | ≤ 1 | **missed** |" in added


def test_a_plot_without_figures_is_said_to_be_missing() -> None:
    page = report.page(logs(queue=QUEUE), [])
    assert "![Claim latency against backlog](images/bench-claims.svg)" in page
    assert "(Words per CPU-second: no log has its figures.)" in page


def test_plots_hold_all_that_was_measured() -> None:
    figures = report.parse(QUEUE + ENCODING).figures
    claims, encoding = report.claims_plot(figures), report.encoding_plot(figures)
    assert claims is not None
    assert encoding is not None
    assert [claims.count("<circle"), encoding.count("<rect")] == [2, 1 + 2 + 4]
    assert all(each in encoding for each in ("whole ladder", "360p", ">118<", ">29<"))
    assert report.speech_plot(figures) is None


def test_a_bar_is_as_high_as_its_value() -> None:
    svg = ElementTree.fromstring(plots.bars("a < b", "s", {"one": {"us": 50.0, "them": 100.0}}))
    heights = [
        float(each.attrib["height"]) for each in svg.iter() if "mark" in each.get("class", "")
    ]
    us, them = heights[-2:]
    assert them == pytest.approx(us * 2, abs=0.2)
    assert "prefers-color-scheme: dark" in plots.STYLE


@pytest.mark.parametrize("greatest", [0.0, 0.003, 0.55, 1, 99, 118.5, 1_000_000])
def test_an_axis_reaches_above_the_greatest_value_in_few_steps(greatest: float) -> None:
    scale = plots.Scale(greatest)
    assert scale.top >= greatest
    assert 1 <= len(scale.ticks()) <= 6


def test_a_run_is_kept_with_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "LOGS", tmp_path / "bench")
    command = [sys.executable, "-c", "print('ratio a 1 goal <=2'); raise SystemExit(3)"]
    monkeypatch.delenv("OPTIONS", raising=False)
    assert log.main("some", command) == 3
    found = report.parse((tmp_path / "bench" / "some.log").read_text())
    assert found.began
    assert found.exit_code == 3
    assert found.ratios["a"].is_met
    assert "ratio a 1 goal <=2" in capsys.readouterr().out
    monkeypatch.setenv("OPTIONS", "--quick 'so much'")
    log.main("some", [sys.executable, "-c", "import sys; print('figure given', *sys.argv[1:])"])
    both = report.parse((tmp_path / "bench" / "some.log").read_text())
    assert (both.parts, both.is_whole) == (["--quick 'so much'"], True)
    assert both.figures["given"] == "--quick so much"
    assert both.ratios["a"].is_met


def test_every_benchmark_of_make_bench_is_in_the_page() -> None:
    listed = re.search(r"^BENCHES := (.+)$", (ROOT / "Makefile").read_text(), re.M)
    assert listed is not None
    assert listed[1].split() == [bench.name for bench in report.BENCHES]


def test_the_committed_page_shows_its_plots() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    shown = re.findall(r"\]\((images/\S+\.svg)\)", page)
    assert shown
    for name in shown:
        ElementTree.parse(ROOT / "docs" / name)
