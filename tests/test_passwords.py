"""Which passwords may be chosen."""

from __future__ import annotations

import secrets

import pytest

from rushes import errors
from rushes.accounts import passwords


@pytest.mark.parametrize(
    "password",
    [
        "short",
        "x" * 129,
        # One character, one block, or a row of an alphabet or a keyboard, over and over.
        "aaaaaaaaaaaaaaa",
        "aaaabbbbcccc",
        "ababababababab",
        "123123123123",
        "zyxwvutsrqpo",
        "1qaz2wsx3edc",
        "qwertyuiopas",
        "йцукенгшщзхй",
        # Common words, alone or with what people put behind them.
        "password1234",
        "Password2026!",
        "P@ssw0rd!2024",
        "iloveyou1234",
        "letmeinletmein",
        "Summer2026!!!!",
        "Fußball-2024!",
        "administrator",
        # With the name of the user.
        "ada-password-1",
        "ada.lovelace1815",
        "LovelaceLovelace",
    ],
)
def test_what_is_easy_to_guess_is_refused(password: str) -> None:
    with pytest.raises(errors.BadField) as refused:
        passwords.check(password, "ada.lovelace")
    assert refused.value.field == "password"


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery",
        "a much better password",
        "horsebattery",
        "Kaffeetasse im Schrank",
        "xK9#mQ2$vL7p",
        "четыре слова подряд",
        "dragon monkey football summer",
        "ada.lovelace met mr. babbage",
    ],
)
def test_a_few_words_or_chance_are_taken(password: str) -> None:
    assert passwords.check(password, "ada.lovelace") == password


def test_what_a_password_manager_makes_is_taken() -> None:
    for _ in range(2_000):
        passwords.check(secrets.token_urlsafe(9), "ada")


def test_the_name_counts_only_for_its_user() -> None:
    assert passwords.check("babbage-1791-x", "ada")
    with pytest.raises(errors.BadField, match="the name of the user"):
        passwords.check("babbage-1791-x", "Babbage")


def test_a_short_name_does_not_forbid_its_letters() -> None:
    assert passwords.check("a few words of mine", "a")
