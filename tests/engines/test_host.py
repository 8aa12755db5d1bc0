"""Who waits for the engine is next, however often others ask."""

from __future__ import annotations

import threading

import pytest

from rushes.engines.host import Turns
from shell import until


def test_whoever_has_waited_longest_is_next() -> None:
    turns, order = Turns(), []

    def ask(name: str) -> None:
        with turns.mine():
            order.append(name)

    threads = []
    with turns.mine():
        for name in ("short clip", "next window"):
            threads.append(threading.Thread(target=ask, args=[name]))
            threads[-1].start()
            # Itself, and those that wait.
            until(lambda: len(turns._line) == 1 + len(threads))
    for each in threads:
        each.join(20)
    assert order == ["short clip", "next window"]


def test_who_gives_up_waiting_holds_up_nobody() -> None:
    turns = Turns()

    def give_up() -> None:
        raise TimeoutError

    with turns.mine(), pytest.raises(TimeoutError), turns.mine(give_up):
        pytest.fail("it was not its turn")
    with turns.mine():
        pass


def test_what_is_not_used_is_let_go_but_nobody_is_disturbed() -> None:
    turns = Turns()
    with turns.mine(), turns.mine_if_free() as mine:
        assert not mine
    with turns.mine_if_free() as mine:
        assert mine
    with turns.mine():
        pass
