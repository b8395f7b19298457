"""A waiter who asks for how many, and when. The messages bring what was said before."""

import re
from typing import Any

from ci_evals import Response, ToolCall

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
TIMES = ("six", "seven", "eight", "nine")


def answer(messages: list[dict[str, Any]]) -> Response:
    """Book a table as soon as everything is known, and ask for what is not."""
    lines = [message["content"].lower() for message in messages if message["role"] == "user"]
    said = " ".join(lines)
    people = re.search(rf"for ({'|'.join(NUMBERS)})", said)
    time = re.search(rf"at ({'|'.join(TIMES)})", said)
    if "who else" in lines[-1]:
        return Response("I cannot tell you about other guests.")
    if not people:
        return Response("For how many?")
    if not time:
        return Response("What time would you like to come?")
    call = ToolCall("book", {"people": NUMBERS[people[1]], "time": time[1]})
    return Response(f"Booked for {people[1]} at {time[1]}.", (call,))
