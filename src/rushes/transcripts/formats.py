"""The formats that a transcript can be had in, and their media types. Must stay light: the help
of commands imports it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Format = Literal["json", "txt", "srt", "vtt", "md", "docx", "csv"]

TYPES: Mapping[str, str] = MappingProxyType(
    {
        "json": "application/json",
        "txt": "text/plain; charset=utf-8",
        "srt": "application/x-subrip; charset=utf-8",
        "vtt": "text/vtt; charset=utf-8",
        "md": "text/markdown; charset=utf-8",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "csv": "text/csv; charset=utf-8",
    }
)
# All but these are text, and can be printed.
BINARY = frozenset({"docx"})
