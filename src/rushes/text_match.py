"""Text as it is compared when somebody looks for it. Pure."""

from __future__ import annotations

import unicodedata

# For `LIKE :pattern ESCAPE '!'`; a backslash would mean something else to each database.
ESCAPE = "!"


def folded(text: str) -> str:
    """The same for what people hold to be the same: capitals, ligatures, full-width letters."""
    return unicodedata.normalize("NFKC", text).casefold()


def pattern(part: str) -> str:
    """For LIKE: whatever has this in it, sign by sign."""
    escaped = part
    for sign in (ESCAPE, "%", "_"):
        escaped = escaped.replace(sign, ESCAPE + sign)
    return f"%{escaped}%"
