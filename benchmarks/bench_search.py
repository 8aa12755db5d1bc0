"""Searching in 1,000 hours of speech, made up: how long people wait, on both databases.

Prints `figure search_DATABASE_QUERIES p50=… p95=…` in milliseconds for each kind of query, and over
all of them `ratio search_p95_ms_DATABASE VALUE goal <=50`; first asked in this process, then over
HTTP (`search_http_…`). Before it, `ratio search_indexing_DATABASE VALUE goal <=…`: how much longer
it takes to keep an hour of speech, in all tables, than to put its text into a bare index of the
same database (FTS5, or tsvector and GIN as PostgreSQL makes them).
"""

# ruff: noqa: E402  the path has to be mended before the imports

from __future__ import annotations

import sys

ROOT = __file__.rsplit("/", 2)[0]
sys.path[0] = ROOT
sys.path.append(f"{ROOT}/tests")

import argparse
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import httpx2

import services
from running import Process, settings_for
from rushes.db.database import Database
from rushes.jobs.queue import Queue
from rushes.media import library
from rushes.media.media import NewMedia
from rushes.transcripts import archive, search, tokens
from rushes.transcripts.transcript import Transcript, TranscriptSegment

SEGMENTS_PER_HOUR = 600
WORDS_PER_SEGMENT = 16
COMMON = """the of and to in that is was it for on with as you this have are they from at be but
    not what all were when we there can an your which their said if do will each about how up out
    them then many some these so other into has more her two like him see time could no make"""
ONSETS = "b bl br c ch d dr f fl g gr h j k l m n p pl pr qu r s sh st str t th tr v w z"
ENDS = "a e i o u ai ea ou an en in on un er or al ic ing ed ess ist ous tion ment"
LANGUAGES = ("en", "en", "en", "de", "fr")
# Nearly all is the owner's, some the guest's; the stranger has nothing, an admin sees everything.
OWNER, GUEST, STRANGER, ADMIN = "owner", "guest", "stranger", "admin"
GOAL = 50
INDEXING_GOAL = {"sqlite": 20, "postgres": 10}
# Of so many hours one is put into the bare index, too.
COMPARED = 5
BARE = {
    "sqlite": (
        "CREATE VIRTUAL TABLE bare USING fts5(text)",
        "INSERT INTO bare (text) VALUES (:text)",
    ),
    "postgres": (
        "CREATE TABLE bare (text text, lexemes tsvector);"
        " CREATE INDEX bare_lexemes ON bare USING gin (lexemes)",
        "INSERT INTO bare VALUES (%(text)s, to_tsvector('simple', %(text)s))",
    ),
}

Query = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=40, help="of each kind")
    parser.add_argument("--quick", action="store_true", help="a trial run; its figures mean little")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    options = parser.parse_args()
    hours, count = (20, 5) if options.quick else (options.hours, options.queries)
    for name in ("sqlite", "postgres"):
        if options.only in (None, name):
            with site(name) as opened:
                measure(opened, name, hours, count)


@dataclass(frozen=True, slots=True)
class Person:
    id: str | None
    authorization: str


@dataclass(frozen=True, slots=True)
class Site:
    """A database, and a server over it that is not running yet."""

    server: Process
    db: Database
    people: dict[str, Person]
    place: Path
    postgres: services.Postgres | None

    def cpu_seconds(self) -> float:
        """Of this process and of PostgreSQL."""
        ticks = 0
        for pid in services.processes_in(self.postgres.data) if self.postgres else ():
            _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            ticks += sum(map(int, rest.split()[11:13]))
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measure(site: Site, name: str, hours: int, count: int) -> None:
    chance = random.Random(7)
    words, weights = vocabulary(chance)
    ours: list[float] = []
    bare: list[float] = []
    with bare_index(site, name) as put_bare:
        for hour in range(hours):
            owner = site.people[GUEST if hour % 50 == 25 else OWNER]
            heard = speech(chance, words, weights, hour)
            ours.append(took(partial(keep, site.db, owner.id or "", hour, heard)))
            if hour % COMPARED == 0:
                bare.append(took(partial(put_bare, heard)))
    print(f"figure search_{name}_indexing {statistics.mean(ours):.0f} ms per hour of speech")
    ratio = statistics.mean(ours[::COMPARED]) / statistics.mean(bare)
    print(f"ratio search_indexing_{name} {ratio:.1f} goal <={INDEXING_GOAL[name]}", flush=True)
    # A server that has just started knows no word yet.
    tokens.stemmed.cache_clear()
    asked = {kind: [make(chance) for _ in range(count)] for kind, make in kinds(words).items()}
    used = site.cpu_seconds()
    report(name, "", asked, lambda query: search_within(site, query))
    used = (site.cpu_seconds() - used) / sum(map(len, asked.values()))
    print(f"figure search_cpu_ms_{name} {used * 1000:.1f} of each search, server and client")
    site.server.start()
    with httpx2.Client(base_url=f"{site.server.url}/api/v1", timeout=60) as client:
        report(name, "http_", asked, lambda query: search_over_http(site, client, query))


def report(
    name: str, way: str, asked: dict[str, list[Query]], ask: Callable[[Query], None]
) -> None:
    every: list[float] = []
    for kind, queries in asked.items():
        times = sorted(took(partial(ask, query)) for query in queries)
        every += times
        p50, p95 = statistics.median(times), times[int(len(times) * 0.95)]
        print(f"figure search_{way}{name}_{kind} p50={p50:.1f} p95={p95:.1f} worst={times[-1]:.1f}")
    every.sort()
    p95 = every[int(len(every) * 0.95)]
    print(f"figure search_{way}p50_ms_{name} {statistics.median(every):.1f}")
    print(f"ratio search_{way}p95_ms_{name} {p95:.1f} goal <={GOAL}", flush=True)


def took(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def search_within(site: Site, query: Query) -> None:
    who, q = query
    with site.db.read() as tx:
        search.search(tx, q, user_id=site.people[who].id)


def search_over_http(site: Site, client: httpx2.Client, query: Query) -> None:
    who, q = query
    headers = {"Authorization": site.people[who].authorization}
    answer = client.get("/search", params={"q": q}, headers=headers)
    assert answer.status_code == 200, answer.text


def kinds(words: list[str]) -> dict[str, Callable[[random.Random], Query]]:
    """Who looks, and for what."""
    frequent, last = COMMON.split(), len(words)

    def common(chance: random.Random) -> str:
        return chance.choice(frequent)

    def rare(chance: random.Random) -> str:
        return words[chance.randrange(last // 2, last)]

    def usual(chance: random.Random) -> str:
        return words[chance.randrange(200, 3000)]

    def misspelt(chance: random.Random) -> str:
        word = chance.choice([each for each in words[200:] if len(each) > 6])
        at = chance.randrange(1, len(word) - 2)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    def part(chance: random.Random) -> str:
        """Of many words of four syllables, which a fifth of all hours says in German."""
        return chance.choice([each for each in words[200:3000] if len(each) in (5, 6)])

    return {
        "rare": lambda chance: (OWNER, f"{rare(chance)} "),
        "usual": lambda chance: (OWNER, f"{usual(chance)} "),
        "common": lambda chance: (OWNER, f"{common(chance)} "),
        "two_common": lambda chance: (OWNER, f"{common(chance)} {common(chance)} "),
        "two_usual": lambda chance: (OWNER, f"{usual(chance)} {usual(chance)} "),
        "common_and_rare": lambda chance: (OWNER, f"{common(chance)} {rare(chance)} "),
        "phrase": lambda chance: (OWNER, f'"{common(chance)} {usual(chance)}"'),
        "three_letters": lambda chance: (OWNER, (usual(chance) + "xx")[:3]),
        "four_letters": lambda chance: (OWNER, (usual(chance) + "xx")[:4]),
        "common_typed": lambda chance: (OWNER, common(chance)),
        "nothing": lambda chance: (OWNER, f"xyzzy{chance.randrange(10**6)} "),
        "misspelt": lambda chance: (OWNER, f"{misspelt(chance)} "),
        "compound": lambda chance: (OWNER, f"{part(chance)} "),
        "typo_and_compound": lambda chance: (OWNER, f"{misspelt(chance)} {part(chance)} "),
        "admin_misspelt": lambda chance: (ADMIN, f"{common(chance)} {misspelt(chance)}"),
        "guest_common": lambda chance: (GUEST, f"{common(chance)} "),
        "guest_usual": lambda chance: (GUEST, f"{usual(chance)} "),
        "stranger": lambda chance: (STRANGER, f"{common(chance)} "),
        "admin_usual": lambda chance: (ADMIN, f"{usual(chance)} "),
    }


def vocabulary(chance: random.Random) -> tuple[list[str], list[float]]:
    """Common words are said as often as in any language, the others by Zipf's law."""
    made = dict.fromkeys(COMMON.split())
    onsets, ends = ONSETS.split(), ENDS.split()
    while len(made) < 30_000:
        syllables = chance.choices((1, 2, 3, 4), (1, 4, 4, 2))[0]
        made["".join(chance.choice(onsets) + chance.choice(ends) for _ in range(syllables))] = None
    words = list(made)
    return words, list(accumulate(1 / (place + 2) for place in range(len(words))))


def speech(chance: random.Random, words: list[str], weights: list[float], hour: int) -> Transcript:
    said = chance.choices(words, cum_weights=weights, k=SEGMENTS_PER_HOUR * WORDS_PER_SEGMENT)
    segments = [
        TranscriptSegment(
            id=f"seg_{n + 1:06d}",
            start=6.0 * n,
            end=6.0 * n + 6,
            text=" ".join(said[n * WORDS_PER_SEGMENT : (n + 1) * WORDS_PER_SEGMENT]),
        )
        for n in range(SEGMENTS_PER_HOUR)
    ]
    return Transcript(
        text="", language=LANGUAGES[hour % len(LANGUAGES)], segments=segments, words=[]
    )


def keep(db: Database, user_id: str, hour: int, heard: Transcript) -> None:
    with db.begin() as tx:
        media_id = library.add(tx, Queue(), NewMedia(user_id=user_id, title=f"Hour {hour}"))
        archive.add(tx, media_id=media_id, user_id=user_id, job_id=None, transcript=heard)


@contextmanager
def bare_index(site: Site, name: str) -> Iterator[Callable[[Transcript], None]]:
    """A database of its own with nothing but an index of texts, and how to put some into it."""
    create, insert = BARE[name]
    connection: Any
    if site.postgres is not None:
        connection = Database(site.postgres.create_database("bare")).connect()
    else:
        connection = sqlite3.connect(site.place / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = normal")

    def put(heard: Transcript) -> None:
        texts = [each.text for each in heard.segments]
        cursor = connection.cursor()
        cursor.execute("BEGIN")
        rows: list[Any] = (
            [{"text": text} for text in texts] if site.postgres else [(text,) for text in texts]
        )
        cursor.executemany(insert, rows)
        cursor.execute("COMMIT")

    with closing(connection):
        connection.execute(create)
        yield put


@contextmanager
def site(name: str) -> Iterator[Site]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rushes-bench-")))
        where = f"sqlite:///{place}/rushes.db"
        postgres = None
        if name == "postgres":
            (place / "server").mkdir()
            postgres = services.Postgres.start(place / "server")
            stack.callback(postgres.stop)
            where = postgres.create_database("search")
        # What was uploaded is not there: nobody may try to work on it.
        nobody = {"transcode_workers": 0, "transcription_workers": 0}
        given = settings_for(
            data_dir=place / "data", database_url=where, sweep_interval=10.0, **nobody
        )
        server = stack.enter_context(Process(given))
        people = {ADMIN: Person(None, server.client().headers["Authorization"])}
        for each in (OWNER, GUEST, STRANGER):
            people[each] = _person(server, each)
        server.stop()
        db = stack.enter_context(closing(Database(where)))
        yield Site(server, db, people, place, postgres)


def _person(server: Process, name: str) -> Person:
    with server.user(name) as theirs, server.client() as admin:
        users = admin.get("/users").json()["items"]
        id = next(each["id"] for each in users if each["name"] == name)
        return Person(id, theirs.headers["Authorization"])


if __name__ == "__main__":
    main()
