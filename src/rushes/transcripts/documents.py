"""A transcript as a file of any format: captions, and what people read and count. Pure.

Nothing that was said becomes markup, a formula or a field of the program that opens the file.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rushes import errors
from rushes.transcripts import captions, transcript
from rushes.transcripts.formats import TYPES
from rushes.transcripts.layout import NOBODY
from rushes.transcripts.transcript import Transcript

UNTITLED = "Transcript"
# A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA_START = ("=", "+", "-", "@", "\t", "\r")
# All of ASCII that Markdown gives a meaning in the middle of a line, or at its beginning.
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")
LIST_START = re.compile(r"^(\d{1,9})([.)])|^([-+=:])")
RIGHT_TO_LEFT = frozenset({"ar", "dv", "fa", "he", "ku", "ps", "sd", "ug", "ur", "yi"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """`speaker` is the name to show, where another one begins to speak."""

    start: float | None
    speaker: str | None
    text: str


def render(
    t: Transcript,
    format: str,
    names: Mapping[str, str] = NOBODY,
    *,
    end: float | None = None,
    title: str | None = None,
) -> bytes:
    """In one of `formats.TYPES`. JSON has the labels of speakers; the others have their names."""
    match format:
        case "json":
            return json.dumps(transcript.encode(t), ensure_ascii=False).encode()
        case "txt":
            return captions.txt(t, names=names).encode()
        case "srt":
            return captions.srt(t, names=names, end=end).encode()
        case "vtt":
            return captions.vtt(t, names=names, end=end).encode()
        case "md":
            return markdown(t, names=names, title=title).encode()
        case "csv":
            return table(t, names=names).encode()
        case "docx":
            return docx(t, names=names, title=title)
        case _:
            raise errors.BadField("format", f"must be one of {', '.join(TYPES)}")


def paragraphs(t: Transcript, names: Mapping[str, str] = NOBODY) -> Iterator[Paragraph]:
    """A text without times is split where its lines are."""
    if not t.segments:
        for line in filter(None, map(str.strip, t.text.splitlines())):
            yield Paragraph(start=None, speaker=None, text=line)
        return
    before: str | None = None
    for segments in captions.paragraphs(t.segments):
        label = segments[0].speaker
        name = None if label is None or label == before else names.get(label) or label
        text = transcript.joined(each.text for each in segments)
        yield Paragraph(start=segments[0].start, speaker=name, text=text)
        before = label


def clock(seconds: float) -> str:
    """As players show it: 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


# Markdown


def markdown(t: Transcript, *, names: Mapping[str, str] = NOBODY, title: str | None = None) -> str:
    blocks = [f"# {_plain(_title(title))}"]
    for each in paragraphs(t, names):
        said = [] if each.start is None else [clock(each.start)]
        if each.speaker is not None:
            said.append(_plain(transcript.clean(each.speaker)))
        head = f"**{' '.join(said)}** " if said else ""
        text = _plain(each.text)
        blocks.append(head + (text if head else _no_list(text)))
    return "\n\n".join(blocks) + "\n"


def _plain(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", text)


def _no_list(line: str) -> str:
    return LIST_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", line)


def _title(title: str | None) -> str:
    return transcript.clean(title or "") or UNTITLED


# CSV


def table(t: Transcript, *, names: Mapping[str, str] = NOBODY) -> str:
    """A row for each segment; times in seconds, none where none are known."""
    made = io.StringIO()
    rows = csv.writer(made)
    rows.writerow(("start", "end", "speaker", "text"))
    for each in t.segments:
        speaker = names.get(each.speaker) or each.speaker if each.speaker else ""
        rows.writerow((f"{each.start:.3f}", f"{each.end:.3f}", _cell(speaker), _cell(each.text)))
    if not t.segments and t.text:
        rows.writerow(("", "", "", _cell(t.text)))
    return made.getvalue()


def _cell(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_START) else text


# Office Open XML (ECMA-376): the least that Word and LibreOffice call whole

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org"
_WORD = f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main"'
_CONTENT = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_TYPES = (
    f'{_XML}<Types xmlns="{_OFFICE}/package/2006/content-types">'
    '<Default Extension="rels"'
    ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="{_CONTENT}.document.main+xml"/>'
    f'<Override PartName="/word/styles.xml" ContentType="{_CONTENT}.styles+xml"/>'
    '<Override PartName="/docProps/core.xml"'
    ' ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>'
)
_PARTS = (
    f'{_XML}<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
    '<Relationship Id="rId1" Target="word/document.xml"'
    f' Type="{_OFFICE}/officeDocument/2006/relationships/officeDocument"/>'
    '<Relationship Id="rId2" Target="docProps/core.xml"'
    f' Type="{_OFFICE}/package/2006/relationships/metadata/core-properties"/></Relationships>'
)
_PARTS_OF_DOCUMENT = (
    f'{_XML}<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
    '<Relationship Id="rId1" Target="styles.xml"'
    f' Type="{_OFFICE}/officeDocument/2006/relationships/styles"/></Relationships>'
)
_STYLES = (
    f"{_XML}<w:styles {_WORD}><w:docDefaults><w:rPrDefault><w:rPr>"
    '<w:rFonts w:ascii="Calibri" w:hAnsi="Calibri" w:cs="Calibri"/><w:sz w:val="22"/>{language}'
    '</w:rPr></w:rPrDefault><w:pPrDefault><w:pPr><w:spacing w:after="160" w:line="276"'
    ' w:lineRule="auto"/></w:pPr></w:pPrDefault></w:docDefaults>'
    '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/>'
    "</w:style>"
    '<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/>'
    '<w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:pPr><w:spacing w:after="320"/></w:pPr>'
    '<w:rPr><w:b/><w:sz w:val="40"/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Turn"><w:name w:val="Turn"/>'
    '<w:basedOn w:val="Normal"/><w:next w:val="Normal"/>'
    '<w:pPr><w:keepNext/><w:spacing w:before="160" w:after="40"/></w:pPr></w:style>'
    '<w:style w:type="character" w:styleId="Speaker"><w:name w:val="Speaker"/>'
    "<w:rPr><w:b/></w:rPr></w:style>"
    '<w:style w:type="character" w:styleId="Time"><w:name w:val="Time"/>'
    '<w:rPr><w:color w:val="666666"/><w:sz w:val="18"/></w:rPr></w:style></w:styles>'
)
# What XML cannot hold, however it is written.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")


def docx(t: Transcript, *, names: Mapping[str, str] = NOBODY, title: str | None = None) -> bytes:
    """The same transcript makes the same bytes."""
    name = _text(_title(title))
    known = t.language if t.language and _LANGUAGE.fullmatch(t.language) else None
    language = f'<w:lang w:val="{known}"/>' if known else ""
    is_rtl = (known or "").partition("-")[0].lower() in RIGHT_TO_LEFT
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for part, content in (
            ("[Content_Types].xml", _TYPES),
            ("_rels/.rels", _PARTS),
            ("docProps/core.xml", _core(name)),
            ("word/document.xml", _document(t, names, name, is_rtl)),
            ("word/_rels/document.xml.rels", _PARTS_OF_DOCUMENT),
            ("word/styles.xml", _STYLES.format(language=language)),
        ):
            entry = zipfile.ZipInfo(part, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, content)
    return made.getvalue()


def _core(title: str) -> str:
    return (
        f'{_XML}<cp:coreProperties xmlns:cp="{_OFFICE}/package/2006/metadata/core-properties"'
        f' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title>'
        "</cp:coreProperties>"
    )


def _document(t: Transcript, names: Mapping[str, str], title: str, is_rtl: bool) -> str:
    made = [_block("Title", _run(title), is_rtl)]
    for each in paragraphs(t, names):
        head = []
        if each.speaker is not None:
            head.append(_run(_text(transcript.clean(each.speaker)), "Speaker"))
        if each.start is not None:
            head.append(_run(("  " if head else "") + clock(each.start), "Time"))
        if head:
            made.append(_block("Turn", "".join(head), is_rtl))
        made.append(_block("Normal", _run(_text(each.text)), is_rtl))
    page = (
        '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="1134" w:right="1134"'
        ' w:bottom="1134" w:left="1134" w:header="709" w:footer="709" w:gutter="0"/></w:sectPr>'
    )
    return f"{_XML}<w:document {_WORD}><w:body>{''.join(made)}{page}</w:body></w:document>"


def _block(style: str, runs: str, is_rtl: bool) -> str:
    side = "<w:bidi/>" if is_rtl else ""
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{side}</w:pPr>{runs}</w:p>'


def _run(text: str, style: str | None = None) -> str:
    look = f'<w:rPr><w:rStyle w:val="{style}"/></w:rPr>' if style else ""
    return f'<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r>'


def _text(text: str) -> str:
    return escape(_NO_XML.sub("", text))
