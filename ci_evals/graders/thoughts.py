"""The thoughts that some models write before their answer, in tags of their own."""

import re

_TAGS = "think|thinking|thought|thoughts|reasoning"
_THOUGHTS = re.compile(rf"\s*<({_TAGS})>.*?(</\1>\s*|\Z)", re.DOTALL | re.IGNORECASE)
# Some chat templates open the tag themselves, so that only its end is in the text.
_END_OF_THOUGHTS = re.compile(rf".*?</({_TAGS})>\s*", re.DOTALL | re.IGNORECASE)
_DATA = ("{", "[", "```")


def without_thoughts(text: str) -> str:
    """Return a text without the thoughts that it begins with; empty if these never end.

    A text that begins with data has none: what looks like them is quoted inside.
    """
    while thoughts := _THOUGHTS.match(text):
        text = text[thoughts.end() :]
    if text.lstrip().startswith(_DATA):
        return text
    end = _END_OF_THOUGHTS.match(text)
    if end is None:
        return text
    return text[end.end() :]
