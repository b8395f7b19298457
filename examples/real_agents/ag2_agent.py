"""An AG2 agent with a tool. Its TestConfig replays a model; pass another config for a real one."""

import json
import re
from typing import Any

from ag2 import Agent, tool
from ag2.agent import AgentReply
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

PRICES = {"Paris": 120, "Oslo": 90}


@tool
def get_price(city: str) -> str:
    """The price of a flight to a city, in EUR."""
    return str(PRICES[city]) if city in PRICES else "a city that I do not know"


def script(wish: str) -> TestConfig:
    """What the model is to say: call the tool, then tell the price."""
    city = re.findall(r"\w+", wish)[-1]
    known = f"That is {PRICES[city]}." if city in PRICES else "I do not know that city."
    return TestConfig(ToolCallEvent(name="get_price", arguments=json.dumps({"city": city})), known)


async def answer(wish: str) -> AgentReply[Any, Any]:
    """Ask a fresh agent, and return its reply: it holds the answer and the steps."""
    agent = Agent("seller", "You sell flights.", config=script(wish), tools=[get_price])
    return await agent.ask(wish)
