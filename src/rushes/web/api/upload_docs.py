"""What the API document says of uploads: headers and bodies that the framework never sees."""

from __future__ import annotations

from typing import Any

BINARY = {"type": "string", "format": "binary"}
OCTETS = {"application/offset+octet-stream": {"schema": BINARY}}


def _header(
    name: str, description: str, *, required: bool = False, **schema: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }


VERSION = _header("Tus-Resumable", "The protocol's version.", required=True, const="1.0.0")
OFFSET = _header("Upload-Offset", "Where these bytes begin.", required=True, pattern=r"^\d+$")
LENGTH = _header("Upload-Length", "The size of the whole, in bytes.", pattern=r"^\d+$")
CHECKSUM = _header("Upload-Checksum", "Such as `sha1 …`, the rest in base64.")
METADATA = _header(
    "Upload-Metadata",
    "Names with values in base64, separated by commas: `filename`, `title`, `profile`,"
    " `transcribe`, `language`, `diarize`, `transcription_profile`, `priority`, `folder` (where the"
    " file lay, such as `2020/Summer`: the collection that it is put into), `origin`.",
)

PLAIN: dict[str, Any] = {"parameters": [VERSION]}
CREATE: dict[str, Any] = {
    "parameters": [
        VERSION,
        LENGTH,
        _header("Upload-Defer-Length", "`1` when the size is not known yet."),
        METADATA,
        _header("Upload-Concat", "`partial`, or `final;` and the addresses of the parts."),
        CHECKSUM,
    ],
    "requestBody": {"required": False, "content": OCTETS},
}
APPEND: dict[str, Any] = {
    "parameters": [VERSION, OFFSET, LENGTH, CHECKSUM],
    "requestBody": {"required": True, "content": OCTETS},
}
OVERRIDE: dict[str, Any] = {
    "parameters": [
        VERSION,
        _header("X-HTTP-Method-Override", "`PATCH`, `HEAD` or `DELETE`.", required=True),
        _header("Upload-Offset", "Where these bytes begin.", pattern=r"^\d+$"),
        LENGTH,
        CHECKSUM,
    ],
    "requestBody": {"required": False, "content": OCTETS},
}
FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": BINARY,
                        "title": {"type": "string", "maxLength": 300},
                        "profile": {"type": "string"},
                        "transcribe": {"type": "boolean", "default": True},
                        "language": {"type": "string"},
                        "diarize": {"type": "boolean"},
                        "transcription_profile": {"type": "string"},
                        "priority": {"type": "string", "enum": ["high", "normal", "low"]},
                        "folder": {
                            "type": "string",
                            "description": "Where the file lay, such as `2020/Summer`: the"
                            " collection that it is put into.",
                        },
                        "origin": {"type": "string", "enum": ["upload", "watch", "api"]},
                    },
                    "additionalProperties": False,
                }
            }
        },
    }
}
CAPTIONS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/vtt": {"schema": {"type": "string"}},
            "application/x-subrip": {"schema": {"type": "string"}},
            "text/plain": {"schema": {"type": "string"}},
            "application/json": {
                "schema": {"description": "As GET …/transcript has it, or older."}
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": BINARY},
                    "additionalProperties": False,
                }
            },
        },
    }
}
