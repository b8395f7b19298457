"""GitHub Models: `*.prompt.yml`."""

import json
from collections.abc import Mapping
from typing import Any

from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import asked
from ci_evals.importers.source import Source, last_line
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_ENDPOINT = {"base_url": "https://models.github.ai/inference", "api_key": "${GITHUB_TOKEN}"}
_PARAMS = {
    "maxTokens": "max_tokens",
    "maxCompletionTokens": "max_completion_tokens",
    "topP": "top_p",
}
_STRINGS: Mapping[str, tuple[str, bool]] = {  # the grader, and whether case counts
    "equals": ("equals", True),
    "contains": ("contains", False),
    "startsWith": ("starts_with", False),
    "endsWith": ("ends_with", False),
}
_READY: Mapping[str, dict[str, Any]] = {
    "similarity": {"rubric": "factual", "reference": "{{ expected }}"},
    "relevance": {"rubric": "relevant"},
    "coherence": {
        "rubric": "The answer is coherent: its sentences follow from one another and make one whole."
    },
    "fluency": {
        "rubric": "The answer is fluent: grammar, words and flow are those of a good writer."
    },
    "groundedness": {"rubric": "faithful", "context": "{{ context }}"},
}
_KEYS = frozenset(
    {
        "name",
        "description",
        "model",
        "modelParameters",
        "responseFormat",
        "jsonSchema",
        "messages",
        "testData",
        "evaluators",
    }
)


def recognize(source: Source) -> bool:
    """Return True for a prompt file."""
    value = source.written.value
    return (
        isinstance(value, dict)
        and "messages" in value
        and bool({"model", "testData", "evaluators"} & value.keys())
    )


def convert(source: Source) -> Draft:
    """Make a draft of a prompt file."""
    root, draft = source.written, Draft("GitHub Models")
    value, suite = root.value, draft.suite
    suite |= {key: value[key] for key in ("name", "description") if value.get(key)}
    suite["providers"] = [
        {"type": "openai", "model": str(value.get("model", "")), **_ENDPOINT, **_params(value)}
    ]
    judges: dict[str, str] = {}
    expect: list[Any] = []
    for entry in root["evaluators"].items() if isinstance(root["evaluators"].value, list) else ():
        if comments := source.take_comments(entry.line, last_line(entry.lines)):
            expect.append(YamlComment(comments))
        try:
            expect.append(
                draft.at(_grader(entry.value, judges, str(value.get("model", ""))), entry.line)
            )
        except UntranslatableError as error:
            expect.append(draft.lose(entry, "evaluators", str(error), weakens=True))
    if judges:
        suite["judges"] = [
            {"name": name, "type": "openai", "model": model, **_ENDPOINT}
            for model, name in judges.items()
        ]
    if comments := source.take_comments(root["messages"].line, last_line(root["messages"].lines)):
        suite[YamlComment(comments)] = None
    suite["prompts"] = [_prompt(asked(value["messages"]))]
    if expect:
        suite["expect"] = expect
    suite["cases"] = (
        [_case(entry, source, draft) for entry in root["testData"].items()]
        if value.get("testData")
        else [{"vars": {}}]
    )
    for key in value.keys() - _KEYS:
        suite[draft.lose(root[key], key, "there is nothing like it", weakens=False)] = None
    if rest := source.take_comments(1, 10**9):
        draft.suite = {YamlComment(rest): None, **suite}
    return draft


def _case(entry: Node, source: Source, draft: Draft) -> dict[Any, Any]:
    comments = source.take_comments(entry.line, last_line(entry.lines))
    return draft.at(
        {**({YamlComment(comments): None} if comments else {}), "vars": entry.value}, entry.line
    )


def _params(value: Mapping[str, Any]) -> dict[str, Any]:
    params = {
        _PARAMS.get(key, key): item for key, item in (value.get("modelParameters") or {}).items()
    }
    match value.get("responseFormat"):
        case "json_object":
            params["response_format"] = {"type": "json_object"}
        case "json_schema":
            schema = value.get("jsonSchema")
            schema = json.loads(schema) if isinstance(schema, str) else schema
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {"params": params} if params else {}


def _prompt(turns: Mapping[str, Any]) -> Any:
    messages = turns.get("messages", [])
    if [each["role"] for each in messages] == ["system", "user"]:
        return {"system": messages[0]["content"], "user": messages[1]["content"]}
    return (
        messages[0]["content"] if [each["role"] for each in messages] == ["user"] else dict(turns)
    )


def _grader(value: Any, judges: dict[str, str], model: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise UntranslatableError("an evaluator is a mapping")
    named = {"name": str(value["name"])} if value.get("name") else {}
    if isinstance(string := value.get("string"), Mapping) and len(string) == 1:
        ((key, text),) = string.items()
        if key in _STRINGS:
            grader, counts_case = _STRINGS[key]
            return {
                grader: {
                    "value": str(text),
                    **({} if counts_case else {"ignore_case": True}),
                    **named,
                }
            }
    if isinstance(llm := value.get("llm"), Mapping):
        choices = {str(each["choice"]): float(each["score"]) for each in llm.get("choices", ())}
        passing = [score for score in choices.values() if score > 0]
        if len(choices) < 2 or not passing:
            raise UntranslatableError(
                "a judge has at least two choices, one of them with a score above 0"
            )
        rubric = "\n".join(
            str(llm[key]).strip() for key in ("systemPrompt", "prompt") if llm.get(key)
        )
        rubric = rubric.replace("{{completion}}", "(the answer)").replace(
            "{{ completion }}", "(the answer)"
        )
        provider = judges.setdefault(str(llm.get("modelId") or model), _name(judges))
        judged = {
            "rubric": rubric,
            "choices": choices,
            "threshold": min(passing),
            "provider": provider,
        }
        return {"judge": {**judged, **named}}
    ready = str(value.get("uses", "")).removeprefix("github/")
    if ready in _READY:
        return {
            "judge": {**_READY[ready], "provider": judges.setdefault(model, _name(judges)), **named}
        }
    raise UntranslatableError("there is no grader like it")


def _name(judges: Mapping[str, str]) -> str:
    return "judge" if not judges else f"judge {len(judges) + 1}"
