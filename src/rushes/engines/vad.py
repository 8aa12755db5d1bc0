"""Where somebody speaks: a small network if it is installed, otherwise where it is not silent.

The network (Silero) comes with faster-whisper as a file; that package itself is not imported.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushes.engines.engine import BYTES_PER_SECOND, RATE, EngineUnavailable

if TYPE_CHECKING:
    import numpy as np

    Samples = np.ndarray[Any, np.dtype[np.float32]]

FRAME = 512
CONTEXT = 64
# So many frames at once, about a minute, bound the memory.
BATCH = 2_000
SPEECH, SILENCE = 0.5, 0.35
MIN_SPEECH_SECONDS = 0.1
MIN_SILENCE_SECONDS = 0.4
PAD_SECONDS = 0.2
# What sounds all the time is known after so many seconds of it, in spectra of so many samples. So
# much of it is taken away, and so little is left at least.
STEADY_SECONDS, SPECTRUM = 30, 512
TAKEN, LEFT = 1.5, 0.05

Intervals = Sequence[tuple[float, float]]


def network() -> Path | None:
    found = importlib.util.find_spec("faster_whisper")
    if found is None or not found.submodule_search_locations:
        return None
    return next(Path(found.submodule_search_locations[0]).glob("assets/silero_vad*.onnx"), None)


def speech(pcm: bytes) -> Intervals:
    """Start and end in seconds of the sound that was given, which is best no longer than ten
    minutes."""
    import numpy as np

    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
    if not len(samples):
        return []
    # The network takes a voice over a loud hum for the hum.
    heard = np.maximum(_probabilities(samples), _probabilities(without_hum(samples)))
    return intervals(heard.tolist(), len(samples) / RATE)


def without_hum(samples: Samples) -> Samples:
    """Without what goes on all the time, such as a hum, a drone or a fan."""
    import numpy as np

    half = SPECTRUM // 2
    shape = np.hanning(SPECTRUM + 1)[:-1].astype(np.float32)
    # Every sample is in two spectra, whose shapes add up to 1.
    padded = np.pad(samples, (half, SPECTRUM + -len(samples) % half))
    frames = np.lib.stride_tricks.sliding_window_view(padded, SPECTRUM)[::half]
    made = np.zeros((len(frames) + 1, half), np.float32)
    block = STEADY_SECONDS * RATE // half
    for begin in range(0, len(frames), block):
        spectra = np.fft.rfft(frames[begin : begin + block] * shape)
        loud = np.abs(spectra)
        gain = np.maximum(1 - TAKEN * np.median(loud, axis=0) / np.maximum(loud, 1e-9), LEFT)
        parts = np.fft.irfft(spectra * gain)
        made[begin : begin + len(parts)] += parts[:, :half]
        made[begin + 1 : begin + 1 + len(parts)] += parts[:, half:]
    return made.reshape(-1)[half : half + len(samples)]


def _probabilities(samples: Samples) -> Any:
    """That there is speech in each frame."""
    import numpy as np

    frames = np.pad(samples, (0, -len(samples) % FRAME)).reshape(-1, FRAME)
    before = np.vstack([np.zeros((1, CONTEXT), np.float32), frames[:-1, -CONTEXT:]])
    inputs = np.hstack([before, frames])
    h = c = np.zeros((1, 1, 128), np.float32)
    found = []
    for start in range(0, len(inputs), BATCH):
        given = {"input": inputs[start : start + BATCH], "h": h, "c": c}
        probability, h, c = _session().run(None, given)
        found.append(probability.reshape(-1))
    return np.concatenate(found)


@lru_cache
def _session() -> Any:
    import onnxruntime

    path = network()
    if path is None:
        raise EngineUnavailable("the speech engine is not installed: pip install 'rushes[speech]'")
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"], sess_options=options
    )


def intervals(probabilities: Sequence[float], duration: float) -> Intervals:
    """From the first frame that surely is speech to the last before a pause; padded, but never
    into each other."""
    step = FRAME / RATE
    runs = [(start * step, min(end * step, duration)) for start, end in _runs(probabilities)]
    runs = [(start, end) for start, end in runs if end - start >= MIN_SPEECH_SECONDS]
    # Neighbours share a short pause; beyond the first and last there is nobody to share with.
    edges = [0.0, *((one[1] + other[0]) / 2 for one, other in pairwise(runs)), duration]
    return [
        (max(start - PAD_SECONDS, before), min(end + PAD_SECONDS, after))
        for (start, end), (before, after) in zip(runs, pairwise(edges), strict=bool(runs))
    ]


def _runs(probabilities: Sequence[float]) -> list[tuple[int, int]]:
    """Frames from the first above SPEECH until SILENCE has lasted."""
    patience = round(MIN_SILENCE_SECONDS * RATE / FRAME)
    runs: list[tuple[int, int]] = []
    start: int | None = None
    quiet = 0
    for at, probability in enumerate(probabilities):
        if start is None:
            if probability >= SPEECH:
                start, quiet = at, 0
            continue
        # Between the two it is what it was.
        quiet = quiet + 1 if probability < SILENCE or (quiet and probability < SPEECH) else 0
        if quiet >= patience:
            runs.append((start, at + 1 - quiet))
            start = None
    if start is not None:
        runs.append((start, len(probabilities) - quiet))
    return runs


QUIET_FRAME = RATE // 50
DIGITAL_SILENCE = 1
LONGEST_SECONDS, SHORTEST_SECONDS = 20.0, 5.0


def not_silent(pcm: bytes) -> Intervals:
    """Without a network: all but digital silence, in pieces that end where it is quiet."""
    samples = array("h", pcm[: len(pcm) // 2 * 2])
    peaks = [
        max(max(frame), -min(frame))
        for at in range(0, len(samples), QUIET_FRAME)
        if (frame := samples[at : at + QUIET_FRAME])
    ]
    duration, step = len(pcm) / BYTES_PER_SECOND, QUIET_FRAME / RATE
    pieces: list[tuple[float, float]] = []
    for start, end in _loud_runs(peaks):
        for first, last in _pieces(peaks, start, end):
            pieces.append((first * step, min(last * step, duration)))
    return pieces


def _loud_runs(peaks: Sequence[int]) -> list[tuple[int, int]]:
    """Ended by digital silence that lasts; a short one stays inside."""
    patience = round(MIN_SILENCE_SECONDS * RATE / QUIET_FRAME)
    loud = [at for at, peak in enumerate(peaks) if peak > DIGITAL_SILENCE]
    runs: list[tuple[int, int]] = []
    for at in loud:
        if runs and at - runs[-1][1] < patience:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs


def _pieces(peaks: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    """No longer than LONGEST_SECONDS, cut at the quietest frame."""
    longest = round(LONGEST_SECONDS * RATE / QUIET_FRAME)
    shortest = round(SHORTEST_SECONDS * RATE / QUIET_FRAME)
    pieces = []
    while end - start > longest:
        cut = min(range(start + shortest, start + longest), key=peaks.__getitem__)
        pieces.append((start, cut))
        start = cut
    return [*pieces, (start, end)]
