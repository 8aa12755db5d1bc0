"""The parts of uvicorn that it promises to nobody, and that we build on."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path

import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rushes.web.http.connection import Connection, HttpServer

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# What is set on objects, and where.
ATTRIBUTES = {
    HttpToolsProtocol: ("loop", "transport", "headers", "url", "cycle"),
    RequestResponseCycle: ("response_started", "response_complete", "more_body"),
}


def advice(missing: list[str]) -> str:
    return (
        f"uvicorn {metadata.version('uvicorn')} has no {', '.join(missing)}: look at"
        " web/http/connection.py before the version in pyproject.toml is raised"
    )


def test_the_methods_that_we_replace_are_there_and_take_the_same() -> None:
    missing = []
    for ours, theirs in ((Connection, HttpToolsProtocol), (HttpServer, uvicorn.Server)):
        for name, method in vars(ours).items():
            if not inspect.isfunction(method) or name.startswith("_"):
                continue
            given = getattr(theirs, name, None)
            if given is None or _names(given) != _names(method):
                missing.append(f"{theirs.__name__}.{name}({', '.join(_names(method))})")
    assert not missing, advice(missing)


def test_the_attributes_that_we_read_are_set() -> None:
    missing = [
        f"{each.__name__}.{name}"
        for each, names in ATTRIBUTES.items()
        for name in names
        if not re.search(rf"\bself\.{name}\b[^=\n]*=[^=]", inspect.getsource(each))
    ]
    assert not missing, advice(missing)
    assert hasattr(uvicorn.Server, "handle_exit"), advice(["Server.handle_exit"])


def test_the_answer_to_what_cannot_be_understood_goes_through_us() -> None:
    """Or a refusal would have uvicorn's words, and would not be left open to be read."""
    source = inspect.getsource(httptools_impl.HttpToolsProtocol.data_received)
    assert "self.send_400_response(" in source, advice(["send_400_response in data_received"])


def test_only_the_minor_version_that_was_tested_is_installed() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    [wanted] = [each for each in project["dependencies"] if each.startswith("uvicorn")]
    least, below = re.findall(r"0\.(\d+)", wanted)
    assert int(below) == int(least) + 1
    assert metadata.version("uvicorn").startswith(f"0.{least}.")


def _names(method: object) -> list[str]:
    return list(inspect.signature(inspect.unwrap(method)).parameters)  # type: ignore[arg-type]
