"""One library on its own: import, load, transcribe, print what was said as one line of JSON.

`python transcribe.py LIBRARY MODEL FILE THREADS`; runs in that library's environment. All do the
same work: five beams, times for each word, nothing carried over from one window to the next.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    library, model, file, threads = sys.argv[1:]
    print(json.dumps(LIBRARIES[library](model, file, int(threads))))


def faster_whisper(model: str, file: str, threads: int) -> str:
    from faster_whisper import WhisperModel

    loaded = WhisperModel(
        model, device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
    )
    segments, _ = loaded.transcribe(
        file,
        beam_size=5,
        vad_filter=True,
        word_timestamps=True,
        condition_on_previous_text=False,
    )
    return " ".join(each.text for each in segments)


def whispercpp(model: str, file: str, threads: int) -> str:
    return _whispercpp(model, file, threads, 1, beam_search={"beam_size": 5, "patience": -1.0})


def whispercpp_greedy(model: str, file: str, threads: int) -> str:
    """As its library does it unless told otherwise."""
    return _whispercpp(model, file, threads, 0)


def _whispercpp(model: str, file: str, threads: int, strategy: int, **more: Any) -> str:
    from pywhispercpp.model import Model

    loaded = Model(
        model,
        params_sampling_strategy=strategy,
        redirect_whispercpp_logs_to=None,
        n_threads=threads,
        no_context=True,
        token_timestamps=True,
        print_progress=False,
        print_realtime=False,
        **more,
    )
    return " ".join(each.text for each in loaded.transcribe(file))


def openai_whisper(model: str, file: str, threads: int) -> str:
    import torch
    import whisper

    torch.set_num_threads(threads)
    heard = whisper.load_model(model, device="cpu").transcribe(
        file, beam_size=5, word_timestamps=True, condition_on_previous_text=False, fp16=False
    )
    return str(heard["text"])


LIBRARIES = {
    each.__name__: each for each in (faster_whisper, whispercpp, whispercpp_greedy, openai_whisper)
}

if __name__ == "__main__":
    main()
