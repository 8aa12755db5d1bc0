"""A short spoken clip of Rushes' own, for who has no recording at hand yet.

It comes in as any upload does. `examples/sample/make.sh` makes it.
"""

from __future__ import annotations

from pathlib import Path

from rushes.uploads.receiver import Receiver
from rushes.uploads.upload import Metadata, Upload

CLIP = Path(__file__).with_name("sample.mp4")


def add(receiver: Receiver, user_id: str) -> Upload:
    """One for each user: who has it gets the same one again (`is_spare`)."""
    clip = CLIP.read_bytes()
    metadata: Metadata = {
        "filename": b"sample.mp4",
        "title": b"A short sample",
        "language": b"en",
        "skip_duplicates": b"true",
    }
    return receiver.take(user_id, metadata, len(clip), lambda writer: writer.write(clip))
