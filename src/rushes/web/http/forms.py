"""A multipart body, read as it comes: fields are gathered, the file's bytes go straight on."""

from __future__ import annotations

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from rushes import errors

FILE = "file"
MOST_PARTS = 30
MOST_LENIENT_PARTS = 300
FIELD_LIMIT = 64 * 1024
# What nobody reads has to come to an end, too.
IGNORED_LIMIT = 16 * 2**20
# File names may be long; what is kept of them is not.
HEADER_LIMIT = 64 * 1024


class Form:
    """`fields` and `lists` may still grow after the file has come. Lists are fields that may come
    more than once, as `name` or `name[]`. One that is not known is an error, unless it is
    `lenient`: then it means nothing."""

    def __init__(
        self,
        content_type: str,
        known: frozenset[str],
        *,
        lists: frozenset[str] = frozenset(),
        lenient: bool = False,
    ) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise errors.UnsupportedMedia("send multipart/form-data with a field named file")
        self.fields: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.file_name: str | None = None
        self.is_whole = False
        self._known = known
        self._known_lists = lists
        self._lenient = lenient
        self._most_parts = MOST_LENIENT_PARTS if lenient else MOST_PARTS
        self._ignored_bytes = 0
        self._name: str | None = ""
        self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._header = (b"", b"")
        self._parts = 0
        self._file_bytes: list[bytes] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
            max_header_size=HEADER_LIMIT,
        )

    @property
    def has_file(self) -> bool:
        return self.file_name is not None

    def feed(self, data: bytes) -> list[bytes]:
        """Returns what of it belongs to the file."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise errors.Invalid("the form cannot be read", detail=str(error)) from error
        found, self._file_bytes = self._file_bytes, []
        return found

    def check(self) -> None:
        """After the last byte."""
        if not self.is_whole:
            raise errors.Invalid("the form ends before its time")
        if not self.has_file:
            raise errors.BadField(FILE, "is missing")

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > self._most_parts:
            raise errors.TooLarge("the form has too many fields")
        self._headers = {}
        self._value = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], self._header[1])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[name.lower()] = value
        self._header = (b"", b"")

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = self._known_name(options.get(b"name", b"").decode("utf-8", "replace"))
        if self._name == FILE:
            if self.has_file:
                raise errors.BadField(FILE, "can be there only once")
            self.file_name = options.get(b"filename", b"").decode("utf-8", "replace")
        elif self._name in self.fields:
            raise errors.BadField(self._name, "can be there only once")

    def _known_name(self, name: str) -> str | None:
        """None for one that means nothing."""
        if name == FILE or name in self._known:
            return name
        if name.removesuffix("[]") in self._known_lists:
            return name.removesuffix("[]")
        if self._lenient:
            return None
        raise errors.BadField(name[:100] or "form", "is not known here")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE:
            self._file_bytes.append(data[start:end])
        elif self._name is None:
            self._ignored_bytes += end - start
            if self._ignored_bytes > IGNORED_LIMIT:
                raise errors.TooLarge("the form's other fields are too long")
        else:
            self._value += data[start:end]
            if len(self._value) > FIELD_LIMIT:
                raise errors.BadField(self._name, "is too long")

    def _part_end(self) -> None:
        if self._name is None or self._name == FILE:
            return
        value = self._value.decode("utf-8", "replace")
        if self._name in self._known_lists:
            self.lists.setdefault(self._name, []).append(value)
        else:
            self.fields[self._name] = value

    def _end(self) -> None:
        self.is_whole = True
