"""Which language a text is in: what somebody says of it, or what its small words tell. Pure.

Good enough to choose a stemmer, for the languages that have one, and for those that would be taken
for one of them. It says nothing rather than something wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice

from rushes.engines import catalog
from rushes.tools import languages
from rushes.transcripts import tokens

# Of a long text, so much of its beginning, middle and end.
SAMPLE_CHARACTERS = 10_000
# Fewer small words than this, or a smaller share of all, may be names or another language's.
FEWEST, LEAST_SHARE = 3, 0.1
# By so much, and this share, the first must be ahead of the second: Danish is near to Norwegian.
AHEAD, AHEAD_SHARE = 2, 0.08
# So much of all letters in a script.
SCRIPT_SHARE = 0.6

# A script that only one language of ours is written in. The order matters: Japanese has Chinese
# letters, too.
SCRIPTS: Mapping[str, str] = {
    "ja": "\u3041-\u3096\u30a1-\u30fa",
    "ko": "\uac00-\ud7a3",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff",
    "th": "\u0e01-\u0e4e",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hy": "\u0531-\u0587",
    "ka": "\u10d0-\u10ff",
    "ta": "\u0b80-\u0bff",
    "bn": "\u0980-\u09ff",
    "te": "\u0c00-\u0c7f",
}
# Between Chinese letters, a few of these are enough.
KANA_SHARE = 0.05

_SMALL_WORDS: Mapping[str, str] = {
    "ar": "في من على إلى أن هذا هذه التي الذي لا ما كان عن مع هو هي كل لم قد بعد أو ذلك نحن أنا إن",
    "bg": "на се че да не за от са към което който тя той ние аз много беше като това има ще си го",
    "ca": "el la els les de que i en un una per amb no es és al del són però com més molt aquest"
    " aquesta hi ha fer jo tu ell això també quan perquè nosaltres tot sense està aquí l d",
    "cs": "a je se na že to v s z do i ale jsem jako pro tak by jsou co když byl jen po není jsme"
    " ve který už nebo bylo tady protože být",
    "da": "og i det at er en til på som af for med den ikke jeg de du et vi har han kan der hvad"
    " var men så mig dig også nogle blev være efter når noget sig hun min skal vil",
    "de": "der die das und ist in zu den nicht von sie mit es ein eine auf ich dem wir er auch als"
    " an wie für im dass aber man so wenn haben war was werden noch nach bei oder nur hat kann",
    "en": "the and of to a in is that it you for on with as are this be have was not they we but"
    " at from or which what there can will an my your his her if do all so would about dont its",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más pero sus"
    " le ya o este sí porque esta muy cuando sin sobre también me hay todo nos está yo eso",
    "eu": "eta da ez bat du dira hau zen baina ere hori bere egin dut izan dute gara nik zer oso"
    " behar ditu zuen nire zure den badago bai",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم نیز شده می شود ما من شما بود",
    "fi": "ja on ei se että en hän oli ovat mutta kun mitä niin minä sinä me he tämä joka nyt vain"
    " ole olen kuin jos myös sitten mukaan kanssa hyvin tässä voi",
    "fr": "de la le et les des en un une du que est pour qui dans il pas ce par sur au plus avec"
    " je vous nous on se ne mais ou sont cette elle comme tout bien c l d j qu être fait aux",
    "ga": "an agus na ar le go is i sé sí tá níl bhí seo sin ag do mé tú leis don ach bhfuil mar"
    " chun gach raibh as dom",
    "he": "של את על לא הוא זה עם כי אני גם היא מה כל אבל יש אם או היה הם אנחנו רק כמו אל",
    "hi": "है के में की का और से को यह नहीं हैं पर एक भी तो ने हम वह ही कि था इस मैं आप लिए",
    "hu": "a az és hogy nem is egy ez de van meg volt csak ha már mint még el én ki azt mi ezt"
    " vagy lehet minden nagyon kell így most itt akkor olyan",
    "hr": "i je u da se na su za što nije kao ali od sa to li sam smo koji bi će ili bio samo sve"
    " još gdje ovo tko uvijek tijekom",
    "id": "yang dan di ini itu dengan untuk dari tidak dalam adalah pada akan ke kita saya ada kami"
    " mereka anda juga bisa karena sudah atau oleh lebih seperti dia",
    "it": "di che e la il un a per in una non sono mi si è con ma da lo le come i ho del al della"
    " gli più questo anche se ci cosa alla nel c l d dell perché quando io",
    "lt": "ir yra kad į su iš tai bet kaip ne buvo aš jis ar mes jie apie tik labai dar nuo už"
    " taip jau ką kai mano per po",
    "mr": "आहे आणि या च्या ते हे मी तो ती नाही होते होता काय आम्ही तुम्ही पण मध्ये आहेत एक त्या",
    "ne": "छ र को मा यो छन् हो पनि हामी तपाईं थियो गर्न भने लागि हुन्छ गरेको म तर यस छैन एक",
    "nl": "de het een en van ik te dat die in is niet je op zijn met voor er maar om hij ook aan we"
    " als dan wat nog naar dit bij deze wordt hebben heeft door over uit kan ze was worden",
    "no": "og i det er å en til på som av for med den ikke jeg de du et vi har han kan der hva var"
    " men så meg deg også noen ble være etter når noe seg hun min skal vil",
    "pl": "i w nie na się z do to że jest jak ale co tak po za od jestem był tym tego już czy przez"
    " są dla tylko może mnie ma być które",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao"
    " ele das tem à seu sua ou ser quando muito há nos já está eu também isso você são",
    "ro": "și de în a la că nu cu o pe un din este se care mai sunt ce pentru dar am fost după fi"
    " să ai e au prin noi eu dacă foarte lui acest este aici",
    "ru": "и в не на что я с он как это по но они мы все она так его за вы было бы то из у ты от"
    " меня для еще если нет когда быть есть или был",
    "sk": "a je sa na že to v s z do aj ale som ako pre tak by sú čo keď bol len po nie sme vo"
    " ktorý už alebo bolo tu pretože byť",
    "sr": "и је у да се на су за што није као али од са то ли сам смо који би ће или био само све"
    " још где ово увек i je u da se na su za nije kao ali od sa to li sam smo koji bi će ili"
    " bio samo sve još gde ovo uvek",
    "sv": "och i att det som en på är av för med den till inte om har de ett jag var han men vi så"
    " kan du när från eller ska nu sig vad mig dig också hon efter vara mycket bara här",
    "tr": "ve bir bu da de için ile ne çok ben o var değil mi daha gibi ama olarak kadar sonra biz"
    " olan şey en her yok sen bunu şu ya diye ki",
    "uk": "і в не на що я з він як це по але вони ми все вона так його за ви було би та із у ти від"
    " мене для ще якщо немає коли бути є або був",
    "ur": "کے میں کی ہے اور سے کا کو یہ نہیں ہیں پر ایک بھی تو نے ہم وہ ہی کہ تھا اس لیے آپ",
    "yi": "און איז די דער אין צו נישט פון איך דאָס האָט מיט זיי אַ אויף ער מיר וואָס פֿון זענען אבער",
}
SMALL_WORDS: Mapping[str, frozenset[str]] = {
    code: frozenset(tokens.fold(word) for word in words.split())
    for code, words in _SMALL_WORDS.items()
}
# What may be said of a text, besides what is detected.
KNOWN = frozenset(languages.SHORTER.values()) | set(catalog.CODES.values()) | set(tokens.LANGUAGES)


def named(said: str | None) -> str | None:
    """`de` for `de`, `deu`, `German`; `pt-br` for `pt_BR`; None for what is no language of ours."""
    plain = (said or "").strip().lower()
    tag = catalog.CODES.get(plain) or languages.tag(plain)
    return tag if tag and tag.partition("-")[0] in KNOWN else None


def detect(text: str) -> str | None:
    """None when it cannot be told."""
    sample = _sample(text)
    return _by_script(sample) or _by_words(sample)


def _sample(text: str) -> str:
    if len(text) <= 3 * SAMPLE_CHARACTERS:
        return text
    middle = len(text) // 2
    return " ".join(
        (text[:SAMPLE_CHARACTERS], text[middle:][:SAMPLE_CHARACTERS], text[-SAMPLE_CHARACTERS:])
    )


def _by_script(text: str) -> str | None:
    letters = sum(map(str.isalpha, text))
    counts = {code: len(re.findall(f"[{chars}]", text)) for code, chars in SCRIPTS.items()}
    if counts["ja"] and counts["ja"] + counts["zh"] >= SCRIPT_SHARE * letters:
        return "ja" if counts["ja"] >= KANA_SHARE * letters else "zh"
    return next((code for code, n in counts.items() if n and n >= SCRIPT_SHARE * letters), None)


def _by_words(text: str) -> str | None:
    said = Counter(each.word for each in tokens.tokens(text))
    total = sum(said.values())
    scores = {
        code: sum(count for word, count in said.items() if word in small)
        for code, small in SMALL_WORDS.items()
    }
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    first, second = islice(ranked, 2)
    best, ahead = scores[first], scores[first] - scores[second]
    is_clear = ahead >= max(AHEAD, AHEAD_SHARE * best)
    return first if best >= max(FEWEST, LEAST_SHARE * total) and is_clear else None
