"""Stands in for a model: like one, it decides the next step from the conversation so far."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND, ARGUMENTS = sys.executable, [str(Path(__file__).with_name("server.py"))]
"""How to start the MCP server."""


@dataclass(frozen=True)
class Call:
    """A tool to call."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def json(self) -> str:
        """The arguments as a model writes them."""
        return json.dumps(self.arguments)


def decide(wish: str, results: Sequence[str]) -> Call | str:
    """Look for flights to the city that is named last, book the cheapest, and say so."""
    if not results:
        return Call("find_flights", {"city": re.findall(r"\w+", wish)[-1]})
    if len(results) == 2:
        return f"Done: {results[1]}."
    flights = json.loads(results[0])
    return (
        Call("book", {"flight": min(flights, key=flights.get)})
        if flights
        else "Sorry, there is no such flight."
    )
