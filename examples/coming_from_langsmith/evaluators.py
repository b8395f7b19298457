"""Evaluators of LangSmith and openevals, called as they were."""

from typing import Any

from ci_evals import Answer


def is_short(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> dict[str, Any]:
    """An evaluator as LangSmith calls it; those that openevals makes are called alike."""
    words = len(outputs["answer"].split())
    return {
        "key": "is_short",
        "score": words <= len(reference_outputs["answer"].split()) + 5,
        "comment": f"{words} words",
    }


def short(output: str, answer: Answer) -> dict[str, Any]:
    """The same as a grader: what was `inputs` and `reference_outputs` are the vars of the case."""
    case = answer.request.case
    found = is_short({"answer": output}, {"answer": case.vars["expected"]})
    return {
        "passed": bool(found["score"]),
        "score": float(found["score"]),
        "reason": found["comment"],
    }
