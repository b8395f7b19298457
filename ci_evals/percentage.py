"""Percentages that do not lie."""

from decimal import Decimal
from itertools import count


def percent(rate: float, *marks: float) -> str:
    """A fraction as a percentage with one decimal, or the more it takes to stay off 0 %, 100 % and the `marks`.

    So a rate is never shown as equal to a bar that it misses. Trailing zeros go when the figure is exact.
    """
    exact = Decimal(str(rate)) * 100
    edges = (Decimal(0), Decimal(100), *(Decimal(str(mark)) * 100 for mark in marks))
    for places in count(1):
        shown = round(exact, places)
        if shown == exact:
            return f"{shown.normalize():f} %"
        if all(shown.compare(edge) == exact.compare(edge) for edge in edges):
            break
    return f"{shown:f} %"
