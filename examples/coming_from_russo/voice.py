"""Fakes of speech synthesis and of an agent that listens; the sound is a WAV file of samples."""

import io
import re
import wave

from ci_evals import Content

SAMPLES_PER_S = 8000


def synthesize(text: str) -> Content:
    """A text as audio: one sample for each byte."""
    audio = io.BytesIO()
    with wave.open(audio, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(SAMPLES_PER_S)
        file.writeframes(text.encode())
    return Content(audio.getvalue(), "audio/wav")


def agent(heard: Content) -> dict[str, object]:
    """Listen to a wish, and book."""
    with wave.open(io.BytesIO(heard.data)) as file:
        wish = file.readframes(file.getnframes()).decode()
    guests, hour = map(int, re.findall(r"\d+", wish))
    call = {"name": "book_table", "arguments": {"guests": guests, "hour": hour}}
    return {"output": f"Booked for {guests}.", "tool_calls": [call]}
