"""Imports datasets of pydantic-evals from YAML or JSON."""

from collections.abc import Mapping
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import NO_PROVIDERS
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_CASE = ("name", "inputs", "metadata", "expected_output", "evaluators")
_ORDERS = ("exact", "in_order", "any_order")
_TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}


def recognize(source: Source) -> bool:
    """Return True for a dataset."""
    value = source.written.value
    if not isinstance(value, dict):
        return False
    cases = value.get("cases")
    if not isinstance(cases, list) or not cases:
        return False
    return all(isinstance(case, dict) and "inputs" in case for case in cases)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of a dataset."""
    draft = SuiteDraft("pydantic-evals")
    return _Converter(source, draft).convert()


class _Converter:
    """One pass over a dataset; collects the judges by name."""

    def __init__(self, source: Source, draft: SuiteDraft) -> None:
        self.source = source
        self.draft = draft
        self.judges: dict[str, dict[str, Any]] = {}

    def convert(self) -> SuiteDraft:
        root = self.source.written
        suite = self.draft.suite
        if root.value.get("name"):
            suite["name"] = str(root.value["name"])
        expect, compares = self.read_evaluators(root)
        cases = [self.read_case(entry, compares=compares) for entry in root["cases"].items()]
        suite[YamlComment(NO_PROVIDERS)] = None
        if self.judges:
            suite["judges"] = [{"name": name, **model} for name, model in self.judges.items()]
        if expect:
            suite["expect"] = expect
        key = "report_evaluators"
        if key in root.value:
            reason = "`classify` with `gate.metrics` has metrics of the whole suite"
            suite[self.draft.lose(root[key], key, reason, weakens=True)] = None
        known = ("$schema", "name", "cases", "evaluators", key)
        suite |= self.draft.lose_other_keys(root, known)
        suite["cases"] = cases
        self.draft.suite = {**dict.fromkeys(self.source.take_other_comments()), **suite}
        return self.draft

    def read_case(self, entry: Node, *, compares: bool) -> Any:
        """Return a case; the answer is compared if the dataset or the case has `EqualsExpected`."""
        given = entry.value
        own, compares_too = self.read_evaluators(entry)
        case: dict[Any, Any] = dict.fromkeys(self.source.take_comments(entry))
        if given.get("name"):
            case["id"] = str(given["name"])
        case["input"] = given["inputs"]
        metadata: dict[Any, Any] = {}
        if isinstance(given.get("metadata"), dict):
            metadata |= given["metadata"]
        expect: list[Any] = []
        expected = given.get("expected_output")
        if expected is not None:
            if compares or compares_too:
                expect.append({"equals": expected})
            else:
                metadata["expected_output"] = expected
        expect += own
        if expect:
            case["expect"] = expect
        if metadata:
            case["metadata"] = metadata
        case |= self.draft.lose_other_keys(entry, _CASE)
        return locate(case, entry.line)

    def read_evaluators(self, written: Node) -> tuple[list[Any], bool]:
        """Return the graders, and True if answers are compared with the expected output."""
        evaluators = written["evaluators"]
        made: list[Any] = []
        compares = False
        if not isinstance(evaluators.value, list):
            return made, compares
        for entry in evaluators.items():
            made += self.source.take_comments(entry)
            name, given = str(entry.value), None
            if isinstance(entry.value, dict) and entry.value:
                name, given = next(iter(entry.value.items()))
            if name == "EqualsExpected":
                compares = True
                continue
            try:
                made.append(locate(self.grader(name, given), entry.line))
            except UntranslatableError as error:
                made.append(self.draft.lose(entry, f"evaluators: {name}", str(error), weakens=True))
        return made, compares

    def grader(self, name: str, given: Any) -> dict[str, Any]:
        match name:
            case "Equals":
                return {"equals": {"value": _options(given, "value").get("value")}}
            case "Contains":
                return _contains(_options(given, "value"))
            case "IsInstance":
                return _is_instance(_options(given, "type_name").get("type_name"))
            case "MaxDuration":
                seconds = _options(given, "seconds").get("seconds")
                if not isinstance(seconds, int | float):
                    raise UntranslatableError("it is not a number of seconds")
                return {"latency": {"value": seconds}}
            case "LLMJudge" | "GEval":
                return self.judge(given)
            case "ToolCorrectness" | "TrajectoryMatch":
                return _trajectory(given)
            case "MaxToolCalls":
                return {"max_tool_calls": {"value": _number(given)}}
            case "MaxModelRequests":
                return {"max_model_requests": {"value": _number(given)}}
        raise UntranslatableError("a custom evaluator: write a `python` grader")

    def judge(self, given: Any) -> dict[str, Any]:
        options = given
        if not isinstance(given, Mapping):
            options = {"rubric": given}
        rubric = options.get("rubric") or options.get("criteria")
        if not isinstance(rubric, str):
            raise UntranslatableError("it has no rubric")
        if options.get("include_expected_output"):
            reason = "a rubric with the expected output: write it as `reference`"
            raise UntranslatableError(reason)
        model = options.get("model")
        if not isinstance(model, str) or not model:
            model = "openai:gpt-4.1"
        return {"judge": {"rubric": rubric, "provider": self.judge_name(model)}}

    def judge_name(self, model: str) -> str:
        """Return the name of the judge for a model such as `openai:gpt-4.1`."""
        kind, _, name = model.partition(":")
        provider = "openai"
        if kind.startswith("google"):
            provider = "gemini"
        elif kind == "anthropic":
            provider = "anthropic"
        options = {"type": provider, "model": name or kind}
        for known, other in self.judges.items():
            if other == options:
                return known
        new = "judge"
        if self.judges:
            new = f"judge {len(self.judges) + 1}"
        self.judges[new] = options
        return new


def _options(given: Any, first: str) -> Mapping[str, Any]:
    """Return the options of an evaluator, whose short form is the value of `first`."""
    if isinstance(given, Mapping) and (first in given or len(given) > 1):
        return given
    return {first: given}


def _values(given: Any) -> list[Any]:
    if isinstance(given, Mapping):
        return list(given.values())
    return [given]


def _contains(options: Mapping[str, Any]) -> dict[str, Any]:
    value = options.get("value")
    if not isinstance(value, str):
        raise UntranslatableError("a value that is not text: use `json_path` for JSON")
    if options.get("case_sensitive", True):
        return {"contains": {"value": value}}
    return {"contains": {"value": value, "ignore_case": True}}


def _is_instance(name: Any) -> dict[str, Any]:
    if name == "str":
        return {"not_empty": {"value": True}}
    if isinstance(name, str) and name in _TYPES:
        return {"json_schema": {"schema": {"type": _TYPES[name]}}}
    raise UntranslatableError("answers are text or JSON: use `json_schema` for their types")


def _trajectory(given: Any) -> dict[str, Any]:
    calls = None
    order = "any_order"
    for value in _values(given):
        if isinstance(value, list):
            calls = value
        elif value in _ORDERS:
            order = value
    if calls is None or not all(isinstance(call, str) for call in calls):
        raise UntranslatableError("only names of tools are imported: see `trajectory`")
    return {"trajectory": {"calls": calls, "match": order}}


def _number(given: Any) -> int:
    for value in _values(given):
        if isinstance(value, int):
            return value
    raise UntranslatableError("it has no number")
