"""faster-whisper on its own, over many recordings: its defaults, and with its own voice filter.

`python bare.py MODEL`; a line of JSON comes in for each recording (`file`, `several`: whether it
has several languages), one goes out for each way (`way`, `text`, `cpu`).
"""

from __future__ import annotations

import json
import sys
import time

from faster_whisper import WhisperModel

WAYS = {"defaults": {}, "vad": {"vad_filter": True, "condition_on_previous_text": False}}


def main() -> None:
    loaded = WhisperModel(
        sys.argv[1], device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True
    )
    for line in sys.stdin:
        asked = json.loads(line)
        for way, options in WAYS.items():
            began = time.process_time()
            segments, _ = loaded.transcribe(
                asked["file"],
                beam_size=5,
                word_timestamps=True,
                multilingual=asked["several"],
                **options,
            )
            text = " ".join(each.text.strip() for each in segments)
            cpu = time.process_time() - began
            print(json.dumps({"way": way, "text": text, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main()
