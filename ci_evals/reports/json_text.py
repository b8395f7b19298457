"""JSON as it is written and printed."""

from typing import Any

import msgspec


def encode(value: Any) -> bytes:
    """One line of JSON in UTF-8. What no encoding has, a lone surrogate, becomes a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace")


def printed(value: Any, *, indent: int | None = None) -> str:
    """JSON for stdout: one line, or indented.

    A CI runner obeys `##[command]` anywhere in a log line; JSON has `#` only inside strings, where it may be escaped.
    """
    text = encode(value) if indent is None else msgspec.json.format(encode(value), indent=indent)
    return text.replace(b"#", b"\\u0023").decode() + "\n"
