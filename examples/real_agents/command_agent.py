"""An agent as a program in any language: one JSON object on stdin, the answer on stdout."""

import json
import sys

PRICES = {"Paris": 120, "Oslo": 90}

city = json.load(sys.stdin)["input"].split()[-1]
said = f"That is {PRICES[city]}." if city in PRICES else "I do not know that city."
json.dump(
    {"output": said, "tool_calls": [{"name": "get_price", "arguments": {"city": city}}]}, sys.stdout
)
