"""The thoughts that some models write before their answer, in tags of their own."""

import re
from dataclasses import replace
from typing import Final

from ci_evals.model.response import Response

ONLY_THOUGHTS: Final = (
    "the answer has only thoughts: allow more output tokens, or set `thoughts: keep`"
)

_TAG = r"(?i:(?:\w+:)?(?:thinking|think|thoughts|thought|reasoning))"
_THOUGHTS = re.compile(
    rf"\s*(?:<({_TAG})(?:\s[^<>]*)?>.*?(?:</(?i:\1)>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z))\s*",
    re.DOTALL,
)
_START = re.compile(rf"<{_TAG}(?:\s[^<>]*)?>|\[THINK\]")
# Some chat templates open the tag themselves, so that only its end is in the text. One in quotes is
# talked about.
_END = re.compile(rf"(?<![`'\"])(?:</{_TAG}>|\[/THINK\])(?![`'\"])\s*")
_TAGS = re.compile(rf"</?{_TAG}(?:\s[^<>]*)?>|\[/?THINK\]")
_DATA = ("{", "[", "```")


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts that a text begins with, in their tags, and the text after them.

    Thoughts that never end are all of the text. A text that begins with data has none: what looks
    like them is quoted inside.
    """
    end = 0
    while thoughts := _THOUGHTS.match(text, end):
        end = thoughts.end()
    if not end and not text.lstrip().startswith(_DATA):
        closing = _END.search(text)
        if closing is not None and not _START.search(text, 0, closing.start()):
            end = closing.end()
    return text[:end], text[end:]


def settle_thoughts(response: Response, *, keep: bool = False) -> Response:
    """Move the thoughts of a response, and of its turns, from its output to `thoughts`; or back
    into the output, to keep them there.
    """
    thoughts, output = response.thoughts, response.output
    if not keep and not thoughts:
        thoughts, output = split_thoughts(output)
    elif keep and not split_thoughts(thoughts)[1]:  # others were never in the output
        thoughts, output = "", thoughts + output
    turns = []
    for turn in response.turns:
        settled = settle_thoughts(turn.response, keep=keep)
        turns.append(replace(turn, response=settled))
    return replace(response, output=output, thoughts=thoughts, turns=tuple(turns))


def has_only_thoughts(response: Response) -> bool:
    """Return True if a model thought and then neither answered nor did anything."""
    if not response.thoughts or response.output:
        return False
    return not response.tool_calls and not response.files and response.reward is None


def without_tags(thoughts: str) -> str:
    """Return thoughts as a person reads them."""
    return _TAGS.sub("", thoughts).strip()
