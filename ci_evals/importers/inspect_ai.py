"""Inspect: samples, as JSON, JSONL or CSV."""

from string import ascii_uppercase
from typing import Any

from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.parts import NO_PROVIDERS, as_data, asked
from ci_evals.importers.source import Source
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_SCORERS = "Inspect keeps its scorers in code: here the target is looked for in the answer, as by `includes`."
_CHOICE = """\
Answer the following multiple choice question. The last line of your answer has the form "ANSWER: $LETTER", without
quotes, where LETTER is one of {{ letters }}.

{{ question }}

{{ choices }}
"""
_LOST = {
    "sandbox": "a task folder has an environment of its own: see providers of type `task`",
    "files": "a task folder has files of its own: see providers of type `task`",
    "setup": "a task folder has a setup of its own: see providers of type `task`",
}


def recognize(source: Source) -> bool:
    """Return True for samples."""
    rows = source.written.value
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(isinstance(row, dict) and {"input", "target"} <= row.keys() for row in rows)
    )


def convert(source: Source) -> Draft:
    """Make a draft of samples."""
    draft = Draft("Inspect")
    rows = source.written.value
    choices = [bool(as_data(row.get("choices"))) for row in rows]
    cases: list[Any] = []
    for row, chooses in zip(source.written.items(), choices, strict=True):
        try:
            if chooses and not all(choices):
                reason = (
                    "it is multiple choice, and others are not: import these samples by themselves"
                )
                cases.append(draft.lose(row, "sample", reason, weakens=True))
            else:
                cases.append(draft.at(_case(row, draft), row.line))
        except UntranslatableError as error:
            cases.append(draft.lose(row, "sample", str(error), weakens=True))
    draft.suite = {
        YamlComment(NO_PROVIDERS): None,
        **({"prompts": [_CHOICE]} if all(choices) else {YamlComment(_SCORERS): None}),
        "cases": cases,
    }
    return draft


def _case(row: Node, draft: Draft) -> dict[Any, Any]:
    sample = {key: as_data(value) for key, value in row.value.items() if value not in (None, "")}
    case: dict[Any, Any] = {"id": str(sample["id"])} if "id" in sample else {}
    targets = [
        str(each)
        for each in (
            sample["target"]
            if isinstance(sample.get("target"), list)
            else [sample.get("target", "")]
        )
    ]
    if choices := sample.get("choices"):
        choices = choices.split(",") if isinstance(choices, str) else choices
        letters = ascii_uppercase[: len(choices)]
        shown = "\n".join(
            f"{letter}) {str(choice).strip()}"
            for letter, choice in zip(letters, choices, strict=True)
        )
        case["vars"] = {"question": sample["input"], "choices": shown, "letters": ",".join(letters)}
        case["expect"] = [
            {"regex": {"pattern": rf"ANSWER\s*:\s*({'|'.join(targets)})\b", "flags": "i"}}
        ]
    else:
        case |= asked(sample["input"])
        many = len(targets) > 1
        expected = (
            {"contains_any": {"value": targets, "ignore_case": True}}
            if many
            else {"icontains": targets[0]}
        )
        case["expect"] = [expected]
    if isinstance(metadata := sample.get("metadata"), dict):
        case["metadata"] = metadata
    for key, reason in _LOST.items():
        if key in sample:
            case[draft.lose(row[key], f"sample: {key}", reason, weakens=False)] = None
    return case
