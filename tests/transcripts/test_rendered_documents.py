from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given

from rushes import errors
from rushes.transcripts import documents, formats, transcript
from rushes.transcripts.transcript import Transcript, TranscriptSegment
from spoken import ENGINE, spoken, transcripts, untimed

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def segment(start: float, text: str, speaker: str | None = None) -> TranscriptSegment:
    return TranscriptSegment(id="seg_1", start=start, end=start + 1, text=text, speaker=speaker)


def talk(*segments: TranscriptSegment, language: str | None = "en") -> Transcript:
    text = transcript.joined(each.text for each in segments)
    return Transcript(text=text, language=language, segments=list(segments), words=[])


def part(document: bytes, name: str) -> ElementTree.Element:
    with zipfile.ZipFile(io.BytesIO(document)) as package:
        assert package.testzip() is None
        return ElementTree.fromstring(package.read(name))


def lines(document: bytes) -> list[str]:
    body = part(document, "word/document.xml")
    return ["".join(each.itertext()) for each in body.iter(f"{W}p")]


def rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def test_every_format_can_be_rendered_and_no_other() -> None:
    t = spoken("Grüße an alle.")
    made = {format: documents.render(t, format) for format in formats.TYPES}
    assert [*made] == [*get_args(formats.Format)]
    assert json.loads(made["json"]) == transcript.encode(t)
    assert lines(made.pop("docx"))[-1] == "Grüße an alle."
    assert all("Grüße an alle." in text.decode() for text in made.values())
    with pytest.raises(errors.BadField, match="json, txt, srt, vtt, md, docx, csv"):
        documents.render(t, "doc")


@pytest.mark.parametrize(
    ("format", "empty"),
    [
        ("txt", ""),
        ("srt", ""),
        ("vtt", "WEBVTT\n"),
        ("md", "# Transcript\n"),
        ("csv", "start,end,speaker,text\r\n"),
    ],
)
def test_silence_is_an_empty_file(format: str, empty: str) -> None:
    silence = transcript.build([], None, ENGINE)
    assert documents.render(silence, format).decode() == empty
    assert lines(documents.docx(silence)) == ["Transcript"]


def test_what_is_read_tells_who_speaks_and_when() -> None:
    t = talk(
        segment(5, "Hello.", "SPEAKER_00"),
        segment(6, "How are you?", "SPEAKER_00"),
        segment(3661, "Fine.", "SPEAKER_01"),
    )
    names = {"SPEAKER_00": "Ada & Co"}
    assert documents.render(t, "md", names, title="A *talk*").decode() == (
        "# A \\*talk\\*\n\n**0:05 Ada \\& Co** Hello. How are you?\n\n"
        "**1:01:01 SPEAKER\\_01** Fine.\n"
    )
    made = documents.render(t, "docx", names, title="A <talk>")
    assert lines(made) == [
        "A <talk>",
        "Ada & Co  0:05",
        "Hello. How are you?",
        "SPEAKER_01  1:01:01",
        "Fine.",
    ]
    assert "A <talk>" in "".join(part(made, "docProps/core.xml").itertext())
    assert rows(documents.render(t, "csv", names)) == [
        ["start", "end", "speaker", "text"],
        ["5.000", "6.000", "Ada & Co", "Hello."],
        ["6.000", "7.000", "Ada & Co", "How are you?"],
        ["3661.000", "3662.000", "SPEAKER_01", "Fine."],
    ]


def test_a_text_without_times_is_given_none() -> None:
    old = transcript.decode("Old.\n\n1. Text.")
    assert documents.render(old, "md").decode() == "# Transcript\n\nOld.\n\n1\\. Text.\n"
    assert lines(documents.docx(old)) == ["Transcript", "Old.", "1. Text."]
    assert rows(documents.render(old, "csv"))[1:] == [["", "", "", "Old.\n\n1. Text."]]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " ="])
def test_no_cell_becomes_a_formula(start: str) -> None:
    evil = f"{start}HYPERLINK(1)"
    t = talk(segment(0, evil, "SPEAKER_00"))
    _, row = rows(documents.render(t, "csv", {"SPEAKER_00": evil}))
    assert row[2:] == [f"'{evil}", f"'{evil}"]


def test_no_text_becomes_markup() -> None:
    evil = '<w:p/> ]]> & "x" [a](javascript:b) <script> `c` ![d](e) \x07\ufffe'
    t = talk(segment(0, evil))
    said = lines(documents.render(t, "docx"))[-1]
    assert said == evil.rstrip("\x07\ufffe")
    read = documents.render(t, "md").decode()
    assert "<script>" not in read.replace("\\<", "")
    assert "[a](" not in read


def test_what_is_written_from_right_to_left_is_marked_so() -> None:
    assert part(
        documents.docx(talk(segment(0, "שלום"), language="he")), "word/document.xml"
    ).findall(f".//{W}bidi")
    assert not list(
        part(documents.docx(untimed((0, 1, "Hi."))), "word/document.xml").iter(f"{W}bidi")
    )


@given(transcripts())
def test_whatever_was_said_makes_a_whole_document(t: Transcript) -> None:
    made = documents.docx(t)
    assert made == documents.docx(t)
    assert part(made, "word/styles.xml").tag == f"{W}styles"
    assert len(lines(made)) >= 1
    assert len(rows(documents.render(t, "csv"))) == 1 + max(len(t.segments), bool(t.text))
