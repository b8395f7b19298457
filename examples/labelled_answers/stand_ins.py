"""Stands in for a bot, which has an answer for each case, and for the model that judges it."""

import json
from typing import Any

from ci_evals.model.request import Request


def answer(question: str, request: Request) -> str:
    """Say what the case has as the bot's answer."""
    return str(request.case.vars["answer"])


def judge(turns: list[dict[str, Any]]) -> str:
    """Look for the policy in the answer. A denial misleads it, as a person is not misled."""
    data = json.loads("\n".join(turns[1]["content"].splitlines()[1:-1]))
    verdict = "fail"
    if data["reference"] in data["answer"]:
        verdict = "pass"
    return json.dumps({"reason": f"the policy is {data['reference']}", "verdict": verdict})
