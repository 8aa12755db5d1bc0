"""Runs the handlers that make versions, with a folder in the server's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rushes.handlers.transcode import steps as transcode
from rushes.protocol import Claim, Excerpt, Progress, Source
from rushes.records import JsonObject
from rushes.worker.context import JobContext
from rushes.worker.folder import Folder

# Small and quick: what is tested is what comes out, not how well it looks.
SETTINGS: dict[str, Any] = {
    "preset": "ultrafast",
    "segment_seconds": 1,
    "ladder": [{"height": 180, "bitrate": 400}, {"height": 90, "bitrate": 200}],
}


@dataclass(frozen=True)
class Made:
    folder: Path
    result: JsonObject
    reports: list[Progress]
    lines: list[str]


class Encoding(Folder):
    """One job: its source, where its files go, and other media that it may ask for."""

    def __init__(self, source: Path, target: Path, others: Mapping[str, Path] | None = None):
        super().__init__(source, target)
        self._others = {name: Folder(path, target) for name, path in (others or {}).items()}
        self.scratch = target.with_name(f"{target.name}.scratch")
        self.reports: list[Progress] = []

    def source(
        self, claim: Claim, media_id: str | None = None, excerpt: Excerpt | None = None
    ) -> Source:
        if media_id is None:
            return super().source(claim)
        return self._others[media_id].source(claim)

    def report(self, report: Progress) -> None:
        self.note(report)
        self.reports.append(report)

    def context(self, **args: Any) -> JobContext:
        settings = {**SETTINGS, **args.pop("settings", {})}
        assignment = self.assignment("transcode", {"settings": settings, **args})
        return JobContext(assignment, self.report, coordinator=self, scratch_root=self.scratch)

    def run(self, job: JobContext) -> Made:
        try:
            result = transcode.transcode(job)
        finally:
            job.close()
        return Made(self.target, result, self.reports, self.lines)


def make(source: Path, target: Path, others: Mapping[str, Path] | None = None, **args: Any) -> Made:
    encoding = Encoding(source, target, others)
    return encoding.run(encoding.context(**args))
