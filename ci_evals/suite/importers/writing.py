"""Writes a draft as YAML that a person might have written: short forms on one line, blocks for long texts, comments."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ci_evals.model.fields import resolve
from ci_evals.suite.importers.draft import YamlComment

WIDTH = 110
_BLOCKS = frozenset({"cases", "expect", "providers", "judges", "prompts", "turns", "messages"})
"""The keys whose lists have an item to the line, however short they are."""


def write_yaml(suite: Mapping[Any, Any]) -> str:
    """Return a mapping with `YamlComment`s in it as YAML, with an empty line before each section."""
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


def _entry(key: Any, value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of one entry of a mapping."""
    space = " " * indent
    if isinstance(key, YamlComment):
        yield from _comment(key, indent)
        return
    name = _scalar(str(key))
    is_section = key in _BLOCKS and bool(value) and isinstance(value, list)
    if not is_section and (short := _short(value, WIDTH - indent - len(name) - 2)) is not None:
        yield f"{space}{name}: {short}"
    elif isinstance(value, str):
        yield f"{space}{name}: {_block_mark(value)}"
        yield from _block(value, indent + 2)
    elif (empty := _empty(value)) is not None:
        yield from _inside(value, indent)
        yield f"{space}{name}: {empty}"
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
        short = None if in_cases and isinstance(item, Mapping) and len(item) > 1 else _short(item, WIDTH - indent - 2)
        if short is not None:
            is_pair = isinstance(item, Mapping) and len(item) == 1
            yield f"{space}- {short[1:-1] if is_pair else short}"
        elif isinstance(item, str):
            yield f"{space}- {_block_mark(item)}"
            yield from _block(item, indent + 2)
        elif (empty := _empty(item)) is not None:
            yield from _inside(item, indent)
            yield f"{space}- {empty}"
        else:
            lines = [*_inside(item, indent + 2)]
            first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("#"))
            yield from (line[2:] for line in lines[:first])  # comments at the start of it stand before it
            yield f"{space}- {lines[first].lstrip()}"
            yield from lines[first + 1 :]


def _empty(value: Any) -> str | None:
    """Return `[]` or `{}` for a list or mapping that has nothing but comments; else None."""
    if isinstance(value, Mapping):
        return "{}" if all(isinstance(key, YamlComment) for key in value) else None
    return "[]" if isinstance(value, list | tuple) and all(isinstance(item, YamlComment) for item in value) else None


def _comment(comment: YamlComment, indent: int) -> Iterator[str]:
    for line in comment.text.splitlines():
        yield f"{' ' * indent}# {line}".rstrip()


def _short(value: Any, room: int) -> str | None:
    """Return a value on one line; None if it does not fit, or has comments or texts of several lines."""
    written = _flow(value)
    return written if written is not None and (len(written) <= room or _is_scalar(value)) else None


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _flow(value: Any) -> str | None:
    if isinstance(value, Mapping):
        parts = []
        for key, item in value.items():
            if isinstance(key, YamlComment) or (text := _flow(item)) is None:
                return None
            parts.append(f"{_scalar(str(key))}: {text}")
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        items = [None if isinstance(item, YamlComment) else _flow(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    if isinstance(value, str) and "\n" in value and _fits_block(value):
        return None
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return a scalar as it stands in a flow or block: text without quotes where that reads as the same text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if resolve(value) != value or value != value.strip() or "\n" in value or ": " in value or " #" in value:
        return json.dumps(value, ensure_ascii=False)
    written = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=float("inf"))[1:-2]
    return written if written == value else json.dumps(value, ensure_ascii=False)


def _fits_block(text: str) -> bool:
    """Return True if a text of several lines can stand in a block as it is."""
    lines = text.split("\n")
    return (
        bool(text.strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[0].strip())
        and all(line == line.rstrip() for line in lines)
        and not text.endswith("\n\n")
        and all(character.isprintable() or character == "\n" for character in text)
    )


def _block_mark(text: str) -> str:
    return "|" if text.endswith("\n") else "|-"


def _block(text: str, indent: int) -> Iterator[str]:
    for line in text.removesuffix("\n").split("\n"):
        yield f"{' ' * indent}{line}".rstrip()
