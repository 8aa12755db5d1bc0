"""The dashboard and the alerts name what `/metrics` really has, and add it up rightly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "rushes.json"
# That the guide is what is exported, `web/test_metrics.py` knows.
GUIDE = (ROOT / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(rushes_\w+)` \| (\w+) \|([^|]*)\|", re.M)
OF_DATABASE = GUIDE.split("## Of the database")[1].split("## ")[0]
# Those of Prometheus itself.
ITS_LABELS = {"instance", "job", "le"}
ITS_METRICS = {"up", "process_resident_memory_bytes"}


def metrics() -> dict[str, set[str]]:
    """The labels of each, by all names that it has in an expression."""
    found = {}
    for name, kind, labels in ROW.findall(GUIDE):
        known = set(re.findall(r"`(\w+)`", labels)) | ITS_LABELS
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found.update({name + suffix: known for suffix in suffixes})
    return {**found, **dict.fromkeys(ITS_METRICS, ITS_LABELS)}


def alerts() -> list[tuple[str, str, str]]:
    """Of each its name, its expression and its words."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return [
        (each["alert"], each["expr"], " ".join(each["annotations"].values()))
        for each in group["rules"]
    ]


def panels() -> Iterator[tuple[str, str, str]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


EVERYTHING = [*alerts(), *panels()]
SELECTOR = re.compile(r"\b((?:rushes|process)_\w+|up)\b(?:\{([^}]*)\})?")


@pytest.mark.parametrize(("title", "expression", "words"), EVERYTHING)
def test_every_expression_names_metrics_and_labels_that_there_are(
    title: str, expression: str, words: str
) -> None:
    known = metrics()
    used = SELECTOR.findall(expression)
    assert used
    for name, matchers in used:
        assert name in known, f"{title}: no metric {name}"
        named = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", matchers))
        assert named <= known[name], f"{title}: {name} has no {named - known[name]}"
    of_all = set.union(*(known[name] for name, _ in used))
    grouped = re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression)
    shown = re.findall(r"\$labels\.(\w+)", words) + re.findall(r"\{\{(\w+)\}\}", words)
    assert {each.strip() for part in grouped for each in part.split(",")} <= of_all, title
    kept = {each.strip() for part in grouped for each in part.split(",")} | ITS_LABELS
    assert set(shown) <= kept, title


@pytest.mark.parametrize(("title", "expression", "words"), EVERYTHING)
def test_what_every_server_says_alike_is_never_added_up(
    title: str, expression: str, words: str
) -> None:
    shared = {name for name, _, _ in ROW.findall(OF_DATABASE)}
    for function, inside in re.findall(
        r"\b(sum|max|min)\b[^(]*(?:\([^)]*\))?\s*\(+([^()]*)", expression
    ):
        name = SELECTOR.search(inside)
        if name and name[1] in shared:
            assert function == "max", f"{title}: {function} of {name[1]}"


def test_every_trouble_that_can_be_told_has_its_alert() -> None:
    text = RULES.read_text()
    for name in (
        "rushes_queue_ready_age_seconds",
        "rushes_workers_online",
        "rushes_jobs_finished_total",
        "rushes_lease_losses_total",
        "rushes_redis_breaker_state",
        "rushes_storage_errors_total",
        "rushes_database_retries_total",
        "rushes_storage_free_bytes",
    ):
        assert name in text


promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")


@promtool
def test_promtool_takes_the_alerts_and_they_fire_when_they_should() -> None:
    for arguments in (["check", "rules", RULES.name], ["test", "rules", "rules_test.yml"]):
        tried = subprocess.run(
            ["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True
        )
        assert tried.returncode == 0, tried.stdout + tried.stderr
