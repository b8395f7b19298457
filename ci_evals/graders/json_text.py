"""JSON in answers, which models like to wrap in a code fence."""

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from ci_evals.graders.findings import fails
from ci_evals.graders.quoting import clip, quote
from ci_evals.model import Finding

if TYPE_CHECKING:
    from json import JSONDecoder

_FENCE = "```"


def judge_json(text: str, judge: Callable[[Any], Finding]) -> Finding:
    """What `judge` finds in the data that `text` is; text that is not JSON, or too deep or large to judge, fails."""
    from json import JSONDecodeError

    body = unfenced(text)
    try:
        data = _decoder().decode(body)
    except JSONDecodeError as error:
        return fails(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}: got {quote(body)}")
    except ValueError as error:
        return fails(f"is not JSON: {clip(str(error))}: got {quote(body)}")
    except RecursionError:
        return fails(f"is not JSON that can be judged: it is nested too deeply: got {quote(body)}")
    try:
        return judge(data)
    except RecursionError:
        return fails(f"is not JSON that can be judged: it is nested too deeply: got {quote(body)}")
    except OverflowError:
        return fails(f"is not JSON that can be judged: it holds a number that is too large: got {quote(body)}")


def unfenced(text: str) -> str:
    """`text` without the white space around it, and without the code fence if that holds all of it."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE):
        language, newline, body = text[len(_FENCE) :].partition("\n")
        if newline and language.strip().lower() in ("", "json"):
            return body[: -len(_FENCE)].strip()
    return text


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {clip(digits, 40)} is too large")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


@cache
def _decoder() -> "JSONDecoder":
    from json import JSONDecoder

    return JSONDecoder(parse_float=_finite, parse_constant=_refuse)
