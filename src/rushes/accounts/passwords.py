"""Which passwords may be chosen. Pure.

What everybody tries first is a common word with a year or 123 behind it. Such parts count for
little, however long they are; what is left must be long enough. No list of leaked passwords is
needed for that, and none is asked over the network.
"""

from __future__ import annotations

import re
import unicodedata

from rushes import errors

LENGTHS = (12, 128)
# What must be left when each guessable part counts as one or two characters.
LEAST = 8
WORD_COUNTS, ROW_COUNTS, REPEATED_COUNTS = 2, 2, 1
SHORTEST_ROW = SHORTEST_NAME = 3
ROWS = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890",
    *("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm"),
    *(
        "1qaz2wsx3edc4rfv5tgb",
        "qazwsxedcrfvtgbyhnujm",
        "йцукенгшщзх",
        "1q2w3e4r5t6y7u8i9o0p",
        "!@#$%^&*()",
        '!"§$%&/()=',
    ),
)
YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
AS_LETTERS = str.maketrans("@4301!|$578", "aaeoiiisstb")
# In several languages: the words of sign-in pages, names, seasons, sports, stars, endearments.
COMMON = frozenset(
    """
    password passwort passwd motdepasse contrasena parola passcode passphrase secret geheim hallo
    пароль привет любовь
    rushes admin administrator root user username guest login signin logon welcome willkommen
    bienvenue access letmein openup opensesame changeme default temp temporary test testing tester
    demo example sample server system computer internet google facebook youtube microsoft windows
    apple android samsung iphone linux ubuntu debian docker postgres database master manager support
    service office company video media hello hallowelt helloworld world whatever nothing nobody
    trustno1 trustme iloveyou loveyou iloveu love liebe jetaime teamo amor lover forever always
    baby angel princess prince queen king sunshine shadow dragon monkey tiger eagle falcon phoenix
    wolf lion horse kitty kitten puppy doggy chicken pokemon pikachu batman superman spiderman
    ironman starwars matrix gandalf hobbit harry potter naruto minecraft fortnite warcraft
    football fussball soccer baseball basketball hockey tennis golf formula ferrari porsche mercedes
    mustang corvette yamaha harley chelsea arsenal liverpool barcelona juventus bayern madrid
    london paris berlin vienna zurich newyork texas canada america germany france italia espana
    spring summer autumn winter fruhling fruehling sommer herbst january february march april june
    july august september october november december monday tuesday wednesday thursday friday
    saturday sunday michael jennifer jessica jordan daniel thomas andrew joshua ashley nicole
    robert william george charlie matthew michelle anthony hunter taylor maggie buster pepper ginger
    cookie cheese coffee chocolate banana orange purple yellow silver golden diamond crystal flower
    freedom killer ninja warrior soldier jesus christ blessed hannah hahaha lalala blabla asdf qwer
    zxcv qwert qwertz azerty number money dollar lucky happy smile magic music guitar
    """.split()  # noqa: SIM905  a list of this length reads better as text
)
SENTENCE = (
    "is too easy to guess: common words, years, the name of the user, repetitions and rows such as"
    " 12345 or qwerty hardly count. Take a few words that only you would put together"
)


def check(password: str, name: str = "") -> str:
    """The password; BadField when it may not be chosen by the user of this name."""
    shortest, longest = LENGTHS
    if not shortest <= len(password) <= longest:
        raise errors.BadField("password", f"must have {shortest} to {longest} characters")
    if weight(password, name) < LEAST:
        raise errors.BadField("password", SENTENCE)
    return password


def weight(password: str, name: str = "") -> int:
    """How many characters of it whoever knows the name and the common ways has to guess."""
    text = _without_repetition(unicodedata.normalize("NFKC", password).casefold())
    letters = text.translate(AS_LETTERS)
    words = COMMON | {part for part in _parts(name) if len(part) >= SHORTEST_NAME}
    longest = max(len(word) for word in words)
    at = counted = 0
    while at < len(text):
        parts = (
            (_run(text, at), REPEATED_COUNTS),
            (_row(text, at), ROW_COUNTS),
            (_year(text, at), REPEATED_COUNTS),
            (max(_word(each, at, words, longest) for each in (text, letters)), WORD_COUNTS),
        )
        # The longest part that begins here; a single character if there is none.
        length, counts = max(parts, key=lambda part: part[0])
        at += max(length, 1)
        counted += counts if length else 1
    return counted


def _parts(name: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return [folded, *re.split(r"[\W_]+", folded)]


def _without_repetition(text: str) -> str:
    """`letmeinletmein` is as hard to guess as its half."""
    period = (text + text).find(text, 1)
    return text[:period]


def _run(text: str, at: int) -> int:
    end = at
    while end < len(text) and text[end] == text[at]:
        end += 1
    return end - at if end - at >= SHORTEST_ROW else 0


def _row(text: str, at: int) -> int:
    """How long the piece of an alphabet or of a keyboard is, in either direction."""
    best = 0
    for row in ROWS:
        for each in (row, row[::-1]):
            length = SHORTEST_ROW
            while at + length <= len(text) and text[at : at + length] in each:
                best = max(best, length)
                length += 1
    return best


def _year(text: str, at: int) -> int:
    return 4 if YEAR.match(text, at) else 0


def _word(text: str, at: int, words: frozenset[str], longest: int) -> int:
    for length in range(min(longest, len(text) - at), SHORTEST_NAME - 1, -1):
        if text[at : at + length] in words:
            return length
    return 0
