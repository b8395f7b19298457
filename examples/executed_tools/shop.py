"""The tools of the shop: what a model may call."""

from typing import Annotated

from pydantic import Field

ORDERS = {1042: ("lamp", "shipped"), 1043: ("chair", "packed")}

OrderNumber = Annotated[int, Field(description="As on the invoice.")]


def find_order(number: OrderNumber) -> str:
    """Look up what was ordered, and whether it is packed or shipped."""
    if number not in ORDERS:
        raise LookupError(f"there is no order {number}")
    item, state = ORDERS[number]
    return f"your {item} is {state}"


def cancel_order(number: OrderNumber, reason: str = "") -> str:
    """Cancel an order that is not shipped yet."""
    _, state = ORDERS[number]
    if state == "shipped":
        raise ValueError("it is shipped already")
    return f"order {number} is cancelled"
