"""Which language is spoken, out of what a model guesses of a window and of its slices. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rushes.engines.engine import Spoken

# How sure of another language one has to be than the one that was spoken before.
SURE = 0.8
# Little sound is easily taken for something else.
SHORT_SECONDS, SURE_OF_SHORT = 5.0, 0.95
# Who does not say how sure they are is believed when they have heard so much.
ENOUGH_SECONDS = 10.0
# Within a window a language counts that is heard for so long; half of it if it is surer still.
LONG_SECONDS, SURE_OF_SLICE = 8.0, 0.9


def is_believed(probability: float | None, seconds: float) -> bool:
    """Whether the language has changed, if so sure a guess says so of so much sound."""
    if probability is None:
        return seconds >= ENOUGH_SECONDS
    return probability >= (SURE if seconds >= SHORT_SECONDS else SURE_OF_SHORT)


def parts(guesses: Sequence[Spoken]) -> list[Spoken]:
    """One for each language that is surely spoken for a while, out of guesses of one slice after
    the other. A long part that nobody is sure of beside one that is sure has the language None: it
    may be another, unless all that is guessed is the one before."""
    found: list[Spoken] = []
    begin = guesses[0].start if guesses else 0.0
    for run in _runs(guesses):
        if found and (not _counts(run) or run.language == found[-1].language):
            found[-1] = _longer(found[-1], run)
        elif _counts(run):
            # What was too short to count before the first goes with it.
            found.append(run if found else replace(run, start=begin))
    return found if any(each.language for each in found) else []


def settled(parts: Sequence[Spoken], guess: Callable[[Spoken], str]) -> list[Spoken]:
    """Without those of None whose language, `guess`ed out of what is heard there alone, is that of
    a neighbour."""
    found: list[Spoken] = []
    for number, each in enumerate(parts):
        if each.language is None:
            near = {other.language for other in [*found[-1:], *parts[number + 1 : number + 2]]}
            language = guess(each)
            each = replace(each, language=language) if language in near else each
        if found and found[-1].language == each.language:
            found[-1] = _longer(found[-1], each)
        else:
            found.append(each)
    return found


def refined(parts: Sequence[Spoken], change: Callable[[Spoken, Spoken], float]) -> list[Spoken]:
    """Each begins where it is found that the one before has ended."""
    found = list(parts)
    for number in range(1, len(found)):
        at = change(found[number - 1], found[number])
        found[number - 1] = replace(found[number - 1], end=at)
        found[number] = replace(found[number], start=at)
    return found


def _runs(guesses: Sequence[Spoken]) -> Iterator[Spoken]:
    run: Spoken | None = None
    for each in guesses:
        is_sure = (each.probability or 0.0) >= SURE
        goes_on = run is not None and run.language == each.language
        label = each if is_sure or goes_on else replace(each, language=None)
        if run is not None and run.language == label.language:
            run = _longer(run, label)
            continue
        if run is not None:
            yield run
        run = label
    if run is not None:
        yield run


def _counts(run: Spoken) -> bool:
    seconds = run.end - run.start
    is_sure = run.language is not None and (run.probability or 0.0) >= SURE_OF_SLICE
    return seconds >= (LONG_SECONDS / 2 if is_sure else LONG_SECONDS)


def _longer(one: Spoken, other: Spoken) -> Spoken:
    surest = max(one.probability or 0.0, other.probability or 0.0)
    return replace(one, end=other.end, probability=surest)
