"""Share links: until when, with which password, what they give away, and who may show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from running import Running
from rushes import limits
from rushes.accounts import throttle
from web import library
from web.callers import routes
from web.test_accounts import PASSWORD, add_user, pass_time, sign_in, signed_in

TITLE = 'The "big" <script>alert(1)</script> & more'
SECRET = "open sesame"
SEGMENT = bytes(range(256)) * 20
FILES = {
    "master.m3u8": b"#EXTM3U\n",
    "720p/seg_00001.m4s": SEGMENT,
    "thumbnail.jpg": b"picture",
    "storyboard.vtt": b"WEBVTT\n",
}
RESULT = {"duration": 75.0, "kind": "video"}
CHUNK = "720p/seg_00001.m4s"


class Shared:
    """A media of an admin's, and its link in the hands of a stranger."""

    def __init__(self, running: Running, admin: httpx2.Client, **terms: Any) -> None:
        self.running, self.admin = running, admin
        self.media_id = library.add(running, library.user_id(admin), TITLE)
        library.publish(running, self.media_id, FILES, RESULT)
        library.transcribe(running, self.media_id, "Good <i>morning</i>.", "Good night.")
        self.made = self.change("POST", **terms)
        self.path = self.made["share_url"].removeprefix(running.url)
        self.token = self.path.rpartition("/")[2]

    def change(self, method: str = "PATCH", **terms: Any) -> dict[str, Any]:
        answer = self.admin.request(method, f"/media/{self.media_id}/share", json=terms)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def everything(self) -> list[str]:
        """All addresses of the link that can be looked at."""
        found = []
        for route in routes(self.running):
            if "/s/{token}/" in route.path and route.method in ("GET", "HEAD"):
                path = route.path.replace("{token}", self.token).replace("{slot}", "watch")
                found.append(f"{route.method} {path.replace('{name:path}', CHUNK)}")
        assert len(found) >= 16
        return found


def stranger(running: Running) -> httpx2.Client:
    return running.client(None, base_url=running.url, follow_redirects=True)


@pytest.fixture
def admin(server: Running) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def anybody(server: Running) -> Iterator[httpx2.Client]:
    with stranger(server) as client:
        yield client


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_what_is_said_of_a_link_stays_until_it_is_changed(either_server: Running) -> None:
    with either_server.client() as admin:
        film = Shared(either_server, admin)
        path = f"/media/{film.media_id}/share"
        plain = {
            "expires_at": None,
            "expired": False,
            "has_password": False,
            "allow_download": False,
            "views": 0,
            "last_viewed_at": None,
        }
        assert film.made | plain == film.made
        assert admin.post(path).json() == film.made
        ends = (datetime.now(UTC) + timedelta(days=3)).isoformat(timespec="milliseconds")
        changed = film.change(expires_at=ends, password=SECRET, allow_download=True)
        assert changed["expires_at"] == ends.replace("+00:00", "Z")
        assert (changed["has_password"], changed["allow_download"]) == (True, True)
        assert SECRET not in str(changed)
        assert film.change("POST", allow_download=False)["has_password"]
        assert film.change(expires_at=None)["expires_at"] is None
        assert not film.change(password=None)["has_password"]
        assert admin.get(path).json() == film.made
        assert admin.delete(path).status_code == 204
        assert [admin.get(path).status_code, admin.patch(path, json={}).status_code] == [404] * 2
        # Another link begins anew.
        film.change("POST", password=SECRET)
        admin.delete(path)
        assert not film.change("POST")["has_password"]
        told = admin.get("/security-log", params={"limit": 200}).json()["items"]
    actions = [each["action"] for each in told if each["action"].startswith("share.")]
    expected = ["made", *["changed"] * 4, "removed", "made", "removed", "made"]
    assert actions[::-1] == [f"share.{each}" for each in expected]
    first = next(each for each in told[::-1] if each["action"] == "share.changed")
    assert first["detail"] == {
        "expires_at": changed["expires_at"],
        "has_password": True,
        "allow_download": True,
        "password_changed": True,
    }


@pytest.mark.parametrize(
    "terms",
    [
        {"expires_at": "2001-01-01T00:00:00Z"},
        {"expires_at": "9999-12-31T00:00:00Z"},
        {"expires_at": "2060-01-01"},
        {"expires_at": "soon"},
        {"expires_at": 10**18},
        {"expires_in": 0},
        {"expires_in": -5},
        {"expires_in": 1e300},
        {"expires_in": 60, "expires_at": "2030-01-01T00:00:00Z"},
        {"password": "short"},
        {"password": "x" * 129},
        {"password": ""},
        {"allow_download": None},
        {"views": 7},
    ],
)
def test_what_makes_no_sense_is_refused_and_shares_nothing(
    server: Running, admin: httpx2.Client, terms: dict[str, Any]
) -> None:
    media_id = library.add(server, library.user_id(admin))
    answer = admin.post(f"/media/{media_id}/share", json=terms)
    assert answer.status_code == 422, answer.text
    assert admin.get(f"/media/{media_id}/share").status_code == 404


def test_an_expired_link_is_dead_everywhere_and_tells_nothing(either_server: Running) -> None:
    with either_server.client() as admin, stranger(either_server) as anybody:
        film = Shared(either_server, admin, expires_in=3600, allow_download=True)
        kept = anybody.get(f"{film.path}/stream/master.m3u8").url.join(CHUNK)
        assert anybody.get(kept).headers["cache-control"] == "private, max-age=300"
        assert anybody.get(f"{film.path}/thumbnail.jpg").headers["cache-control"] == (
            "private, no-cache"
        )
        pass_time(either_server, 3590)
        cache = anybody.get(kept).headers["cache-control"]
        assert int(cache.removeprefix("private, max-age=")) <= 10
        pass_time(either_server, 3601)
        for each in film.everything():
            method, _, path = each.partition(" ")
            answer = anybody.request(method, path)
            assert answer.status_code == 410, each
            if method == "GET":
                assert code(answer) == (410, "link_expired")
        assert anybody.post(f"{film.path}/views", json={"visit": "v" * 16}).status_code == 410
        assert anybody.post(f"{film.path}/unlock", json={"password": "x"}).status_code == 410
        for page in (film.path, f"/embed/{film.token}"):
            said = anybody.get(page)
            assert said.status_code == 410
            assert not [each for each in ("script>alert", "big", "thumbnail") if each in said.text]
        asked = {"url": film.made["share_url"]}
        assert anybody.get("/oembed", params=asked).status_code == 410
        assert admin.get(f"/media/{film.media_id}/share").json()["expired"]
        assert not film.change(expires_in=60)["expired"]
        assert anybody.get(f"{film.path}/media").status_code == 200


def test_a_password_opens_its_link_and_no_other(either_server: Running) -> None:
    with either_server.client() as admin, stranger(either_server) as anybody:
        film = Shared(either_server, admin, password=SECRET, allow_download=True)
        other = Shared(either_server, admin, password=SECRET)
        for each in film.everything():
            method, _, path = each.partition(" ")
            answer = anybody.request(method, path)
            assert answer.status_code == 401, each
            if method == "GET":
                assert code(answer) == (401, "link_locked")
        for page in (film.path, f"/embed/{film.token}"):
            said = anybody.get(page)
            assert said.status_code == 200
            untold = ("script>alert", "big", "thumbnail.jpg", "og:", "oembed")
            assert not [each for each in untold if each in said.text]
        asked = {"url": film.made["share_url"]}
        assert anybody.get("/oembed", params=asked).status_code == 401
        wrong = anybody.post(f"{film.path}/unlock", json={"password": "open barley"})
        assert code(wrong) == (401, "wrong_password")
        assert "set-cookie" not in wrong.headers
        right = anybody.post(f"{film.path}/unlock", json={"password": SECRET})
        assert right.status_code == 204
        cookie = right.headers["set-cookie"]
        assert f"Path={film.path};" in cookie
        assert "HttpOnly" in cookie
        assert anybody.get(f"{film.path}/media").json()["title"] == TITLE
        segment = anybody.get(f"{film.path}/stream/{CHUNK}")
        assert (segment.content, segment.headers["cache-control"]) == (SEGMENT, "private, no-cache")
        assert "og:title" in anybody.get(film.path).text
        # Not for another link, not for an account, not when it was tampered with.
        value = anybody.cookies["rushes_share"]
        sent = {"Cookie": f"rushes_share={value}"}
        assert httpx2.get(f"{either_server.url}{film.path}/media", headers=sent).is_success
        longer = f"9{value}"
        for path, grant in (
            (f"{other.path}/media", value),
            (f"{film.path}/media", longer),
            (f"{film.path}/media", value[:-1]),
            (f"{film.path}/media", "٣.x"),
            ("/api/v1/session", value),
        ):
            given = f"rushes_share={grant}; rushes_session={grant}".encode()
            answer = httpx2.get(f"{either_server.url}{path}", headers={b"Cookie": given})
            assert answer.status_code == 401, path
        film.change(password="another one")
        assert code(anybody.get(f"{film.path}/media")) == (401, "link_locked")
        anybody.post(f"{film.path}/unlock", json={"password": "another one"})
        pass_time(either_server, 13 * 3600)
        assert code(anybody.get(f"{film.path}/media")) == (401, "link_locked")
        told = admin.get("/security-log", params={"action": "key.refused"}).json()["items"]
        assert [each["subject"] for each in told] == [f"share {film.media_id}"]


def test_passwords_of_links_are_not_guessed(server: Running, admin: httpx2.Client) -> None:
    film, other = Shared(server, admin, password=SECRET), Shared(server, admin, password=SECRET)
    with stranger(server) as thief:

        def guess(link: Shared, address: str, password: str) -> httpx2.Response:
            thief.headers["X-Forwarded-For"] = address
            return thief.post(f"{link.path}/unlock", json={"password": password})

        tries = [guess(film, "203.0.113.1", f"guess {n}") for n in range(8)]
        assert [each.status_code for each in tries] == [401] * 6 + [429] * 2
        assert code(tries[-1]) == (429, "too_many_requests")
        assert int(tries[-1].headers["retry-after"]) > 0
        # Not even with the right one, but by another link.
        assert guess(film, "203.0.113.1", SECRET).status_code == 429
        assert guess(other, "203.0.113.1", SECRET).status_code == 204
        everywhere = [guess(film, f"198.51.100.{n}", "guess") for n in range(20)]
        count = [each.status_code for each in everywhere].count(401)
        assert count == throttle.FREE_FAILURES - 6
        assert guess(film, "192.0.2.1", SECRET).status_code == 429
        pass_time(server, 120)
        assert guess(film, "192.0.2.1", SECRET).status_code == 204
    assert "share" in str(admin.get("/security-log", params={"action": "key.throttled"}).json())


def test_another_site_cannot_guess_through_its_visitors(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    film = Shared(server, admin, password=SECRET)
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = anybody.post(f"{film.path}/unlock", json={"password": SECRET}, headers=headers)
    assert answer.status_code == 403


def test_downloads_are_only_for_those_who_may(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    film = Shared(server, admin)
    files = [f"{film.path}/source", *(f"{film.path}/transcript?format={f}" for f in FORMATS)]
    assert [code(anybody.get(each)) for each in files] == [(403, "denied")] * 4
    shown = anybody.get(f"{film.path}/media").json()
    assert (shown["download_url"], shown["downloads"]) == (None, False)
    assert anybody.get(f"{film.path}/transcript").status_code == 200
    film.change(allow_download=True)
    source = anybody.get(files[0])
    assert source.content == library.SOURCE
    assert 'filename="holiday.mov"' in source.headers["content-disposition"]
    for each in files[1:]:
        answer = anybody.get(each)
        assert "Good" in answer.text
        assert answer.headers["content-disposition"].startswith("attachment")
    shown = anybody.get(f"{film.path}/media").json()
    assert (shown["download_url"], shown["downloads"]) == (files[0], True)
    # The original has what was cut off.
    assert admin.post(f"/media/{film.media_id}/trim", json={"start": 5}).status_code == 202
    held = library.claim(server, "trim")
    library.put(server, held, FILES)
    library.finish(server, held, {**RESULT, "duration": 70.0})
    assert anybody.get(files[0]).status_code == 404
    assert anybody.get(f"{film.path}/media").json()["download_url"] is None


FORMATS = ("vtt", "srt", "txt")


def test_a_link_shows_the_transcript_with_its_speakers(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    film = Shared(server, admin)
    names = {"names": {"SPEAKER_00": "Ada"}}
    admin.put(f"/media/{film.media_id}/transcript/speakers", json=names)
    said = anybody.get(f"{film.path}/transcript").json()
    assert said["speaker_names"] == {"SPEAKER_00": "Ada"}
    assert said["speakers"] == ["SPEAKER_00"]
    assert [each["text"] for each in said["segments"]] == ["Good <i>morning</i>.", "Good night."]
    private = (film.media_id, library.user_id(admin), "job_", "transcription_id")
    assert not [each for each in private if each in str(said)]


def test_a_visit_counts_once_and_not_for_the_owner(either_server: Running) -> None:
    add_user(either_server)
    with signed_in(either_server) as ada, stranger(either_server) as anybody:
        film = Shared(either_server, ada)

        def views() -> int:
            return int(ada.get(f"/media/{film.media_id}/share").json()["views"])

        def play(client: httpx2.Client, visit: str, **headers: str) -> None:
            url, body = f"{either_server.url}{film.path}/views", {"visit": visit}
            assert client.post(url, json=body, headers=headers).status_code == 204

        for each in film.everything():
            anybody.get(each.partition(" ")[2])
        play(ada, "m" * 16)
        assert views() == 0
        play(anybody, "a" * 16)
        play(anybody, "a" * 16)
        assert views() == 1
        play(anybody, "b" * 16)
        assert views() == 2
        assert ada.get(f"/media/{film.media_id}/share").json()["last_viewed_at"]
        # A script that counts for itself does not get far.
        for n in range(limits.MOST_VISITS + 5):
            play(anybody, f"{n:016}", **{"X-Forwarded-For": "203.0.113.9"})
        assert views() == 2 + limits.MOST_VISITS
        film.change(allow_download=True)
        assert views() == 2 + limits.MOST_VISITS
        bad = anybody.post(f"{film.path}/views", json={"visit": "no"})
        assert bad.status_code == 422


def test_what_caches_may_keep(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    film = Shared(server, admin)
    playlist = anybody.get(f"{film.path}/stream/master.m3u8")
    segment = anybody.get(playlist.url.join(CHUNK))
    # Long for browsers; what stands between asks again, and hears when the link is dead.
    assert segment.headers["cache-control"] == (
        "public, max-age=31536000, s-maxage=3600, immutable"
    )
    for name in ("media", "transcript", f"stream/{CHUNK}", "thumbnail.jpg", "captions.vtt"):
        cache = anybody.get(f"{film.path}/{name}").headers["cache-control"]
        assert cache in ("no-cache", "no-store"), name
    admin.delete(f"/media/{film.media_id}/share")
    tag = {"If-None-Match": segment.headers["etag"]}
    assert anybody.get(segment.url, headers=tag).status_code == 404
    mine = admin.get(f"/media/{film.media_id}/stream/master.m3u8", follow_redirects=True)
    own = admin.get(mine.url.join(CHUNK)).headers["cache-control"]
    assert own == "private, max-age=31536000, immutable"


def test_heads_are_answered_as_what_they_are_heads_of(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    film = Shared(server, admin, allow_download=True)
    pages = ["/", "/sign-in", film.path, f"/embed/{film.token}", "/favicon.svg"]
    below = [each.removeprefix("GET ") for each in film.everything() if each.startswith("GET")]
    for path in [*pages, *below]:
        whole, head = anybody.get(path), anybody.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        for name in ("content-type", "content-length", "cache-control"):
            assert head.headers.get(name) == whole.headers.get(name), (path, name)


def test_the_log_does_not_tell_the_address_of_a_link(
    server: Running,
    admin: httpx2.Client,
    anybody: httpx2.Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    film = Shared(server, admin)
    with caplog.at_level("DEBUG"):
        anybody.get(f"{film.path}/media")
        anybody.get(f"/embed/{film.token}")
        anybody.get("/oembed", params={"url": film.made["share_url"]})
    assert "/embed/…" in caplog.text
    own = [each.getMessage() for each in caplog.records if each.name.startswith("rushes")]
    assert not [each for each in own if film.token in each]


def tags(html: str) -> dict[str, str]:
    found = re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)"', html)
    return dict(found)


def test_a_link_has_a_card_in_which_a_title_is_only_text(
    serve: Callable[..., Running],
) -> None:
    running = serve(embed_origins="https://wiki.example.org")
    with running.client() as admin, stranger(running) as anybody:
        film = Shared(running, admin)
        url = film.made["share_url"]
        html = anybody.get(film.path).text
    escaped = "The &quot;big&quot; &lt;script&gt;alert(1)&lt;/script&gt; &amp; more"
    found = tags(html)
    assert found["og:title"] == found["twitter:title"] == escaped
    assert f"<title>{escaped}</title>" in html
    assert "<script>alert" not in html
    assert found["og:image"] == found["twitter:image"] == f"{url}/thumbnail.jpg"
    assert (found["og:url"], found["og:type"]) == (url, "video.other")
    assert found["og:description"] == "Video, 1:15"
    assert found["twitter:card"] == "player"
    assert found["twitter:player"] == found["og:video"] == url.replace("/s/", "/embed/")
    assert found["robots"] == "noindex"
    discovery = re.search(r'type="application/json\+oembed" href="([^"]+)"', html)
    assert discovery
    assert discovery[1].endswith(f"%2Fs%2F{film.token}&amp;format=json")


def test_without_sites_that_may_frame_it_a_card_has_no_player(
    server: Running, admin: httpx2.Client, anybody: httpx2.Client
) -> None:
    found = tags(anybody.get(Shared(server, admin).path).text)
    assert found["twitter:card"] == "summary_large_image"
    assert not [name for name in found if "video" in name or "player" in name]


def test_oembed(server: Running, admin: httpx2.Client, anybody: httpx2.Client) -> None:
    film = Shared(server, admin)
    url = film.made["share_url"]

    def ask(url: str, **more: Any) -> httpx2.Response:
        return anybody.get("/oembed", params={"url": url, **more})

    found = ask(url).json()
    assert (found["type"], found["version"], found["title"]) == ("video", "1.0", TITLE)
    assert (found["width"], found["height"]) == (640, 360)
    assert f'src="{server.url}/embed/{film.token}"' in found["html"]
    assert "<script>" not in found["html"]
    small = ask(f"{url}?t=12", maxwidth=320, maxheight=90).json()
    assert (small["width"], small["height"]) == (160, 90)
    assert 'width="160" height="90"' in small["html"]
    assert ask(film.made["embed_url"], format="json").json()["html"] == found["html"]
    assert code(ask(url, format="xml")) == (501, "not_implemented")
    elsewhere = url.replace(server.url, "https://example.org")
    nowhere = (elsewhere, f"{server.url}/s/nope", f"{server.url}/watch/x", "x", "http://[", "")
    assert [ask(each).status_code for each in nowhere] == [404] * 6
    assert ask(f"//{server.url.partition('//')[2]}{film.path}").status_code == 404
    assert anybody.get("/oembed").status_code == 422
    assert ask(url, maxwidth=0).status_code == 422
    assert ask(url, maxwidth="wide").status_code == 422
    library.publish(server, film.media_id, FILES, {"kind": "audio", "duration": 3.0})
    assert ask(url).json()["type"] == "rich"


def test_only_sites_that_are_named_may_frame_and_read(serve: Callable[..., Running]) -> None:
    wiki, other = "https://wiki.example.org", "https://evil.example.org"
    running = serve(embed_origins=f"{wiki}, http://127.0.0.1:9")
    with running.client() as admin, stranger(running) as anybody:
        film = Shared(running, admin)
        embed = anybody.get(f"/embed/{film.token}")
        assert embed.headers["content-security-policy"].endswith(
            f"frame-ancestors 'self' {wiki} http://127.0.0.1:9"
        )
        assert "x-frame-options" not in embed.headers
        for path in ("/", film.path, "/settings", f"{film.path}/media", "/embed", "/embed/a/b"):
            page = anybody.get(path)
            assert page.headers["x-frame-options"] == "DENY", path
        for path in ("/", film.path):
            policy = anybody.get(path).headers["content-security-policy"]
            assert policy.endswith("frame-ancestors 'none'")

        def cors(path: str, origin: str, method: str = "GET") -> httpx2.Response:
            return anybody.request(method, path, headers={"Origin": origin})

        segment = f"{film.path}/stream/{CHUNK}"
        allowed = cors(segment, wiki)
        assert allowed.headers["access-control-allow-origin"] == wiki
        assert allowed.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in allowed.headers
        assert "content-range" in allowed.headers["access-control-expose-headers"]
        asked = cors(segment, wiki, "OPTIONS")
        assert asked.status_code == 204
        assert "range" in asked.headers["access-control-allow-headers"]
        for path, origin in (
            (segment, other),
            (segment, f"{wiki}.evil.example.org"),
            (segment, "null"),
            (film.path, wiki),
            ("/api/v1/session", wiki),
        ):
            answer = cors(path, origin)
            assert "access-control-allow-origin" not in answer.headers, (path, origin)
            assert cors(path, origin, "OPTIONS").status_code == 405
        assert cors(segment, other).headers["vary"] == "Origin"


@pytest.mark.parametrize(("origins", "ancestors"), [("*", "*"), ("", "'self'")])
def test_every_site_or_none(serve: Callable[..., Running], origins: str, ancestors: str) -> None:
    running = serve(embed_origins=origins)
    with running.client() as admin, stranger(running) as anybody:
        film = Shared(running, admin)
        policy = anybody.get(f"/embed/{film.token}").headers["content-security-policy"]
        assert policy.endswith(f"frame-ancestors {ancestors}")
        answer = anybody.get(f"{film.path}/media", headers={"Origin": "https://a.example"})
        assert answer.headers.get("access-control-allow-origin") == (origins or None)


def test_where_an_address_can_be_reached_from(server: Running, admin: httpx2.Client) -> None:
    media_id = library.add(server, library.user_id(admin))
    expected = {
        "rushes.example.org": "anywhere",
        "203.0.114.9:8080": "anywhere",
        "nas.local:8484": "network",
        "nas": "network",
        "192.168.1.7": "network",
        "127.0.0.1:8484": "machine",
    }
    for host, reach in expected.items():
        answer = admin.post(f"/media/{media_id}/share", headers={"Host": host})
        assert answer.json()["reach"] == reach, host


def test_a_password_of_a_link_is_no_password_of_an_account(server: Running) -> None:
    """What people fail at with a link does not keep its owner from signing in elsewhere."""
    add_user(server)
    with signed_in(server) as ada, stranger(server) as thief:
        film = Shared(server, ada, password=SECRET)
        thief.headers["X-Forwarded-For"] = "203.0.113.1"
        for _ in range(8):
            thief.post(f"{film.path}/unlock", json={"password": PASSWORD})
        with server.client(None) as browser:
            assert sign_in(browser, "ada").status_code == 201
