"""`transform`: what a grader sees instead of the answer's own text."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError, UndefinedError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Undefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic_core import from_json

from ci_evals.errors import GradingError
from ci_evals.format import one_line, quote
from ci_evals.graders.json import strip_fence
from ci_evals.jsonpath import find_all, is_singular, path_problems
from ci_evals.model.case import Answer
from ci_evals.templating import describe_error, is_template, template_sandbox
from ci_evals.user_code import (
    call,
    has_second_parameter,
    load,
    load_target,
    missing_target,
    target_parts,
)

_NAMES = ("output", "input", "vars", "metadata")
"""What expressions know."""


class NothingThereError(Exception):
    """The answer has nothing of the kind that a transform looks for; `got` is what it has."""

    def __init__(self, reason: str, looked_at: Any) -> None:
        super().__init__(reason)
        self.got = quote(looked_at)


def transform_problem(source: str, folder: Path) -> str | None:
    """Say what is wrong with a transform, as far as that shows before any call; None if nothing
    is.
    """
    if source.startswith("$"):
        return next(iter(path_problems(source)), None)
    if target_parts(source) is not None:
        return missing_target(source, folder)
    if is_template(source):
        return f"write the expression without braces, as in `output | trim`: got {quote(source)}"
    try:
        _compile(source)
        unknown = sorted(
            find_undeclared_variables(_environment().parse(f"{{{{ {source} }}}}")) - set(_NAMES)
        )
    except TemplateSyntaxError as error:
        usual = "expected JSONPath (`$.answer`), `module:function` or a Jinja2 expression (`output | trim`)"
        return f"{usual}, got {quote(source)}: {one_line(str(error))}"
    return (
        describe_error(UndefinedError(f"{unknown[0]!r} is undefined"), _NAMES) if unknown else None
    )


def prepare_transform(source: str) -> None:
    """Import the function that a transform names, if it names one.

    Raises:
        ConfigError: it cannot be imported.
    """
    if target_parts(source) is not None:
        load_target(source)


async def transform_answer(source: str, answer: Answer) -> Answer:
    """Return the answer as a grader sees it.

    Raises:
        NothingThereError: there is nothing in the answer for the grader to see.
        GradingError: the function took too long.
        BaseException: whatever the function raises.
    """
    if source.startswith("$"):
        value = _find(source, answer.output)
    elif target_parts(source) is not None:
        value = await _call(source, answer)
    else:
        value = _evaluate(source, answer)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return replace(answer, response=replace(answer.response, output=text), value=value)


def _find(path: str, output: Any) -> Any:
    """Return what is at a JSONPath: a list where it may lead to several values."""
    try:
        data = _read(output)
    except ValueError as error:
        reason = f"the answer is not JSON: {one_line(str(error))}"
        raise NothingThereError(reason, output) from error
    found = find_all(path, data)
    if not found:
        raise NothingThereError("nothing is there", data)
    return found[0] if is_singular(path) else found


def _read(output: Any) -> Any:
    return (
        from_json(strip_fence(output), allow_inf_nan=False) if isinstance(output, str) else output
    )


async def _call(target: str, answer: Answer) -> Any:
    function = load(target)
    takes_answer = has_second_parameter(function, "answer", variadic=True)
    timeout_s = answer.request.timeout_s
    try:
        async with asyncio.timeout(timeout_s) as scope:
            value = await call(
                function, *((answer.output, answer) if takes_answer else (answer.output,))
            )
    except TimeoutError:
        if not scope.expired():
            raise
        raise GradingError(f"the transform {target} took more than {timeout_s:g} s") from None
    if value is None:
        raise NothingThereError("it returned nothing", answer.output)
    return value


def _evaluate(expression: str, answer: Answer) -> Any:
    request, response = answer.request, answer.response
    names = dict(
        zip(
            _NAMES,
            (answer.output, request.input, request.case.vars, response.metadata),
            strict=True,
        )
    )
    try:
        value = _compile(expression)(names)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError that names what is undefined
    except Exception as error:  # an expression can raise anything about an unexpected answer
        raise NothingThereError(one_line(str(error)), answer.output) from error
    if value is None:
        raise NothingThereError("it is none", answer.output)
    return value


@lru_cache(maxsize=256)
def _compile(expression: str) -> Callable[[Mapping[str, Any]], Any]:
    return _environment().compile_expression(expression, undefined_to_none=False)


@lru_cache(maxsize=1)
def _environment() -> SandboxedEnvironment:
    environment = template_sandbox().overlay()
    assert isinstance(environment, SandboxedEnvironment)
    environment.filters = {**environment.filters, "from_json": _read}
    return environment
