"""A voice agent with speech in both directions and no model: each letter has its own tone."""

import io
import wave
from array import array
from collections.abc import Sequence
from math import pi, sin

from ci_evals import Content

RATE = 8000
SAMPLES = 80  # of each letter
LETTERS = "abcdefghijklmnopqrstuvwxyz "
CAPITALS = {"france": "paris", "norway": "oslo"}
HERTZ = {letter: 100 * (number + 5) for number, letter in enumerate(LETTERS)}


def answer(heard: Content) -> Content:
    """The agent: it is spoken to, and speaks."""
    question = transcribe(heard)
    country = next((name for name in CAPITALS if name in question), None)
    return synthesize(f"it is {CAPITALS[country]}" if country else "i did not get that")


def synthesize(text: str) -> Content:
    """A WAV file in which a text is said."""
    tones = array("h")
    for letter in text.lower():
        step = 2 * pi * HERTZ.get(letter, HERTZ[" "]) / RATE
        tones.extend(round(20_000 * sin(step * n)) for n in range(SAMPLES))
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(RATE)
        audio.writeframes(tones.tobytes())
    return Content(file.getvalue(), "audio/wav")


def transcribe(audio: Content) -> str:
    """What is said in a WAV file."""
    with wave.open(io.BytesIO(audio.data)) as file:
        tones = array("h", file.readframes(file.getnframes()))
    return "".join(
        _letter(tones[start : start + SAMPLES]) for start in range(0, len(tones), SAMPLES)
    )


def _letter(tone: Sequence[int]) -> str:
    """The letter whose tone is the strongest."""
    return max(LETTERS, key=lambda letter: _strength(tone, 2 * pi * HERTZ[letter] / RATE))


def _strength(tone: Sequence[int], step: float) -> float:
    return float(sum(value * sin(step * n) for n, value in enumerate(tone)))
