"""Converts what the team's own code returns into a `Response`."""

import dataclasses
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from ci_evals.model.fields import first_problem
from ci_evals.model.response import (
    MAX_TOKENS,
    Content,
    Passage,
    Response,
    Step,
    StepKind,
    ToolCall,
    Turn,
    Usage,
)

MAX_STEPS = 5_000
"""An agent that takes more is going in circles, and its journal line would grow to megabytes."""

MAX_STEP_CHARACTERS = 20_000
MAX_PASSAGES = 1_000
MAX_PASSAGE_CHARACTERS = 100_000
MAX_METADATA_BYTES = 100_000

T = TypeVar("T")

_KINDS = get_args(StepKind)

_TURNS = TypeAdapter(tuple[Turn, ...])
_FILES = TypeAdapter(tuple[Content, ...])

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200
_shorten = _repr.repr


def as_response(value: object) -> Response:
    """Convert what a function returned, or a command printed, into a response.

    Text is the output. A mapping with `output` or `tool_calls` must have the fields of a `Response`
    and no others. Any other mapping, a list or a number becomes its JSON text.

    Raises:
        TypeError: a value has the wrong type; the message says what to return instead.
        ValueError: a value has the right type, but is not allowed.
    """
    if isinstance(value, str):
        return Response(clean_text(value))
    if isinstance(value, Response):
        return _from_fields(_as_mapping(value))
    if isinstance(value, Content):
        return Response(files=(value,))
    if isinstance(value, Mapping) and ("output" in value or "tool_calls" in value):
        return _from_fields(value)
    return Response(_text(value, "the answer"))


def unfit_type(value: object) -> str | None:
    """Return the type of a value that no answer can be made of, and what to return instead; None of
    any other.
    """
    if value is None:
        return "None. Return text, or a mapping with 'output' or 'tool_calls'"
    if isinstance(value, str | Mapping | list | tuple | int | float | Response | Content):
        return None
    kind = type(value).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    text = "its text (`result.output`)" if hasattr(value, "output") else "text"
    return (
        f"{article} {kind}. Return {text}, a mapping with 'output' or 'tool_calls', or a Response"
    )


def read_arguments(text: str) -> Mapping[str, Any] | str:
    """Decode the arguments that a model wrote for a tool if they are a JSON object, else return
    their text as it is.
    """
    if not text.strip():
        return {}
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD, so that the text can be encoded as UTF-8."""
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8, with lone surrogates replaced and NaN and infinity as null.

    Raises:
        TypeError: something in the value has no JSON form.
        ValueError: the value contains itself, or is nested too deeply.
    """
    with suppress(PydanticSerializationError):  # of what needs `plain_json`
        return to_json(value, inf_nan_mode="null")
    try:
        return to_json(plain_json(value), inf_nan_mode="null")
    except RecursionError:
        raise ValueError("it contains itself, or is nested too deeply") from None
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from None


def plain_json(value: Any) -> Any:
    """Return a value with its mappings as dicts, its sequences as lists, and every lone surrogate
    replaced.
    """
    match value:
        case str():
            return clean_text(value)
        case Mapping():
            return {plain_json(key): plain_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain_json(inner) for inner in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: plain_json(getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
        case _:
            return value


def _text(value: object, what: str) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if reason := unfit_type(value):
        raise TypeError(f"{what} is {reason}")
    try:
        return encode_json(value).decode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}") from None


def _from_fields(fields: Mapping[str, Any]) -> Response:
    _check_keys(
        fields, _names(Response), "the answer", "; to answer with JSON, put it under 'output'"
    )
    output, calls = fields.get("output"), fields.get("tool_calls")
    if output is None and calls is None:
        raise ValueError("the answer has neither 'output' nor 'tool_calls'")
    listed = (
        () if calls is None else _as_list(calls, "'tool_calls' must be a list of {name, arguments}")
    )
    return Response(
        output="" if output is None else _text(output, "'output'"),
        tool_calls=tuple(
            _tool_call(call, f"tool_calls[{index}]") for index, call in enumerate(listed)
        ),
        usage=as_usage(fields.get("usage")),
        model=as_name(fields.get("model"), "'model'"),
        finish_reason=as_name(fields.get("finish_reason"), "'finish_reason'"),
        cost_usd=as_cost(fields.get("cost_usd")),
        steps=as_steps(fields.get("steps")),
        reward=_amount(fields.get("reward"), "'reward' must be a number between 0 and 1", most=1),
        turns=_parts(_TURNS, fields.get("turns"), "'turns' must be a list of {user, response}"),
        files=_parts(_FILES, fields.get("files"), "'files' must be a list of Content"),
        context=as_context(fields.get("context")),
        metadata=as_metadata(fields.get("metadata")),
        first_token_s=_amount(
            fields.get("first_token_s"), "'first_token_s' must be a number of seconds, 0 or more"
        ),
    )


def as_steps(steps: object) -> tuple[Step, ...] | None:
    """Convert the steps of an answer, each a mapping or a `Step`. Texts over `MAX_STEP_CHARACTERS`
    are cut.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value has the right type, but is not allowed; or there are more than
            `MAX_STEPS` steps.
    """
    if steps is None:
        return None
    listed = _as_list(steps, "'steps' must be a list of {kind, name, …}")
    if len(listed) > MAX_STEPS:
        raise ValueError(
            f"the answer has {len(listed):,} steps, more than the {MAX_STEPS:,} that are kept"
        )
    return tuple(_step(step, f"steps[{index}]") for index, step in enumerate(listed))


def as_context(context: object) -> tuple[Passage, ...] | None:
    """Convert what was retrieved for an answer: texts, mappings or `Passage`s. Texts over 100,000
    characters are cut.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: a value has the right type, but is not allowed; or there are more than
            `MAX_PASSAGES`.
    """
    if context is None:
        return None
    expected = "'context' must be a list of texts or of {text, id, score}"
    listed = [context] if isinstance(context, str) else _as_list(context, expected)
    if len(listed) > MAX_PASSAGES:
        raise ValueError(
            f"the answer has {len(listed):,} texts of context, more than the {MAX_PASSAGES:,} that are kept"
        )
    return tuple(_passage(each, f"context[{index}]") for index, each in enumerate(listed))


def _passage(value: object, what: str) -> Passage:
    fields = (
        {"text": value}
        if isinstance(value, str)
        else _fields(value, Passage, what, "text, id and score")
    )
    if not isinstance(text := fields.get("text"), str):
        raise TypeError(f"{what}.text must be text, got {_shorten(text)}")
    name, score = fields.get("id"), fields.get("score")
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, int | float) or not isfinite(score)
    ):
        raise TypeError(f"{what}.score must be a number, got {_shorten(score)}")
    return Passage(
        _cut(clean_text(text), MAX_PASSAGE_CHARACTERS),
        str(name) if isinstance(name, int) else as_name(name, f"{what}.id"),
        None if score is None else float(score),
    )


def as_metadata(metadata: object) -> Mapping[str, Any]:
    """Convert what else an answer tells into JSON values.

    Raises:
        TypeError: it is no mapping, or cannot be written as JSON.
        ValueError: it takes more than `MAX_METADATA_BYTES`.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"'metadata' must be a mapping, got {_shorten(metadata)}")
    try:
        encoded = encode_json(metadata)
    except (TypeError, ValueError) as error:
        raise TypeError(f"'metadata' cannot be written as JSON: {error}") from None
    if len(encoded) > MAX_METADATA_BYTES:
        raise ValueError(
            f"'metadata' takes {len(encoded):,} bytes, more than the {MAX_METADATA_BYTES:,} that are kept"
        )
    return dict(from_json(encoded))


def _step(step: object, what: str) -> Step:
    fields = _fields(step, Step, what, "kind, name, …")
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"{what}.kind must be one of {', '.join(_KINDS)}, got {_shorten(kind)}")
    name = as_name(fields.get("name"), f"{what}.name") or ""
    if kind == "tool_call" and not name:
        raise ValueError(f"{what} is a tool call without a 'name'")
    arguments = _arguments(fields.get("arguments"), f"{what}.arguments")
    written = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    return Step(
        kind=cast("StepKind", kind),
        name=name,
        arguments=arguments if len(written) <= MAX_STEP_CHARACTERS else _cut(written),
        result=None
        if fields.get("result") is None
        else _cut(_text(fields["result"], f"{what}.result")),
        error=None
        if fields.get("error") is None
        else _cut(_text(fields["error"], f"{what}.error")),
        usage=as_usage(fields.get("usage")),
        duration_s=_amount(
            fields.get("duration_s"), f"{what}.duration_s must be a number of seconds, 0 or more"
        ),
        agent=as_name(fields.get("agent"), f"{what}.agent"),
    )


def _cut(text: str, limit: int = MAX_STEP_CHARACTERS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _tool_call(call: object, what: str) -> ToolCall:
    fields = _fields(call, ToolCall, what, "name and arguments")
    name = as_name(fields.get("name"), f"{what}.name")
    if not name:
        raise ValueError(f"{what} has no 'name'")
    arguments = _arguments(fields.get("arguments"), f"{what}.arguments")
    return ToolCall(name, arguments, as_name(fields.get("id"), f"{what}.id"))


def _arguments(value: object, what: str) -> Mapping[str, Any] | str:
    """Convert arguments into plain JSON data, so that graders see now what the journal returns
    later.
    """
    if value is None:
        return {}
    if isinstance(value, str) and isinstance(value := read_arguments(clean_text(value)), str):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping or its JSON text, got {_shorten(value)}")
    try:
        return dict(from_json(encode_json(value)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}") from None


def as_cost(cost_usd: object) -> float | None:
    """Convert what an answer cost. Raises ValueError if it is no amount in US dollars."""
    return _amount(cost_usd, "'cost_usd' must be an amount in US dollars, 0 or more")


def as_usage(value: object) -> Usage | None:
    """Convert token counts: a `Usage`, a mapping with its fields, or one in the words of OpenAI's
    chat completions.

    A mapping that counts nothing says that the usage is not known, rather than 0.

    Raises:
        TypeError: it is no mapping.
        ValueError: it has an unknown key, or a count that is none.
    """
    if value is None or value == {}:
        return None
    if isinstance(value, Mapping) and ("prompt_tokens" in value or "completion_tokens" in value):
        if value.get("prompt_tokens") is None and value.get("completion_tokens") is None:
            return None
        details = value.get("prompt_tokens_details")
        value = {
            "input_tokens": value.get("prompt_tokens") or 0,
            "output_tokens": value.get("completion_tokens") or 0,
            "cached_tokens": (
                details.get("cached_tokens") if isinstance(details, Mapping) else None
            )
            or 0,
        }
    fields = _fields(value, Usage, "'usage'", "token counts")
    for name, count in fields.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < MAX_TOKENS:
            raise ValueError(
                f"usage.{name} must be a whole number of tokens, 0 or more, got {_shorten(count)}"
            )
    return Usage(**fields)


def _amount(value: object, what: str, most: float = sys.float_info.max) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{what}, got {_shorten(value)}")
    return float(value)


def _parts(adapter: TypeAdapter[T], value: object, expected: str) -> T:
    try:
        return adapter.validate_python(value or ())
    except ValidationError as error:
        raise ValueError(f"{expected}: {first_problem(error)}") from None


def as_name(value: object, what: str = "the value") -> str | None:
    """Convert a name. Raises TypeError if it is no text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, got {_shorten(value)}")
    return clean_text(value)


def _as_list(value: object, expected: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{expected}, got {_shorten(value)}")
    return value


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return {name: getattr(value, name) for name in _names(type(value))}


def _names(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _fields(value: object, kind: type[Any], what: str, expected: str) -> Mapping[str, Any]:
    """Return the fields of a dataclass, or of a mapping that stands for one."""
    fields = _as_mapping(value) if isinstance(value, kind) else value
    if not isinstance(fields, Mapping):
        raise TypeError(f"{what} must be a mapping of {expected}, got {_shorten(value)}")
    _check_keys(fields, _names(kind), what)
    return fields


def _check_keys(
    fields: Mapping[str, Any], known: Iterable[str], what: str, advice: str = ""
) -> None:
    for key in fields:
        if key not in known:
            raise ValueError(
                f"{what} has an unknown key {_shorten(key)}; known: {', '.join(known)}{advice}"
            )
