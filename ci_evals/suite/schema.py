"""The JSON Schema of `evals.yaml`, made from the types that check it."""

import json
from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

from pydantic import TypeAdapter

from ci_evals.executors import EXECUTORS
from ci_evals.graders.base import GRADERS
from ci_evals.model.case import Case
from ci_evals.model.fields import UNSET
from ci_evals.providers.base import PROVIDERS
from ci_evals.registry import FORMATS
from ci_evals.suite.expectations import NEGATION
from ci_evals.suite.keys import keys_of
from ci_evals.suite.types import CaseFiles, CaseFunction, Grid, PromptTemplate, Suite, TaskFolders

Schema = dict[str, Any]


def _refer(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _any_of(*options: Schema) -> Schema:
    return {"anyOf": [*options]}


def _list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _or_null(schema: Schema) -> Schema:
    return _any_of(schema, {"type": "null"})


_TEXT = {"type": "string"}
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_SHORT_PROVIDER = {
    "type": "string",
    "pattern": r"^\S+$",
    "description": "`openai:gpt-4o-mini`, `module:function`, or the URL of a service.",
}
_EXPECT = _or_null(_list_of(_refer("Expectation")))
_PARTS = _list_of(_refer("Expectation")) | {"minItems": 1}
_SOURCES = (CaseFiles, TaskFolders, CaseFunction)
_NAMED = [_refer(cls.__name__) for cls in _SOURCES]
_COLUMNS = _or_null({"type": "object", "propertyNames": {"enum": [*keys_of(Case)]}})
_SETUP = _any_of(_TEXT, _refer("Fixture"), _list_of(_any_of(_TEXT, _refer("Fixture"))))
_ANNOTATIONS = ("description", "default")
# Fields that are `Any` in their types, because they are read entry by entry.
_SPELLINGS: dict[str, Schema] = {
    "Suite.providers": _list_of(_refer("Provider")),
    "Suite.judges": _or_null(_list_of(_refer("Provider"))),
    "Suite.prompts": _or_null(_list_of(_refer("Prompt"))),
    "Suite.cases": _any_of(*_NAMED, _list_of(_any_of(_refer("Case"), *_NAMED))),
    "Suite.expect": _EXPECT,
    "Settings.executor": _any_of(
        {"type": "string", "pattern": "^(local|ray(://.+)?)$"}, _refer("Executor")
    ),
    "CaseFiles.map": _COLUMNS,
    "CaseFunction.map": _COLUMNS,
    "Case.expect": _EXPECT,
    "UserTurn.expect": _EXPECT,
    "AllOf.of": _PARTS,
    "AnyOf.of": _PARTS,
    "Fixture.python": _TEXT,
    "SimulatedUser.provider": _any_of(_TEXT, _refer("Provider")),
}
_IN_CASES = ("Case", "CaseOverrides", "Message", "Part", "ToolCall", "UserTurn", "SimulatedUser")


def suite_schema_text() -> str:
    """Return the schema of a suite as indented JSON with a final newline."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"


def suite_schema() -> Schema:
    """Return the schema, draft 2020-12, with one definition for each provider and grader."""
    shared: Schema = {}
    suite = _define(Suite, shared)
    definitions: Schema = {}
    for cls in (*_SOURCES, PromptTemplate, Case):
        definitions[cls.__name__] = _define(cls, shared)
    # The default, an empty text, only tells the loader to make an id.
    del definitions["Case"]["properties"]["id"]["default"]
    # The loader fills these in; they are not keys.
    del shared["RecordingFile"]
    del shared["Task"]
    del shared["Part"]["properties"]["sha256"]
    del shared["ToolCall"]["properties"]["alias"]
    for kind, provider in PROVIDERS.loadable():
        definition = _define(provider, shared, "provider.")
        _add_type(definition, kind)
        definition["properties"]["grid"] = TypeAdapter(Grid).json_schema()
        definition["required"] = ["type", *definition.get("required", ())]
        definitions[f"provider.{provider.__name__}"] = definition
    del shared["provider.Fixture"]  # the same as `Fixture` of suites and cases
    for kind, executor in EXECUTORS.loadable():
        definition = _define(executor, shared, "executor.")
        _add_type(definition, kind)
        definitions[f"executor.{executor.__name__}"] = definition
    for _, grader in GRADERS.loadable():
        definitions[f"grader.{grader.__name__}"] = _define(grader, shared, "grader.")
    for name, definition in (*definitions.items(), *shared.items()):
        # Cases and graders are data: `${NAME}` in them is text.
        if name not in _IN_CASES and not name.startswith("grader."):
            _accept_references(definition)
    _accept_references(suite)
    providers = [_refer(name) for name in definitions if name.startswith("provider.")]
    executors = [_refer(name) for name in definitions if name.startswith("executor.")]
    definitions |= shared
    definitions["Provider"] = _any_of(_SHORT_PROVIDER, *providers)
    definitions["Executor"] = _any_of(*executors)
    definitions["Prompt"] = _any_of(_TEXT, _refer("PromptTemplate"))
    definitions["Expectation"] = _expectation(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **suite,
        "title": "ci-evals suite",
        "$defs": dict(sorted(definitions.items())),
    }


def _add_type(definition: Schema, kind: str) -> None:
    definition["properties"] = {"type": {"enum": [kind]}, **definition["properties"]}


def _define(cls: type, shared: Schema, prefix: str = "") -> Schema:
    """Return the definition of a type; add those of nested types to `shared`, with a prefix."""
    schema = TypeAdapter(cls).json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
    for inner, definition in schema.pop("$defs", {}).items():
        shared[prefix + inner] = _tidy(definition, inner)
    tidied = _tidy(schema, cls.__name__)
    keys = keys_of(cls)
    tidied["properties"] = {
        key: value for key, value in tidied["properties"].items() if key in keys
    }
    return tidied


def _tidy(schema: Schema, name: str) -> Schema:
    """Return an object's definition without titles, with clean descriptions and `_SPELLINGS`."""
    properties = {}
    for key, value in schema["properties"].items():
        kept = {part: item for part, item in value.items() if part != "title"}
        # Placeholders, which a file cannot contain.
        if kept.get("default") in (UNSET.value, "") and kept.get("type") != "string":
            kept.pop("default")
        spelling = _SPELLINGS.get(f"{name}.{key}")
        if (name, key) == ("ReportOptions", "formats"):
            spelling = {"type": "array", "minItems": 1, "items": {"enum": [*FORMATS]}}
        if key == "setup":
            spelling = _SETUP
        if spelling:
            kept = spelling | _select(kept, _ANNOTATIONS)
        properties[key] = kept
    schema = {key: value for key, value in schema.items() if key != "title"}
    if "description" in schema:
        schema["description"] = cleandoc(schema["description"])
    if name == "Case":
        schema["description"] = schema["description"].partition("\n")[0]
    return {"title": name, **schema, "properties": properties}


def _accept_references(definition: Schema) -> None:
    """Accept `${NAME}` in place of a number, a boolean or one of several words."""
    for name, schema in definition["properties"].items():
        if name != "type":
            definition["properties"][name] = _or_reference(schema)


def _or_reference(schema: Schema) -> Schema:
    described = _select(schema, _ANNOTATIONS)
    bare = {key: value for key, value in schema.items() if key not in described}
    for key in ("items", "additionalProperties"):
        if isinstance(bare.get(key), dict):
            bare[key] = _or_reference(bare[key])
    options = bare.get("anyOf", [bare])
    for option in options:
        if option.get("type") in ("integer", "number", "boolean") or "enum" in option:
            return {**described, "anyOf": [*options, _REFERENCE]}
    return bare | described


def _select(schema: Schema, keys: Iterable[str]) -> Schema:
    return {key: schema[key] for key in keys if key in schema}


def _expectation(definitions: Schema) -> Schema:
    """Return the schema of an expectation: a grader or its negation, with a value or options."""
    properties = {}
    for name, cls in GRADERS.loadable():
        reference = f"grader.{cls.__name__}"
        short = definitions[reference]["properties"][cls.short]
        value = {key: item for key, item in short.items() if key != "default"}
        properties[name] = _any_of(value, _refer(reference))
        properties[NEGATION + name] = properties[name]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
