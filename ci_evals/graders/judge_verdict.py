"""What a judge replied, read: one JSON object with a verdict, however it is wrapped."""

from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecoder
from typing import Any

from msgspec import Struct

from ci_evals.graders.json_text import unfenced

_MAX_CHARACTERS = 100_000
_MAX_OBJECTS = 1_000
_DECODER = JSONDecoder()


class Opinion(Struct, frozen=True):
    """One verdict with its reason."""

    verdict: str | int
    reason: str


def read_opinion(text: str, verdicts: Sequence[str] | Sequence[int]) -> Opinion | None:
    """The verdict in a judge's reply, or None if there is not exactly one.

    A reply that quotes an object of the judged answer beside its own would have two: it says nothing.
    """
    found = [object_ for object_ in _objects(text) if "verdict" in object_]
    if len(found) != 1:
        return None
    verdict = _known(found[0]["verdict"], verdicts)
    return None if verdict is None else Opinion(verdict, str(found[0].get("reason") or ""))


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in a text that are inside no other one."""
    body = unfenced(text[:_MAX_CHARACTERS])
    at = body.find("{")
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(body, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict):
                yield value
        at = body.find("{", end)


def _known(given: Any, verdicts: Sequence[str] | Sequence[int]) -> str | int | None:
    """The verdict that a reply names, in its own spelling; `Pass.` and `"4"` are understood."""
    if isinstance(given, bool):
        return None
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    named = str(given).strip().strip(".").casefold()
    return next((verdict for verdict in verdicts if str(verdict).casefold() == named), None)
