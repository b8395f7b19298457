"""A travel agent whose rules stand in for a model. It tells each step that it takes."""

from typing import Any

SEATS = {"Paris": 3, "Rome": 0}
"""Seats left, by destination."""


def answer(request: str) -> dict[str, Any]:
    """Look up the destination, check the price, and book if there are seats."""
    steps: list[dict[str, Any]] = []
    city = next((city for city in SEATS if city in request), None)

    def call(name: str, result: Any, error: str | None = None, **arguments: Any) -> None:
        steps.append({"kind": "model_request", "name": "planner"})
        steps.append(
            {
                "kind": "tool_call",
                "name": name,
                "arguments": arguments,
                "result": result,
                "error": error,
            }
        )

    if city is None:
        steps.append({"kind": "model_request", "name": "planner"})
        return {"output": "Where would you like to go?", "steps": steps}
    call("search_flights", {"flight": "LH400", "seats": SEATS[city]}, to=city)
    call("get_price", 119.5, flight="LH400", currency="EUR")
    if not SEATS[city]:
        return {"output": f"There is no seat left to {city}.", "steps": steps}
    call("book", {"id": "B1"}, flight="LH400", passenger={"name": "Ada"}, price=119.5)
    return {"output": f"You are booked to {city} on LH400.", "steps": steps}
