"""A waiter who asks for how many, and when. The request brings what was said before."""

import re

from ci_evals import Request, Response, ToolCall

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
TIMES = ("six", "seven", "eight", "nine")


def answer(line: str, request: Request) -> Response:
    """Book a table as soon as everything is known, and ask for what is not."""
    said = " ".join(message.text.lower() for message in request.messages if message.role == "user")
    people = re.search(rf"for ({'|'.join(NUMBERS)})", said)
    time = re.search(rf"at ({'|'.join(TIMES)})", said)
    if "who else" in line.lower():
        return Response("I cannot tell you about other guests.")
    if not people:
        return Response("For how many?")
    if not time:
        return Response("What time would you like to come?")
    call = ToolCall("book", {"people": NUMBERS[people[1]], "time": time[1]})
    return Response(f"Booked for {people[1]} at {time[1]}.", (call,))
