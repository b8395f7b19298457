"""Imports datasets of pydantic-evals from YAML or JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import NO_PROVIDERS, raw
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
_SCORE = "there, calls between these lower the score: `match: exact` forbids them here"
_TOOL_SPAN = "execute_tool "
_SPANS = "only a span of a tool by its name is imported: see `trajectory` and `tool_arguments`"


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
                expect.append({"equals": raw(expected)})
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
                grader = raw(self.grader(name, given))
                if isinstance(given, dict) and given.get("evaluation_name"):
                    for options in grader.values():
                        options["name"] = str(given["evaluation_name"])
                if name == "TrajectoryMatch" and grader["trajectory"]["match"] == "in_order":
                    what = "evaluators: TrajectoryMatch: score"
                    made.append(self.draft.lose(entry, what, _SCORE, weakens=False))
                made.append(locate(grader, entry.line))
            except UntranslatableError as error:
                made.append(self.draft.lose(entry, f"evaluators: {name}", str(error), weakens=True))
        return made, compares

    def grader(self, name: str, given: Any) -> dict[str, Any]:
        if name in ("LLMJudge", "GEval"):
            return self.judge(given)
        if name not in _EVALUATORS:
            raise UntranslatableError("a custom evaluator: write a `python` grader")
        first, translate = _EVALUATORS[name]
        options = given
        if not isinstance(given, Mapping) or (first not in given and len(given) < 2):
            options = {first: given}
        return translate(options)

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
        if options.get("assertion") is False:
            reason = "only its score counts, without a bar: write a `judge` with a `scale`"
            raise UntranslatableError(reason)
        if steps := options.get("evaluation_steps"):
            rubric = "\n".join([rubric, *(f"- {step}" for step in steps)])
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


def _equals(options: Mapping[str, Any]) -> dict[str, Any]:
    if "value" not in options:
        raise UntranslatableError("it has no `value`")
    return {"equals": {"value": options["value"]}}


def _contains(options: Mapping[str, Any]) -> dict[str, Any]:
    value = options.get("value")
    if not isinstance(value, str):
        raise UntranslatableError("a value that is not text: use `json_path` for JSON")
    if options.get("case_sensitive", True):
        return {"contains": {"value": value}}
    return {"contains": {"value": value, "ignore_case": True}}


def _is_instance(options: Mapping[str, Any]) -> dict[str, Any]:
    name = options.get("type_name")
    if name == "str":
        return {"python": {"target": "isinstance(output, str)"}}
    if isinstance(name, str) and name in _TYPES:
        return {"json_schema": {"schema": {"type": _TYPES[name]}}}
    raise UntranslatableError("answers are text or JSON: use `json_schema` for their types")


def _max_duration(options: Mapping[str, Any]) -> dict[str, Any]:
    seconds = options.get("seconds")
    if not isinstance(seconds, int | float):
        raise UntranslatableError("it is not a number of seconds")
    return {"latency": {"value": seconds}}


def _called_tools(options: Mapping[str, Any]) -> dict[str, Any]:
    calls = _names(options.get("expected_tools"))
    match = "any_order"
    if options.get("allow_extra"):
        match = "superset"
        if not calls:
            raise UntranslatableError("it always passes")
    return {"trajectory": {"calls": calls, "match": match, **_with_failed(options)}}


def _trajectory(options: Mapping[str, Any]) -> dict[str, Any]:
    calls = _names(options.get("expected_trajectory"))
    match = options.get("order", "in_order")
    if match not in _ORDERS:
        raise UntranslatableError(f"an unknown `order`: {match}")
    if not calls:
        match = "exact"
    return {"trajectory": {"calls": calls, "match": match, **_with_failed(options)}}


def _names(calls: Any) -> list[str]:
    if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
        raise UntranslatableError("only names of tools are imported: see `trajectory`")
    return calls


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    tool = options.get("tool_name")
    arguments = options.get("expected_arguments")
    if not isinstance(tool, str) or not isinstance(arguments, Mapping):
        raise UntranslatableError("it has no `tool_name` or no `expected_arguments`")
    which = options.get("occurrence", "first")
    if which == 0:
        which = "first"
    if which not in ("first", "last"):
        raise UntranslatableError("only the first or the last call of a tool is looked at")
    match = options.get("match_mode", "subset")
    made = {"tool": tool, "arguments": arguments, "match": match, "calls": which}
    return {"tool_arguments": {**made, **_with_failed(options)}}


def _span(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a grader for a query of a tool's span, which also finds failed calls."""
    tool = ""
    match options.get("query"):
        case {"name_equals": str(name), **others} if not others and name.startswith(_TOOL_SPAN):
            tool = name.removeprefix(_TOOL_SPAN)
        case {"has_attributes": {"gen_ai.tool.name": str(named), **attributes}, **others}:
            is_of_tool = others.get("name_equals") in (None, "running tool", _TOOL_SPAN + named)
            if is_of_tool and not attributes and not others.keys() - {"name_equals"}:
                tool = named
    if not tool:
        raise UntranslatableError(_SPANS)
    return {"trajectory": {"calls": [tool], "match": "superset"}}


def _with_failed(options: Mapping[str, Any], *, default: bool = False) -> dict[str, bool]:
    """Return the option for failed calls, which count unless it says otherwise."""
    if options.get("include_failed", default):
        return {}
    return {"include_failed": False}


def _max_calls(options: Mapping[str, Any]) -> dict[str, Any]:
    limit = {"value": _number(options.get("max_calls"))}
    return {"max_tool_calls": {**limit, **_with_failed(options, default=True)}}


def _max_requests(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"max_model_requests": {"value": _number(options.get("max_requests"))}}


def _number(given: Any) -> int:
    if isinstance(given, int):
        return given
    raise UntranslatableError("it has no number")


_EVALUATORS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "Equals": ("value", _equals),
    "Contains": ("value", _contains),
    "IsInstance": ("type_name", _is_instance),
    "MaxDuration": ("seconds", _max_duration),
    "ToolCorrectness": ("expected_tools", _called_tools),
    "TrajectoryMatch": ("expected_trajectory", _trajectory),
    "ArgumentCorrectness": ("tool_name", _arguments),
    "HasMatchingSpan": ("query", _span),
    "MaxToolCalls": ("max_calls", _max_calls),
    "MaxModelRequests": ("max_requests", _max_requests),
}
"""The evaluators without a model: the option that their short form sets, and a translation."""
