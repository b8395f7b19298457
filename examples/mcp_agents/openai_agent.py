"""The agent in the OpenAI Agents SDK, which knows MCP servers."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, RunResult, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStdioParams
from model import ARGUMENTS, COMMAND, Call, decide
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

set_tracing_disabled(disabled=True)  # traces go to OpenAI otherwise


class Scripted(Model):
    """Answers as the Responses API does."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        """Decide what to do next."""
        outputs = [item["output"] for item in input if item.get("type") == "function_call_output"]
        results = [
            text if isinstance(text, str) else "".join(part["text"] for part in text)
            for text in outputs
        ]
        decided = decide(input[0]["content"], results)
        output: Any
        if isinstance(decided, Call):
            id_ = str(len(results))
            output = ResponseFunctionToolCall(
                type="function_call", call_id=id_, name=decided.name, arguments=decided.json
            )
        else:
            text = ResponseOutputText(type="output_text", text=decided, annotations=[])
            output = ResponseOutputMessage(
                id="1", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Nothing here streams."""
        raise NotImplementedError


async def answer(wish: str) -> RunResult:
    """What ci-evals calls: a fresh server for each run."""
    async with MCPServerStdio(MCPServerStdioParams(command=COMMAND, args=ARGUMENTS)) as server:
        agent = Agent(name="agency", model=Scripted(), mcp_servers=[server])
        return await Runner.run(agent, [{"role": "user", "content": wish}])
