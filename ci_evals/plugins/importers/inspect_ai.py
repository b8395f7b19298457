"""Inspect: samples, as JSON, JSONL or CSV."""

import re
from string import ascii_uppercase
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate
from ci_evals.plugins.importers.parts import NO_PROVIDERS, as_data, input_or_messages, raw
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_SCORERS = (
    "Inspect keeps its scorers in code:"
    " here the answer must contain the target, as with `includes`."
)
_CHOICE = (
    "Answer the following multiple choice question. The last line of your answer has the form"
    ' "ANSWER: $LETTER", without\nquotes, where LETTER is one of {{ letters }}.\n\n'
    "{{ question }}\n\n{{ choices }}\n"
)
_FINDS_LETTERS = r"""
letters = r"[A-Za-z\d][A-Za-z\d ,]*?"
text = re.sub(rf"\$\s*({letters})\s*\$", r"\1", output)
text = re.sub(rf"\*\*\s*({letters})\s*\*\*", r"\1", text)
text = re.sub(r"(?i)(^|[:,])(\s*)\(([a-z\d])\)(?=\s*(?:,|\.|\n|\Z))", r"\1\2\3", text)
lines = re.findall(r"(?im)^ANSWER\s*:\s*([a-z\d ,]+)\s*(?:$|\.)", text)
lines = lines or re.findall(r"(?i)ANSWER\s*:\s*([a-z\d ,]+)(?:\W|$)", text)
if not lines:
    return {"passed": False, "reason": "has no line ANSWER: with a letter"}
answer = lines[-1].strip().upper()
""".lstrip()
"""Reads the last line `ANSWER:`, preferably one that ends there, without signs around letters."""
_ONE_LETTER = """\
chosen = {part for part in answer.split(",") if part}
"""
_LETTERS = """\
chosen = set(re.sub(r" AND |[ ,]", "", answer))
"""
_COMPARES = """\
if chosen == set(vars["answer"]):
    return True
return {"passed": False, "reason": f"answers {answer}, not {vars['answer']}"}
"""
_MIXED = "it is multiple choice, and others are not: import these samples separately"
_TOO_MANY = "more choices than letters: write it with a prompt and a `python` grader of its own"
_LOST = {
    "sandbox": "a task folder has an environment of its own: see providers of type `task`",
    "files": "a task folder has files of its own: see providers of type `task`",
    "setup": "a task folder has a setup of its own: see providers of type `task`",
}


def recognize(source: Source) -> bool:
    """Return True for samples."""
    rows = source.written.value
    if not isinstance(rows, list) or not rows:
        return False
    return all(isinstance(row, dict) and {"input", "target"} <= row.keys() for row in rows)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of samples."""
    draft = SuiteDraft("Inspect")
    all_choose = all(as_data(row.get("choices")) for row in source.written.value)
    cases: list[Any] = []
    for row in source.written.items():
        try:
            case = _case(row, draft, all_choose=all_choose)
            cases.append(locate(case, row.line))
        except UntranslatableError as error:
            cases.append(draft.lose(row, "sample", str(error), weakens=True))
    draft.suite[YamlComment(NO_PROVIDERS)] = None
    if all_choose:
        draft.suite["prompts"] = [_CHOICE]
        several = any(len(case["vars"]["answer"]) > 1 for case in cases if isinstance(case, dict))
        chooses = _ONE_LETTER
        if several:
            chooses = _LETTERS
        code = _FINDS_LETTERS + chooses + _COMPARES
        draft.suite["expect"] = [{"python": {"target": code, "name": "choice"}}]
    else:
        draft.suite[YamlComment(_SCORERS)] = None
    draft.suite["cases"] = cases
    return draft


def _case(row: Node, draft: SuiteDraft, *, all_choose: bool) -> dict[Any, Any]:
    sample = {key: as_data(value) for key, value in row.value.items() if value not in (None, "")}
    choices = sample.get("choices")
    if choices and not all_choose:
        raise UntranslatableError(_MIXED)
    case: dict[Any, Any] = {}
    if "id" in sample:
        case["id"] = str(sample["id"])
    targets = sample.get("target", "")
    if not isinstance(targets, list):
        targets = [targets]
    targets = [str(target) for target in targets]
    if choices:
        if isinstance(choices, str):
            choices = choices.split(",")
        if len(choices) > len(ascii_uppercase):
            raise UntranslatableError(_TOO_MANY)
        letters = ascii_uppercase[: len(choices)]
        options = []
        for letter, choice in zip(letters, choices, strict=True):
            options.append(f"{letter}) {str(choice).strip()}")
        case["vars"] = {
            "question": _question(sample["input"]),
            "choices": "\n".join(options),
            "letters": ",".join(letters),
            "answer": re.sub(r"[\s,]", "", "".join(targets)).upper(),
        }
    else:
        case |= input_or_messages(sample["input"])
        if len(targets) > 1:
            case["expect"] = [{"contains_any": {"value": raw(targets), "ignore_case": True}}]
        else:
            case["expect"] = [{"contains": {"value": raw(targets[0]), "ignore_case": True}}]
    metadata = sample.get("metadata")
    if isinstance(metadata, dict):
        case["metadata"] = metadata
    for key, reason in _LOST.items():
        if key in sample:
            comment = draft.lose(row[key], f"sample: {key}", reason, weakens=False)
            case[comment] = None
    return case


def _question(value: Any) -> Any:
    """Return the question of a sample with choices: its input, or that of a chat's only message.

    Raises:
        UntranslatableError: it has more messages, or parts other than text.
    """
    asked = input_or_messages(value)
    if "input" in asked:
        return asked["input"]
    match asked["messages"]:
        case [{"role": "user", "content": question}]:
            return question
    raise UntranslatableError("choices after other messages: write these into a prompt")
