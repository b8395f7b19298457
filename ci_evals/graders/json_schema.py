"""`json_schema`: the answer's JSON has this shape."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.json_text import judge_json
from ci_evals.graders.quoting import clip
from ci_evals.model import Answer, Finding

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from referencing.jsonschema import SchemaResource

_MAX_ERRORS = 100
"""Errors among which the most telling one is looked for: a million wrong items need not all be seen."""


class JsonSchema(GraderOptions, frozen=True):
    """The answer is JSON that fits a JSON Schema.

    Args:
        schema: the schema itself; 2020-12 unless its `$schema` says otherwise. References outside of it are not
            fetched.
    """

    short: ClassVar[str] = "schema"

    schema: Mapping[str, Any]

    def problems(self) -> list[str]:
        return schema_problems(self.schema)

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge)

    def _judge(self, data: Any) -> Finding:
        mistake = schema_mistake(self.schema, data)
        return holds("fits the schema") if mistake is None else fails(f"does not fit the schema {mistake}")


def schema_problems(schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with a schema itself."""
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema.get("$schema", ""), str):
        return ["bad JSON Schema: `$schema` must be text"]
    try:
        plain = msgspec.json.decode(msgspec.json.encode(schema))
        _draft(plain).check_schema(plain)
        return [f"bad JSON Schema: `$ref: {clip(ref)}` leads nowhere" for ref in _dangling(plain)]
    except SchemaError as error:
        return [f"bad JSON Schema at {clip(error.json_path)}: {clip(error.message)}"]
    except (ValueError, RecursionError) as error:
        return [f"bad JSON Schema: {clip(str(error))}"]


def schema_mistake(schema: Mapping[str, Any], data: Any) -> str | None:
    """Where data does not fit a schema, `at $.to: …`; None if it fits."""
    from jsonschema.exceptions import best_match

    validator = _validator(msgspec.json.encode(schema))
    error = best_match(islice(validator.iter_errors(data), _MAX_ERRORS))
    return None if error is None else f"at {clip(error.json_path)}: {clip(error.message)}"


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> "Validator":
    """Keyed by the schema's text: cases that share a schema share its validator."""
    from referencing.jsonschema import EMPTY_REGISTRY

    parsed = msgspec.json.decode(schema)
    # A registry of our own, because the default one fetches references from the network.
    return _draft(parsed)(parsed, registry=EMPTY_REGISTRY)


def _draft(schema: Any) -> "type[Validator]":
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for(schema, default=Draft202012Validator)


def _dangling(schema: Mapping[str, Any]) -> Iterator[str]:
    """References that lead nowhere; validation would find them only when an answer gets there."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    def walk(resource: "SchemaResource", resolver: Any) -> Iterator[str]:
        contents = resource.contents
        if isinstance(contents, dict) and isinstance(ref := contents.get("$ref"), str):
            try:
                resolver.lookup(ref)
            except Unresolvable:
                yield ref
        for inner in resource.subresources():
            yield from walk(inner, resolver.in_subresource(inner))

    root = Resource.from_contents(schema, default_specification=DRAFT202012)
    yield from walk(root, REGISTRY.resolver_with_root(root))
