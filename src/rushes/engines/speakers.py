"""Who speaks when, by sherpa-onnx: a network finds turns, another tells voices apart, and voices
that are alike become one speaker. Runs in the child.

A long file is taken in pieces, so that memory stays bounded; their speakers are then matched by
their voices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import sherpa_onnx

from rushes.engines.engine import RATE, EngineFailed, SpeakerRequest, SpeakerTurn

# Cosine distances between voices: below it they are one. Measured: 0.70 to 0.80 all find the two
# speakers of a telephone call, 0.65 finds three and 0.90 one.
THRESHOLD = 0.75
# Between means of many turns, which are steadier.
MATCH_THRESHOLD = 0.5
MIN_TURN_SECONDS, MIN_PAUSE_SECONDS = 0.3, 0.5
PIECE_SECONDS = 20 * 60
# So much of a speaker in a piece tells the voice.
VOICE_SECONDS, LONGEST_SAMPLE_SECONDS = 30.0, 10.0
SHORTEST_SAMPLE = RATE // 5

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(slots=True, eq=False)
class _Speaker:
    """One of one piece, or several that were found to be the same."""

    members: list[tuple[int, int]]
    voice: Floats
    seconds: float


class Speakers:
    def __init__(self, directory: Path, threads: int) -> None:
        self._embedding = sherpa_onnx.SpeakerEmbeddingExtractorConfig(
            model=str(directory / "embedding.onnx"), num_threads=threads
        )
        network = sherpa_onnx.OfflineSpeakerSegmentationPyannoteModelConfig(
            model=str(directory / "segmentation.onnx")
        )
        self._config = sherpa_onnx.OfflineSpeakerDiarizationConfig(
            segmentation=sherpa_onnx.OfflineSpeakerSegmentationModelConfig(
                pyannote=network, num_threads=threads
            ),
            embedding=self._embedding,
            clustering=_clustering(-1),
            min_duration_on=MIN_TURN_SECONDS,
            min_duration_off=MIN_PAUSE_SECONDS,
        )
        if not self._config.validate():
            raise EngineFailed("the models for speakers cannot be used: pull them again")
        self._diarizer = sherpa_onnx.OfflineSpeakerDiarization(self._config)
        self._extractor: Any = None

    def turns(
        self, request: SpeakerRequest, progress: Callable[[float], None]
    ) -> list[SpeakerTurn]:
        """In the order of time; speakers are counted as they are first heard."""
        samples = _read(request.path)
        cuts = _cuts(len(samples))
        pieces: list[list[SpeakerTurn]] = []
        wanted = request.speakers if len(cuts) == 1 else None
        for number, (start, end) in enumerate(cuts):

            def tell(share: float, number: int = number) -> None:
                progress((number + share) / len(cuts))

            pieces.append(self._piece(_floats(samples[start:end]), wanted or -1, tell))
        if wanted is None:
            pieces = self._bounded(request, samples, cuts, pieces)
        return _renumbered(_joined(pieces, [start / RATE for start, _ in cuts]))

    def _bounded(
        self,
        request: SpeakerRequest,
        samples: Any,
        cuts: Sequence[tuple[int, int]],
        pieces: list[list[SpeakerTurn]],
    ) -> list[list[SpeakerTurn]]:
        """As many speakers as were asked for, the same number for the same voice in every piece."""
        least, most = request.min_speakers or 1, request.max_speakers
        if request.speakers is not None:
            least = most = request.speakers
        found = [len({turn.speaker for turn in turns}) for turns in pieces]
        if len(cuts) == 1 and 0 < found[0] < least:
            return [self._piece(_floats(samples), least, lambda share: None)]
        if len(cuts) == 1 and (most is None or found[0] <= most):
            return pieces
        speakers = self._voices(samples, cuts, pieces)
        return _relabeled(pieces, _matched(speakers, least, most))

    def _piece(
        self, samples: Floats, speakers: int, progress: Callable[[float], None]
    ) -> list[SpeakerTurn]:
        if len(samples) < RATE // 2:
            return []
        self._config.clustering = _clustering(speakers)
        self._diarizer.set_config(self._config)

        def tell(done: int, total: int) -> int:
            progress(done / max(total, 1))
            return 0

        found = self._diarizer.process(samples, callback=tell).sort_by_start_time()
        duration = len(samples) / RATE
        return [
            SpeakerTurn(
                start=max(each.start, 0.0), end=min(each.end, duration), speaker=each.speaker
            )
            for each in found
            if each.start < duration
        ]

    def _voices(
        self, samples: Any, cuts: Sequence[tuple[int, int]], pieces: Sequence[Sequence[SpeakerTurn]]
    ) -> list[_Speaker]:
        found = []
        for number, turns in enumerate(pieces):
            for speaker in sorted({turn.speaker for turn in turns}):
                own = [turn for turn in turns if turn.speaker == speaker]
                voice = self._voice(samples, cuts[number][0], own)
                seconds = sum(turn.end - turn.start for turn in own)
                found.append(_Speaker([(number, speaker)], voice, seconds))
        return found

    def _voice(self, samples: Any, offset: int, turns: Sequence[SpeakerTurn]) -> Floats:
        """The mean of the longest turns, of length 1."""
        voices, heard = [np.zeros(self._voice_size(), np.float32)], 0.0
        for turn in sorted(turns, key=lambda each: each.start - each.end):
            length = min(turn.end - turn.start, LONGEST_SAMPLE_SECONDS)
            start = offset + int(turn.start * RATE)
            sound = _floats(samples[start : start + int(length * RATE)])
            if heard >= VOICE_SECONDS or len(sound) < SHORTEST_SAMPLE:
                break
            stream = self._extractor.create_stream()
            stream.accept_waveform(RATE, sound)
            stream.input_finished()
            voices.append(_unit(np.array(self._extractor.compute(stream), np.float32)) * length)
            heard += length
        return _unit(np.sum(voices, axis=0))

    def _voice_size(self) -> int:
        if self._extractor is None:
            self._extractor = sherpa_onnx.SpeakerEmbeddingExtractor(self._embedding)
        return int(self._extractor.dim)


def _read(path: Path) -> Any:
    """Mapped, not loaded: a day of sound is larger than memory may be."""
    count = path.stat().st_size // 2
    return np.memmap(path, "<i2", "r", shape=(count,)) if count else np.zeros(0, "<i2")


def _clustering(speakers: int) -> Any:
    return sherpa_onnx.FastClusteringConfig(num_clusters=speakers, threshold=THRESHOLD)


def _floats(samples: Any) -> Floats:
    return np.asarray(samples, np.float32) / np.float32(32768)


def _unit(voice: Floats) -> Floats:
    length = float(np.linalg.norm(voice))
    return voice / length if length else voice


def _cuts(length: int) -> list[tuple[int, int]]:
    """Of about the same length, so that no last piece is too short to tell voices apart."""
    count = max(1, round(length / (PIECE_SECONDS * RATE)))
    edges = [length * number // count for number in range(count + 1)]
    return list(pairwise(edges))


def _matched(speakers: list[_Speaker], least: int, most: int | None) -> list[_Speaker]:
    """The two most alike become one, until none are alike enough and there are no more than
    `most`. Speakers that one piece told apart stay apart, as long as that is possible."""
    while len(speakers) > least:
        near = _nearest(speakers, apart=True)
        if most is not None and len(speakers) > most:
            near = near or _nearest(speakers, apart=False)
        elif near is None or near[0] > MATCH_THRESHOLD:
            break
        assert near is not None
        _, one, other = near
        speakers = [each for each in speakers if each not in (one, other)] + [_merged(one, other)]
    return speakers


def _nearest(speakers: list[_Speaker], *, apart: bool) -> tuple[float, _Speaker, _Speaker] | None:
    best: tuple[float, _Speaker, _Speaker] | None = None
    for number, one in enumerate(speakers):
        for other in speakers[number + 1 :]:
            if apart and {piece for piece, _ in one.members} & {p for p, _ in other.members}:
                continue
            distance = 1.0 - float(one.voice @ other.voice)
            if best is None or distance < best[0]:
                best = (distance, one, other)
    return best


def _merged(one: _Speaker, other: _Speaker) -> _Speaker:
    voice = _unit(one.voice * one.seconds + other.voice * other.seconds)
    return _Speaker(one.members + other.members, voice, one.seconds + other.seconds)


def _relabeled(
    pieces: Sequence[Sequence[SpeakerTurn]], speakers: Sequence[_Speaker]
) -> list[list[SpeakerTurn]]:
    numbers = {member: number for number, each in enumerate(speakers) for member in each.members}
    return [
        [
            SpeakerTurn(start=turn.start, end=turn.end, speaker=numbers[piece, turn.speaker])
            for turn in turns
        ]
        for piece, turns in enumerate(pieces)
    ]


def _joined(pieces: Sequence[Sequence[SpeakerTurn]], offsets: Sequence[float]) -> list[SpeakerTurn]:
    """On one clock; a turn that a cut went through, or two of one speaker without a pause between
    them, are one again."""
    last: dict[int, int] = {}
    turns: list[SpeakerTurn] = []
    for offset, piece in zip(offsets, pieces, strict=True):
        for each in piece:
            start, end = offset + each.start, offset + each.end
            at = last.get(each.speaker)
            if at is not None and start - turns[at].end < MIN_PAUSE_SECONDS:
                end = max(turns[at].end, end)
                turns[at] = SpeakerTurn(start=turns[at].start, end=end, speaker=each.speaker)
            else:
                last[each.speaker] = len(turns)
                turns.append(SpeakerTurn(start=start, end=end, speaker=each.speaker))
    return sorted(turns, key=lambda turn: (turn.start, turn.end))


def _renumbered(turns: Sequence[SpeakerTurn]) -> list[SpeakerTurn]:
    numbers: dict[int, int] = {}
    for turn in turns:
        numbers.setdefault(turn.speaker, len(numbers))
    return [
        SpeakerTurn(start=turn.start, end=turn.end, speaker=numbers[turn.speaker]) for turn in turns
    ]
