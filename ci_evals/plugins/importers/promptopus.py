"""promptopus: `suite.yaml`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate, seconds
from ci_evals.plugins.importers.source import Source
from ci_evals.suite.nodes import Node

_KEYS = ("name", "description", "providers", "judge", "defaults", "cases")
_PARAMS = {"temperature": "temperature", "maxTokens": "max_tokens"}
_P95 = "the figure is in every report; `gate.max_latency_increase` holds latency against a baseline"


def recognize(source: Source) -> bool:
    """Return True for a suite of promptopus."""
    value = source.written.value
    if not isinstance(value, dict) or not isinstance(value.get("providers"), list):
        return False
    return any(isinstance(each, dict) and "kind" in each for each in value["providers"])


def convert(source: Source) -> SuiteDraft:
    """Make a draft of a suite."""
    draft = SuiteDraft("promptopus")
    suite = draft.suite
    root = source.written
    defaults = root["defaults"].value or {}
    for key in ("name", "description"):
        if root.value.get(key):
            suite[key] = str(root.value[key])

    def convert_provider(entry: Node) -> list[Any]:
        return [_provider(entry.value, defaults)]

    suite["providers"] = _convert_each(root["providers"], source, draft, convert_provider)
    judge = root.value.get("judge")
    if isinstance(judge, Mapping):
        try:
            suite["judges"] = [_judge(judge, root.value["providers"])]
        except UntranslatableError as error:
            comment = draft.lose(root["judge"], "judge", str(error), weakens=True)
            suite[comment] = None
    prompt = _common_prompt(root["cases"].value, defaults)
    if prompt is not None:
        suite["prompts"] = [prompt]
    if expect := _graders(root["defaults"]["graders"], {}, source, draft):
        suite["expect"] = expect
    suite["cases"] = []
    for entry in root["cases"].items():
        expect = _graders(entry["graders"], entry.value, source, draft)
        case = _case(entry, source)
        if prompt is None:
            case |= _messages(entry.value, defaults)
        else:
            case["vars"] = entry.value.get("vars") or {}
        if expect:
            case["expect"] = expect
        suite["cases"].append(locate(case, entry.line))
    suite |= draft.lose_other_keys(root, _KEYS)
    draft.suite = {**dict.fromkeys(source.take_other_comments()), **suite}
    return draft


def _convert_each(
    written: Node, source: Source, draft: SuiteDraft, convert_one: Callable[[Node], list[Any]]
) -> list[Any]:
    """Convert each entry of a list; entries that can't be converted become comments."""
    made: list[Any] = []
    if not isinstance(written.value, list):
        return made
    for entry in written.items():
        made += source.take_comments(entry)
        try:
            for part in convert_one(entry):
                made.append(locate(part, entry.line))
        except UntranslatableError as error:
            what = written.path.rpartition(".")[2]
            made.append(draft.lose(entry, what, str(error), weakens=True))
    return made


def _provider(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if given.get("name"):
        options["name"] = str(given["name"])
    match given.get("kind"):
        case "mock":
            options["type"] = "mock"
            if given.get("text"):
                options["default"] = str(given["text"])
            return options
        case "anthropic":
            options["type"] = "anthropic"
        case "openai" | "openai-compat":
            options["type"] = "openai"
        case kind:
            raise UntranslatableError(f"there is no provider like {kind!r}")
    options["model"] = str(given.get("model", ""))
    if given.get("baseUrlEnv"):
        options["base_url"] = f"${{{given['baseUrlEnv']}}}"
    elif given.get("baseUrl"):
        options["base_url"] = given["baseUrl"]
    if given.get("apiKeyEnv"):
        options["api_key"] = f"${{{given['apiKeyEnv']}}}"
    params = {}
    for key, name in _PARAMS.items():
        value = given.get(key, defaults.get(key))
        if value is not None:
            params[name] = value
    if params:
        options["params"] = params
    return options


def _judge(given: Mapping[str, Any], providers: list[Any]) -> dict[str, Any]:
    """Return the judge: a provider of the suite, or a kind of provider, with its own settings."""
    name = given.get("provider", "openai")
    model = {"kind": name}
    for provider in providers:
        if provider.get("name") == name:
            model = provider
            break
    own = {key: value for key, value in given.items() if key != "provider"}
    return {**_provider({**model, **own}, {}), "name": "judge"}


def _common_prompt(cases: Any, defaults: Mapping[str, Any]) -> Any:
    """Return the prompt if all cases share one and have vars; else None."""
    cases = [case for case in cases if isinstance(case, dict)]
    prompts = {(_system(case, defaults), case.get("prompt")) for case in cases}
    if len(prompts) != 1 or not cases[0].get("vars"):
        return None
    ((system, user),) = prompts
    if system:
        return {"system": system, "user": user}
    return user


def _system(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    return case.get("systemPrompt", defaults.get("systemPrompt"))


def _case(entry: Node, source: Source) -> dict[Any, Any]:
    case: dict[Any, Any] = dict.fromkeys(source.take_comments(entry))
    for key in ("id", "description"):
        if entry.value.get(key):
            case[key] = str(entry.value[key])
    return case


def _messages(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question of a case: its own prompt, with its vars filled in."""
    vars_ = case.get("vars") or {}

    def fill(text: Any) -> str:
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda name: str(vars_.get(name[1], "")), str(text))

    user = fill(case.get("prompt", ""))
    system = _system(case, defaults)
    if not system:
        return {"input": user}
    return {
        "messages": [
            {"role": "system", "content": fill(system)},
            {"role": "user", "content": user},
        ]
    }


def _graders(
    written: Node, case: Mapping[str, Any], source: Source, draft: SuiteDraft
) -> list[Any]:
    def convert_one(entry: Node) -> list[Any]:
        made: list[Any] = [_grader(entry.value, case)]
        if isinstance(entry.value, Mapping) and entry.value.get("p95Ms"):
            p95 = entry["p95Ms"]
            made.append(draft.lose(p95, "latency-budget: p95Ms", _P95, weakens=False))
        return made

    return _convert_each(written, source, draft, convert_one)


def _grader(given: Any, case: Mapping[str, Any]) -> dict[str, Any]:  # noqa: C901, PLR0912  one branch per kind of grader
    kind, settings = _kind_of(given)
    options: dict[str, Any]
    match kind:
        case "non-empty":
            grader, options = "not_empty", {"value": True}
        case "equals":
            grader, options = "equals", {"value": settings.get("value")}
            if settings.get("caseInsensitive"):
                options["ignore_case"] = True
            if settings.get("trim"):
                options["trim"] = True
        case "contains":
            grader, options = "contains", {"value": str(settings.get("value", ""))}
            if settings.get("caseInsensitive"):
                options["ignore_case"] = True
        case "regex":
            grader, options = "regex", {"pattern": str(settings.get("pattern", ""))}
            flags = [flag for flag in str(settings.get("flags") or "") if flag in "ims"]
            if flags:
                options["flags"] = "".join(flags)
        case "max-length":
            grader, options = "max_length", {"value": settings.get("chars")}
        case "is-valid-json":
            grader, options = "is_json", {"value": True}
        case "json-schema":
            grader, options = "json_schema", {"schema": settings.get("schema")}
        case "judge-faithfulness":
            grader, options = "judge", {"rubric": "faithful", "context": case.get("source")}
            options["threshold"] = settings.get("threshold", 0.7)
        case "judge-quality":
            grader, options = "judge", {"rubric": str(settings.get("rubric", "")), "scale": 11}
            options["threshold"] = settings.get("threshold", 0.7)
            if case.get("reference"):
                options["reference"] = case["reference"]
        case "latency-budget" if settings.get("maxMs"):
            grader, options = "latency", {"value": seconds(settings["maxMs"])}
        case "cost-budget":
            grader, options = "cost", {"value": settings.get("maxUsd")}
        case _:
            raise UntranslatableError(f"there is no grader like {kind!r}")
    return {grader: options}


def _kind_of(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a grader's name and options, from any of the spellings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise UntranslatableError("a grader has a type")
    kind = given.get("type") or given.get("kind") or given.get("name")
    if isinstance(kind, str):
        return kind, given
    if len(given) != 1:
        raise UntranslatableError("a grader has a type")
    ((kind, options),) = given.items()
    if isinstance(options, Mapping):
        return kind, options
    return kind, {}
