"""What a loop of the engine looks like, in any script."""

from __future__ import annotations

import pytest

from rushes.engines.whisper import compression_ratio
from rushes.handlers.transcribe.plausibility import LOOPING_RATIO

SAID = {
    "English": "Are you going to the market in the morning or in the afternoon? In the morning, I"
    " think, because the bread is fresh then and there are not so many people in the street yet.",
    "Russian": "Вы пойдёте на рынок утром или после обеда? Я думаю, что утром, потому что тогда"
    " хлеб ещё свежий и на улице не так много людей, и я успею ещё зайти на почту и на вокзал,"
    " потому что утром на вокзале и на почте тоже не так много людей, как после обеда."
    " А потом я пойду домой, потому что после обеда ко мне придут друзья, и мы пойдём вместе на"
    " реку, потому что на реке после обеда хорошо, и домой мы пойдём уже вечером, когда на улице"
    " будет не так жарко и когда на реке уже не будет так много людей, как после обеда.",
    "Greek": "Θα πας στην αγορά το πρωί ή το απόγευμα; Το πρωί, νομίζω, γιατί τότε το ψωμί είναι"
    " φρέσκο και δεν υπάρχουν ακόμα τόσοι πολλοί άνθρωποι στον δρόμο.",
    "Chinese": "你早上去市场还是下午去市场？我想早上去，因为早上的面包很新鲜，街上的人也不多。",
}
LOOPS = ["Thank you for watching. " * 12, "Спасибо за внимание. " * 12, "谢谢观看。" * 12]


@pytest.mark.parametrize("text", SAID.values(), ids=SAID)
def test_what_people_say_is_no_loop(text: str) -> None:
    assert compression_ratio(text) < LOOPING_RATIO


@pytest.mark.parametrize("text", LOOPS)
def test_a_sentence_again_and_again_is_one(text: str) -> None:
    assert compression_ratio(text) > LOOPING_RATIO
