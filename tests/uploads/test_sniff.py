from __future__ import annotations

import io
import struct
import tarfile
import wave
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.uploads import sniff
from rushes.uploads.sniff import Found


def box(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(body), name) + body


def track(handler: bytes) -> bytes:
    return box(b"trak", box(b"mdia", box(b"hdlr", bytes(8) + handler + bytes(12))))


def mp4(brand: bytes, *handlers: bytes) -> bytes:
    moov = box(b"moov", b"".join(map(track, handlers)))
    return box(b"ftyp", brand + bytes(4) + b"isom") + moov + box(b"mdat", bytes(64))


def ebml(doctype: bytes, *codecs: bytes) -> bytes:
    header = b"\x42\x82" + bytes([0x80 | len(doctype)]) + doctype
    tracks = b"".join(b"\x86" + bytes([0x80 | len(codec)]) + codec for codec in codecs)
    return b"\x1a\x45\xdf\xa3" + bytes([0x80 | len(header)]) + header + tracks + bytes(100)


def wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(800))
    return file.getvalue()


def mp3_frames() -> bytes:
    frame = b"\xff\xfb\x90\x00" + bytes(413)
    return frame * 3


def id3(size: int) -> bytes:
    return b"ID3\x04\x00\x00" + bytes([size >> shift & 0x7F for shift in (21, 14, 7, 0)])


ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
PACKETS = (b"\x47" + bytes(187)) * 6
STAMPED = (bytes(4) + b"\x47" + bytes(187)) * 6

MEDIA = {
    "mp4 with a picture": (mp4(b"isom", b"soun", b"vide"), Found("video", "video/mp4")),
    "mp4 with sound only": (mp4(b"isom", b"soun"), Found("audio", "audio/mp4")),
    "mp4 with its index at the end": (
        box(b"ftyp", b"mp42") + box(b"mdat"),
        Found("video", "video/mp4"),
    ),
    "m4a": (mp4(b"M4A "), Found("audio", "audio/mp4")),
    "mov": (mp4(b"qt  ", b"vide"), Found("video", "video/quicktime")),
    "an old mov": (box(b"wide") + box(b"mdat", bytes(9)), Found("video", "video/quicktime")),
    "3gp": (mp4(b"3gp5", b"vide"), Found("video", "video/3gpp")),
    "matroska": (
        ebml(b"matroska", b"V_MPEG4/ISO/AVC", b"A_AAC"),
        Found("video", "video/x-matroska"),
    ),
    "webm": (ebml(b"webm", b"V_VP9", b"A_OPUS"), Found("video", "video/webm")),
    "webm from a microphone": (ebml(b"webm", b"A_OPUS"), Found("audio", "audio/webm")),
    "avi": (b"RIFF\x00\x10\x00\x00AVI LIST", Found("video", "video/x-msvideo")),
    "mpeg-ts": (PACKETS, Found("video", "video/mp2t")),
    "m2ts": (STAMPED, Found("video", "video/mp2t")),
    "mpeg-ps": (b"\x00\x00\x01\xba\x44" + bytes(20), Found("video", "video/mpeg")),
    "flv": (b"FLV\x01\x05\x00\x00\x00\x09", Found("video", "video/x-flv")),
    "wmv": (
        ASF + bytes(30) + sniff.ASF_SOUND + sniff.ASF_PICTURE,
        Found("video", "video/x-ms-asf"),
    ),
    "wma": (ASF + bytes(30) + sniff.ASF_SOUND, Found("audio", "audio/x-ms-wma")),
    "ogg vorbis": (b"OggS\x00\x02" + bytes(22) + b"\x01vorbis", Found("audio", "audio/ogg")),
    "ogg theora": (b"OggS\x00\x02" + bytes(22) + b"\x80theora", Found("video", "video/ogg")),
    "wav": (wav(), Found("audio", "audio/wav")),
    "a very large wav": (b"RF64\xff\xff\xff\xffWAVEds64", Found("audio", "audio/wav")),
    "mp3": (mp3_frames(), Found("audio", "audio/mpeg")),
    "mp3 with a tag": (id3(30) + bytes(30) + mp3_frames(), Found("audio", "audio/mpeg")),
    "mp3 with a huge cover": (id3(2_000_000) + bytes(5000), Found("audio", "audio/mpeg")),
    "aac": (b"\xff\xf1\x50\x80\x02\x1f\xfc" + bytes(50), Found("audio", "audio/aac")),
    "flac": (b"fLaC\x00\x00\x00\x22" + bytes(34), Found("audio", "audio/flac")),
    "amr": (b"#!AMR\n\x3c" + bytes(30), Found("audio", "audio/amr")),
    "aiff": (b"FORM\x00\x00\x10\x00AIFFCOMM", Found("audio", "audio/aiff")),
    "caf": (b"caff\x00\x01\x00\x00desc", Found("audio", "audio/x-caf")),
    "ape": (b"MAC \x96\x0f" + bytes(20), Found("audio", "audio/x-ape")),
    "mxf": (bytes.fromhex("060e2b34020501010d01020101020400"), Found("video", "application/mxf")),
}


@pytest.mark.parametrize("name", MEDIA)
def test_media_is_known_by_its_first_bytes(name: str) -> None:
    head, found = MEDIA[name]
    assert sniff.identify(head) == found


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("film.mp4", "x")
    return file.getvalue()


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        made.addfile(tarfile.TarInfo("film.mp4"))
    return file.getvalue()


OTHERS = {
    "nothing": b"",
    "html": b"<!DOCTYPE html><html><body>hello</body></html>",
    "html after blank lines": b"\xef\xbb\xbf\r\n\r\n  <HTML>",
    "html with bytes behind it": b"<html>" + bytes(range(256)) * 20,
    "svg": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "a playlist": b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
    "a playlist with bytes behind it": b"#EXTM3U\nx\n" + bytes(range(256)) * 20,
    "a concat script": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "a session description": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n",
    "a dash manifest": b'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>',
    "subtitles": b"WEBVTT\n\n00:00.000 --> 00:01.000\nhello\n",
    "plain text": "Grüße aus Köln\n".encode() * 100,
    "text that is cut inside a letter": ("x" * (sniff.HEAD_BYTES - 1) + "ü").encode(),
    "utf-16 text": "hello there, this is text".encode("utf-16"),
    "json": b'{"a": 1}',
    "a shell script": b"#!/bin/sh\nexit 0\n",
    "a script that ends in bytes": b"#!/usr/bin/env python3\n" + bytes(range(256)),
    "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(100),
    "gif": b"GIF89a" + bytes(100),
    "webp": b"RIFF\x00\x10\x00\x00WEBPVP8 ",
    "heic": mp4(b"heic"),
    "avif": mp4(b"avif"),
    "zip": archive(),
    "tar": tar(),
    "gzip": b"\x1f\x8b\x08" + bytes(50),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(50),
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3" + bytes(50),
    "an old office document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(50),
    "an executable": b"\x7fELF\x02\x01\x01" + bytes(50),
    "a database": b"SQLite format 3\x00" + bytes(50),
    "midi": b"MThd\x00\x00\x00\x06\x00\x01",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_surely_no_media_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(errors.UnsupportedMedia) as refused:
        sniff.identify(OTHERS[name])
    assert len(refused.value.message.split()) >= 4


def test_unknown_bytes_are_left_to_probing() -> None:
    assert sniff.identify(bytes([1, 2, 3, 4]) * 500) == Found(None, "application/octet-stream")


def test_a_byte_order_mark_of_utf_16_is_not_taken_for_sound() -> None:
    with pytest.raises(errors.UnsupportedMedia):
        sniff.identify("\ufeffThe quick brown fox".encode("utf-16-le"))


@given(st.binary(max_size=600))
def test_no_bytes_at_all_make_it_fail_in_another_way(data: bytes) -> None:
    with suppress(errors.UnsupportedMedia):
        assert sniff.identify(data).content_type


@given(st.sampled_from(sorted(MEDIA)), st.binary(max_size=2000))
def test_what_follows_the_beginning_does_not_turn_media_into_something_else(
    name: str, rest: bytes
) -> None:
    head, _ = MEDIA[name]
    assert sniff.identify(head + rest).content_type
