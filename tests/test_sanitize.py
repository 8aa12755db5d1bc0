"""What strangers may read: no paths, no secrets, no control characters; all else stays readable."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rushes import sanitize
from rushes.accounts import keys

# Words that no other part of a test's text contains.
NAMES = st.text(string.ascii_letters + string.digits + "_-é", min_size=1, max_size=12).map(
    "q{}q".format
)
ENDINGS = st.sampled_from(["", ".mp4", ".m3u8", ".db-wal", ".tar.gz"])
BEFORE = st.sampled_from(["", "cannot open ", "path=", "in=", "(", "[", "a, ", "-i ", "->", "x: "])
AFTER = st.sampled_from(
    ["", ": No such file or directory", ", line 3", ") failed", " is full", "."]
)
SECRETS = st.text(string.ascii_letters + string.digits + "+/=._~!$%-", min_size=4, max_size=60)
ROOTS = st.sampled_from(
    ["/srv", "/var/lib", "/home", "/tmp", "/data", "/Users", "C:", "file:///srv"]
)
PATH_ROOTS = ["/", "//host/", "~/", "file:/", "file:///", "file://localhost/"]
PATH_ROOTS += ["C:\\", "d:/", "\\\\host\\"]
SECRET_NAMES = ["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "password", "DB_PASSWORD"]
SECRET_NAMES += ["api_key", "apiKey", "X-API-Key", "token", "access_token", "X-Amz-Signature"]


@st.composite
def paths(draw: st.DrawFn) -> tuple[list[str], str]:
    """A path of any system, and the names in it."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5))
    root = draw(st.sampled_from(PATH_ROOTS))
    slash = "\\" if root.endswith("\\") else "/"
    return names, root + slash.join(names) + draw(ENDINGS)


def assert_hidden(parts: list[str], text: str) -> None:
    shown = sanitize.line(text)
    assert not [part for part in parts if part in shown], shown


@given(paths(), BEFORE, AFTER)
def test_absolute_paths_are_hidden(path: tuple[list[str], str], before: str, after: str) -> None:
    assert_hidden(path[0], before + path[1] + after)


@given(paths(), st.sampled_from("\"'`"), st.lists(NAMES, min_size=1, max_size=3), AFTER)
def test_quoted_paths_are_hidden_with_all_their_spaces(
    path: tuple[list[str], str], quote: str, more: list[str], after: str
) -> None:
    text = f"opening {quote}{path[1]} {' '.join(more)}{quote}{after}"
    assert_hidden(path[0] + more, text)
    assert sanitize.line(text).startswith(f"opening {quote}…{quote}")


@given(ROOTS, st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=4), NAMES)
def test_paths_with_spaces_below_a_known_root_are_hidden(
    root: str, folders: list[list[str]], file: str
) -> None:
    names = [" ".join(folder) for folder in folders]
    path = "/".join([root, *names, f"{file} {file}.mp4"])
    assert_hidden([*names, file], f"cannot read {path}: gone")
    assert sanitize.line(f"cannot read {path}: gone") == "cannot read …: gone"


@given(st.text())
@example("a\x1b[31mb\x9b0mc\x1b]0;title\x07d\x85e\u202ef\ud800g\x7f\x00")
def test_no_control_character_is_left_and_it_stays_one_line(text: str) -> None:
    shown = sanitize.line(text)
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")]
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= sanitize.LINE_LIMIT
    shown.encode()


@given(st.text(max_size=300))
def test_what_was_sanitized_stays_as_it_is(text: str) -> None:
    shown = sanitize.line(text)
    assert sanitize.line(shown) == shown


@given(st.sampled_from(["Bearer ", "bearer ", "Authorization: Bearer ", "BEARER  "]), SECRETS)
def test_bearer_tokens_are_hidden(before: str, secret: str) -> None:
    assert_hidden([secret], f"sent {before}{secret} to it")


@given(st.sampled_from(list(keys.KeyKind)), st.sampled_from(["", "key=", "use ", '"', "x:"]))
def test_our_own_keys_are_hidden(kind: keys.KeyKind, before: str) -> None:
    key = keys.make(kind).text
    assert_hidden([key, key[-20:]], f"{before}{key} failed")
    assert_hidden([code := keys.make_code().text], f"join with {code}")
    assert_hidden([plain := keys.make_plain().text], f"the cookie was {plain}")


@given(
    st.sampled_from(SECRET_NAMES),
    st.sampled_from(["=", ": ", " = ", '": "', "='", '="']),
    SECRETS,
)
def test_values_whose_name_says_secret_are_hidden(name: str, sign: str, secret: str) -> None:
    assume(secret not in name)
    quote = sign[-1] if sign[-1] in "\"'" else ""
    assert_hidden([secret], f"with {name}{sign}{secret}{quote} and region=eu")
    assert "region=eu" in sanitize.line(f"with {name}{sign}{secret}{quote} and region=eu")


@given(
    st.sampled_from(["https", "postgresql", "redis", "s3", "rtmp"]),
    st.text(string.ascii_letters + string.digits + "@:/!$&*+-._~%", min_size=5, max_size=30),
)
def test_passwords_in_urls_are_hidden_and_the_host_is_not(scheme: str, password: str) -> None:
    assume(password not in "postgresql")
    shown = sanitize.line(f"to {scheme}://someone:q{password}q@db.example.org:5432/name failed")
    assert f"q{password}q" not in shown
    assert shown == f"to {scheme}://…@db.example.org:5432/name failed"


@pytest.mark.parametrize(
    "text",
    [
        "1/2 done and/or not, 44.1 kHz, 25 km/h, n/a, 2024/05/06 12:30:01, +/-5 dB, 50%/100%",
        "frame= 100 fps= 25 q=28.0 size= 1024kB time=00:00:04.00 bitrate=2097.2kbits/s speed=1.02x",
        "Stream #0:0: Video: h264 (High), yuv420p(tv), 1920x1080 [SAR 1:1 DAR 16:9], 25 fps",
        "see https://example.org/docs/media/a.html?page=2#top, or http://127.0.0.1:8484/",
        "Opening 'seg_0001.m4s' for writing; text/vtt; x264 - core 164 keyint=48",
        "the token expired, the key is missing, the signature did not match, max_tokens=448",
        "job_0190aabbccddeeff0190aabbccddeeff of med_1 has sha256 " + "0af1" * 16,
        "Die Datei ist kaputt: ungültige Größe (−3 %), 你好, c'est fini, it's 5 o'clock",
        "model Systran/faster-whisper-base, engine local, 3 of 8 windows, ETA 0:42",
        "password reset, secret santa, author: x, a.b@example.org, C: drive, tcp: 5",
    ],
)
def test_ordinary_lines_stay_as_they_are(text: str) -> None:
    assert sanitize.line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/a.mp4 is 1/2 done", "… is 1/2 done"),
        ("'/srv/it's mine/a.mp4': gone", "'…': gone"),
        ('File "/usr/lib/python3.11/x.py", line 3', 'File "…", line 3'),
        ("concat:/a/b.ts|/c/d.ts", "concat:…|…"),
        ("--extra-cflags=-I/usr/include/x", "--extra-cflags=-I…"),
        ("../../etc/passwd", "…"),
        ("sqlite:////srv/rushes.db", "…"),
        ("--password hunter2 --keyint 48", "--password … --keyint 48"),
        ("https://x.org/a?token=abc&page=2", "https://x.org/a?token=…&page=2"),
        ("Cookie: rushes_session=abc; other=def", "Cookie: …"),
        ('{"password": "a b", "n": 1}', '{"password": …, "n": 1}'),
        ("key sk-abcdefghijklmnop1234", "key …"),
        ("first\r\nsecond\tthird", "first second third"),
    ],
)
def test_what_is_hidden_leaves_the_rest(text: str, shown: str) -> None:
    assert sanitize.line(text) == shown


def test_several_lines_stay_several_lines() -> None:
    assert sanitize.text("one\n\ntwo /srv/x\r\nthree") == "one\ntwo …\nthree"


@pytest.mark.parametrize(
    "text", ["/" * 99_999, "\\" * 99_999, "password" * 9_999, "'/" * 9_999, "/srv/a " * 9_999]
)
def test_long_lines_of_one_kind_are_cut_like_any_other(text: str) -> None:
    assert len(sanitize.line(text)) <= sanitize.LINE_LIMIT
