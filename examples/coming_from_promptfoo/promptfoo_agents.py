"""Calls agents and programs as promptfoo does. Written by `ci-evals import`; yours to edit."""

import json
import subprocess
from pathlib import Path
from typing import Any

from ci_evals import Request

import bot


def _text(prompt: Any) -> str:
    """Return a prompt as promptfoo passes it: messages as JSON."""
    if isinstance(prompt, str):
        return prompt
    return json.dumps(prompt)


def _context(prompt: str, request: Request) -> dict[str, Any]:
    return {"vars": dict(request.case.vars), "prompt": {"raw": prompt, "label": ""}}


def _answer(result: Any) -> Any:
    """Return a provider's response as an answer of ci-evals."""
    if not isinstance(result, dict):
        return result
    if result.get("error"):
        raise RuntimeError(str(result["error"]))
    answer = {key: result[key] for key in ("output", "metadata") if result.get(key) is not None}
    if usage := result.get("tokenUsage"):
        answer["usage"] = {
            "input_tokens": usage.get("prompt", 0),
            "output_tokens": usage.get("completion", 0),
        }
    if result.get("cost") is not None:
        answer["cost_usd"] = result["cost"]
    return answer


def bot_call_api(asked: Any, request: Request) -> Any:
    prompt = _text(asked)
    return _answer(bot.call_api(prompt, {"config": {}}, _context(prompt, request)))
