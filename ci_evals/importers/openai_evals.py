"""OpenAI Evals: an entry of the registry with its samples, or samples alone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ci_evals.errors import ConfigError
from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import JUDGE, NO_PROVIDERS, asked, one_of
from ci_evals.importers.source import Source
from ci_evals.importers.writing import YamlComment

_MATCH = "evals.elsuite.basic.match:Match"
_CLASSES = {
    _MATCH: "match",
    "evals.elsuite.basic.includes:Includes": "includes",
    "evals.elsuite.basic.fuzzy_match:FuzzyMatch": "fuzzy",
    "evals.elsuite.basic.json_match:JsonMatch": "json",
    "evals.elsuite.modelgraded.classify:ModelBasedClassify": "model",
}
_RUBRICS = {"fact": "factual", "closedqa": "criteria"}


def recognize(source: Source) -> bool:
    """Return True for an entry of the registry, and for samples."""
    value = source.written.value
    if isinstance(value, list):
        return bool(value) and all(
            isinstance(row, dict) and {"input", "ideal"} <= row.keys() for row in value
        )
    return isinstance(value, dict) and any(_is_eval(entry) for entry in value.values())


def convert(source: Source) -> Draft:
    """Make a draft of an entry of the registry, of which the first eval is taken, or of samples."""
    draft = Draft("OpenAI Evals")
    root = source.written
    if isinstance(root.value, list):
        draft.suite = _suite(source, "match", {}, draft)
        return draft
    names = [name for name, entry in root.value.items() if _is_eval(entry)]
    entry = root[names[0]]
    arguments = entry.value.get("args") or {}
    base = next(
        (
            name
            for name, other in root.value.items()
            if isinstance(other, dict) and other.get("id") == names[0]
        ),
        names[0],
    )
    kind = _CLASSES.get(entry.value["class"])
    samples = _samples(source, str(arguments.get("samples_jsonl", "")))
    if kind is None:
        comment = draft.lose(
            entry["class"],
            "class",
            "only match, includes, fuzzy, JSON and model-graded evals are known",
            weakens=True,
        )
        draft.suite = {comment: None, **_suite(samples, "none", arguments, draft)}
    else:
        draft.suite = _suite(samples, kind, arguments, draft)
    description = root[base]["description"].value if isinstance(root[base].value, dict) else None
    draft.suite = {
        "name": base,
        **({"description": description} if description else {}),
        **draft.suite,
    }
    for name in names[1:]:
        reason = f"{name} is a second eval of the file: import its samples by themselves"
        draft.suite[draft.lose(replace(root[name], path=""), name, reason, weakens=True)] = None
    return draft


def _is_eval(entry: Any) -> bool:
    return isinstance(entry, dict) and str(entry.get("class", "")).startswith("evals.")


def _samples(source: Source, name: str) -> Source:
    """Return the samples of an eval: beside its file, or in the folder `data` of the registry."""
    for folder in ("", "../data/", "../../data/"):
        if (source.path.parent / folder / name).is_file():
            return source.read(f"{folder}{name}")
    raise ConfigError(
        [source.written.problem(f"its samples are not there: {name!r} (looked in ../data, too)")]
    )


def _suite(
    samples: Source, kind: str, arguments: Mapping[str, Any], draft: Draft
) -> dict[Any, Any]:
    cases: list[Any] = []
    for row in samples.written.items():
        try:
            sample = row.value
            expect = _expect(kind, sample, arguments)
            cases.append(
                draft.at(
                    {**asked(sample["input"]), **({"expect": expect} if expect else {})}, row.line
                )
            )
        except (UntranslatableError, KeyError) as error:
            reason = str(error) if isinstance(error, UntranslatableError) else f"it has no {error}"
            cases.append(draft.lose(row, "sample", reason, weakens=True))
    judges = {"judges": [dict(JUDGE)]} if kind == "model" else {}
    return {YamlComment(NO_PROVIDERS): None, **judges, "cases": cases}


def _expect(kind: str, sample: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[Any]:
    ideal = sample.get("ideal", "")
    ideals = [str(each) for each in (ideal if isinstance(ideal, list) else [ideal])]
    several = len(ideals) > 1
    if kind == "match":
        return [one_of("starts_with", ideals)] if several else [{"starts_with": ideals[0]}]
    if kind in ("includes", "fuzzy"):
        ignores = {"ignore_case": True} if kind == "fuzzy" or arguments.get("ignore_case") else {}
        if several:
            return [{"contains_any": {"value": ideals, **ignores} if ignores else ideals}]
        return [{"icontains" if ignores else "contains": ideals[0]}]
    if kind == "json":
        try:
            values = [json.loads(each) for each in ideals]
        except ValueError:
            raise UntranslatableError("its `ideal` is no JSON") from None
        return [one_of("equals", values)] if several else [{"equals": values[0]}]
    return (
        [_judge(str(arguments.get("modelgraded_spec")), sample, ideals)] if kind == "model" else []
    )


def _judge(spec: str, sample: Mapping[str, Any], ideals: list[str]) -> dict[str, Any]:
    if spec not in _RUBRICS:
        raise UntranslatableError(f"model-graded by {spec!r}: write a `judge` with a rubric")
    if spec == "closedqa":
        return {"judge": str(sample["criteria"])}
    return {"judge": {"rubric": _RUBRICS[spec], "reference": ideals[0]}}
