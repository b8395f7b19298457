"""A FastAPI service with retrieval that answers from a handbook, as JSON or server-sent events.

It joins the best sentences where a model would write, so that it needs no key and no network.

    uvicorn app:app --port 8642
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

TOP = 3
LEAST_SCORE = 2.0
UNKNOWN = "The handbook does not say."
COMMON = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "how",
        "i",
        "in",
        "is",
        "of",
        "the",
        "to",
    )
)

app = FastAPI()


class Question(BaseModel):
    """What is asked."""

    question: str


class Source(BaseModel):
    """A sentence of the handbook."""

    id: str
    text: str
    score: float


class Answer(BaseModel):
    """The answer, what it was made of, and the tokens that it took."""

    answer: str
    sources: list[Source]
    usage: dict[str, int]


def words(text: str) -> list[str]:
    """The words of a text that tell something, without their endings."""
    return [
        re.sub(r"(ing|ed|es|s)$", "", word)
        for word in re.findall(r"[a-z0-9]+", text.lower())
        if word not in COMMON
    ]


def read_handbook() -> Iterator[tuple[str, str]]:
    """Every sentence with its place."""
    for path in sorted((Path(__file__).parent / "handbook").glob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        yield from (
            (f"{path.name}:{number}", line)
            for number, line in enumerate(lines, 1)
            if line and line[0] != "#"
        )


SENTENCES = list(read_handbook())
KNOWN = Counter(word for _, text in SENTENCES for word in set(words(text)))


def retrieve(question: str) -> list[Source]:
    """The best sentences: what they share with the question counts by how rare it is."""

    def score(text: str) -> float:
        shared = set(words(text)) & set(words(question))
        return sum(math.log(1 + len(SENTENCES) / KNOWN[word]) for word in shared)

    found = [Source(id=place, text=text, score=round(score(text), 3)) for place, text in SENTENCES]
    return sorted((each for each in found if each.score > 0), key=lambda each: -each.score)[:TOP]


def generate(sources: list[Source]) -> Iterator[str]:
    """The answer, word by word, as a model would stream it."""
    best = sources[0].text if sources and sources[0].score > LEAST_SCORE else UNKNOWN
    yield from re.findall(r"\S+\s*", best)


def usage(question: str, sources: list[Source], answer: str) -> dict[str, int]:
    """Tokens, at about three for every two words."""
    asked = sum(len(text.split()) for text in (question, *(each.text for each in sources)))
    return {"input_tokens": 3 * asked // 2, "output_tokens": 3 * len(answer.split()) // 2}


@app.get("/health")
def health() -> dict[str, int]:
    """Ready, and with how many sentences."""
    return {"sentences": len(SENTENCES)}


@app.post("/ask")
def ask(asked: Question) -> Answer:
    """Answer at once."""
    sources = retrieve(asked.question)
    answer = "".join(generate(sources))
    return Answer(answer=answer, sources=sources, usage=usage(asked.question, sources, answer))


@app.post("/stream")
def stream(asked: Question) -> StreamingResponse:
    """Answer as it is made: the sources, the tokens, and what they took."""

    def events() -> Iterator[str]:
        sources = retrieve(asked.question)
        yield event("sources", {"sources": [each.model_dump() for each in sources]})
        said = ""
        for token in generate(sources):
            said += token
            yield event("token", {"delta": token})
        yield event("usage", {"usage": usage(asked.question, sources, said)})
        yield event("done", {})

    return StreamingResponse(events(), media_type="text/event-stream")


def event(name: str, data: object) -> str:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
