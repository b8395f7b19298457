"""Imports OpenAI Evals: an entry of the registry with its samples, or only samples."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ci_evals.errors import ConfigError
from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import JUDGE, NO_PROVIDERS, input_or_messages, one_of, raw
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment

_CLASSES = {
    "evals.elsuite.basic.match:Match": "match",
    "evals.elsuite.basic.includes:Includes": "includes",
    "evals.elsuite.basic.fuzzy_match:FuzzyMatch": "fuzzy",
    "evals.elsuite.basic.json_match:JsonMatch": "json",
    "evals.elsuite.modelgraded.classify:ModelBasedClassify": "model",
}
_FUZZY = """\
import string
def plain(text):
    letters = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return " ".join(re.sub(r"\\b(a|an|the)\\b", " ", letters).split())
said = plain(output)
for ideal in map(plain, vars["ideal"]):
    if said == ideal or (said and ideal and (said in ideal or ideal in said)):
        return True
return False
"""
"""Equality except for case, punctuation and articles; one may also be a part of the other."""
_UNKNOWN_CLASS = "only match, includes, fuzzy, JSON and model-graded evals are known"


def recognize(source: Source) -> bool:
    """Return True for an entry of the registry, and for samples."""
    value = source.written.value
    if isinstance(value, dict):
        return any(_is_eval(entry) for entry in value.values())
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, dict) and {"input", "ideal"} <= row.keys() for row in value)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of samples, or of the first eval of a registry file."""
    draft = SuiteDraft("OpenAI Evals")
    if isinstance(source.written.value, list):
        _add_samples(draft, source, "match", {})
    else:
        _add_eval(draft, source)
    return draft


def _add_eval(draft: SuiteDraft, source: Source) -> None:
    root = source.written
    first, *others = [name for name, entry in root.value.items() if _is_eval(entry)]
    base = first
    for name, entry in root.value.items():
        if isinstance(entry, dict) and entry.get("id") == first:
            base = name  # the eval's name without its version
            break
    draft.suite["name"] = base
    if isinstance(root[base].value, dict):
        description = root[base]["description"].value
        if description:
            draft.suite["description"] = description
    arguments = root[first]["args"].value or {}
    samples = _read_samples(source, str(arguments.get("samples_jsonl", "")))
    class_ = root[first]["class"]
    kind = _CLASSES.get(class_.value)
    if kind is None:
        comment = draft.lose(class_, "class", _UNKNOWN_CLASS, weakens=True)
        draft.suite[comment] = None
    _add_samples(draft, samples, kind, arguments)
    for name in others:
        reason = f"{name} is a second eval of the file: import its samples separately"
        comment = draft.lose(replace(root[name], path=""), name, reason, weakens=True)
        draft.suite[comment] = None


def _is_eval(entry: Any) -> bool:
    return isinstance(entry, dict) and str(entry.get("class", "")).startswith("evals.")


def _read_samples(source: Source, name: str) -> Source:
    """Return the samples of an eval: next to its file, or in the registry's folder `data`."""
    for folder in ("", "../data/", "../../data/"):
        if (source.path.parent / folder / name).is_file():
            return source.read(f"{folder}{name}")
    reason = f"its samples are missing: {name!r} (also looked in ../data)"
    raise ConfigError([source.written.problem(reason)])


def _add_samples(
    draft: SuiteDraft, samples: Source, kind: str | None, arguments: Mapping[str, Any]
) -> None:
    """Add samples as cases with the grading of a `kind` of evals; None for an unknown kind."""
    cases: list[Any] = []
    for row in samples.written.items():
        try:
            case: dict[Any, Any] = input_or_messages(row.value["input"])
            if kind == "fuzzy":
                case["vars"] = {"ideal": _ideals(row.value)}
            elif kind is not None:
                case["expect"] = [raw(_grader(kind, row.value, arguments))]
            cases.append(locate(case, row.line))
        except UntranslatableError as error:
            cases.append(draft.lose(row, "sample", str(error), weakens=True))
        except KeyError as error:
            cases.append(draft.lose(row, "sample", f"it has no {error}", weakens=True))
    draft.suite[YamlComment(NO_PROVIDERS)] = None
    if kind == "model":
        draft.suite["judges"] = [dict(JUDGE)]
    if kind == "fuzzy":
        draft.suite["expect"] = [{"python": {"target": _FUZZY, "name": "fuzzy match"}}]
    draft.suite["cases"] = cases


def _ideals(sample: Mapping[str, Any]) -> list[str]:
    ideals = sample.get("ideal", "")
    if not isinstance(ideals, list):
        ideals = [ideals]
    if not ideals:
        raise UntranslatableError("its `ideal` is empty")
    return [str(ideal) for ideal in ideals]


def _grader(kind: str, sample: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    ideals = _ideals(sample)
    match kind:
        case "match":
            return one_of("starts_with", ideals)
        case "includes":
            return _includes(ideals, ignore_case=bool(arguments.get("ignore_case")))
        case "json":
            try:
                return one_of("equals", [json.loads(ideal) for ideal in ideals])
            except ValueError:
                raise UntranslatableError("its `ideal` is not JSON") from None
    return _judge(str(arguments.get("modelgraded_spec")), sample, ideals)


def _includes(ideals: list[str], *, ignore_case: bool) -> dict[str, Any]:
    if len(ideals) > 1:
        options: dict[str, Any] = {"value": ideals}
        if ignore_case:
            options["ignore_case"] = True
        return {"contains_any": options}
    if ignore_case:
        return {"contains": {"value": ideals[0], "ignore_case": True}}
    return {"contains": ideals[0]}


def _judge(spec: str, sample: Mapping[str, Any], ideals: list[str]) -> dict[str, Any]:
    match spec:
        case "fact":
            return {"judge": {"rubric": "factual", "reference": ideals[0]}}
        case "closedqa":
            return {"judge": str(sample["criteria"])}
    raise UntranslatableError(f"model-graded by {spec!r}: write a `judge` with a rubric")
