"""GitHub Models: `*.prompt.yml`."""

import json
from collections.abc import Mapping
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import input_or_messages
from ci_evals.plugins.importers.source import Source
from ci_evals.suite.nodes import Node

_ENDPOINT = {"base_url": "https://models.github.ai/inference", "api_key": "${GITHUB_TOKEN}"}
_PARAMS = {
    "maxTokens": "max_tokens",
    "maxCompletionTokens": "max_completion_tokens",
    "topP": "top_p",
}
_STRINGS = {
    "equals": "equals",
    "contains": "contains",
    "startsWith": "starts_with",
    "endsWith": "ends_with",
}
_READY: Mapping[str, dict[str, Any]] = {
    "similarity": {"rubric": "factual", "reference": "{{ expected }}"},
    "relevance": {"rubric": "relevant"},
    "coherence": {
        "rubric": (
            "The answer is coherent: its sentences follow from one another and make one whole."
        )
    },
    "fluency": {
        "rubric": "The answer is fluent: grammar, words and flow are those of a good writer."
    },
    "groundedness": {"rubric": "faithful", "context": "{{ context }}"},
}
_GROUNDED = {
    "rubric": (
        "The answer is grounded: it claims nothing that the question does not support"
        " and that is not common knowledge."
    )
}
"""Groundedness if the data has no context."""
_SETTINGS = ("model", "modelParameters", "responseFormat", "jsonSchema")
_KEYS = ("name", "description", *_SETTINGS, "messages", "testData", "evaluators")


def recognize(source: Source) -> bool:
    """Return True for a prompt file."""
    value = source.written.value
    if not isinstance(value, dict) or "messages" not in value:
        return False
    return not value.keys().isdisjoint(("model", "testData", "evaluators"))


def convert(source: Source) -> SuiteDraft:
    """Make a draft of a prompt file."""
    draft = SuiteDraft("GitHub Models")
    suite = draft.suite
    root = source.written
    value = root.value
    for key in ("name", "description"):
        if value.get(key):
            suite[key] = value[key]
    model = str(value.get("model", ""))
    provider: dict[str, Any] = {"type": "openai", "model": model, **_ENDPOINT}
    if params := _params(value):
        provider["params"] = params
    suite["providers"] = [provider]
    judges: dict[str, str] = {}
    expect = _expectations(source, draft, judges, model)
    if judges:
        suite["judges"] = []
        for judge_model, name in judges.items():
            judge = {"name": name, "type": "openai", "model": judge_model, **_ENDPOINT}
            suite["judges"].append(judge)
    suite |= dict.fromkeys(source.take_comments(root["messages"]))
    suite["prompts"] = [_prompt(input_or_messages(value["messages"]))]
    if expect:
        suite["expect"] = expect
    suite["cases"] = [{"vars": {}}]
    if value.get("testData"):
        suite["cases"] = [_case(entry, source) for entry in root["testData"].items()]
    suite |= draft.lose_other_keys(root, _KEYS)
    draft.suite = {**dict.fromkeys(source.take_other_comments()), **suite}
    return draft


def _expectations(
    source: Source, draft: SuiteDraft, judges: dict[str, str], model: str
) -> list[Any]:
    """Return the graders; add their judges' names to `judges`, by model."""
    evaluators = source.written["evaluators"]
    expect: list[Any] = []
    if not isinstance(evaluators.value, list):
        return expect
    ready = dict(_READY)
    rows = source.written["testData"].value or ()
    if not all("context" in row for row in rows):
        ready["groundedness"] = _GROUNDED
    for entry in evaluators.items():
        expect += source.take_comments(entry)
        try:
            expect.append(locate(_grader(entry.value, judges, model, ready), entry.line))
        except UntranslatableError as error:
            expect.append(draft.lose(entry, "evaluators", str(error), weakens=True))
    return expect


def _case(entry: Node, source: Source) -> Any:
    case: dict[Any, Any] = dict.fromkeys(source.take_comments(entry))
    case["vars"] = entry.value
    return locate(case, entry.line)


def _params(value: Mapping[str, Any]) -> dict[str, Any]:
    params = {}
    for key, setting in (value.get("modelParameters") or {}).items():
        params[_PARAMS.get(key, key)] = setting
    match value.get("responseFormat"):
        case "json_object":
            params["response_format"] = {"type": "json_object"}
        case "json_schema":
            schema = value.get("jsonSchema")
            if isinstance(schema, str):
                schema = json.loads(schema)
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
    return params


def _prompt(turns: dict[str, Any]) -> Any:
    messages = turns.get("messages", [])
    match [message["role"] for message in messages]:
        case ["system", "user"]:
            return {"system": messages[0]["content"], "user": messages[1]["content"]}
        case ["user"]:
            return messages[0]["content"]
    return turns


def _grader(
    value: Any, judges: dict[str, str], model: str, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the grader of an evaluator; `known` has the built-in evaluators."""
    if not isinstance(value, Mapping):
        raise UntranslatableError("an evaluator is a mapping")
    string = value.get("string")
    llm = value.get("llm")
    ready = str(value.get("uses", "")).removeprefix("github/")
    if isinstance(string, Mapping) and len(string) == 1 and not _STRINGS.keys().isdisjoint(string):
        ((key, text),) = string.items()
        grader = _STRINGS[key]
        options: dict[str, Any] = {"value": str(text)}
        if key != "equals":  # GitHub Models ignores case in all but this one
            options["ignore_case"] = True
    elif isinstance(llm, Mapping):
        grader = "judge"
        options = _choices(llm)
        options["provider"] = _judge(judges, str(llm.get("modelId") or model))
    elif ready in known:
        grader = "judge"
        options = {**known[ready], "provider": _judge(judges, model)}
    else:
        raise UntranslatableError("there is no grader like it")
    if value.get("name"):
        options["name"] = str(value["name"])
    return {grader: options}


def _choices(llm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a judge with choices and scores."""
    choices = {str(each["choice"]): float(each["score"]) for each in llm.get("choices", ())}
    passing = [score for score in choices.values() if score > 0]
    if len(choices) < 2 or not passing:
        reason = "a judge has at least two choices, one of them with a score above 0"
        raise UntranslatableError(reason)
    texts = [str(llm[key]).strip() for key in ("systemPrompt", "prompt") if llm.get(key)]
    rubric = "\n".join(texts)
    for placeholder in ("{{completion}}", "{{ completion }}"):
        rubric = rubric.replace(placeholder, "(the answer)")
    return {"rubric": rubric, "choices": choices, "threshold": min(passing)}


def _judge(judges: dict[str, str], model: str) -> str:
    """Return the name of the judge of a model; add a new one to `judges`."""
    if model not in judges:
        judges[model] = "judge"
        if len(judges) > 1:
            judges[model] = f"judge {len(judges)}"
    return judges[model]
