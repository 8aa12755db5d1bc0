"""Which language a text is in, as far as its small words tell."""

from __future__ import annotations

import pytest

from rushes.transcripts import language, tokens

SAID = {
    "ar": "نحن نركض إلى البيت لأن الوقت متأخر في هذا المساء من كل يوم.",
    "ca": "Correm cap a casa perquè és tard. Què han fet els nens avui? No ho sé, però"
    " això està molt bé.",
    "da": "Jeg ved ikke hvad der er sket, men vi skal hjem efter at have set noget af det. Det blev"
    " sent for mig.",
    "de": "Wir laufen nach Hause, und es ist schon spät. Was haben die Kinder heute gemacht?",
    "el": "Τρέχουμε στο σπίτι γιατί είναι αργά.",
    "en": "We are running to the house and it is late.",
    "es": "Corremos a la casa porque ya es tarde. ¿Qué han hecho los niños hoy?",
    "eu": "Etxera goaz korrika berandu da eta. Zer egin dute umeek gaur? Ez dakit, oso ondo dago.",
    "fi": "Me juoksemme kotiin, koska on jo myöhä. Mitä lapset ovat tehneet? En tiedä, mutta se on"
    " hyvin.",
    "fr": "Nous courons à la maison et il est déjà tard. Qu'est-ce que vous avez fait ?",
    "ga": "Tá muid ag rith abhaile mar tá sé déanach. Cad a rinne na páistí inniu? Níl sé.",
    "hi": "हम घर भाग रहे हैं क्योंकि देर हो गई है। बच्चों ने आज क्या किया? मैं नहीं जानता।",
    "hu": "Hazafelé futunk, mert már késő van. Mit csináltak ma a gyerekek? Nem tudom, hogy ez mi.",
    "hy": "Մենք վազում ենք տուն",
    "id": "Kami berlari ke rumah karena sudah malam. Apa yang dilakukan anak-anak hari ini? Saya"
    " tidak tahu.",
    "it": "Corriamo a casa perché è già tardi. Che cosa hanno fatto i bambini oggi? Non lo so.",
    "lt": "Mes bėgame namo, nes jau vėlu. Ką vaikai šiandien veikė? Aš nežinau, bet tai yra gerai.",
    "ne": "हामी घर जाँदैछौं किनभने ढिलो भयो। यो राम्रो छ र म पनि जान्छु तर उनी छैन।",
    "nl": "We rennen naar huis, want het is al laat. Wat hebben de kinderen vandaag gedaan?",
    "no": "Jeg vet ikke hva som har skjedd, men vi skal hjem etter å ha sett noe av det. Det ble"
    " sent for meg.",
    "pt": "Corremos para casa porque já é tarde. O que é que as crianças fizeram hoje? Não sei.",
    "ro": "Alergăm spre casă pentru că este târziu. Ce au făcut copiii astăzi? Nu știu, dar sunt.",
    "ru": "Мы бежим домой, потому что уже поздно. Что дети делали сегодня? Я не знаю.",
    "sr": "Трчимо кући јер је касно. Шта су деца радила данас? Не знам, али то није за мене.",
    "sv": "Vi springer hem för att det är sent. Vad har barnen gjort i dag? Jag vet inte.",
    "ta": "நாங்கள் வீட்டிற்கு ஓடுகிறோம்",
    "tr": "Eve koşuyoruz çünkü çok geç oldu. Bu çocuklar bugün ne yaptı? Ben bilmiyorum ama bir şey"
    " var.",
    "yi": "מיר לויפן אהיים ווייל עס איז שפעט. וואָס האָט דער יינגל און די מיידל געטון?",
    # Without stems, but near to some that have them.
    "ja": "今日は東京タワーに行きました。",
    "ko": "안녕하세요 여러분",
    "pl": "Biegniemy do domu, bo jest już późno. Co dzieci robiły? Nie wiem, ale to się stało.",
    "uk": "Ми біжимо додому, тому що вже пізно. Що діти робили сьогодні? Я не знаю, але це є.",
    "zh": "我们明天去北京开会",
}  # fmt: skip


@pytest.mark.parametrize("code", SAID)
def test_a_few_sentences_are_enough(code: str) -> None:
    assert language.detect(SAID[code]) == code


def test_every_language_that_has_stems_is_known() -> None:
    assert set(tokens.LANGUAGES) - set(SAID) <= {"nb", "nn"}


@pytest.mark.parametrize(
    "text", ["", "1, 2, 3", "Ada Lovelace, Charles Babbage", "Qapla’ nuqneH", "♪ ♪", "OK"]
)
def test_what_cannot_be_told_is_left_open(text: str) -> None:
    assert language.detect(text) is None


def test_a_foreign_beginning_of_a_long_text_does_not_decide() -> None:
    assert language.detect(SAID["en"] * 50 + SAID["de"] * 2000) == "de"


@pytest.mark.parametrize(
    ("said", "tag"),
    [
        ("de", "de"),
        ("DEU", "de"),
        ("ger", "de"),
        ("German", "de"),
        ("pt_BR", "pt-br"),
        ("yue", "yue"),
        ("xx", None),
        ("klingon", None),
        ("de'; --", None),
        ("", None),
        (None, None),
    ],
)
def test_languages_are_named_in_many_ways(said: str | None, tag: str | None) -> None:
    assert language.named(said) == tag
