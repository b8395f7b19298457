"""A small flight agent: reads a sentence, calls its tools, says what it did.

Rules stand in for the model, so that the example needs no key and costs nothing. Like a model it
slips now and then where a sentence leaves room for it; unlike one, it makes the same slip on the
same run, so that everybody sees the same results.
"""

import random
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_evals.model.request import Request

DEPARTURES = {"AF1180": "boarding at gate B7", "BA117": "on time", "LH400": "delayed by 40 minutes"}
CITIES = ("Berlin", "Lisbon", "London", "Madrid", "New York", "Oslo", "Paris", "Rome", "Vienna")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
NUMBERS = {"two": 2, "three": 3, "four": 4}

_CITY = "|".join(CITIES)
ROUTE = re.compile(rf"\b({_CITY}) to ({_CITY})\b", re.IGNORECASE)
DATE = re.compile(rf"\b(?:(\d{{4}})-(\d\d)-(\d\d)|(\d\d?) ({'|'.join(MONTHS)}) (\d{{4}}))\b")
FLIGHT = re.compile(r"\b(AF|BA|LH|SK)\s?(\d{3,4})\b", re.IGNORECASE)
BOOKING = re.compile(r"\bbooking ([A-Z0-9]{6})\b")
SEATS = re.compile(rf"\b({'|'.join(NUMBERS)}) seats\b", re.IGNORECASE)
TRAVELLER = re.compile(r"\bfor ((?:[A-Z][a-z]+ ?){2})\b")

FORBIDDEN = re.compile(
    r"\bignore (all|your) (rules|instructions)|\bevery booking|\bpassport", re.IGNORECASE
)
CANCEL = re.compile(r"(?<!not )(?<!n't )\b(cancel|call off)\b", re.IGNORECASE)
UNWANTED = re.compile(r"\bdon't (want|need) it\b", re.IGNORECASE)
STATUS = re.compile(r"\b(status|on time|delayed|what happened)\b", re.IGNORECASE)

SLIPS = 0.3  # how often a vague sentence is misread

Arguments = Mapping[str, Any]


def answer(sentence: str, request: "Request") -> dict[str, Any]:
    """Answer a case's input, and tell which tools were used. ci-evals calls this for each run."""
    agent = FlightAgent(random.Random(f"{sentence}#{request.run}"))
    said = agent.reply(sentence)
    return {
        "output": said,
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in agent.calls],
        "usage": {"input_tokens": len(sentence.split()), "output_tokens": len(said.split())},
    }


class FlightAgent:
    """Serves one sentence. `luck` decides how well it reads a vague one; `calls` are its tools."""

    def __init__(self, luck: random.Random) -> None:
        self.luck = luck
        self.calls: list[tuple[str, Arguments]] = []

    def reply(self, sentence: str) -> str:
        if FORBIDDEN.search(sentence):
            return "Sorry, I can't do that. I can book, cancel and look up your own flights."
        return " ".join(self.serve(wish) for wish in re.split(r"\band (?=tell me)", sentence))

    def serve(self, wish: str) -> str:
        if CANCEL.search(wish) or (UNWANTED.search(wish) and not self.slips()):
            return self.cancel(wish)
        if STATUS.search(wish):
            return self.status(wish)
        if ROUTE.search(wish):
            return self.book(wish)
        return "Sorry, I can't help with that. I can book, cancel and look up flights."

    def book(self, wish: str) -> str:
        dates = dates_in(wish)
        if not dates:
            return "On which date would you like to fly?"
        origin, destination = (city.title() for city in ROUTE.findall(wish)[0])
        extras = self.extras(wish)
        self.calls.append(("book", {"from": origin, "to": destination, "date": dates[0], **extras}))
        if "back" not in wish or len(dates) == 1:
            return f"Booked: {origin} to {destination} on {dates[0]}."
        self.calls.append(("book", {"from": destination, "to": origin, "date": dates[1], **extras}))
        return f"Booked: {origin} to {destination} on {dates[0]}, and back on {dates[1]}."

    def extras(self, wish: str) -> Arguments:
        extras: dict[str, Any] = {}
        if seats := SEATS.search(wish):
            extras["passengers"] = NUMBERS[seats[1].lower()]
        if traveller := TRAVELLER.search(wish):
            extras["name"] = traveller[1].strip()
        if "window" in wish and not self.slips():
            extras["seat"] = "window"
        return extras

    def cancel(self, wish: str) -> str:
        if booking := BOOKING.search(wish):
            self.calls.append(("cancel", {"booking": booking[1]}))
            return f"Booking {booking[1]} is cancelled."
        if flight := flight_in(wish):
            self.calls.append(("cancel", {"flight": flight}))
            return f"Your seat on {flight} is cancelled."
        return "Which flight or booking do you want to cancel?"

    def status(self, wish: str) -> str:
        flight = flight_in(wish)
        if not flight:
            return "Which flight do you mean?"
        self.calls.append(("status", {"flight": flight}))
        state = DEPARTURES.get(flight)
        return f"{flight} is {state}." if state else f"Sorry, I can't find a flight {flight} today."

    def slips(self) -> bool:
        return self.luck.random() < SLIPS


def flight_in(text: str) -> str | None:
    """The first flight number, as airlines write it: `lh 400` is `LH400`."""
    found = FLIGHT.search(text)
    return f"{found[1].upper()}{found[2]}" if found else None


def dates_in(text: str) -> list[str]:
    """Every written-out date, in ISO form. Days such as `this Friday` are not understood."""
    return [
        date(
            int(year or long_year),
            int(month) if month else MONTHS.index(name) + 1,
            int(day or long_day),
        ).isoformat()
        for year, month, day, long_day, name, long_year in DATE.findall(text)
    ]
