"""Renditions of the version before that go on as they are, when only some are made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from rushes import renditions
from rushes.handlers.transcode.segments import Workspace
from rushes.handlers.transcode.source import Source
from rushes.protocol import Rendition
from rushes.tools.timeline import Timeline

ORIGINAL, MADE_ANEW = "original", "made_anew"
# Boundaries that differ by less are the same to a player.
ALIGNED_SECONDS = 0.002
OTHER_TIMES = "the segments of the version before begin at other times"
MISSING = "files of the version before are missing or damaged"

_LISTED: dict[str, Callable[[Rendition], object]] = {
    "video": renditions.video,
    "audio": renditions.audio,
}


def take_over(workspace: Workspace, source: Source) -> None:
    """What fits is in `workspace.kept` from now on, and its files among the artifacts; all else
    that the version before has is made again, and it is said why."""
    if not (workspace.qualities and workspace.job.args.get("keep_others")):
        return
    found = workspace.job.inherit(list(workspace.qualities))
    rungs = [each for each in found.renditions if _is_rung(each)]
    if found.why_not is not None:
        _make_anew(workspace, rungs, found.why_not)
    elif found.renditions:
        _adopt(workspace, {each.name for each in found.renditions})
        source.index()
        _check(workspace, found.renditions, source.timeline())


def _adopt(workspace: Workspace, folders: set[str]) -> None:
    artifacts = workspace.artifacts
    lost = artifacts.adopt(lambda name: "/" not in name or name.split("/")[0] in folders)
    if any("/" not in name for name in lost):
        # One names another, as the storyboard's track does its sheets.
        artifacts.discard(tuple(name for name in artifacts.files if "/" not in name))


def _check(workspace: Workspace, found: Sequence[Rendition], times: Timeline) -> None:
    broken = [each for each in found if not _is_whole(workspace, each)]
    rungs = [each for each in found if _is_rung(each)]
    if any(each not in broken and not fits(workspace, each.name, times) for each in rungs):
        # Then the sound does not fit either.
        workspace.artifacts.discard(("",))
        _make_anew(workspace, rungs, OTHER_TIMES)
        return
    if any(each.kind == "audio" for each in broken):
        broken = [each for each in found if each.kind == "audio" or each in broken]
    if broken:
        workspace.artifacts.discard(tuple(f"{each.name}/" for each in broken))
    workspace.kept.update({each.name: each for each in found if each not in broken})
    _make_anew(workspace, [each for each in rungs if each in broken], MISSING)


def _is_rung(rendition: Rendition) -> bool:
    return rendition.kind == "video" and rendition.name != ORIGINAL


def fits(workspace: Workspace, name: str, times: Timeline) -> bool:
    """A player may only switch between renditions whose segments begin at the same times."""
    ours = list(accumulate(each.seconds for each in times.segments))
    theirs = list(accumulate(workspace.seconds_of(name)))
    return len(ours) == len(theirs) and all(
        abs(one - other) < ALIGNED_SECONDS for one, other in zip(ours, theirs, strict=True)
    )


def _is_whole(workspace: Workspace, rendition: Rendition) -> bool:
    files, name = workspace.artifacts.files, rendition.name
    return (
        f"{name}/init.mp4" in files
        and workspace.is_finished(name)
        and len(workspace.seconds_of(name)) == rendition.segments_total
        and _LISTED[rendition.kind](rendition) is not None
    )


def _make_anew(workspace: Workspace, rungs: Sequence[Rendition], why: str) -> None:
    names = [each.name for each in rungs]
    workspace.qualities.extend(names)
    if names:
        workspace.warn(MADE_ANEW, f"{', '.join(names)} had to be made again, too: {why}")
