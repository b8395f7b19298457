"""An agent of Pydantic AI with a tool. Its FunctionModel decides as a model would; another is one argument away."""

import re
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

PRICES = {"Paris": 120, "Oslo": 90}


def decide(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Ask for the price of the city that the user named, then say it."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"That is {last.content}.")])
    assert isinstance(last, UserPromptPart)
    city = re.findall(r"\w+", str(last.content))[-1]
    return ModelResponse(parts=[ToolCallPart("get_price", {"city": city})])


agent = Agent(FunctionModel(decide), instructions="You sell flights.")


@agent.tool_plain
def get_price(city: str) -> str:
    """The price of a flight to a city, in EUR."""
    return str(PRICES[city]) if city in PRICES else "a city that I do not know"


async def answer(wish: str) -> dict[str, Any]:
    """What ci-evals calls: the agent's answer, its tool calls in order, and the tokens."""
    result = await agent.run(wish)
    parts = [part for message in result.all_messages() for part in message.parts]
    returned = {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    return {
        "output": result.output,
        "tool_calls": [{"name": call.tool_name, "arguments": call.args_as_dict()} for call in calls],
        "steps": [
            {
                "kind": "tool_call",
                "name": call.tool_name,
                "arguments": call.args_as_dict(),
                "result": returned.get(call.tool_call_id),
            }
            for call in calls
        ],
        "usage": {"input_tokens": result.usage.input_tokens, "output_tokens": result.usage.output_tokens},
    }
