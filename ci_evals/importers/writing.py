"""Writes a draft as YAML that a person might have written: short forms on one line, blocks for long
texts, comments.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ci_evals.model.fields import resolve

WIDTH = 110
_OF_FLOW = frozenset(",[]{}")
_BLOCKS = frozenset({"cases", "expect", "providers", "judges", "prompts", "turns", "messages"})
"""The keys whose lists have an item to the line, however short they are."""


class YamlComment:
    """Stands as an item in a list, or as a key in a mapping, where the file has a comment. May have
    several lines.
    """

    def __init__(self, text: str) -> None:
        self.text = text


def write_yaml(suite: Mapping[Any, Any]) -> str:
    """Return a mapping with `YamlComment`s in it as YAML, with an empty line before each
    section.
    """
    lines: list[str] = []
    comments: list[str] = []
    after_section = False
    for key, value in suite.items():
        written = [*_entry(key, value, 0)]
        if isinstance(key, YamlComment):
            comments += written
            continue
        is_section = len(written) > 1 or key in _BLOCKS
        if lines and (is_section or after_section):
            lines.append("")
        lines += [*comments, *written]
        comments, after_section = [], is_section
    return "\n".join([*lines, *comments]) + "\n"


def write_value(value: Any) -> str:
    """Return any value as YAML, without a newline at its end."""
    return (
        "\n".join(_inside(value, 0))
        if isinstance(value, Mapping | list) and value
        else _scalar(value)
    )


def _entry(key: Any, value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of one entry of a mapping."""
    space = " " * indent
    if isinstance(key, YamlComment):
        yield from _comment(key, indent)
        return
    name = _scalar(str(key))
    is_section = key in _BLOCKS and bool(value) and isinstance(value, list)
    short = None if is_section else _short(value, WIDTH - indent - len(name) - 2)
    if lines := _beside(f"{name}:", value, indent, short):
        yield from lines
    else:
        yield f"{space}{name}:"
        yield from _inside(value, indent + 2, in_cases=key == "cases" and not indent)


def _inside(value: Any, indent: int, *, in_cases: bool = False) -> Iterator[str]:
    """Yield the lines of a mapping or list that does not fit on one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(key, item, indent)
        return
    space = " " * indent
    for item in value:
        if isinstance(item, YamlComment):
            yield from _comment(item, indent)
            continue
        is_open = isinstance(item, Mapping) and (in_cases or len(item) == 1)
        short = None if is_open else _short(item, WIDTH - indent - 2)
        if begun := _beside("-", item, indent, short):
            yield from begun
        else:
            lines = [*_inside(item, indent + 2)]
            first = next(
                number for number, line in enumerate(lines) if not line.lstrip().startswith("#")
            )
            yield from (
                line[2:] for line in lines[:first]
            )  # comments at the start of it stand before it
            yield f"{space}- {lines[first].lstrip()}"
            yield from lines[first + 1 :]


def _beside(start: str, value: Any, indent: int, short: str | None) -> list[str]:
    """Return the lines of a value that begins beside `name:` or `-`; none if each of its parts has
    lines of its own.

    Args:
        start: what it begins beside.
        value: anything.
        indent: of the line.
        short: the value on one line, if it is to stand there.
    """
    space = " " * indent
    if short is not None:
        return [f"{space}{start} {short}"]
    if isinstance(value, str):
        mark = "|" if value.endswith("\n") else "|-"
        lines = value.removesuffix("\n").split("\n")
        return [f"{space}{start} {mark}", *(f"{space}  {line}".rstrip() for line in lines)]
    empty = _empty(value)
    return [] if empty is None else [*_inside(value, indent), f"{space}{start} {empty}"]


def _empty(value: Any) -> str | None:
    """Return `[]` or `{}` for a list or mapping that has nothing but comments; else None."""
    if isinstance(value, Mapping):
        return "{}" if all(isinstance(key, YamlComment) for key in value) else None
    return (
        "[]"
        if isinstance(value, list | tuple) and all(isinstance(item, YamlComment) for item in value)
        else None
    )


def _comment(comment: YamlComment, indent: int) -> Iterator[str]:
    for line in comment.text.splitlines():
        yield f"{' ' * indent}# {line}".rstrip()


def _short(value: Any, room: int) -> str | None:
    """Return a value on one line; None if it does not fit, or has comments or texts of several
    lines.
    """
    if not isinstance(value, Mapping | list | tuple):
        return None if _is_block(value) else _scalar(value)
    written = _flow(value)
    return written if written is not None and len(written) <= room else None


def _flow(value: Any) -> str | None:
    if isinstance(value, Mapping):
        parts = []
        for key, item in value.items():
            if isinstance(key, YamlComment) or (text := _flow(item)) is None:
                return None
            parts.append(f"{_scalar(str(key), in_flow=True)}: {text}")
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        items = [None if isinstance(item, YamlComment) else _flow(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    return None if _is_block(value) else _scalar(value, in_flow=True)


def _scalar(value: Any, *, in_flow: bool = False) -> str:
    """Return a scalar as it stands in a block or flow: text without quotes where that reads as the
    same text.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    means_more = in_flow and (value.startswith(("?", ":", "-")) or bool(_OF_FLOW & set(value)))
    is_plain = resolve(value) == value and value == value.strip() and not means_more
    written = (
        yaml.safe_dump(value, allow_unicode=True, width=float("inf"))
        if is_plain and "\n" not in value
        else ""
    )
    if written in (f"{value}\n", f"{value}\n...\n"):
        return value
    is_literal = value.isprintable() and "'" not in value and ('"' in value or "\\" in value)
    return f"'{value}'" if is_literal else _quoted(value)


def _quoted(text: str) -> str:
    """Return a text in double quotes; what YAML would read as the end of a line, or not at all, is
    escaped.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _is_block(text: Any) -> bool:
    """Return True for a text of several lines that can stand in a block as it is."""
    lines = text.split("\n") if isinstance(text, str) else []
    return (
        len(lines) > 1
        and bool(text.strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[0].strip())
        and all(line == line.rstrip() for line in lines)
        and not text.endswith("\n\n")
        and all(character.isprintable() or character == "\n" for character in text)
    )
