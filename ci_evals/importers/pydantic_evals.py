"""pydantic-evals: a dataset, as YAML or JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import NO_PROVIDERS
from ci_evals.importers.source import Source, last_line
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_CASE = frozenset({"name", "inputs", "metadata", "expected_output", "evaluators"})
_ORDERS = ("exact", "in_order", "any_order")


def recognize(source: Source) -> bool:
    """Return True for a dataset."""
    value = source.written.value
    cases = value.get("cases") if isinstance(value, dict) else None
    return (
        isinstance(cases, list)
        and bool(cases)
        and all(isinstance(case, dict) and "inputs" in case for case in cases)
    )


def convert(source: Source) -> Draft:
    """Make a draft of a dataset."""
    root, draft = source.written, Draft("pydantic-evals")
    suite, asks = draft.suite, _Judges()
    if root.value.get("name"):
        suite["name"] = str(root.value["name"])
    shared, each_expects = _evaluators(root, source, draft, asks)
    cases: list[Any] = []
    for entry in root["cases"].items():
        own, also_expects = _evaluators(entry, source, draft, asks)
        expect = [
            *(
                [{"equals": entry.value["expected_output"]}]
                if _is_expected(entry, each_expects or also_expects)
                else []
            ),
            *own,
        ]
        comments = source.take_comments(entry.line, last_line(entry.lines))
        case: dict[Any, Any] = {YamlComment(comments): None} if comments else {}
        case |= {"id": str(entry.value["name"])} if entry.value.get("name") else {}
        case["input"] = entry.value["inputs"]
        metadata = entry.value.get("metadata")
        if entry.value.get("expected_output") is not None and not (each_expects or also_expects):
            metadata = {
                **(metadata if isinstance(metadata, dict) else {}),
                "expected_output": entry.value["expected_output"],
            }
        case |= {"expect": expect} if expect else {}
        case |= {"metadata": metadata} if isinstance(metadata, dict) else {}
        for key in entry.value.keys() - _CASE:
            case[draft.lose(entry[key], key, "there is nothing like it", weakens=False)] = None
        cases.append(draft.at(case, entry.line))
    suite[YamlComment(NO_PROVIDERS)] = None
    if asks.models:
        suite["judges"] = [{"name": name, **options} for name, options in asks.models.items()]
    if shared:
        suite["expect"] = shared
    for key in root.value.keys() - {"$schema", "name", "cases", "evaluators"}:
        reason = (
            "`classify` with `gate.metrics` has metrics of the whole suite"
            if key == "report_evaluators"
            else "there is nothing like it"
        )
        suite[draft.lose(root[key], key, reason, weakens=key == "report_evaluators")] = None
    suite["cases"] = cases
    if rest := source.take_comments(1, 10**9):
        draft.suite = {YamlComment(rest): None, **suite}
    return draft


class _Judges:
    """The models that judge."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Any]] = {}

    def name(self, model: str | None) -> dict[str, str]:
        kind, _, name = (model or "openai:gpt-4.1").partition(":")
        options = {
            "type": "gemini"
            if kind.startswith("google")
            else kind
            if kind in ("openai", "anthropic")
            else "openai",
            "model": name or kind,
        }
        known = next((known for known, each in self.models.items() if each == options), None)
        if known is None:
            known = "judge" if not self.models else f"judge {len(self.models) + 1}"
            self.models[known] = options
        return {"provider": known}


def _is_expected(entry: Node, expects: bool) -> bool:  # noqa: FBT001
    return expects and entry.value.get("expected_output") is not None


def _evaluators(
    written: Node, source: Source, draft: Draft, asks: _Judges
) -> tuple[list[Any], bool]:
    """Return the graders of a list of evaluators, and whether they compare with the expected
    output.
    """
    made: list[Any] = []
    equals = False
    for entry in (
        written["evaluators"].items() if isinstance(written["evaluators"].value, list) else ()
    ):
        if comments := source.take_comments(entry.line, last_line(entry.lines)):
            made.append(YamlComment(comments))
        name, given = (
            next(iter(entry.value.items()))
            if isinstance(entry.value, dict) and entry.value
            else (str(entry.value), None)
        )
        if name == "EqualsExpected":
            equals = True
            continue
        try:
            made.append(draft.at(_EVALUATORS.get(name, _own)(given, asks), entry.line))
        except UntranslatableError as error:
            made.append(draft.lose(entry, f"evaluators: {name}", str(error), weakens=True))
    return made, equals


def _options(given: Any, first: str) -> Mapping[str, Any]:
    return (
        given
        if isinstance(given, Mapping) and (first in given or len(given) > 1)
        else {first: given}
    )


def _own(_given: Any, _asks: _Judges) -> dict[str, Any]:
    raise UntranslatableError("an evaluator of your own: write a `python` grader")


def _contains(given: Any, _: _Judges) -> dict[str, Any]:
    options = _options(given, "value")
    value = options.get("value")
    if not isinstance(value, str):
        raise UntranslatableError("a value that is no text: `json_path` looks into JSON")
    return {"contains" if options.get("case_sensitive", True) else "icontains": {"value": value}}


def _is_instance(given: Any, _: _Judges) -> dict[str, Any]:
    kind = _options(given, "type_name").get("type_name")
    if kind in ("str", "int", "float", "bool", "dict", "list"):
        types = {
            "int": "integer",
            "float": "number",
            "bool": "boolean",
            "dict": "object",
            "list": "array",
        }
        return (
            {"not_empty": {"value": True}}
            if kind == "str"
            else {"json_schema": {"schema": {"type": types[kind]}}}
        )
    raise UntranslatableError("an answer is text or JSON: `json_schema` says what it has")


def _duration(given: Any, _: _Judges) -> dict[str, Any]:
    seconds = _options(given, "seconds").get("seconds")
    if not isinstance(seconds, int | float):
        raise UntranslatableError("only seconds are read")
    return {"latency": {"value": seconds}}


def _judged(given: Any, asks: _Judges) -> dict[str, Any]:
    options = _options(
        given, "criteria" if isinstance(given, Mapping) and "criteria" in given else "rubric"
    )
    rubric = options.get("rubric") or options.get("criteria")
    if not isinstance(rubric, str):
        raise UntranslatableError("it has no rubric")
    if options.get("include_expected_output"):
        raise UntranslatableError("the expected output beside a rubric: give it as `reference`")
    model = options.get("model")
    return {"judge": {"rubric": rubric, **asks.name(model if isinstance(model, str) else None)}}


def _calls(given: Any, _: _Judges) -> dict[str, Any]:
    values = list(given.values()) if isinstance(given, Mapping) else [given]
    calls = next((value for value in values if isinstance(value, list)), None)
    if calls is None or not all(isinstance(call, str) for call in calls):
        raise UntranslatableError("only names of tools are taken over: see `trajectory`")
    return {
        "trajectory": {
            "calls": calls,
            "match": next((value for value in values if value in _ORDERS), "any_order"),
        }
    }


def _at_most(grader: str) -> Callable[[Any, _Judges], dict[str, Any]]:
    def convert_one(given: Any, _: _Judges) -> dict[str, Any]:
        values = list(given.values()) if isinstance(given, Mapping) else [given]
        number = next((value for value in values if isinstance(value, int)), None)
        if number is None:
            raise UntranslatableError("it has no number")
        return {grader: {"value": number}}

    return convert_one


_EVALUATORS: Mapping[str, Callable[[Any, _Judges], dict[str, Any]]] = {
    "Equals": lambda given, _: {"equals": {"value": _options(given, "value").get("value")}},
    "Contains": _contains,
    "IsInstance": _is_instance,
    "MaxDuration": _duration,
    "LLMJudge": _judged,
    "GEval": _judged,
    "ToolCorrectness": _calls,
    "TrajectoryMatch": _calls,
    "MaxToolCalls": _at_most("max_tool_calls"),
    "MaxModelRequests": _at_most("max_model_requests"),
}
