"""Converts what the team's own code returns into a `Response`."""

import dataclasses
import reprlib
from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, Any, Required

from annotated_types import Ge, Le, Lt, MaxLen, MinLen
from pydantic import (
    AfterValidator,
    BeforeValidator,
    FiniteFloat,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError, PydanticSerializationError, from_json, to_json
from typing_extensions import TypedDict

from ci_evals.model.fields import describe_place
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
"""An agent with more steps is looping, and its line in the journal would grow to megabytes."""

MAX_STEP_CHARACTERS = 20_000
MAX_PASSAGES = 1_000
MAX_PASSAGE_CHARACTERS = 100_000
MAX_METADATA_BYTES = 100_000


def as_response(value: object) -> Response:
    """Convert what a function returned, or a command printed, into a response.

    Text is the output. A mapping with `output` or `tool_calls` must have the fields of a `Response`
    and no others. Any other mapping, a list or a number becomes its JSON text.

    Raises:
        ValueError: the value is not an answer; the message says what is wrong, and where.
    """
    if isinstance(value, str):
        return Response(clean_text(value))
    if isinstance(value, Content):
        return Response(files=(value,))
    is_response = isinstance(value, Response)
    if isinstance(value, dict | Mapping):
        is_response = "output" in value or "tool_calls" in value
    if is_response:
        response: Response = _validate(_response(), value)
        return response
    if unfit := unfit_type(value):
        raise ValueError(f"the answer is {unfit}")
    try:
        return Response(encode_json(value).decode())
    except ValueError as error:
        raise ValueError(f"the answer cannot be written as JSON: {error}") from None


def as_steps(steps: object) -> tuple[Step, ...]:
    """Convert the steps of an answer, each a mapping or a `Step`. Long texts are cut.

    Raises:
        ValueError: one is not a step, or there are more than `MAX_STEPS`.
    """
    converted: tuple[Step, ...] = _validate(_steps(), steps)
    return converted


def as_context(context: object) -> tuple[Passage, ...]:
    """Convert what was retrieved for an answer: texts, mappings or `Passage`s. Long texts are cut.

    Raises:
        ValueError: something is not a passage, or there are more than `MAX_PASSAGES`.
    """
    converted: tuple[Passage, ...] = _validate(_context(), context)
    return converted


def unfit_type(value: object) -> str | None:
    """Describe a value that cannot be an answer, and what to return instead; None if it can."""
    if value is None:
        return "None. Return text, or a mapping with 'output' or 'tool_calls'"
    if isinstance(value, str | Mapping | list | tuple | int | float | Response | Content):
        return None
    kind = type(value).__name__
    article = "a"
    if kind[0].lower() in "aeiou":
        article = "an"
    text = "text"
    if hasattr(value, "output"):
        text = "its text (`result.output`)"
    instead = f"Return {text}, a mapping with 'output' or 'tool_calls', or a Response"
    return f"{article} {kind}. {instead}"


# Text and JSON.


def read_arguments(arguments: Any) -> Mapping[str, Any] | str:
    """Return a model's arguments for a tool, parsed if they are the text of a JSON object.

    Any other text is returned unchanged, and any other value as JSON.
    """
    if isinstance(arguments, dict):
        return arguments
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return encode_json(arguments).decode()
    if not arguments.strip():  # some models write nothing for no arguments
        return {}
    try:
        value = from_json(clean_text(arguments), allow_inf_nan=False)
    except ValueError:
        return arguments
    if isinstance(value, dict):
        return value
    return arguments


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text."""
    if isinstance(call.arguments, str):
        return call.arguments
    return encode_json(call.arguments).decode()


def arguments_object(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call for an API that accepts only an object."""
    if isinstance(call.arguments, str):
        return {"arguments": call.arguments}
    return call.arguments


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD, so that the text can be encoded as UTF-8."""
    # A plain `str`: a subclass, such as an enum, could format and encode itself differently.
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16, two surrogates that belong together become their character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8, with lone surrogates replaced and NaN and infinity as null.

    Raises:
        ValueError: something in the value has no JSON form, or it is nested too deeply.
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        pass  # a lone surrogate, or a mapping or sequence of an unusual type
    try:
        return to_json(plain_json(value), inf_nan_mode="null")
    except RecursionError:
        raise ValueError("it contains itself, or is nested too deeply") from None
    except PydanticSerializationError as error:
        raise ValueError(str(error)) from None


def plain_json(value: Any) -> Any:
    """Return a value with mappings as dicts, sequences as lists, and lone surrogates replaced."""
    match value:
        case str():
            return clean_text(value)
        case Mapping():
            return {plain_json(key): plain_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain_json(inner) for inner in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return plain_json(_field_values(value))
        case _:
            return value


# The fields of an answer in the forms that are accepted. None is the same as no value.


def _problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("problem", "{text}", {"text": text})


def _field_values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _given_fields(kind: type[Any], value: object) -> object:
    """Return the fields of a mapping or an object that are not None.

    Raises:
        PydanticCustomError: a key of the mapping is not a field of `kind`.
    """
    if isinstance(value, kind):
        value = _field_values(value)
    if not isinstance(value, dict | Mapping):
        return value
    known = kind.__dataclass_fields__
    given = {}
    for key, item in value.items():
        if key not in known:
            advice = ""
            if kind is Response:
                advice = "; to answer with JSON, put it under 'output'"
            raise _problem(f"unknown key {_shorten(key)}; known: {', '.join(known)}{advice}")
        if item is not None:
            given[key] = item
    return given


def _clean(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    return value


def _cut(limit: int, text: str) -> str:
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def _json_text(value: object) -> str:
    """Return text as it is, and any other value as JSON."""
    if isinstance(value, str):
        return clean_text(value)
    if unfit := unfit_type(value):
        raise _problem(f"is {unfit}")
    return _encode(value).decode()


def _encode(value: object) -> bytes:
    try:
        return encode_json(value)
    except ValueError as error:
        raise _problem(f"cannot be written as JSON: {error}") from None


def _arguments(value: object) -> Mapping[str, Any] | str:
    """Return arguments as plain JSON data, so that graders see the same as after a resumption."""
    if isinstance(value, str):
        return read_arguments(clean_text(value))
    if not isinstance(value, Mapping):
        raise _problem(f"expected a mapping or its JSON text, got {_shorten(value)}")
    return dict(from_json(_encode(value)))


def _metadata(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _problem(f"expected a mapping, got {_shorten(value)}")
    encoded = _encode(value)
    if len(encoded) > MAX_METADATA_BYTES:
        limit = f"more than the limit of {MAX_METADATA_BYTES:,}"
        raise _problem(f"has {len(encoded):,} bytes, {limit}")
    return dict(from_json(encoded))


Text = Annotated[str, Strict(), BeforeValidator(_clean)]
Amount = Annotated[FiniteFloat, Strict(), Ge(0)]
JsonText = Annotated[str, BeforeValidator(_json_text)]
StepText = Annotated[JsonText, AfterValidator(partial(_cut, MAX_STEP_CHARACTERS))]
Arguments = Annotated[Mapping[str, Any] | str, PlainValidator(_arguments)]
Tokens = Annotated[int, Strict(), Ge(0), Lt(MAX_TOKENS)]


class _ToolCallFields(TypedDict, total=False):
    name: Required[Annotated[str, Strict(), MinLen(1), BeforeValidator(_clean)]]
    arguments: Arguments
    id: Text
    alias: Text


class _UsageFields(TypedDict, total=False):
    input_tokens: Tokens
    output_tokens: Tokens
    cached_tokens: Tokens
    cache_write_tokens: Tokens
    hour_write_tokens: Tokens


def _given_counts(value: object) -> object:
    """Return token counts, which may have the names of OpenAI's chat completions.

    None without any count: the usage is then unknown, not 0.
    """
    if isinstance(value, Mapping) and ("prompt_tokens" in value or "completion_tokens" in value):
        details = value.get("prompt_tokens_details")
        cached_tokens = None
        if isinstance(details, Mapping):
            cached_tokens = details.get("cached_tokens")
        value = {
            "input_tokens": value.get("prompt_tokens"),
            "output_tokens": value.get("completion_tokens"),
            "cached_tokens": cached_tokens,
        }
    fields = _given_fields(Usage, value)
    if fields == {}:
        return None
    return fields


_Usage = Annotated[
    Annotated[_UsageFields, AfterValidator(lambda fields: Usage(**fields))] | None,
    BeforeValidator(_given_counts),
]


class _PassageFields(TypedDict, total=False):
    text: Required[Annotated[Text, AfterValidator(partial(_cut, MAX_PASSAGE_CHARACTERS))]]
    id: Text
    score: Annotated[FiniteFloat, Strict()]


def _passage_fields(value: object) -> object:
    if isinstance(value, str):
        return {"text": value}
    fields = _given_fields(Passage, value)
    if isinstance(fields, dict) and isinstance(fields.get("id"), int):
        fields["id"] = str(fields["id"])
    return fields


def _passages(value: object) -> object:
    """Return a list of passages, which may be given as a single text."""
    if isinstance(value, str):
        return [value]
    return value


_Context = Annotated[
    list[
        Annotated[
            _PassageFields,
            BeforeValidator(_passage_fields),
            AfterValidator(lambda fields: Passage(**fields)),
        ]
    ],
    MaxLen(MAX_PASSAGES),
    BeforeValidator(_passages),
    AfterValidator(tuple),
]


class _StepFields(TypedDict, total=False):
    kind: Required[StepKind]
    name: Text
    arguments: Arguments
    result: StepText
    error: StepText
    usage: _Usage
    duration_s: Amount
    agent: Text
    alias: Text


def _make_step(fields: dict[str, Any]) -> Step:
    step = Step(**fields)
    if step.kind == "tool_call" and not step.name:
        raise _problem("a tool call without a 'name'")
    written = step.arguments
    if not isinstance(written, str):
        written = encode_json(written).decode()
    if len(written) > MAX_STEP_CHARACTERS:
        return dataclasses.replace(step, arguments=_cut(MAX_STEP_CHARACTERS, written))
    return step


_Steps = Annotated[
    list[
        Annotated[
            _StepFields, BeforeValidator(partial(_given_fields, Step)), AfterValidator(_make_step)
        ]
    ],
    MaxLen(MAX_STEPS),
    AfterValidator(tuple),
]
_ToolCalls = Annotated[
    list[
        Annotated[
            _ToolCallFields,
            BeforeValidator(partial(_given_fields, ToolCall)),
            AfterValidator(lambda fields: ToolCall(**fields)),
        ]
    ],
    AfterValidator(tuple),
]


class _ResponseFields(TypedDict, total=False):
    output: JsonText
    tool_calls: _ToolCalls
    usage: _Usage
    model: Text
    finish_reason: Text
    cost_usd: Amount
    steps: _Steps
    reward: Annotated[Amount, Le(1)]
    turns: tuple[Turn, ...]
    files: tuple[Content, ...]
    context: _Context
    metadata: Annotated[Mapping[str, Any], PlainValidator(_metadata)]
    first_token_s: Amount
    thoughts: Text


def _response_fields(value: object) -> object:
    fields = _given_fields(Response, value)
    if isinstance(fields, dict) and "output" not in fields and "tool_calls" not in fields:
        raise _problem("the answer has neither 'output' nor 'tool_calls'")
    return fields


@cache
def _response() -> TypeAdapter[Any]:
    return TypeAdapter(
        Annotated[
            _ResponseFields,
            BeforeValidator(_response_fields),
            AfterValidator(lambda fields: Response(**fields)),
        ]
    )


@cache
def _steps() -> TypeAdapter[Any]:
    return TypeAdapter(_Steps)


@cache
def _context() -> TypeAdapter[Any]:
    return TypeAdapter(_Context)


_EXPECTED = {  # by the type of a pydantic error
    "dict_type": "expected a mapping",
    "list_type": "expected a list",
    "string_type": "expected text",
    "string_too_short": "expected a text that is not empty",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "greater_than_equal": "expected a number of at least {ge:g}",
    "less_than_equal": "expected a number of at most {le:g}",
    "less_than": "expected a number below {lt:,}",
    "too_long": "expected at most {max_length:,} items",
    "literal_error": "expected {expected}",
}


def _validate(adapter: TypeAdapter[Any], value: object) -> Any:
    """Return the converted value; raise ValueError with the first problem."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    text = problem["msg"]
    if problem["type"] in _EXPECTED:
        details = problem.get("ctx", {})
        got = details.get("actual_length")
        if got is None:
            got = _shorten(problem["input"])
        else:
            got = f"{got:,}"
        expected = _EXPECTED[problem["type"]].format(**details)
        text = f"{expected}, got {got}"
    place = describe_place(problem["loc"])
    if place:
        text = f"{place}: {text}"
    raise ValueError(text)


def _shorten(value: object) -> str:
    shorten = reprlib.Repr()
    shorten.maxstring = shorten.maxother = 200
    return shorten.repr(value)
