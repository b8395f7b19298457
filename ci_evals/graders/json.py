"""Graders of JSON: `is_json`, `contains_json` and `json_path`; and how JSON data is compared."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, ClassVar, Final

from pydantic_core import from_json

from ci_evals import graders
from ci_evals.format import one_line, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.fields import UNSET, Bool, NonEmpty
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

ABSENT: Final = object()
"""Stands in a `Mismatch` for a value that is not there."""

_FENCE = "```"
_MAX_STARTS = 1_000  # of what may be an object or a list in a text
_MAX_READ_IN_VAIN = 10_000_000  # characters of what turned out to be neither


@dataclass(frozen=True, slots=True)
class WithSchema(AlwaysTrue):
    """The options of `is_json` and `contains_json`. A schema is checked as `json_schema` does."""

    from_file: ClassVar[tuple[str, ...]] = ("schema",)

    schema: Mapping[str, Any] | None = None

    @property
    def may_take_long(self) -> bool:
        return self.schema is not None and graders.JsonSchema(self.schema).may_take_long

    def problems(self) -> list[str]:
        found = AlwaysTrue.problems(self)
        if self.schema is not None:
            found += graders.JsonSchema(self.schema).problems()
        return found

    def _schema_mistake(self, data: Any) -> str | None:
        if self.schema is None:
            return None
        return graders.JsonSchema(self.schema).mistake(data)


@dataclass(frozen=True, slots=True)
class IsJson(WithSchema):
    """The whole answer is JSON. `value` is always true.

    Args:
        schema: JSON Schema that it must fit.
        fenced: the answer may be in one code fence, too.
    """

    instead = "write `not_is_json: true`, or leave it out"

    fenced: Bool = False

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge, fenced=self.fenced)

    def _judge(self, data: Any) -> Finding:
        mistake = self._schema_mistake(data)
        if mistake is None:
            return passed("is JSON")
        return failed(f"is JSON that does not fit the schema {mistake}")


@dataclass(frozen=True, slots=True)
class ContainsJson(WithSchema):
    """A JSON object or list stands somewhere in the answer. `value` is always true.

    Of several, one must be as asked.

    Args:
        schema: JSON Schema that it must fit.
        subset: data that it must have; its objects may have more keys.
    """

    instead = "write `not_contains_json: true`, or leave it out"
    from_file: ClassVar[tuple[str, ...]] = ("schema", "subset")

    subset: Any = UNSET

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        findings: list[Finding] = []
        for value in json_values(output):
            finding = self._judge(value)
            if finding.passed:
                return finding
            findings.append(finding)
        if not findings:
            return failed("has no JSON object or list in it", got=quote(output))
        first, *others = findings
        if not others:
            return first
        got = f"{len(findings)} values that do not fit"
        if first.got is not None:
            got = f"{first.got}, the first of {got}"
        return failed(first.reason, got=got)

    def _judge(self, value: Any) -> Finding:
        if mistake := self._schema_mistake(value):
            return failed(f"the JSON in it does not fit the schema {mistake}", got=quote(value))
        if self.subset is not UNSET:
            difference = first_difference(self.subset, value, subset=True)
            if difference is not None:
                reason = f"the JSON in it is not as expected at {difference.reason}"
                return failed(reason, got=difference.got)
        return passed("has JSON in it", got=quote(value))


@dataclass(frozen=True, slots=True)
class JsonPath(GraderOptions):
    """The answer is JSON with a value at `path`.

    Args:
        path: JSONPath (RFC 9535), such as `$.flights[0].to`.
        value: what must be there, at one place at least if the path finds several; left out,
            anything will do.
    """

    short: ClassVar[str] = "path"

    path: NonEmpty
    value: Any = UNSET

    @property
    def may_take_long(self) -> bool:
        return "?" in self.path or ".." in self.path  # a filter, a search at every depth

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
        return failed(f"no value at {where} is {quote(self.value)}", got=quote(found))


def judge_json(text: str, judge: Callable[[Any], Finding], *, fenced: bool = True) -> Finding:
    """Read a text as JSON and judge the data; text that is not JSON fails.

    Args:
        text: the answer.
        judge: judges its data.
        fenced: it may be in one code fence.
    """
    bare = text.strip()
    body = strip_fence(text)
    if not fenced and body != bare:
        reason = "is not JSON but a code fence, which `fenced: true` allows"
        return failed(reason, got=quote(bare))
    try:
        data = read_json(body)
    except ValueError as error:
        return failed("is not JSON", got=f"{quote(body)}: {one_line(str(error))}")
    try:
        return judge(data)
    except OverflowError:
        reason = "is not JSON that can be judged: it holds a number that is too large"
        return failed(reason, got=quote(body))


def json_values(text: str, starts: str = "{[") -> Iterator[Any]:
    """Find the JSON objects and lists in a text that are inside no other one."""
    decoder = JSONDecoder(parse_constant=_refuse)
    start = re.compile(f"[{re.escape(starts)}]")
    at = 0
    read_in_vain = 0
    for _ in range(_MAX_STARTS):
        found = start.search(text, at)
        if found is None or read_in_vain > _MAX_READ_IN_VAIN:
            return
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError) as error:
            at = found.end()
            read_in_vain += getattr(error, "pos", at) - found.start()
        else:
            yield value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def read_json(text: str) -> Any:
    """Read the JSON that a text is.

    Raises:
        ValueError: it is none.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except TypeError as error:  # half of a surrogate pair
        raise ValueError(str(error)) from error


def strip_fence(text: str) -> str:
    """Strip white space, and the code fence if it encloses all of the text."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        language, newline, body = text[len(_FENCE) :].partition("\n")
        if newline and language.strip().lower() in ("", "json"):
            return body[: -len(_FENCE)].strip()
    return text


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
        """The value that is there, quoted; None if there is none."""
        if self.actual is ABSENT:
            return None
        return quote(self.actual)


def first_difference(
    expected: Any, actual: Any, path: str = "$", *, subset: bool = False
) -> Mismatch | None:
    """Find the first place where `actual` is not `expected`, as JSON sees it: 1 is 1.0, and neither
    is true.

    If `subset`, objects of `actual` may have more keys.
    """
    places: Iterable[tuple[str, Any, Any]]
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        keys = list(expected)
        if not subset:
            keys += [key for key in actual if key not in expected]
        places = [
            (f"{path}.{one_line(str(key), 60)}", expected.get(key, ABSENT), actual.get(key, ABSENT))
            for key in keys
        ]
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            return Mismatch(f"{path} (of {len(expected)} items)", expected, actual)
        places = [
            (f"{path}[{index}]", expected[index], actual[index]) for index in range(len(expected))
        ]
    elif _same(expected, actual):
        return None
    else:
        return Mismatch(path, expected, actual)
    for inner_path, inner_expected, inner_actual in places:
        difference = first_difference(inner_expected, inner_actual, inner_path, subset=subset)
        if difference is not None:
            return difference
    return None


def _same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)
