"""The JSON Schema of `evals.yaml`, generated from the types that decode it."""

from typing import Any

import msgspec

from ci_evals.config.expectations import NEGATION
from ci_evals.config.file_types import CaseEntry, CaseFiles, PromptEntry, SuiteEntry, TaskFolders
from ci_evals.graders import GRADERS
from ci_evals.graders.base import GraderOptions
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import Secret
from ci_evals.schema_text import schema_text

_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_WITHOUT_REFERENCES = frozenset(
    {"CaseEntry", "CaseFiles", "CaseOverrides", "Message", "TaskFolders", "ToolCall", "TurnEntry", "UserEntry"}
)
_FROM_ENVIRONMENT = {**_REFERENCE, "description": "The value of an environment variable."}


def suite_schema_text() -> str:
    """The schema as indented JSON."""
    return schema_text(suite_schema()).decode()


def suite_schema() -> dict[str, Any]:
    """The schema, draft 2020-12, with one definition for each provider and grader."""
    definitions = {
        **_definitions("", [SuiteEntry, CaseEntry, CaseFiles, TaskFolders, PromptEntry]),
        **_definitions("provider.", list(PROVIDERS.values())),
        **_definitions("grader.", list(GRADERS.values())),
    }
    providers = [f"provider.{cls.__name__}" for cls in PROVIDERS.values()]
    for name in definitions.keys() - _WITHOUT_REFERENCES:
        if not name.startswith("grader."):
            _accept_references(definitions[name])
    definitions["Provider"] = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in providers]}
    definitions["Prompt"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/PromptEntry"}]}
    definitions["Expectation"] = _expectation(definitions)
    suite = definitions.pop("SuiteEntry")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **suite,
        "title": "ci-evals suite",
        "$defs": dict(sorted(definitions.items())),
    }


def _definitions(prefix: str, types: list[Any]) -> dict[str, Any]:
    """Definitions of some types and of what they are made of; the prefix keeps namesakes apart."""
    template = f"#/$defs/{prefix}{{name}}"
    _, components = msgspec.json.schema_components(types, schema_hook=_schema_of, ref_template=template)
    return {prefix + name: definition for name, definition in components.items()}


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return dict(_FROM_ENVIRONMENT)
    raise NotImplementedError(kind)


def _accept_references(definition: dict[str, Any]) -> None:
    """Let `${NAME}` stand wherever a number, a boolean or one of some words is expected."""
    for name, schema in definition["properties"].items():
        if name != "type":
            definition["properties"][name] = _or_reference(schema)


def _or_reference(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _or_reference(schema[key]) for key in ("items", "additionalProperties") if _is_schema(schema, key)}
    described: dict[str, Any] = {key: schema[key] for key in ("description", "default") if key in schema}
    bare = {key: value for key, value in (schema | inner).items() if key not in described}
    options = bare.get("anyOf", [bare])
    if not any(option.get("type") in ("integer", "number", "boolean") or "enum" in option for option in options):
        return bare | described
    return {**described, "anyOf": [*options, _REFERENCE]}


def _is_schema(schema: dict[str, Any], key: str) -> bool:
    return isinstance(schema.get(key), dict)


def _expectation(definitions: dict[str, Any]) -> dict[str, Any]:
    """One grader by name, or its negation, with a value or with options."""
    properties = {}
    for name, cls in GRADERS.items():
        spellings = _spellings(cls, definitions)
        properties[name] = spellings
        properties[NEGATION + name] = spellings
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _spellings(cls: type[GraderOptions], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = f"grader.{cls.__name__}"
    short = definitions[reference]["properties"][cls.short]
    value = {key: item for key, item in short.items() if key != "default"}
    return {"anyOf": [value, {"$ref": f"#/$defs/{reference}"}]}
