"""Text of tools and exceptions, made safe for strangers: no paths, secrets or control characters.

Pure. In doubt it hides too much: what was really said stays in the server's or worker's own log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "…"
LINE_LIMIT = 1_000
MESSAGE_LIMIT = 500
WORD_LIMIT = 100
# What is behind this is not looked at, so that no text takes long.
INPUT_LIMIT = 8 * LINE_LIMIT


def line(text: str, limit: int = LINE_LIMIT) -> str:
    """One line that may be shown to anybody; line ends and tabs become spaces."""
    shown = _clean_controls(text[:INPUT_LIMIT])
    # Paths are long and mixed, too: what only looks random comes last.
    shown = RANDOM.sub(_hide_if_random, _hide_places(_hide_secrets(shown)))
    return shown[:limit].strip()


def text(text: str, limit: int = LINE_LIMIT) -> str:
    """The same for several lines; each is cut by itself."""
    return "\n".join(lines(text, limit))


def lines(text: str, limit: int = LINE_LIMIT) -> list[str]:
    """What is left of each line, without the empty ones."""
    return [shown for each in text.splitlines() if (shown := line(each, limit))]


def sanitize(text: str) -> str:
    """The first line, short enough to be an error's message."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return line(first, MESSAGE_LIMIT)


def word(text: str | None) -> str | None:
    """A name, a code or a stage; None when there is none."""
    return None if text is None else line(text, WORD_LIMIT)


def tree(value: Any) -> Any:
    """JSON in which every text is one line that may be shown to anybody, names of members too."""
    match value:
        case str():
            return line(value)
        case Mapping():
            return {line(str(name), WORD_LIMIT): tree(each) for name, each in value.items()}
        case list() | tuple():
            return [tree(each) for each in value]
        case _:
            return value


def speech(value: Any) -> Any:
    """JSON of what was heard: nothing is hidden, since it was said; only control characters and
    what turns the direction of text are taken out."""
    match value:
        case str():
            return UNSPOKEN.sub("", value)
        case Mapping():
            return {UNSPOKEN.sub("", str(name)): speech(each) for name, each in value.items()}
        case list() | tuple():
            return [speech(each) for each in value]
        case _:
            return value


def secrets(text: str) -> str:
    """For the server's own log, which may tell places but never keys or passwords."""
    return "\n".join(_hide_secrets(each) for each in text.split("\n"))


# Control characters

ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x9d])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
SPACES = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
# Besides the real ones: what turns the direction of text or cannot be seen, and halves of pairs.
CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)

# Joiners and marks without width belong to the writing of many languages.
UNSPOKEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def _clean_controls(text: str) -> str:
    return CONTROLS.sub("", SPACES.sub(" ", ESCAPES.sub("", text)))


# Secrets

HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)\b[\"'\\]*\s*[:=].*")
BEARER = re.compile(r"(?i)\bbearer\b[\s:=]+\S+|\bbasic\s+(?=[a-z+/]*[\d=])[\w+/=-]{8,}")
# A name that promises a secret, then = or :, then a value, perhaps in quotes.
NAMED = re.compile(
    r"""(?ix) (?<![\w.-])
    (?=[\w.-]*?(?:(?:secret|passw|pwd|passphrase|credential|signature
                   |(?:api|access|private|signing|auth|account)[_-]?key)
                |(?:token|auth|jwt|session[_-]?id|\bsig)(?![\w.-])))
    ( [\w.-]++ \\*["']?\s*[=:]\s* )
    ( \\*"[^"]*" | \\*'[^']*' | (?:(?!&[\w.-]+=)\S)+ )"""
)
FLAG = re.compile(
    r"(?i)(?<![\w-])(--?(?:[\w-]*(?:secret|passw(?:or)?d|passphrase|token|credential)"
    r"|(?:[\w-]*[_-])?key)\s+)(?:\"[^\"]*\"|'[^']*'|\S+)"
)
# What is a secret by its looks: our own keys and codes, and those of services people use.
LOOKS = re.compile(
    r"rushes_[a-z]{2,8}_[\w-]{8,}|whsec_[\w+/=-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}"
    r"|\bsk-[\w-]{12,}|\bhf_\w{16,}|\bxox[a-z]-[\w-]{8,}|\bglpat-[\w-]{12,}"
    r"|\b(?:[2-9A-HJKMNP-TV-Z]{4}-){3}[2-9A-HJKMNP-TV-Z]{4}\b"
)
# Long and with capitals, small letters and digits in one: random. Hashes and ids have no capitals.
RANDOM = re.compile(r"(?<![\w+/-])[\w+/-]{32,}={0,2}")


def _hide_secrets(text: str) -> str:
    text = HEADER.sub(rf"\1: {HIDDEN}", text)
    text = BEARER.sub(HIDDEN, text)
    text = LOOKS.sub(HIDDEN, text)
    text = FLAG.sub(rf"\1{HIDDEN}", text)
    return NAMED.sub(rf"\1{HIDDEN}", text)


def _hide_if_random(match: re.Match[str]) -> str:
    found = match[0]
    kinds = (r"[A-Z]", r"[a-z]", r"\d")
    return HIDDEN if all(re.search(kind, found) for kind in kinds) else found


# Places: paths are hidden, of URLs what is private

ROOTS = (
    "etc|home|root|usr|var|tmp|opt|srv|mnt|media|data|proc|sys|dev|run|lib|lib64|bin|sbin|boot|app"
    "|workspace|nix|snap|Users|Volumes|Library|Applications|System|private"
)
END = r"\s'\"`<>|‘’“”«»"
# Paths with spaces cannot be told from the sentence around them; below a well-known root, all up to
# the last slash belongs to it, and a file name's ending ends it.
ENDING = r"\.[A-Za-z]\w{0,4}(?!\w)"
ROOTED = (
    rf"(?:(?!{ENDING}\s)[^\n:;,'\"`<>|])*[/\\][^{END}]*"
    rf"(?:(?:[ ]+[^\s/\\:;,'\"`<>|]+){{1,4}}?{ENDING})?"
    rf"|[^{END}]*"
)
PLACES = re.compile(
    rf"""(?x)
    (?P<quote>["'`])(?:file:/*)?(?:[A-Za-z]:)?[~.]{{0,2}}[/\\] (?:(?!(?P=quote)(?!\w)).)* (?P=quote)
    | (?P<rooted> (?:file:/*)? (?:(?<!\w)/(?:{ROOTS})(?![\w-])|/(?:{ROOTS})/
                               |(?<!\w)[A-Za-z]:[\\/]) (?:{ROOTED}) )
    | (?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):// (?P<rest>[^{END}]*)
    | (?P<path> \bfile:[^{END}]+
        | (?<![\w%/])(?!(?<=\+)/-) (?:~[\w-]*|\.\.)? /+[^{END}/] [^{END}]*
        | (?<![\w\\])\\+[^{END}\\]+\\[^{END}]* )"""
)
CLOSING = re.compile(r"[.,;:!?)\]}]+$")


def _hide_places(text: str) -> str:
    return PLACES.sub(_hide_place, text)


def _hide_place(match: re.Match[str]) -> str:
    if quote := match["quote"]:
        return f"{quote}{HIDDEN}{quote}"
    if match["scheme"] is not None and match["scheme"].lower() != "file":
        return _public_part(match["scheme"], match["rest"])
    closing = CLOSING.search(match[0])
    return HIDDEN + (closing[0] if closing else "")


def _public_part(scheme: str, rest: str) -> str:
    """Without a name and password; without the path when there is no host before it."""
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    # A password with a slash in it ends the host too early: what follows the colon is no port then.
    if "@" in host or ("@" in rest and re.search(r":(?!\d*$)", host)):
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    elif not host:
        return HIDDEN
    return f"{scheme}://{rest}"
