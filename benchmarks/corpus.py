"""Recordings whose words are known, for comparing hearing with the bare engine.

Real speech where packages have it: English (LibriVox, a speech, a call, a reader of Dickens) and
Asterisk's prompts in English, Spanish, French, Italian and Russian (CC BY-SA 3.0, 8 kHz), whose
words were written down with the help of what the bare engine heard. German, Portuguese and Dutch
are espeak-ng's voices. The music is Frozen Bubble's. All of it is fetched once, pinned by hashes.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import archives
import speech
from archives import Archive
from rushes.engines.engine import RATE
from rushes.tools import programs

Samples = np.ndarray[Any, np.dtype[np.float32]]
AMONG = "corpus"


@dataclass(frozen=True, slots=True)
class Said:
    sound: Samples
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A recording to be heard, and the clean `voices` in it, each with its words. The bare engine
    hears the file as well, unless it cannot (`is_hidden`): then it is given the voices one by one.
    `tells`: each voice has a channel, and is compared by itself."""

    kind: str
    name: str
    path: Path
    voices: Sequence[Said]
    is_hidden: bool = False
    tells: bool = False


# Where it comes from

PROMPTS = {
    "en": "2be3ea287d83299d143815fa804f11179a75b7affd4a758b98b55f5afc18a35d",
    **{language: each.sha256 for language, each in speech.PROMPTS.items()},
}
DICKENS = Archive(
    name="moonshine-voice",
    version="0.1.5",
    sha256="1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
    holds=r"/two_cities\.wav$",
)
MUSIC = Archive(
    name="frozen-bubble-data",
    version="2.212-11",
    sha256="39cdfd07d9532d1558762cf265a844d09015c4540568573c50f444cc084166e0",
    holds=r"/introzik\.ogg$",
    kind="deb",
)
ESPEAK = Archive(
    name="espeakng-loader",
    version="0.2.4",
    sha256="08721baf27d13d461f6be6eed9a65277e70d68234ff484fd8b9897b222cdcb6d",
    holds=r"libespeak-ng\.so\.1$|data/(phon|intonations)|data/(de|nl|pt)_dict$|/(de|nl|pt-BR)$",
)
VOICES = {"de": "de", "nl": "nl", "pt": "pt-BR"}

DICKENS_TEXT = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    " of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the"
    " season of Light, it was the season of Darkness, it was the spring of hope, it was the winter"
    " of despair, we had everything before us, we had nothing before us, we were all going direct"
    " to Heaven, we were all going direct the other way – in short, the period was so far like the"
    " present period, that some of its noisiest authorities insisted on its being received, for"
    " good or for evil, in the superlative degree of comparison only."
)
CONGRATS = {
    "en": "Congratulations. You have successfully installed and executed the Asterisk open source"
    " PBX. You have also installed a set of sample sounds and configuration files that should help"
    " you get started. Like a normal PBX, you will navigate this demonstration by dialing digits."
    " If you are using a console channel driver instead of a real phone, you can use the dial,"
    " answer and hangup commands to simulate the actions of a standard telephone.",
    "es": "Felicidades, usted ha instalado y ejecutado exitosamente su PBX de código abierto"
    " Asterisk. También ha instalado una serie de sonidos y archivos de configuración que le"
    " ayudarán a comenzar. Al igual que un PBX normal, usted navegará esta demostración tecleando"
    " dígitos en su teléfono. Si está usando el canal de consola a cambio de un teléfono físico,"
    " puede usar los comandos dial, answer y hangup para simular su teléfono.",
    "fr": "Félicitations, vous avez bien installé et exécuté le projet libre Asterisk. Vous avez"
    " aussi installé quelques fichiers audio et les fichiers de configuration qui devraient vous"
    " aider à démarrer. Comme avec toute centrale téléphonique, vous naviguerez dans cette"
    " démonstration en appuyant sur les chiffres. Si vous utilisez un pilote de canaux console au"
    " lieu d'un vrai téléphone, vous pouvez utiliser les commandes dial, answer et hangup pour"
    " simuler les actions d'un téléphone standard.",
    "it": "Congratulazioni, hai installato ed eseguito con successo il PBX open source Asterisk."
    " Hai anche installato una serie di suoni di esempio e file di configurazione che ti dovrebbero"
    " aiutare ad iniziare. Come un normale PBX, navigherai in questa demo digitando dei numeri. Se"
    " stai usando un canale gestito da console al posto di un normale telefono, puoi usare i"
    " comandi dial, answer e hangup per simulare il comportamento di un telefono standard.",
    "ru": "Поздравляем! Вы закончили установку и выполнение программы IP телефонной станции"
    " Астериск. Вы также установили набор типовых звуков и конфигурационных файлов, которые"
    " помогут вам начать работу. Вы сможете перемещаться по данной демонстрации при помощи"
    " пронумерованных кнопок, как и в любой обычной телефонной станции. Если вместо обычного"
    " телефонного аппарата вы используете программу, вы можете пользоваться теми же командами:"
    " набора телефона, ответа на вызов, окончания вызова, как и на обычном телефоне.",
}
ECHO = {
    "en": "You are about to enter an echo test. In this mode everything you say will be repeated"
    " back to you just as soon as it is received. The purpose of this test is to give you an"
    " audible sense of the latency between you and the machine that is running the echo test"
    " application. You may end the test by hanging up or by pressing the pound key.",
    "es": "Está a punto de entrar a la prueba de eco. En este modo, todo lo que diga será repetido"
    " tan pronto como sea recibido por el sistema. El propósito de esta prueba es de darle una idea"
    " de la demora del sonido entre usted y el sistema ejecutando la prueba. Para terminar, cuelgue"
    " o presione la tecla de número.",
    "fr": "Vous êtes sur le point d'entreprendre un test d'écho. Dans ce mode, tout ce que vous"
    " direz vous sera répété dès que reçu. Le but de ce test est pour vous donner un exemple"
    " audible de la latence entre vous et la machine qui exécute l'application de test d'écho. Vous"
    " pourrez quitter le test en raccrochant ou en appuyant sur dièse.",
    "it": "Stai per iniziare un test dell'eco. In questa modalità, tutto quanto dirai ti verrà"
    " ripetuto appena viene ricevuto. Lo scopo di questo test è di fornirti un'indicazione udibile"
    " della latenza fra te e il computer che sta eseguendo il programma di test dell'eco. Puoi"
    " terminare il test appendendo il ricevitore o premendo il tasto cancelletto.",
    "ru": "Вы переключаетесь в режим эхотеста. Чтобы завершить эхотест, повесьте трубку или нажмите"
    " клавишу решетка.",
}
# Said by espeak-ng.
MADE = {
    "de": "Am Morgen lag dichter Nebel über dem Fluss, und die Kinder warteten am Ufer auf das"
    " kleine Boot. Der alte Fischer erzählte ihnen, dass früher jeden Tag Schiffe aus dem Süden"
    " gekommen sind. Heute kommt nur noch die Post, und im Winter nicht einmal die. Trotzdem möchte"
    " er nirgendwo anders wohnen.",
    "nl": "Elke zaterdag gaan we met de fiets naar de markt in het dorp. Mijn broer koopt verse vis"
    " en ik neem brood en kaas mee naar huis. Als het weer goed is, drinken we koffie op het plein"
    " en kijken we naar de mensen. In de zomer is het daar altijd heel druk.",
    "pt": "A biblioteca da cidade fica perto do jardim e abre todos os dias de manhã. Os estudantes"
    " chegam cedo para encontrar um lugar junto da janela. À tarde, as crianças ouvem histórias e"
    " aprendem a escrever o próprio nome. Quase ninguém sabe que o prédio já foi uma fábrica.",
}


def prompt(language: str, name: str) -> Samples:
    archive = Archive(
        name=f"asterisk-core-sounds-{language}-wav",
        version="1.6.1-1",
        sha256=PROMPTS[language],
        holds=r"/demo-(congrats|echotest)\.wav$",
        kind="deb",
    )
    return _of_file(archives.folder(archive, AMONG) / f"demo-{name}.wav")


@lru_cache
def congrats(language: str) -> Said:
    return Said(prompt(language, "congrats"), CONGRATS[language])


@lru_cache
def echo(language: str) -> Said:
    return Said(prompt(language, "echotest"), ECHO[language])


@lru_cache
def made(language: str, sentences: int = 4) -> Said:
    text = " ".join(re.findall(r"[^.]+\.", MADE[language])[:sentences])
    return Said(_spoken(VOICES[language], text), text)


def dickens() -> Said:
    return Said(_of_file(archives.folder(DICKENS, AMONG) / "two_cities.wav"), DICKENS_TEXT)


def jfk() -> Said:
    return Said(_of_file(speech.recording("jfk")), speech.JFK_TEXT)


def librivox() -> Said:
    return joined([Said(_of_bytes(each.sound), each.text) for each in speech.librivox()], 0.3)


def call() -> Said:
    lines = [
        each.split(maxsplit=5) for each in speech.recording("call.stm").read_text().split("\n")
    ]
    text = " ".join(each[5] for each in lines if len(each) == 6)
    return Said(_of_file(speech.recording("call")), text)


def music(seconds: float) -> Samples:
    whole = _of_file(archives.folder(MUSIC, AMONG) / "introzik.ogg")
    return whole[20 * RATE : round((20 + seconds) * RATE)]


def tones(seconds: float) -> Samples:
    """Chords that change every second, with overtones: no music, and no speech."""
    at = np.arange(round(seconds * RATE)) / RATE
    chords = np.array([[220, 277, 330], [196, 247, 294], [175, 220, 262], [165, 208, 247]])
    pitch = chords[(at.astype(int)) % len(chords)].T
    waves = [np.sin(each * n * np.pi * 2 * at) / n for each in pitch for n in (1, 2, 3)]
    return np.asarray(np.sum(waves, axis=0) * 2500, np.float32)


def drone(seconds: float) -> Samples:
    """A low note with its overtones, all the time."""
    at = np.arange(round(seconds * RATE)) / RATE
    waves = [np.sin(110 * n * np.pi * 2 * at) / n for n in range(1, 12)]
    return np.asarray(np.sum(waves, axis=0) * 2500, np.float32)


def noise(seconds: float) -> Samples:
    """Pink, more or less."""
    white = np.fft.rfft(np.random.default_rng(3).normal(0, 1, round(seconds * RATE)))
    shaped = np.fft.irfft(white / np.sqrt(np.maximum(np.arange(len(white)), 20.0)))
    return np.asarray(shaped / np.abs(shaped).max() * 6000, np.float32)


def _of_file(path: Path) -> Samples:
    command = [programs.ffmpeg(), "-v", "error", "-i", str(path)]
    command += ["-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    return _of_bytes(subprocess.run(command, capture_output=True, check=True).stdout)


def _of_bytes(pcm: bytes) -> Samples:
    return np.frombuffer(pcm, "<i2").astype(np.float32)


# espeak-ng

SYNCHRONOUS, UTF8, RATE_PARAMETER, WORDS_A_MINUTE = 2, 1, 1, 150
Heard = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


def _spoken(voice: str, text: str) -> Samples:
    library, rate = _espeak()
    found: list[int] = []

    def take(samples: Any, count: int, _: Any) -> int:
        found.extend(samples[:count] if samples else ())
        return 0

    callback = Heard(take)
    library.espeak_SetSynthCallback(callback)
    assert library.espeak_SetVoiceByName(voice.encode()) == 0, voice
    library.espeak_SetParameter(RATE_PARAMETER, WORDS_A_MINUTE, 0)
    given = text.encode()
    library.espeak_Synth(given, len(given) + 1, 0, 0, 0, UTF8, None, None)
    library.espeak_Synchronize()
    whole = np.array(found, np.float32)
    at = np.arange(0, len(whole) - 1, rate / RATE)
    return np.asarray(np.interp(at, np.arange(len(whole)), whole), np.float32)


@lru_cache
def _espeak() -> tuple[Any, int]:
    """Its data again in the folders in which it looks for them."""
    found = archives.folder(ESPEAK, AMONG)
    data = found / "espeak-ng-data"
    for name in VOICES.values():
        (data / "lang").mkdir(parents=True, exist_ok=True)
        shutil.copy(found / name, data / "lang" / name)
    for path in found.glob("*"):
        if path.is_file() and path.suffix != ".1":
            shutil.copy(path, data / path.name)
    library = ctypes.CDLL(str(found / "libespeak-ng.so.1"))
    return library, int(library.espeak_Initialize(SYNCHRONOUS, 0, str(found).encode(), 0))


# What is made of it


def joined(parts: Sequence[Said], pause: float = 0.8) -> Said:
    silence = np.zeros(round(pause * RATE), np.float32)
    sounds = [sound for each in parts for sound in (each.sound, silence)]
    return Said(np.concatenate(sounds), " ".join(each.text for each in parts))


def over(said: Said, other: Callable[[float], Samples], decibels: float) -> Said:
    """With another sound so much louder than the voice."""
    second = other(len(said.sound) / RATE)
    scale = np.sqrt(np.mean(said.sound**2) / np.mean(second**2)) * 10 ** (decibels / 20)
    both = said.sound + second[: len(said.sound)] * scale
    return Said((both * min(1.0, 30000 / np.abs(both).max())).astype(np.float32), said.text)


class Maker:
    """Of recordings, into a folder."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def all(self) -> list[Sample]:
        plain = {"jfk": jfk(), "librivox": librivox(), "call": call(), "dickens": dickens()}
        alone = {each: congrats(each) for each in CONGRATS} | {each: made(each) for each in MADE}
        mixes = {
            "en_fr_it": joined([echo("en"), echo("fr"), echo("it")]),
            "en_ru_de": joined([jfk(), congrats("ru"), made("de", 3)]),
            "es_pt_nl": joined([echo("es"), made("pt"), made("nl", 3)]),
            "short_turns": joined([jfk(), echo("ru"), made("de", 2), echo("es"), echo("ru")]),
        }
        backed = {
            "quiet_music": over(dickens(), music, -10),
            "music": over(dickens(), music, -3),
            "tones": over(dickens(), tones, 3),
            "drone": over(dickens(), drone, 6),
            "loud_drone": over(dickens(), drone, 9),
            "noise": over(librivox(), noise, -3),
        }
        nothing = {
            "music": Said(music(30), ""),
            "tones": Said(tones(30), ""),
            "silence": Said(np.zeros(30 * RATE, np.float32), ""),
            "noise": Said(noise(30), ""),
        }
        groups = {"english": plain, "language": alone, "mixed": mixes, "over": backed}
        return [
            Sample(
                kind=kind, name=name, path=self.file(f"{kind}-{name}", each.sound), voices=[each]
            )
            for kind, group in (groups | {"nothing": nothing}).items()
            for name, each in group.items()
        ] + self._feeds()

    def _feeds(self) -> list[Sample]:
        one, other = dickens(), librivox()
        late = np.concatenate([np.zeros(len(one.sound), np.float32), other.sound])
        speech_file = self.file("track-speech", one.sound)
        music_file = self.file("track-music", music(len(one.sound) / RATE) * 0.5)
        late_file = self.file("track-late", late)
        feeds = {
            "in_turn": (self.file("turn", one.sound, late), [one, other], True),
            "at_once": (self.file("at-once", one.sound, other.sound), [one, other], True),
            "antiphase": (self.file("antiphase", one.sound, -one.sound), [one], False),
            "second_track": (self.tracks("second", music_file, speech_file), [one], False),
            "two_tracks": (self.tracks("two", speech_file, late_file), [one, other], False),
        }
        return [
            Sample(kind="feeds", name=name, path=path, voices=voices, is_hidden=True, tells=tells)
            for name, (path, voices, tells) in feeds.items()
        ]

    def file(self, name: str, *channels: Samples) -> Path:
        length = max(map(len, channels))
        padded = [np.pad(each, (0, length - len(each))) for each in channels]
        path = self._place / f"{name}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(len(channels))
            file.setsampwidth(2)
            file.setframerate(RATE)
            whole = np.clip(np.stack(padded, axis=1), -32768, 32767)
            file.writeframes(whole.astype("<i2").tobytes())
        return path

    def tracks(self, name: str, *files: Path) -> Path:
        path = self._place / f"{name}.mka"
        command = [programs.ffmpeg(), "-v", "error"]
        command += [word for each in files for word in ("-i", str(each))]
        command += [word for number in range(len(files)) for word in ("-map", str(number))]
        subprocess.run([*command, "-c:a", "flac", str(path)], check=True)
        return path
