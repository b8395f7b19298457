"""What the team's own code gives back, made into a `Response` that can be stored and judged."""

import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from ci_evals.response import Content, Response, Step, StepKind, ToolCall, Turn, Usage

MAX_STEPS = 5_000
"""An agent that takes more goes in circles, and its journal line would be of megabytes."""

MAX_STEP_CHARACTERS = 20_000

_MAX_TOKENS = 2**53
_KINDS = get_args(StepKind)
_ONE_LINE = 300

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200


def as_response(value: object) -> Response:
    """Make a response of what a function returned or a command printed.

    Text is the output. A mapping with `output` or `tool_calls` is taken by its keys, strictly. Any other mapping,
    a list or a number becomes its JSON text.

    Raises:
        TypeError: no answer can be made of it; the text says what to give instead.
        ValueError: likewise, when the type is right and the value is not.
    """
    if isinstance(value, str):
        return Response(clean_text(value))
    if isinstance(value, Response):
        return _from_fields(msgspec.structs.asdict(value))
    if isinstance(value, Content):
        return Response(files=(value,))
    if isinstance(value, Mapping) and ("output" in value or "tool_calls" in value):
        return _from_fields(value)
    return Response(_text(value, "the answer"))


def clean_text(text: str) -> str:
    """The same text where every lone surrogate is U+FFFD, so that it can be encoded as UTF-8."""
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def one_line(text: str, limit: int = _ONE_LINE) -> str:
    """At most `limit` characters of a foreign text, printable and on one line."""
    words = " ".join(text[: 4 * limit].split())
    shown = "".join(char if char.isprintable() else "\ufffd" for char in words[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def encode_json(value: object) -> bytes:
    """The JSON text of a value as UTF-8; lone surrogates inside are replaced.

    Raises:
        TypeError: something in it has no JSON form.
        ValueError: it contains itself, or is nested too deeply.
    """
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_builtin)
        except UnicodeEncodeError:
            return msgspec.json.encode(_cleaned(msgspec.to_builtins(value, str_keys=True, enc_hook=_builtin)))
    except RecursionError:
        raise ValueError("it contains itself, or is nested too deeply") from None


def _builtin(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value


def _text(value: object, what: str) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if value is None:
        raise TypeError(f"{what} is nothing (None): give text, or a mapping with 'output' or 'tool_calls'")
    if not isinstance(value, Mapping | list | tuple | int | float):
        kind = type(value).__name__
        raise TypeError(f"{what} is of type {kind}: give text, a mapping with 'output' or 'tool_calls', or a Response")
    try:
        return encode_json(value).decode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}") from None


def _from_fields(fields: Mapping[str, Any]) -> Response:
    _refuse_unknown(fields, Response.__struct_fields__, "the answer", "; to answer with JSON, put it under 'output'")
    output, calls = fields.get("output"), fields.get("tool_calls")
    if output is None and calls is None:
        raise ValueError("the answer's 'output' is null and it has no 'tool_calls': nothing was answered")
    return Response(
        output="" if output is None else _text(output, "'output'"),
        tool_calls=_tool_calls(calls),
        usage=_usage(fields.get("usage")),
        model=_name(fields.get("model"), "'model'"),
        finish_reason=_name(fields.get("finish_reason"), "'finish_reason'"),
        cost_usd=_amount(fields.get("cost_usd"), "'cost_usd' must be an amount in US dollars, 0 or more"),
        steps=as_steps(fields.get("steps")),
        reward=_amount(fields.get("reward"), "'reward' must be a number between 0 and 1", most=1),
        turns=_turns(fields.get("turns")),
        files=_files(fields.get("files")),
    )


def as_steps(steps: object) -> tuple[Step, ...] | None:
    """The steps of an answer, each a mapping or a `Step`; long texts in them are cut.

    Raises:
        TypeError: one of them is of the wrong type.
        ValueError: likewise, when the type is right and the value is not; or there are more than `MAX_STEPS`.
    """
    if steps is None:
        return None
    listed = _listed(steps, "'steps' must be a list of {kind, name, …}")
    if len(listed) > MAX_STEPS:
        raise ValueError(f"the answer has {len(listed):,} steps, more than the {MAX_STEPS:,} that are kept")
    return tuple(_step(step, f"steps[{index}]") for index, step in enumerate(listed))


def _step(step: object, what: str) -> Step:
    fields = _fields(step, Step, what, "kind, name, …")
    kind = _kind(fields.get("kind"), f"{what}.kind")
    name = _name(fields.get("name"), f"{what}.name") or ""
    if kind == "tool_call" and not name:
        raise ValueError(f"{what} is a tool call and has no 'name'")
    return Step(
        kind=kind,
        name=name,
        arguments=_short_arguments(_arguments(fields.get("arguments"), f"{what}.arguments")),
        result=_short_text(fields.get("result"), f"{what}.result"),
        error=_short_text(fields.get("error"), f"{what}.error"),
        usage=_usage(fields.get("usage")),
        duration_s=_amount(fields.get("duration_s"), f"{what}.duration_s must be a number of seconds, 0 or more"),
        agent=_name(fields.get("agent"), f"{what}.agent"),
    )


def _kind(value: object, what: str) -> StepKind:
    if value not in _KINDS:
        raise ValueError(f"{what} must be one of {', '.join(_KINDS)}, got {_shown(value)}")
    return cast("StepKind", value)


def _short_text(value: object, what: str) -> str | None:
    return None if value is None else _cut(_text(value, what))


def _short_arguments(arguments: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    return arguments if len(text) <= MAX_STEP_CHARACTERS else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_STEP_CHARACTERS else text[: MAX_STEP_CHARACTERS - 1] + "…"


def _tool_calls(calls: object) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    listed = _listed(calls, "'tool_calls' must be a list of {name, arguments}")
    return tuple(_tool_call(call, f"tool_calls[{index}]") for index, call in enumerate(listed))


def _tool_call(call: object, what: str) -> ToolCall:
    fields = _fields(call, ToolCall, what, "name and arguments")
    name = _name(fields.get("name"), f"{what}.name")
    if not name:
        raise ValueError(f"{what} has no 'name'")
    arguments = _arguments(fields.get("arguments"), f"{what}.arguments")
    return ToolCall(name, arguments, _name(fields.get("id"), f"{what}.id"))


def _arguments(value: object, what: str) -> Mapping[str, Any] | str:
    """Plain JSON data, so that what is judged now and what the journal gives back later are the same."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        import json

        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return clean_text(value)
        if not isinstance(parsed, dict):
            return clean_text(value)
        value = parsed
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping or its JSON text, got {_shown(value)}")
    try:
        return msgspec.json.decode(encode_json(value), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}") from None


def _usage(value: object) -> Usage | None:
    if value is None:
        return None
    fields = _fields(value, Usage, "'usage'", "token counts")
    for name, count in fields.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < _MAX_TOKENS:
            raise ValueError(f"usage.{name} must be a whole number of tokens, 0 or more, got {_shown(count)}")
    return Usage(**fields)


def _amount(value: object, what: str, most: float = sys.float_info.max) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{what}, got {_shown(value)}")
    return float(value)


def _turns(value: object) -> tuple[Turn, ...]:
    try:
        return msgspec.convert(msgspec.to_builtins(value or ()), tuple[Turn, ...])
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"'turns' must be a list of {{user, response}}: {error}") from None


def _files(value: object) -> tuple[Content, ...]:
    try:
        return msgspec.convert(value or (), tuple[Content, ...])
    except msgspec.ValidationError as error:
        raise ValueError(f"'files' must be a list of Content: {error}") from None


def _name(value: object, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, got {_shown(value)}")
    return clean_text(value)


def _listed(value: object, expected: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{expected}, got {_shown(value)}")
    return value


def _fields(value: object, kind: type[msgspec.Struct], what: str, expected: str) -> Mapping[str, Any]:
    """The fields of a struct, or of a mapping that stands for one."""
    fields = msgspec.structs.asdict(value) if isinstance(value, kind) else value
    if not isinstance(fields, Mapping):
        raise TypeError(f"{what} must be a mapping of {expected}, got {_shown(value)}")
    _refuse_unknown(fields, kind.__struct_fields__, what)
    return fields


def _refuse_unknown(fields: Mapping[str, Any], known: Iterable[str], what: str, advice: str = "") -> None:
    for key in fields:
        if key not in known:
            raise ValueError(f"{what} has an unknown key {_shown(key)}; known: {', '.join(known)}{advice}")


def _shown(value: object) -> str:
    return _repr.repr(value)
