"""The agent without a framework: a loop around the model, and the steps written down on the way."""

from typing import Any

from mcp import Client, StdioServerParameters
from model import ARGUMENTS, COMMAND, Call, decide


async def answer(wish: str) -> dict[str, Any]:
    """What ci-evals calls. It returns the answer and the steps towards it."""
    steps: list[dict[str, Any]] = []
    results: list[str] = []
    async with Client(StdioServerParameters(command=COMMAND, args=ARGUMENTS)) as client:
        while isinstance(decided := decide(wish, results), Call):
            done = await client.call_tool(decided.name, dict(decided.arguments))
            text = "".join(part.text for part in done.content if part.type == "text")
            results.append(text)
            told = {"error": text} if done.is_error else {"result": text}
            steps += [
                {"kind": "model_request"},
                {"kind": "tool_call", "name": decided.name, "arguments": decided.arguments, **told},
            ]
    return {"output": decided, "steps": [*steps, {"kind": "model_request", "result": decided}]}
