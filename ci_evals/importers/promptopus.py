"""promptopus: `suite.yaml`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ci_evals.importers.draft import Draft, UntranslatableError, seconds
from ci_evals.importers.source import Source, last_line
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_NUMBERS = {"temperature": "temperature", "maxTokens": "max_tokens"}


def recognize(source: Source) -> bool:
    """Return True for a suite of promptopus."""
    value = source.written.value
    providers = value.get("providers") if isinstance(value, dict) else None
    return isinstance(providers, list) and any(
        isinstance(each, dict) and "kind" in each for each in providers
    )


def convert(source: Source) -> Draft:
    """Make a draft of a suite."""
    root, draft = source.written, Draft("promptopus")
    suite, defaults = draft.suite, root["defaults"].value or {}
    suite |= {key: str(root.value[key]) for key in ("name", "description") if root.value.get(key)}
    suite["providers"] = _entries(
        root["providers"], source, draft, lambda entry: [_provider(entry.value, defaults)]
    )
    if isinstance(judge := root.value.get("judge"), Mapping):
        try:
            suite["judges"] = [_judge(judge, root.value["providers"])]
        except UntranslatableError as error:
            suite[draft.lose(root["judge"], "judge", str(error), weakens=True)] = None
    cases = [entry.value for entry in root["cases"].items() if isinstance(entry.value, dict)]
    prompts = {
        (case.get("systemPrompt", defaults.get("systemPrompt")), case.get("prompt"))
        for case in cases
    }
    shared = len(prompts) == 1 and bool(cases[0].get("vars"))
    if shared:
        suite["prompts"] = [_prompt(*next(iter(prompts)))]
    if expect := _graders(root["defaults"]["graders"], {}, source, draft):
        suite["expect"] = expect
    suite["cases"] = [
        _case(entry, defaults, source, draft, shared=shared) for entry in root["cases"].items()
    ]
    for key in root.value.keys() - {
        "name",
        "description",
        "providers",
        "judge",
        "defaults",
        "cases",
    }:
        suite[draft.lose(root[key], key, "there is nothing like it", weakens=False)] = None
    if rest := source.take_comments(1, 10**9):
        draft.suite = {YamlComment(rest): None, **suite}
    return draft


def _entries(
    written: Node, source: Source, draft: Draft, convert_one: Callable[[Node], list[Any]]
) -> list[Any]:
    made: list[Any] = []
    for entry in written.items() if isinstance(written.value, list) else ():
        if comments := source.take_comments(entry.line, last_line(entry.lines)):
            made.append(YamlComment(comments))
        try:
            made += (draft.at(each, entry.line) for each in convert_one(entry))
        except UntranslatableError as error:
            made.append(
                draft.lose(entry, written.path.rpartition(".")[2], str(error), weakens=True)
            )
    return made


def _provider(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    kind = given.get("kind")
    named = {"name": str(given["name"])} if given.get("name") else {}
    if kind == "mock":
        return {
            **named,
            "type": "mock",
            **({"default": str(given["text"])} if given.get("text") else {}),
        }
    if kind not in ("openai", "anthropic", "openai-compat"):
        raise UntranslatableError(f"there is no provider of the kind {kind!r}")
    options = {
        **named,
        "type": "anthropic" if kind == "anthropic" else "openai",
        "model": str(given.get("model", "")),
    }
    if given.get("baseUrlEnv") or given.get("baseUrl"):
        options["base_url"] = (
            f"${{{given['baseUrlEnv']}}}" if given.get("baseUrlEnv") else given["baseUrl"]
        )
    if given.get("apiKeyEnv"):
        options["api_key"] = f"${{{given['apiKeyEnv']}}}"
    whole = {**defaults, **given}
    params = {name: whole[key] for key, name in _NUMBERS.items() if whole.get(key) is not None}
    return options | ({"params": params} if params else {})


def _judge(given: Mapping[str, Any], providers: list[Any]) -> dict[str, Any]:
    model = next(
        (each for each in providers if each.get("name") == given.get("provider")),
        {"kind": given.get("provider", "openai")},
    )
    own = {key: value for key, value in given.items() if key != "provider"}
    return {**_provider({**model, **own}, {}), "name": "judge"}


def _prompt(system: str | None, user: str | None) -> Any:
    return {"system": system, "user": user} if system else user


def _case(
    entry: Node, defaults: Mapping[str, Any], source: Source, draft: Draft, *, shared: bool
) -> dict[Any, Any]:
    given = entry.value
    vars_ = given.get("vars") or {}
    graders = _graders(entry["graders"], given, source, draft)
    comments = source.take_comments(entry.line, last_line(entry.lines))
    case: dict[Any, Any] = {YamlComment(comments): None} if comments else {}
    case |= {key: str(given[key]) for key in ("id", "description") if given.get(key)}
    if shared:
        case["vars"] = vars_
    else:
        system = given.get("systemPrompt", defaults.get("systemPrompt"))
        texts = [
            re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: str(vars_.get(match[1], "")), str(text))
            for text in (system, given.get("prompt", ""))
            if text
        ]
        case |= (
            {
                "messages": [
                    {"role": "system", "content": texts[0]},
                    {"role": "user", "content": texts[1]},
                ]
            }
            if system
            else {"input": texts[0]}
        )
    return draft.at(case | ({"expect": graders} if graders else {}), entry.line)


def _graders(written: Node, case: Mapping[str, Any], source: Source, draft: Draft) -> list[Any]:
    def convert_one(entry: Node) -> list[Any]:
        made: list[Any] = [_grader(entry.value, case)]
        if isinstance(entry.value, Mapping) and entry.value.get("p95Ms"):
            reason = "the figure is in every report; `gate.max_latency_increase` holds latency against a baseline"
            made.append(draft.lose(entry["p95Ms"], "latency-budget: p95Ms", reason, weakens=False))
        return made

    return _entries(written, source, draft, convert_one)


def _grader(given: Any, case: Mapping[str, Any]) -> dict[str, Any]:  # noqa: PLR0911  one for each of theirs
    kind, options = _kind_of(given)
    ignores = {"ignore_case": True} if options.get("caseInsensitive") else {}
    match kind:
        case "non-empty":
            return {"not_empty": {"value": True}}
        case "equals":
            return {
                "equals": {
                    "value": options.get("value"),
                    **ignores,
                    **({"trim": True} if options.get("trim") else {}),
                }
            }
        case "contains":
            return {"contains": {"value": str(options.get("value", "")), **ignores}}
        case "regex":
            flags = "".join(flag for flag in str(options.get("flags") or "") if flag in "ims")
            return {
                "regex": {
                    "pattern": str(options.get("pattern", "")),
                    **({"flags": flags} if flags else {}),
                }
            }
        case "max-length":
            return {"max_length": {"value": options.get("chars")}}
        case "is-valid-json":
            return {"is_json": {"value": True}}
        case "json-schema":
            return {"json_schema": {"schema": options.get("schema")}}
        case "judge-faithfulness":
            return {
                "judge": {
                    "rubric": "faithful",
                    "context": case.get("source"),
                    "threshold": options.get("threshold", 0.7),
                }
            }
        case "judge-quality":
            reference = {"reference": case["reference"]} if case.get("reference") else {}
            return {
                "judge": {
                    "rubric": str(options.get("rubric", "")),
                    "scale": 11,
                    "threshold": options.get("threshold", 0.7),
                    **reference,
                }
            }
        case "latency-budget" if options.get("maxMs"):
            return {"latency": {"value": seconds(options["maxMs"])}}
        case "cost-budget":
            return {"cost": {"value": options.get("maxUsd")}}
    raise UntranslatableError(f"there is no grader like {kind!r}")


def _kind_of(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a grader's name and options, in any of the ways to write them."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given, Mapping) and isinstance(
        kind := given.get("type") or given.get("kind") or given.get("name"), str
    ):
        return kind, given
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, options),) = given.items()
        return kind, options if isinstance(options, Mapping) else {}
    raise UntranslatableError("a grader has a type")
