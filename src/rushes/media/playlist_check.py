"""Whether a playlist, a manifest or a text track that a worker made may be served. Pure.

Players follow what these files name, so they may name nothing but files of their own version, and
use nothing but what is known here. What a player could read in another way is refused, too.
"""

from __future__ import annotations

import posixpath
import re
from xml.parsers import expat

from rushes import errors
from rushes.media import media

LIMIT_BYTES = 8 * 2**20
CHECKED = (".m3u8", ".mpd", ".vtt")
# Written by the server itself, beside every version.
SERVED = frozenset({"captions.vtt", "captions.m3u8"})

RELATIVE = re.compile(r"[A-Za-z0-9_.-][A-Za-z0-9_./-]*")
# Besides the real ones, those at which some readers end a line and others do not.
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")


def references(name: str, content: bytes) -> set[str]:
    """The files of its version that it names; raises BadField when it is not what it should be."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _bad(name, "is not UTF-8") from None
    if CONTROLS.search(text):
        raise _bad(name, "has control characters")
    if name.endswith(".m3u8"):
        return _hls(name, text)
    return _Manifest(name).read(text) if name.endswith(".mpd") else _track(name, text)


def _bad(name: str, problem: str) -> errors.BadField:
    return errors.BadField("content", f"{name} {problem}")


def _reference(name: str, named: str) -> str:
    """The file that is meant, seen from the version's top."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(name), named))
    is_ours = media.ARTIFACT.fullmatch(found) and found.rpartition(".")[2] in media.CONTENT_TYPES
    if not RELATIVE.fullmatch(named) or "//" in named or not is_ours:
        raise _bad(name, "names something else than a file of its version")
    return found


# HLS. No keys, no variables, no dates with links, no steering.

TAGS = frozenset(
    "#EXT" + tag
    for tag in (
        "M3U",
        "INF",
        "-X-VERSION",
        "-X-TARGETDURATION",
        "-X-MEDIA-SEQUENCE",
        "-X-DISCONTINUITY-SEQUENCE",
        "-X-PLAYLIST-TYPE",
        "-X-INDEPENDENT-SEGMENTS",
        "-X-START",
        "-X-MAP",
        "-X-BYTERANGE",
        "-X-BITRATE",
        "-X-DISCONTINUITY",
        "-X-GAP",
        "-X-PROGRAM-DATE-TIME",
        "-X-ENDLIST",
        "-X-I-FRAMES-ONLY",
        "-X-MEDIA",
        "-X-STREAM-INF",
        "-X-I-FRAME-STREAM-INF",
    )
)
WITH_ATTRIBUTES = {
    "#EXT-X-START",
    "#EXT-X-MAP",
    "#EXT-X-MEDIA",
    "#EXT-X-STREAM-INF",
    "#EXT-X-I-FRAME-STREAM-INF",
}
ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^",\s]+)(?:,|$)')


def _hls(name: str, text: str) -> set[str]:
    lines = [line.strip() for line in text.split("\n")]
    if lines[0] != "#EXTM3U":
        raise _bad(name, "is no playlist")
    found = set()
    for line in filter(None, lines):
        if not line.startswith("#"):
            found.add(_reference(name, line))
            continue
        tag, _, value = line.partition(":")
        # Any other line of the kind is a comment, which players do not read.
        if tag.upper().startswith("#EXT") and tag not in TAGS:
            raise _bad(name, "has a line that is not known")
        if tag in WITH_ATTRIBUTES:
            found |= {_reference(name, each) for each in _uris(name, value)}
    return found


def _uris(name: str, value: str) -> list[str]:
    found, at = [], 0
    while at < len(value):
        match = ATTRIBUTE.match(value, at)
        if match is None or (match[1] != "URI" and re.search("UR[IL]", match[1])):
            raise _bad(name, "has a line that cannot be read")
        if match[1] == "URI":
            found.append(match[2].strip('"'))
        at = match.end()
    return found


# DASH

NAMESPACE = "urn:mpeg:dash:schema:mpd:2011"
ELEMENTS = frozenset(
    {
        "MPD",
        "ProgramInformation",
        "Title",
        "Period",
        "AdaptationSet",
        "Role",
        "Accessibility",
        "Label",
        "EssentialProperty",
        "SupplementalProperty",
        "AudioChannelConfiguration",
        "Representation",
        "BaseURL",
        "SegmentTemplate",
        "SegmentTimeline",
        "S",
    }
)
TEXTS = ("BaseURL", "Label", "Title")
OF_TEMPLATE = frozenset(
    {"initialization", "media", "startNumber", "timescale", "presentationTimeOffset"}
)
PLACE = re.compile(r"\s*(?!urn:)[A-Za-z][A-Za-z0-9+.-]*:|.*//")
VARIABLE = re.compile(r"\$(RepresentationID|Number|Time|Bandwidth|)(?:%0(\d)d)?\$")
# No version has more segments; a run of them is written in a few bytes.
SEGMENTS_LIMIT = 200_000


class _Manifest:
    """Reads a manifest element by element; only what lies in a Representation names files."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[str] = []
        self._text = ""
        self._representation: dict[str, str] = {}
        self._template: dict[str, str] | None = None
        self._named_file = False
        self._times: list[int] = []
        self._next = 0
        self.found: set[str] = set()

    def read(self, text: str) -> set[str]:
        parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse
        try:
            parser.Parse(text.encode(), True)
        except expat.ExpatError:
            raise _bad(self._name, "is no manifest") from None
        return self.found

    def _refuse(self, *given: object) -> None:
        raise _bad(self._name, "has something that is not known")

    def _start(self, full: str, attributes: dict[str, str]) -> None:
        space, _, name = full.rpartition(" ")
        if space != NAMESPACE or name not in ELEMENTS or (not self._open and name != "MPD"):
            self._refuse()
        self._open.append(name)
        self._text = ""
        for attribute, value in attributes.items():
            if " " in attribute or PLACE.match(value):
                self._refuse()
        match name:
            case "Representation":
                self._representation, self._template, self._named_file = attributes, None, False
                self._times, self._next = [], 0
            case "SegmentTemplate":
                if self._open[-2] != "Representation" or not set(attributes) <= OF_TEMPLATE:
                    self._refuse()
                self._template = attributes
            case "S":
                self._run(attributes)
            case "BaseURL" if self._open[-2] != "Representation":
                self._refuse()

    def _end(self, full: str) -> None:
        name = self._open.pop()
        if name == "BaseURL":
            self.found.add(_reference(self._name, self._text.strip()))
            self._named_file = True
        elif name == "Representation" and self._template is not None:
            # A base would change what the template means.
            if self._named_file:
                self._refuse()
            self._expand(self._template)
        self._text = ""

    def _characters(self, text: str) -> None:
        if self._open[-1] in TEXTS:
            self._text += text
        elif text.strip():
            self._refuse()

    def _run(self, attributes: dict[str, str]) -> None:
        start, length, again = (
            self._number(attributes.get(name, default))
            for name, default in (("t", str(self._next)), ("d", ""), ("r", "0"))
        )
        if len(self._times) + again >= SEGMENTS_LIMIT:
            self._refuse()
        self._times += [start + length * n for n in range(again + 1)]
        self._next = start + length * (again + 1)

    def _number(self, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text):
            self._refuse()
        return int(text)

    def _expand(self, template: dict[str, str]) -> None:
        first = self._number(template.get("startNumber", "1"))
        if initialization := template.get("initialization"):
            self.found.add(self._named(initialization, 0, 0))
        if media := template.get("media"):
            self.found |= {
                self._named(media, first + n, time) for n, time in enumerate(self._times)
            }

    def _named(self, template: str, number: int, time: int) -> str:
        values = {
            "RepresentationID": self._representation.get("id", ""),
            "Bandwidth": self._representation.get("bandwidth", ""),
            "Number": str(number),
            "Time": str(time),
            "": "$",
        }
        made = VARIABLE.sub(lambda match: values[match[1]].zfill(int(match[2] or 0)), template)
        return _reference(self._name, made)


# Text tracks. Only a storyboard's cues name files.

CUE = re.compile(r"([^\s#]+)#xywh=\d+,\d+,\d+,\d+")
FETCHES = re.compile(r"(?i)url\(|@import|\\")


def _track(name: str, text: str) -> set[str]:
    if not re.match(r"WEBVTT(?:[ \t\r\n]|$)", text):
        raise _bad(name, "is no text track")
    blocks = re.split(r"\n(?:[ \t]*\n)+", text.replace("\r\n", "\n"))[1:]
    if any(each.startswith("STYLE") and FETCHES.search(each) for each in blocks):
        raise _bad(name, "has a style that names something")
    if not posixpath.basename(name).startswith("storyboard"):
        return set()
    found = set()
    for line in (line.strip() for each in blocks for line in each.split("\n")):
        if not line or "-->" in line:
            continue
        match = CUE.fullmatch(line)
        if match is None:
            raise _bad(name, "has a cue that names no picture")
        found.add(_reference(name, match[1]))
    return found
