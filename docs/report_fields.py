"""Renders the JSON Schema of report.json as the tables of the page on its format."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("report.schema.json")
PLACEHOLDER = "<!-- The site shows every field here: docs/report_fields.py -->"

_ATTRIBUTES = re.compile(r"^(?:Attributes|Args):\n", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_PYTHON_WORDS = {"None": "`null`", "True": "true", "False": "false"}
_PYTHON_WORD = re.compile(r"\b(?:None|True|False)\b")


def fields_of_reports() -> str:
    """Return a table of fields for the report and for each kind of object in it."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    objects = {name: each for name, each in definitions.items() if "properties" in each}
    lines = list(_table(schema | {"description": ""}, definitions))
    for name, definition in objects.items():
        lines += [f"**{name}**", f"{{: #{_anchor(name)} }}", ""]
        lines += _table(definition, definitions)
    return "\n".join(lines)


def _table(definition: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    """Yield the description of an object, and a row for each of its fields."""
    description, _, attributes = _split(definition.get("description", ""))
    meanings = dict(_meanings(attributes))
    yield from (_plain(description), "", "| field | type | meaning |", "|---|---|---|")
    for name, field in definition["properties"].items():
        kind = _type_of(field, definitions).replace("|", "\\|")
        yield f"| `{name}` | {kind} | {meanings.get(name, '')} |"
    yield ""


def _split(description: str) -> tuple[str, str, str]:
    """Split a docstring at the list of its attributes."""
    heading = _ATTRIBUTES.search(description)
    if heading is None:
        return description, "", ""
    return description[: heading.start()].strip(), heading[0], description[heading.end() :]


def _meanings(attributes: str) -> Iterator[tuple[str, str]]:
    """Yield each attribute of a docstring with its meaning on one line."""
    for names, text in _ATTRIBUTE.findall(attributes):
        for name in names.split(", "):
            yield name, _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Replace Python's words by those of JSON."""
    return _PYTHON_WORD.sub(lambda word: _PYTHON_WORDS[word[0]], text)


def _type_of(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the type of a field in words, with links to the objects."""
    match field:
        case {"$ref": reference}:
            name = reference.removeprefix("#/$defs/")
            if "properties" in definitions[name]:
                return f"[{name}](#{_anchor(name)})"
            return _type_of(definitions[name], definitions)
        case {"anyOf": choices}:
            return " or ".join(_type_of(each, definitions) for each in choices)
        case {"enum": values}:
            return " or ".join(f"`{json.dumps(value)}`" for value in values)
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"prefixItems": items}:
            return f"list: {', '.join(_type_of(each, definitions) for each in items)}"
        case {"type": "array", "items": dict() as items}:
            return f"list of {_type_of(items, definitions)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"mapping to {_type_of(values, definitions)}"
        case {"type": kind}:
            return str(kind)
    return "any"


def _anchor(name: str) -> str:
    return name.casefold()
