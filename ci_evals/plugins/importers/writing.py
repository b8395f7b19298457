"""Writes a draft as YAML that looks hand-written.

Short values are on one line, long texts in blocks, and comments in their places.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_evals.model.fields import resolve

WIDTH = 110
_OF_FLOW = frozenset(",[]{}")
_INDICATORS = tuple("-?:,[]{}#&*!|>'\"%@`")
"""A text that starts with one of these is quoted."""
_NO_TEXT_IN_YAML_1_1 = r"(?i)yes|no|on|off|=|<<|0b[01_]+|\+?[\d.][\d_.:]*|\d{4}-\d\d?-\d\d?.*"
"""Words, numbers and dates of YAML 1.1, which other programs may use to read the file."""
_BLOCKS = frozenset({"cases", "expect", "providers", "judges", "prompts", "turns", "messages"})
"""The keys whose lists have one item per line, however short they are."""

_CHOICES = frozenset({"providers", "prompts"})
"""In a case or a provider, these keys list only names."""


class YamlComment:
    """A comment, as an item of a list or a key of a mapping. It may have several lines."""

    def __init__(self, text: str) -> None:
        self.text = text


def write_yaml(suite: Mapping[Any, Any]) -> str:
    """Return a mapping with `YamlComment`s as YAML, with an empty line before each section."""
    lines: list[str] = []
    comments: list[str] = []
    after_section = False
    for key, value in suite.items():
        entry = list(_entry(key, value, 0))
        if isinstance(key, YamlComment):
            comments += entry
            continue
        is_section = len(entry) > 1 or key in _BLOCKS
        if lines and (is_section or after_section):
            lines.append("")
        lines += [*comments, *entry]
        comments = []
        after_section = is_section
    return "\n".join([*lines, *comments]) + "\n"


def write_value(value: Any) -> str:
    """Return any value as YAML, without a newline at its end."""
    if isinstance(value, Mapping | list) and value:
        return "\n".join(_inside(value, 0))
    return _scalar(value)


def write_case(case: Mapping[str, Any], indent: int) -> str:
    """Return a case as an item of the list `cases`, without a newline at its end."""
    return "\n".join(_item(case, indent, in_cases=True))


def _entry(key: Any, value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of one entry of a mapping."""
    if isinstance(key, YamlComment):
        yield from _comment(key, indent)
        return
    start = f"{_scalar(str(key))}:"
    line = None
    is_section = key in _BLOCKS and isinstance(value, list) and bool(value)
    if indent > 0 and key in _CHOICES:
        is_section = False
    if not is_section:
        room = WIDTH - indent - len(start) - 1
        line = _one_line(value, room)
    lines = _after_start(start, value, indent, line)
    if lines:
        yield from lines
        return
    yield " " * indent + start
    in_cases = key == "cases" and indent == 0
    yield from _inside(value, indent + 2, in_cases=in_cases)


def _inside(value: Any, indent: int, *, in_cases: bool = False) -> Iterator[str]:
    """Yield the lines of a mapping or list that does not fit on one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(key, item, indent)
        return
    for item in value:
        if isinstance(item, YamlComment):
            yield from _comment(item, indent)
        else:
            yield from _item(item, indent, in_cases=in_cases)


def _item(item: Any, indent: int, *, in_cases: bool) -> Iterator[str]:
    """Yield the lines of one item of a list."""
    line = None
    if not isinstance(item, Mapping) or (len(item) != 1 and not in_cases):
        line = _one_line(item, WIDTH - indent - 2)
    lines = _after_start("-", item, indent, line)
    if lines:
        yield from lines
        return
    is_first = True
    for inner in _inside(item, indent + 2):
        if not is_first:
            yield inner
        elif inner.lstrip().startswith("#"):
            yield inner[2:]  # a comment at the start of an item is written before it
        else:
            yield " " * indent + f"- {inner.lstrip()}"
            is_first = False


def _after_start(start: str, value: Any, indent: int, line: str | None) -> list[str]:
    """Return the lines of a value that begins on the line of `name:` or `-`.

    There are none if each part of the value has its own lines.

    Args:
        start: the start of the line.
        value: any value.
        indent: the indentation of the line.
        line: the value on one line, if it is to be written so.
    """
    space = " " * indent
    if line is not None:
        return [f"{space}{start} {line}"]
    if isinstance(value, str):
        mark = "|-"
        if value.endswith("\n"):
            mark = "|"
        texts = value.removesuffix("\n").split("\n")
        block = [f"{space}  {text}".rstrip() for text in texts]
        return [f"{space}{start} {mark}", *block]
    for part in value:
        if not isinstance(part, YamlComment):
            return []
    comments = list(_inside(value, indent))
    empty = "[]"
    if isinstance(value, Mapping):
        empty = "{}"
    return [*comments, f"{space}{start} {empty}"]


def _comment(comment: YamlComment, indent: int) -> Iterator[str]:
    space = " " * indent
    for line in comment.text.splitlines():
        yield f"{space}# {line}".rstrip()


def _one_line(value: Any, room: int) -> str | None:
    """Return a value on one line; None if it has comments or long texts, or doesn't fit.

    A scalar that cannot be a block is written on one line even if it doesn't fit.
    """
    if not isinstance(value, Mapping | list | tuple):
        if _is_block(value):
            return None
        return _scalar(value)
    line = _flow(value)
    if line is None or len(line) > room:
        return None
    return line


def _flow(value: Any) -> str | None:
    """Return a value in flow style; None if it has comments or texts for a block."""
    if isinstance(value, Mapping):
        return _flow_mapping(value)
    if isinstance(value, list | tuple):
        return _flow_list(value)
    if _is_block(value):
        return None
    return _scalar(value, in_flow=True)


def _flow_mapping(mapping: Mapping[Any, Any]) -> str | None:
    parts = []
    for key, item in mapping.items():
        text = _flow(item)
        if isinstance(key, YamlComment) or text is None:
            return None
        name = _scalar(str(key), in_flow=True)
        parts.append(f"{name}: {text}")
    inside = ", ".join(parts)
    return f"{{{inside}}}"


def _flow_list(items: Sequence[Any]) -> str | None:
    parts = []
    for item in items:
        if isinstance(item, YamlComment):
            return None
        text = _flow(item)
        if text is None:
            return None
        parts.append(text)
    inside = ", ".join(parts)
    return f"[{inside}]"


def _scalar(value: Any, *, in_flow: bool = False) -> str:
    """Return a scalar, without quotes if YAML reads the bare text as the same text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    if _is_plain(text, in_flow=in_flow):
        return text
    has_signs = '"' in text or "\\" in text
    if has_signs and "'" not in text and text.isprintable():
        return f"'{text}'"
    return _quote(text)


def _is_plain(text: str, *, in_flow: bool) -> bool:
    """Return True for a text that YAML reads as itself without quotes."""
    if text.startswith(_INDICATORS) or text != text.strip() or not text.isprintable():
        return False
    if ": " in text or " #" in text or text.endswith(":"):
        return False
    if in_flow and (":?" in text or not _OF_FLOW.isdisjoint(text)):
        return False
    if re.fullmatch(_NO_TEXT_IN_YAML_1_1, text):
        return False
    return isinstance(resolve(text), str)


def _quote(text: str) -> str:
    """Return a text in double quotes, with escapes for characters that YAML would not keep."""
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _is_block(text: Any) -> bool:
    """Return True for a text of several lines that can be written as a block."""
    if not isinstance(text, str) or "\n" not in text:
        return False
    lines = text.split("\n")
    if not lines[0].strip() or lines[0].startswith(" ") or text.endswith("\n\n"):
        return False
    return all(line == line.rstrip() and line.isprintable() for line in lines)
