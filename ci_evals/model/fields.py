"""Types for the fields of options: the keys of `evals.yaml` and the arguments in Python.

Options are frozen dataclasses. Their constructors never raise; a `TypeAdapter` of the class checks
them when their suite is loaded, so that all problems of a suite are reported at once. For example:

    @dataclass(frozen=True, slots=True)
    class Mentions(GraderOptions):
        '''The answer has each of these words at least `times` times.'''

        value: Many[str]
        times: Positive = 1
        params: Mapping[str, Any] = field(default_factory=dict)
        unit: Annotated[
            Literal["answer", "line"], Field(description="What to count in.")
        ] = "answer"

`Mentions(["Paris"])` in Python and `mentions: [Paris]` in YAML are the same object. Fields of the
base class are keyword-only. Bounds annotate the bare type (`Annotated[int, Strict(), Ge(2)]`),
where JSON Schema finds them. A dataclass with slots is a second class of the same name, so a method
calls its base as `GraderOptions.problems(self)`, not `super()`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    Strict,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")

# YAML 1.2 core schema: `yes`, `on` and dates are text, as in JSON Schema and in every editor.
_INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"


def resolve(text: str) -> Any:
    """Return the value of a bare scalar by the YAML 1.2 core schema.

    The value is null, a boolean, a number, or the text itself; NaN for numbers that are not finite.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > 400:
        return text
    if re.fullmatch(_INT, text):
        if text.startswith(("0o", "0x")):
            return int(text, 0)
        return int(text)
    if re.fullmatch(_FLOAT, text):
        return float(text)
    if re.fullmatch(_NOT_FINITE, text):
        return math.nan
    return text


def is_complete_url(text: str) -> bool:
    """Return True for an HTTP address with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class Interpolated(str):
    """Text with the values of environment variables, whose names are `names`."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, text: str, names: tuple[str, ...]) -> Self:
        self = super().__new__(cls, text)
        self.names = names
        return self


def _resolve_variable(value: Any) -> Any:
    if isinstance(value, Interpolated):
        return resolve(str(value))
    return value


FROM_VARIABLE = BeforeValidator(_resolve_variable)
"""Accepts the text of an environment variable as a number or a boolean."""

# Numbers and booleans are not converted: "5" is not a number, `yes` is not a boolean.
Int = Annotated[int, Strict(), FROM_VARIABLE]
Float = Annotated[float, Strict(), FROM_VARIABLE]
Bool = Annotated[bool, Strict(), FROM_VARIABLE]

Count = Annotated[int, Strict(), Ge(0), FROM_VARIABLE]
Positive = Annotated[int, Strict(), Ge(1), FROM_VARIABLE]
Retries = Annotated[int, Strict(), Ge(0), Le(20), FROM_VARIABLE]
NonNegative = Annotated[float, Strict(), Ge(0), FROM_VARIABLE]
Above0 = Annotated[float, Strict(), Gt(0), FROM_VARIABLE]
AtLeast1 = Annotated[float, Strict(), Ge(1), FROM_VARIABLE]
Seconds = Above0


def _name_infinity(value: Any) -> Any:
    if value == math.inf:
        return "unlimited"
    return value


def _concurrency_schema(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return handler(Annotated[Positive | Literal["unlimited"], BeforeValidator(_name_infinity)])


Concurrency = Annotated[float | Literal["unlimited"], GetPydanticSchema(_concurrency_schema)]
"""The number of concurrent calls. In Python, `math.inf` is unlimited."""
Share = Annotated[float, Strict(), Ge(0), Le(1), FROM_VARIABLE]
"""A fraction in [0, 1]."""

NonEmpty = Annotated[str, MinLen(1)]


def _to_day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"expected a date such as 2026-12-31, got {value!r:.80}") from None


Day = Annotated[date, BeforeValidator(_to_day)]
"""A day; in YAML, its text."""
Name = Annotated[str, MinLen(1), MaxLen(200)]

Many = Annotated[Sequence[T], AfterValidator(tuple)]
"""A list in YAML, any sequence in Python, and a tuple after the check."""


def _check_list(value: Any) -> Any:
    if isinstance(value, str):  # pydantic accepts text as a sequence of `Any`
        raise PydanticCustomError("list_type", "expected a list")
    return value


OneOrMore = Annotated[Sequence[T], MinLen(1), AfterValidator(tuple), BeforeValidator(_check_list)]


def _check_as_first(union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return handler(get_args(union)[0])


OrMapping = Annotated[T | Mapping[str, Any], GetPydanticSchema(_check_as_first)]
"""An object or its mapping as in YAML, which is accepted in Python, too."""


class Unset(Enum):
    """The type of `UNSET`, the default of fields for which None is a valid value."""

    UNSET = "<unset>"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Options:
    """The base of all checked types. Unknown keys are refused; Python objects are checked, too."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        # Without revalidation, an object made in Python would pass unchecked.
        extra="forbid",
        revalidate_instances="always",
        allow_inf_nan=False,
    )


class Secret:
    """A value that must not be shown; only `reveal` returns its text.

    A file refers to it as `${VARIABLE}`.
    """

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str = "") -> None:
        self._value = value
        self.name = name

    def __repr__(self) -> str:
        return f"Secret(${{{self.name}}})"

    def reveal(self) -> str:
        return self._value

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_secret)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
            "description": "The value of an environment variable.",
        }


def _secret(value: Any) -> Secret:
    if isinstance(value, Secret):
        return value
    if isinstance(value, Interpolated):
        return Secret(str(value), value.names[0])
    text = "a key does not belong in the file: name its environment variable, as in ${MY_API_KEY}"
    raise PydanticCustomError("problem", text)


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a pydantic error with its place.

    The input is left out, because it may be secret.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    place = describe_place(first["loc"])
    if not place:
        return first["msg"]
    return f"{place}: {first['msg']}"


def describe_place(loc: tuple[int | str, ...]) -> str:
    """Return the place of a pydantic error: `steps[0].kind`."""
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
        elif place:
            place += f".{part}"
        else:
            place = part
    return place
