"""An OpenAI Agents SDK agent with a tool. `Seller` plays the model; pass a real one instead."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    RunResult,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

PRICES = {"Paris": 120, "Oslo": 90}

set_tracing_disabled(disabled=True)  # traces go to OpenAI otherwise


class Seller(Model):
    """Asks for the price of the city that the user named, then says it."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        """Answer as the Responses API does."""
        last = input[-1]
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(
                type="output_text", text=f"That is {last['output']}.", annotations=[]
            )
            said = ResponseOutputMessage(
                id="1", type="message", role="assistant", status="completed", content=[text]
            )
            return ModelResponse(
                output=[said],
                usage=Usage(requests=1, input_tokens=40, output_tokens=4),
                response_id=None,
            )
        city = json.dumps({"city": re.findall(r"\w+", last["content"])[-1]})
        call = ResponseFunctionToolCall(
            type="function_call", call_id="1", name="get_price", arguments=city
        )
        return ModelResponse(
            output=[call],
            usage=Usage(requests=1, input_tokens=20, output_tokens=8),
            response_id=None,
        )

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Nothing here streams."""
        raise NotImplementedError


@function_tool
def get_price(city: str) -> str:
    """The price of a flight to a city, in EUR."""
    return str(PRICES[city]) if city in PRICES else "a city that I do not know"


agent = Agent(name="seller", instructions="You sell flights.", model=Seller(), tools=[get_price])


async def answer(wish: str) -> RunResult:
    """What ci-evals calls. It reads the answer, the steps and the tokens off the result."""
    return await Runner.run(agent, [{"role": "user", "content": wish}])
