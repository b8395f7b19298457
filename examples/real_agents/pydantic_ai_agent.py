"""A Pydantic AI agent with a tool. Its FunctionModel plays the model; pass a real one instead."""

import re

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.run import AgentRunResult

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


async def answer(wish: str) -> AgentRunResult[str]:
    """What ci-evals calls. It reads the answer, the steps and the tokens off the result."""
    return await agent.run(wish)
