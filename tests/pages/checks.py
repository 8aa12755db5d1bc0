"""What holds for every page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def barriers(page: Page) -> list[str]:
    """What axe finds that would keep somebody out."""
    if not AXE.exists():
        pytest.skip("axe is not installed: npm ci in ui/")
    page.evaluate(AXE.read_text())
    found = json.loads(page.evaluate("axe.run().then((found) => JSON.stringify(found.violations))"))
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def is_too_wide(page: Page) -> bool:
    """Whether a phone would have to be moved sideways."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
    return wide
