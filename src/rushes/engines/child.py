"""What runs in the process that computes: runs one call after the other until nobody asks.

Whatever libraries print goes to stderr, which the parent reads.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rushes import errors
from rushes.engines.engine import EngineFailed
from rushes.engines.host import KINDS, Call

# So that it is this process, not the server, that ends when the machine runs out of memory.
OOM_SCORE = 500


def main() -> None:
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    _end_with_parent(int(sys.argv[2]))
    # For the parent, even when all are asked to leave at once: it ends us when it has.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    models = Models()
    connection.send(("up", None))
    while True:
        try:
            call: Call = connection.recv()
        except EOFError:
            return
        connection.send(_answer(models, call, lambda share: connection.send(("progress", share))))


def _end_with_parent(lifeline: int) -> None:
    """At once, in the middle of anything. Native code may hold the interpreter for minutes, so the
    kernel is asked to send a signal that ends us; where it cannot, a thread has to do."""

    def wait() -> None:
        while os.read(lifeline, 1):
            pass
        os._exit(1)

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    # After the signal is asked for: what ended before that is seen by this one.
    threading.Thread(target=wait, daemon=True).start()


class Models:
    """Those that are loaded, the least recently used first."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[tuple[Path, str], Any] = OrderedDict()

    def get(self, call: Call, load: Callable[[Path], Any]) -> Any:
        assert call.directory is not None
        key = (call.directory, call.device)
        if key not in self._loaded:
            while len(self._loaded) >= call.max_loaded:
                self._loaded.popitem(last=False)
            self._loaded[key] = load(call.directory)
            sys.stderr.write(f"loaded {call.directory.name}\n")
            sys.stderr.flush()
        self._loaded.move_to_end(key)
        return self._loaded[key]


def _answer(models: Models, call: Call, progress: Callable[[float], None]) -> tuple[str, Any]:
    try:
        return "answer", _run(models, call, progress)
    except errors.JobOutcome as error:
        return "failed", (_kind(error), error.message)
    except MemoryError:
        return "failed", (EngineFailed.__name__, "there is not enough memory for the model")
    except Exception as error:  # noqa: BLE001  the libraries raise anything
        traceback.print_exc()
        return "failed", (EngineFailed.__name__, _sentence(error))


def _run(models: Models, call: Call, progress: Callable[[float], None]) -> Any:
    # Each is imported when it is first needed: they are large.
    if call.what == "speech":
        from rushes.engines import vad

        return vad.speech(call.request)
    if call.what == "diarize":
        from rushes.engines import speakers

        diarizer = models.get(call, lambda path: speakers.Speakers(path, call.threads))
        return diarizer.turns(call.request, progress)
    from rushes.engines import whisper

    whisperer = models.get(call, lambda path: whisper.Whisper(path, call.device, call.threads))
    return whisperer.transcribe(call.request)


def _kind(error: errors.JobOutcome) -> str:
    name = type(error).__name__
    return name if name in KINDS else EngineFailed.__name__


def _sentence(error: Exception) -> str:
    if "out of memory" in str(error).lower() or "bad_alloc" in str(error):
        return "there is not enough memory for the model: use a smaller one"
    return "the speech engine could not work on this sound"


if __name__ == "__main__":
    main()
