"""A Dockerfile as data, for the checks of deploy/ and for `images.py`, which follows it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Step:
    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Of the exec form, or as a shell splits them."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass(slots=True)
class Stage:
    name: str
    base: str
    steps: list[Step] = field(default_factory=list)


def stages(path: Path = DOCKERFILE) -> dict[str, Stage]:
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: dict[str, Stage] = {}
    stage: Stage | None = None
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stage = found[name] = Stage(name, base)
        else:
            assert stage is not None, line
            stage.steps.append(Step(word, rest.strip()))
    return found


def lineage(name: str) -> list[Stage]:
    """The stage and those it is made from, the oldest first."""
    known = stages()
    stage = known[name]
    return [*(lineage(stage.base) if stage.base in known else []), stage]


def environment(name: str) -> dict[str, str]:
    pairs = [
        word.partition("=")
        for stage in lineage(name)
        for step in stage.steps
        if step.word == "ENV"
        for word in step.words
    ]
    return {key: value for key, _, value in pairs}


def last(name: str, word: str) -> Step:
    """What counts of a word that is said anew."""
    return [each for stage in lineage(name) for each in stage.steps if each.word == word][-1]
