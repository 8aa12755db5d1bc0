"""Keys are recognised, and only themselves."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushes import errors
from rushes.accounts import account, keys
from rushes.accounts.account import Principal, Role, Scope


@pytest.mark.parametrize("kind", list(keys.KeyKind))
def test_a_key_says_what_it_is_and_matches_itself(kind: keys.KeyKind) -> None:
    made = keys.make(kind)
    assert re.fullmatch(rf"rushes_{kind}_[\w-]{{43}}[0-9a-z]{{6}}", made.text)
    assert keys.prefix_of(kind, made.text) == made.prefix
    assert keys.matches(made.text, made.hash)
    assert not keys.matches(keys.make(kind).text, made.hash)
    assert made.text not in made.hash
    for other in keys.KeyKind:
        if other is not kind:
            assert keys.prefix_of(other, made.text) is None


@given(st.integers(11, 58), st.sampled_from("abcXYZ019_-"))
def test_a_typing_error_is_noticed_before_anything_is_looked_up(at: int, char: str) -> None:
    text = keys.make(keys.KeyKind.TOKEN).text
    wrong = text[:at] + char + text[at + 1 :]
    found = keys.prefix_of(keys.KeyKind.TOKEN, wrong)
    assert (found is not None) == (wrong == text)


def test_a_code_can_be_typed_carelessly() -> None:
    made = keys.make_code()
    assert keys.digest(keys.tidy_code(f" {made.text.lower().replace('-', ' ')} ")) == made.hash


def test_an_empty_secret_lets_nobody_in() -> None:
    assert not keys.same("", "")
    assert keys.same("x", "x")
    assert not keys.same("x", "y")


def test_scopes_include_those_before_them() -> None:
    def may(scope: Scope) -> list[bool]:
        who = Principal(user_id="u", name="u", role=Role.ADMIN, scope=scope)
        return [who.may(each) for each in Scope] + [who.is_admin]

    assert may(Scope.READ) == [True, False, False, False]
    assert may(Scope.WRITE) == [True, True, False, False]
    assert may(Scope.ADMIN) == [True, True, True, True]
    user = Principal(user_id="u", name="u", role=Role.USER, scope=Scope.ADMIN)
    assert not user.is_admin
    with pytest.raises(errors.BadField):
        account.check_scopes(["admin"], Role.USER)
    with pytest.raises(errors.BadField):
        account.check_scopes([], Role.ADMIN)
