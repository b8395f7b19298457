"""Graders of JSON: `is_json`, `contains_json`, `json_schema` and `json_path`; and how JSON data is
compared.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from json import JSONDecoder
from typing import Any, ClassVar, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no annotations
from pydantic_core import from_json
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, SchemaResource

from ci_evals.format import one_line, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import UNSET, NonEmpty

ABSENT: Final = object()
"""Stands in a `Mismatch` for a value that is not there."""

_FENCE = "```"
_MAX_STARTS = 1_000  # of what may be an object or a list in a text
_MAX_READ_IN_VAIN = 10_000_000  # characters of what turned out to be neither
_MAX_VALUES = 100
_MAX_ERRORS = 100  # among which the most telling one is looked for: a million wrong items need not all be seen


@dataclass(frozen=True, slots=True)
class IsJson(AlwaysTrue):
    """The whole answer is JSON, bare or in one code fence. `value` is always true.

    Args:
        schema: JSON Schema that it must fit.
    """

    instead = "write `not_is_json: true`, or leave it out"
    from_file: ClassVar[tuple[str, ...]] = ("schema",)
    may_take_long: ClassVar[bool] = True

    schema: Mapping[str, Any] | None = None

    def problems(self) -> list[str]:
        return [
            *AlwaysTrue.problems(self),
            *(schema_problems(self.schema) if self.schema is not None else []),
        ]

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge)

    def _judge(self, data: Any) -> Finding:
        mistake = None if self.schema is None else schema_mistake(self.schema, data)
        return (
            passed("is JSON")
            if mistake is None
            else failed(f"is JSON that does not fit the schema {mistake}")
        )


@dataclass(frozen=True, slots=True)
class ContainsJson(AlwaysTrue):
    """A JSON object or list stands somewhere in the answer. `value` is always true.

    Of several, one must be as asked.

    Args:
        schema: JSON Schema that it must fit.
        subset: data that it must have; its objects may have more keys.
    """

    instead = "write `not_contains_json: true`, or leave it out"
    from_file: ClassVar[tuple[str, ...]] = ("schema", "subset")
    may_take_long: ClassVar[bool] = True

    schema: Mapping[str, Any] | None = None
    subset: Any = UNSET

    def problems(self) -> list[str]:
        return [
            *AlwaysTrue.problems(self),
            *(schema_problems(self.schema) if self.schema is not None else []),
        ]

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        values = list(islice(json_values(output), _MAX_VALUES))
        if not values:
            return failed("has no JSON object or list in it", got=quote(output))
        findings = [self._judge(value) for value in values]
        for finding in findings:
            if finding.passed:
                return finding
        first = findings[0]
        if len(findings) == 1:
            return first
        return failed(f"{first.reason}; nor do the {len(findings) - 1} others fit", got=first.got)

    def _judge(self, value: Any) -> Finding:
        if self.schema is not None and (mistake := schema_mistake(self.schema, value)):
            return failed(f"the JSON in it does not fit the schema {mistake}", got=quote(value))
        if self.subset is not UNSET:
            difference = first_difference(self.subset, value, subset=True)
            if difference is not None:
                reason = f"the JSON in it is not as expected at {difference.reason}"
                return failed(reason, got=difference.got)
        return passed("has JSON in it", got=quote(value))


@dataclass(frozen=True, slots=True)
class JsonSchema(GraderOptions):
    """The answer is JSON that fits a JSON Schema.

    Args:
        schema: the schema itself; 2020-12 unless its `$schema` says otherwise. References outside
            of it are not fetched. `{file: schema.json}` in a suite is what that file holds.
    """

    short: ClassVar[str] = "schema"
    from_file: ClassVar[tuple[str, ...]] = ("schema",)
    may_take_long: ClassVar[bool] = True

    schema: Mapping[str, Any]

    def problems(self) -> list[str]:
        return schema_problems(self.schema)

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge)

    def _judge(self, data: Any) -> Finding:
        mistake = schema_mistake(self.schema, data)
        return (
            passed("fits the schema")
            if mistake is None
            else failed(f"does not fit the schema {mistake}")
        )


@dataclass(frozen=True, slots=True)
class JsonPath(GraderOptions):
    """The answer is JSON with a value at `path`.

    Args:
        path: JSONPath (RFC 9535), such as `$.flights[0].to`.
        value: what must be there, at one place at least if the path finds several; left out,
            anything will do.
    """

    short: ClassVar[str] = "path"
    may_take_long: ClassVar[bool] = True

    path: NonEmpty
    value: Any = UNSET

    def problems(self) -> list[str]:
        return path_problems(self.path)

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge)

    def _judge(self, data: Any) -> Finding:
        found = find_all(self.path, data)
        where = one_line(self.path)
        if not found:
            return failed(f"nothing at {where}", got=quote(data))
        if self.value is UNSET:
            return passed(f"has a value at {where}", got=quote(found[0]))
        for value in found:
            difference = first_difference(self.value, value, where)
            if difference is None:
                return passed(f"{where} is {quote(self.value)}")
            if len(found) == 1:
                return failed(difference.reason, got=difference.got)
        reason = f"none of {len(found)} values at {where} is {quote(self.value)}"
        return failed(reason, got=quote(found))


def judge_json(text: str, judge: Callable[[Any], Finding]) -> Finding:
    """Read a text as JSON and judge the data; text that is not JSON fails."""
    body = strip_fence(text)
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        return failed(f"is not JSON: {one_line(str(error))}", got=quote(body))
    try:
        return judge(data)
    except OverflowError:
        reason = "is not JSON that can be judged: it holds a number that is too large"
        return failed(reason, got=quote(body))


def json_values(text: str, starts: str = "{[") -> Iterator[Any]:
    """Find the JSON objects and lists in a text that are inside no other one."""
    decoder, starting = JSONDecoder(parse_constant=_refuse), re.compile(f"[{re.escape(starts)}]")
    at, read_in_vain = 0, 0
    for _ in range(_MAX_STARTS):
        if read_in_vain > _MAX_READ_IN_VAIN or (found := starting.search(text, at)) is None:
            return
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError) as error:
            at = found.end()
            read_in_vain += getattr(error, "pos", at) - found.start()
        else:
            yield value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def strip_fence(text: str) -> str:
    """Strip white space, and the code fence if it encloses all of the text."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        language, newline, body = text[len(_FENCE) :].partition("\n")
        if newline and language.strip().lower() in ("", "json"):
            return body[: -len(_FENCE)].strip()
    return text


def schema_problems(schema: Mapping[str, Any]) -> list[str]:
    """List what is wrong with a schema itself."""
    if not isinstance(schema.get("$schema", ""), str):
        return ["bad JSON Schema: `$schema` must be text"]
    try:
        plain = json.loads(json.dumps(schema, allow_nan=False))
        validator_for(plain, default=Draft202012Validator).check_schema(plain)
        return [
            f"bad JSON Schema: `$ref: {one_line(ref)}` leads nowhere" for ref in _dangling(plain)
        ]
    except SchemaError as error:
        return [f"bad JSON Schema at {one_line(error.json_path)}: {one_line(error.message)}"]
    except (TypeError, ValueError, RecursionError) as error:
        return [f"bad JSON Schema: {one_line(str(error))}"]


def schema_mistake(schema: Mapping[str, Any], data: Any) -> str | None:
    """Say where data does not fit a schema, `at $.to: …`; None if it fits."""
    error = best_match(islice(_validator(json.dumps(schema)).iter_errors(data), _MAX_ERRORS))
    return None if error is None else f"at {one_line(error.json_path)}: {one_line(error.message)}"


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    """Return the validator of a schema's text, which cases that have the same schema share."""
    parsed = json.loads(schema)
    kind: type[Validator] = validator_for(parsed, default=Draft202012Validator)
    return kind(
        parsed, registry=EMPTY_REGISTRY
    )  # the default registry fetches references from the network


def _dangling(schema: Mapping[str, Any]) -> Iterator[str]:
    """Find references that lead nowhere; validation would find them only when an answer gets
    there.
    """

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


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where data is not as expected; `ABSENT` stands for a value that is not there."""

    path: str
    expected: Any
    actual: Any

    @property
    def reason(self) -> str:
        if self.actual is ABSENT:
            return f"{self.path} is missing, expected {quote(self.expected)}"
        if self.expected is ABSENT:
            return f"{self.path} was not expected"
        return f"{self.path}: expected {quote(self.expected)}"

    @property
    def got(self) -> str | None:
        """What is there, quoted; None if nothing is."""
        return None if self.actual is ABSENT else quote(self.actual)


def first_difference(
    expected: Any, actual: Any, path: str = "$", *, subset: bool = False
) -> Mismatch | None:
    """Find the first place where `actual` is not `expected`, as JSON sees it: 1 is 1.0, and neither
    is true.

    If `subset`, objects of `actual` may have more keys.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        places = (
            (f"{path}.{one_line(str(key), 60)}", expected.get(key, ABSENT), actual.get(key, ABSENT))
            for key in dict.fromkeys(expected if subset else (*expected, *actual))
        )
        return _first(places, subset=subset)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            return Mismatch(f"{path} (of {len(expected)} items)", expected, actual)
        pairs = zip(expected, actual, strict=True)
        return _first(
            ((f"{path}[{index}]", *pair) for index, pair in enumerate(pairs)), subset=subset
        )
    has_bool = isinstance(expected, bool) or isinstance(actual, bool)
    same = expected is actual if has_bool else expected == actual
    return None if same else Mismatch(path, expected, actual)


def _first(places: Iterable[tuple[str, Any, Any]], *, subset: bool) -> Mismatch | None:
    found = (
        first_difference(expected, actual, path, subset=subset) for path, expected, actual in places
    )
    return next((difference for difference in found if difference), None)
