"""The agent in Pydantic AI, whose toolset is the MCP server."""

from fastmcp.client.transports import StdioTransport
from model import ARGUMENTS, COMMAND, Call, decide
from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.run import AgentRunResult


def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer as a model does."""
    parts = [part for message in messages for part in message.parts]
    wish = next(str(part.content) for part in parts if isinstance(part, UserPromptPart))
    results = [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]
    decided = decide(wish, results)
    if isinstance(decided, Call):
        return ModelResponse(parts=[ToolCallPart(decided.name, dict(decided.arguments))])
    return ModelResponse(parts=[TextPart(decided)])


async def answer(wish: str) -> AgentRunResult[str]:
    """What ci-evals calls: a fresh server for each run."""
    server = MCPToolset(StdioTransport(COMMAND, ARGUMENTS), tool_error_behavior="failed")
    async with Agent(FunctionModel(respond), toolsets=[server]) as agent:
        return await agent.run(wish)
