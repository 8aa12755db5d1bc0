"""Pages for people say only what there is: links, settings, routes, and the program's own words."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from rushes import cli, settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
# Those that name much of what is elsewhere, and were written by hand.
NAMING = [DOCS / "coming-from.md", DOCS / "troubleshooting.md"]
VARIABLES = {settings.variable(name) for name in settings.FIELDS}
ROUTE = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/api/v1/[^\s`|)]+|/health|/api/health)")
COMMAND = re.compile(
    r"^ *(?:[A-Z_]+=\S+ )*(?:(?:\.venv|rushes)/bin/)?rushes ([a-z][^\n]*)$", re.MULTILINE
)
# Shorter pieces of text are everywhere.
SHORTEST = 5


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.name)
def test_settings_and_routes_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"\bRUSHES_[A-Z_]*[A-Z]\b", text)) <= VARIABLES
    paths = json.loads((DOCS / "openapi.json").read_text())["paths"]
    known = {(verb.upper(), plain(path)) for path, verbs in paths.items() for verb in verbs}
    assert {(verb, plain(path)) for verb, path in ROUTE.findall(text)} <= known


def typed(page: Path) -> list[list[str]]:
    """What stands behind `rushes` in lines that somebody is to run."""
    fences = re.findall(r"^ *```\w*\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [found[1] for text in fences for found in COMMAND.finditer(text)]
    # What becomes of its output is the shell's.
    return [shlex.split(re.split(r" [|>] ?", line)[0], comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_typed(page: Path) -> None:
    """Down to the last option; nothing is run."""
    for words in typed(page):
        cli.app().parse_args(words, exit_on_error=False, print_error=False)


def test_the_commands_of_a_page_are_found() -> None:
    assert ["search", "lighthouse"] in typed(DOCS / "getting-started.md")
    assert ["workers", "invite"] in typed(ROOT / "README.md")


def test_every_page_is_in_the_list_of_them() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "README.md").read_text()))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_the_readme_is_short() -> None:
    assert 400 <= len((ROOT / "README.md").read_text().split()) <= 600


def plain(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def quoted() -> list[str]:
    """On lines of their own, or first in a row of a table."""
    text = (DOCS / "troubleshooting.md").read_text()
    return re.findall(r"^(?:> |\| `)([^`|\n]+ [^`|\n]+)", text, re.MULTILINE)


@pytest.mark.parametrize("sentence", quoted())
def test_the_program_says_what_troubleshooting_quotes(sentence: str) -> None:
    """`…` is what the page leaves out. Single words between what the sources have are values."""
    for part in sentence.split("…"):
        if not any(part.strip() in piece for piece in pieces()):
            for unsaid in beside_pieces(part):
                assert " " not in unsaid.strip(), unsaid


def beside_pieces(text: str) -> list[str]:
    said = bytearray(len(text))
    for piece in pieces():
        at = text.find(piece)
        while at >= 0:
            said[at : at + len(piece)] = b"\x01" * len(piece)
            at = text.find(piece, at + 1)
    left = ("\n" if done else char for char, done in zip(text, said, strict=True))
    return "".join(left).split("\n")


@cache
def pieces() -> frozenset[str]:
    """What strings in the sources have between their values."""
    found = set()
    for path in (ROOT / "src/rushes").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.split(r"%[sd]", node.value))
    return frozenset(each for each in found if len(each) >= SHORTEST)
