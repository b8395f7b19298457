"""`json_schema`: the answer is JSON that fits a JSON Schema."""

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no annotations
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, SchemaResource

from ci_evals.format import cite, one_line
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.json_text import judge_json
from ci_evals.model.fields import Bool
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

_SLOW_KEYS = frozenset(("pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef"))


@dataclass(frozen=True, slots=True)
class JsonSchema(GraderOptions):
    """The answer is JSON that fits a JSON Schema.

    Args:
        schema: the schema, of draft 2020-12 unless its `$schema` names another. External references
            are not fetched. In a suite, `{file: schema.json}` is the content of that file.
        fenced: the answer may also be in one code fence.
    """

    short: ClassVar[str] = "schema"
    from_file: ClassVar[tuple[str, ...]] = ("schema",)

    schema: Mapping[str, Any]
    fenced: Bool = False

    @property
    def may_take_long(self) -> bool:
        return may_take_long(self.schema)

    def problems(self) -> list[str]:
        if not isinstance(self.schema.get("$schema", ""), str):
            return ["bad JSON Schema: `$schema` must be text"]
        try:
            schema = json.loads(json.dumps(self.schema, allow_nan=False))
            validator_for(schema, default=Draft202012Validator).check_schema(schema)
            dangling = list(_dangling_references(schema))
        except SchemaError as error:
            return [f"bad JSON Schema at {one_line(error.json_path)}: {one_line(error.message)}"]
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            return [f"bad JSON Schema: {one_line(str(error))}"]
        return [f"bad JSON Schema: `$ref: {one_line(ref)}` leads nowhere" for ref in dangling]

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge, fenced=self.fenced)

    def _judge(self, data: Any) -> Finding:
        mistake = self.mistake(data)
        if mistake is None:
            return passed("the answer fits the schema")
        where, why = mistake
        reason = f"the answer does not fit the schema at {where}"
        return failed(reason, sentence=f"{reason}: {why}")

    def mistake(self, data: Any) -> tuple[str, str] | None:
        """Return where data does not fit, `$.to (type)`, and why; None if it fits."""
        error = best_match(_validator(json.dumps(self.schema)).iter_errors(data))
        if error is None:
            return None
        where = f"{one_line(error.json_path)} ({one_line(str(error.validator))})"
        message = error.message
        # Most messages begin with the value in Python's notation, which may hide the rest.
        shown = repr(error.instance)
        if message.startswith(shown):
            message = f"{cite(error.instance)}{message.removeprefix(shown)}"
        return where, one_line(message)


def may_take_long(schema: Any) -> bool:
    """Return True if checking even short data against a schema may take long.

    Patterns may backtrack for ever, and a schema that refers to itself may check the same data many
    times.
    """
    if isinstance(schema, Mapping):
        if not _SLOW_KEYS.isdisjoint(schema):
            return True
        return any(map(may_take_long, schema.values()))
    if isinstance(schema, list | tuple):
        return any(map(may_take_long, schema))
    return False


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    """Return the validator of a schema's text, which cases with the same schema share."""
    parsed = json.loads(schema)
    kind: type[Validator] = validator_for(parsed, default=Draft202012Validator)
    kind = extend(kind, {"uniqueItems": _check_unique})  # type: ignore[no-untyped-call]  # it has no annotations
    # The default registry would fetch references from the network.
    return kind(parsed, registry=EMPTY_REGISTRY)


def _check_unique(
    validator: Validator, is_wanted: object, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    """Check `uniqueItems` with hashes; the library compares every pair of mappings."""
    if not is_wanted or not validator.is_type(instance, "array"):
        return
    if len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _hashable(value: Any) -> Hashable:
    """Return a hashable value for data, equal for equal JSON: 1 equals 1.0, but not true."""
    match value:
        case bool():
            return bool, value
        case list():
            return list, tuple(map(_hashable, value))
        case dict():
            return dict, frozenset((key, _hashable(each)) for key, each in value.items())
    return value  # type: ignore[no-any-return]  # a number, a text or None


def _dangling_references(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield references that lead nowhere; validation would find them only when it reaches them."""

    def walk(resource: SchemaResource, resolver: Any) -> Iterator[str]:
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
