from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.transcripts import tokens
from rushes.transcripts.tokens import Query
from spoken import at_random


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  …!? — ", []),
        ("Hello, World!", ["hello", "world"]),
        ("don't DON’T rock'n'roll '90s'", ["dont", "dont", "rocknroll", "90s"]),
        ("l'homme d’accord dell'arte", ["l", "homme", "d", "accord", "dell", "arte"]),
        ("École naïve Ångström", ["ecole", "naive", "angstrom"]),
        ("E\u0301cole", ["ecole"]),
        ("Straße ﬁn Ærø Łódź", ["strasse", "fin", "aero", "lodz"]),
        ("İstanbul ISPARTA ılık", ["istanbul", "isparta", "ilik"]),
        ("мой ёлка Київ", ["мой", "елка", "киів"]),
        ("Ελλάδα ΟΔΟΣ", ["ελλαδα", "οδοσ"]),
        ("שָׁלוֹם", ["שלום"]),
        ("مُحَمَّد", ["محمد"]),
        ("हिन्दी कु", ["हिन्दी", "कु"]),
        ("日本語", ["日", "本", "語"]),
        ("がカ゛", ["が", "カ"]),
        ("ｶﾞ", ["ガ"]),
        ("한국어", ["한", "국", "어"]),
        ("iPhone日本", ["iphone", "日", "本"]),
        ("C++ x_y a.b 3.5", ["c", "x", "y", "a", "b", "3", "5"]),
        ("ＦＵＬＬ ①", ["full", "1"]),
        ("1,299 1.299.000 1'299 12,5 1,2345", ["1299", "1299000", "1299", "12", "5", "1", "2345"]),
        ("In 2019,500 1,299th a1,299.", ["in", "2019", "500", "1", "299th", "a1", "299"]),
    ],
)  # fmt: skip
def test_words_are_folded(text: str, words: list[str]) -> None:
    assert [each.word for each in tokens.tokens(text)] == words


def test_a_token_says_where_it_was_said() -> None:
    text = "  Grüße, l’École!"
    assert [text[each.start : each.end] for each in tokens.tokens(text)] == ["Grüße", "l", "École"]


@at_random
@given(st.text())
def test_tokens_are_in_order_inside_the_text_and_folded_for_good(text: str) -> None:
    found = tokens.tokens(text)
    edges = [edge for each in found for edge in (each.start, each.end)]
    assert edges == sorted(edges)
    for each in found:
        assert 0 <= each.start < each.end <= len(text)
        assert each.word
        assert tokens.fold(text[each.start : each.end]) == each.word
        assert tokens.fold(each.word) == each.word
    assert tokens.ends(text, 3) == [each.end for each in found[:3]]


@at_random
@given(st.text("a1.,' é", max_size=12))
def test_ends_are_those_of_the_tokens(text: str) -> None:
    assert tokens.ends(text, 4) == [each.end for each in tokens.tokens(text, 4)]


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("running", "runs", "en"),
        ("houses", "house", "en-GB"),
        ("houses", "house", "english"),
        ("hauser", "haus", "de"),
        ("maisons", "maison", "fr"),
        ("casas", "casa", "es"),
        ("книги", "книга", "ru"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str, language: str) -> None:
    assert tokens.stem(one, language) == tokens.stem(other, language)


@pytest.mark.parametrize("language", [None, "", "ja", "xx", "klingon", "en/../"])
def test_a_language_that_nobody_knows_leaves_words_alone(language: str | None) -> None:
    assert tokens.stem("running", language) == "running"


def test_many_threads_find_the_same_stems() -> None:
    words = [
        f"{letter}{ending}" for letter in "bcdfgh" for ending in ("arking", "ouses", "ationally")
    ]
    alone = [tokens.stem(word, "en") for word in words]
    found: list[list[str]] = []

    def look() -> None:
        tokens.stemmed.cache_clear()
        found.append([tokens.stem(word, "en") for word in words])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [alone] * 4


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("hello", Query(prefix="hello")),
        ("hello ", Query(terms=("hello",))),
        ("Hello wor", Query(terms=("hello",), prefix="wor")),
        ('say "Hello, World"', Query(terms=("say",), phrases=(("hello", "world"),))),
        ('"one" two', Query(phrases=(("one",),), prefix="two")),
        ("„ein Wort“ zwei ", Query(terms=("zwei",), phrases=(("ein", "wort"),))),
        ('not "closed', Query(terms=("not",), prefix="closed")),
        ("3.5 l'homme x ", Query(terms=("x",), phrases=(("3", "5"), ("l", "homme")))),
        ("l'hom", Query(terms=("l",), prefix="hom")),
        ("日本", Query(phrases=(("日", "本"),))),
        ("日", Query(prefix="日")),
        ("a OR b* NOT -c ", Query(terms=("a", "or", "b", "not", "c"))),
        ("(d) e:f ", Query(terms=("d",), phrases=(("e", "f"),))),
        ("again again ", Query(terms=("again",))),
        ("nul\x00l\tand ", Query(terms=("and",), phrases=(("nul", "l"),))),
    ],
)  # fmt: skip
def test_what_is_typed(q: str, expected: Query) -> None:
    assert tokens.parse_query(q) == expected


@pytest.mark.parametrize("q", ["", "   ", '""', "* - !", "\x00"])
def test_a_query_needs_a_word(q: str) -> None:
    with pytest.raises(errors.BadField) as refused:
        tokens.parse_query(q)
    assert refused.value.field == "q"


def test_a_query_has_a_limit() -> None:
    with pytest.raises(errors.BadField, match="32 words"):
        tokens.parse_query(" ".join(f"w{each}" for each in range(33)))


@pytest.mark.parametrize(
    ("q", "text", "marked"),
    [
        ("run ", "He runs, she is running.", ["runs", "running"]),
        ("run", "He ran to the runway.", ["runway"]),
        ("ecole", "À l'École!", ["École"]),
        ('"the house"', "The houses and the house.", ["the house"]),
        ("日本", "これは日本語です。日曜", ["日本"]),
        ("one two ", "one and one", ["one", "one"]),
        ('"a b" "b c"', "a b c", ["a b c"]),
        ("none ", "nothing of it", []),
        ("mark ", "<b>mark</b>", ["mark"]),
    ],
)
def test_what_is_marked(q: str, text: str, marked: list[str]) -> None:
    ranges = tokens.matches(tokens.parse_query(q), text, "en")
    assert [text[start:end] for start, end in ranges] == marked


def test_a_snippet_shows_where_most_of_it_is_said() -> None:
    text = "nothing but filler words " * 20 + "a blue whale sings " + "and more of them " * 20
    shown, ranges = tokens.snippet(tokens.parse_query("blue whale "), text, "en", 80)
    assert "a blue whale sings" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert [shown[start:end] for start, end in ranges] == ["blue", "whale"]
    assert len(shown) <= 82


def test_a_short_text_is_shown_whole() -> None:
    assert tokens.snippet(tokens.parse_query("so "), "It is so.", "en") == ("It is so.", [(6, 8)])


@at_random
@given(st.text(max_size=300), st.text("ab \"'日é", min_size=1, max_size=8), st.integers(20, 60))
def test_snippets_are_of_the_text_and_marks_are_inside(text: str, q: str, width: int) -> None:
    try:
        query = tokens.parse_query(q)
    except errors.BadField:
        return
    shown, ranges = tokens.snippet(query, text, "en", width)
    assert len(shown) <= width + 2
    assert shown.strip(tokens.ELLIPSIS) in text
    edges = [edge for each in ranges for edge in each]
    assert edges == sorted(edges)
    assert all(0 <= start < end <= len(shown) for start, end in ranges)
    if tokens.matches(query, text, "en"):
        assert ranges
