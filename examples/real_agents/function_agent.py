"""An agent that is a plain function."""

import re
from typing import Any

PRICES = {"Paris": 120, "Oslo": 90}


def answer(wish: str) -> dict[str, Any]:
    """Look up the last word of the wish."""
    city = re.findall(r"\w+", wish)[-1]
    said = f"That is {PRICES[city]}." if city in PRICES else "I do not know that city."
    return {"output": said, "tool_calls": [{"name": "get_price", "arguments": {"city": city}}]}
