"""Graders of JSON: `is_json`, `contains_json` and `json_path`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ci_evals.format import cite, number_of, one_line
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.graders.json_text import first_difference, json_values, judge_json
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.fields import UNSET, Bool, NonEmpty
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer


@dataclass(frozen=True, slots=True)
class WithSchema(AlwaysTrue):
    """The options of `is_json` and `contains_json`, with a schema as that of `json_schema`."""

    from_file: ClassVar[tuple[str, ...]] = ("schema",)

    schema: Mapping[str, Any] | None = None

    @property
    def may_take_long(self) -> bool:
        from ci_evals.graders.json_schema import JsonSchema

        return self.schema is not None and JsonSchema(self.schema).may_take_long

    def problems(self) -> list[str]:
        problems = AlwaysTrue.problems(self)
        if self.schema is not None:
            from ci_evals.graders.json_schema import JsonSchema

            problems += JsonSchema(self.schema).problems()
        return problems

    def _schema_mistake(self, data: Any) -> tuple[str, str] | None:
        if self.schema is None:
            return None
        from ci_evals.graders.json_schema import JsonSchema

        return JsonSchema(self.schema).mistake(data)


@dataclass(frozen=True, slots=True)
class IsJson(WithSchema):
    """The whole answer is JSON. `value` is always true.

    Args:
        schema: JSON Schema that it must fit.
        fenced: the answer may also be in one code fence.
    """

    instead = "write `not_is_json: true`, or leave it out"

    fenced: Bool = False

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge, fenced=self.fenced)

    def _judge(self, data: Any) -> Finding:
        mistake = self._schema_mistake(data)
        if mistake is not None:
            where, why = mistake
            reason = f"the answer does not fit the schema at {where}"
            return failed(reason, sentence=f"{reason}: {why}")
        if self.schema is not None:
            return passed("the answer fits the schema")
        return passed("the answer is JSON")


@dataclass(frozen=True, slots=True)
class ContainsJson(WithSchema):
    """The answer contains a JSON object or list. `value` is always true.

    If it contains several, one must fit.

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
            return failed("no JSON object or list in the answer")
        first, *others = findings
        if not others:
            return first
        more = f"{first.sentence} (and {number_of(len(others), 'more value')} does not fit)"
        if len(others) > 1:
            more = f"{first.sentence} (and {len(others):,} more values do not fit)"
        return replace(first, sentence=more)

    def _judge(self, value: Any) -> Finding:
        if mistake := self._schema_mistake(value):
            where, why = mistake
            reason = f"the JSON in the answer does not fit the schema at {where}"
            return failed(reason, sentence=f"{reason}: {why}")
        if self.subset is not UNSET:
            difference = first_difference(self.subset, value, "JSON in the answer: $", subset=True)
            if difference is not None:
                return failed(difference.reason, sentence=difference.sentence)
        return passed("JSON is in the answer", sentence=f"{cite(value)} is in the answer")


@dataclass(frozen=True, slots=True)
class JsonPath(GraderOptions):
    """The answer is JSON with a value at `path`.

    Args:
        path: JSONPath (RFC 9535), such as `$.flights[0].to`.
        value: the expected value, in at least one place if the path finds several; any value when
            left out.
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
        values = find_all(self.path, data)
        where = one_line(self.path)
        if not values:
            return failed(f"nothing at {where}")
        if self.value is UNSET:
            return passed(f"{where} has a value", sentence=f"{where} is {cite(values[0])}")
        for value in values:
            difference = first_difference(self.value, value, where)
            if difference is None:
                return passed(f"{where} is {cite(self.value)}")
            if len(values) == 1:
                return failed(difference.reason, sentence=difference.sentence)
        reason = f"no value at {where} is {cite(self.value)}"
        return failed(reason, sentence=f"{reason}: they are {cite(values)}")
