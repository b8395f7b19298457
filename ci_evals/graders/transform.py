"""`transform`: converts an answer into the text or data that a grader sees."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Undefined

from ci_evals.errors import GradingError
from ci_evals.format import one_line, quote
from ci_evals.graders.base import EmptyTransformError
from ci_evals.graders.functions import prepare_target
from ci_evals.graders.inline import context_of
from ci_evals.graders.json_text import read_json, strip_fence
from ci_evals.javascript import current_node, sandboxed_file_problem, split_file
from ci_evals.jsonpath import find_all, is_singular, path_problems
from ci_evals.model.request import Answer
from ci_evals.templating import describe_error, describe_undefined, is_template, template_sandbox
from ci_evals.user_code.targets import has_second_parameter, load, missing_target, target_parts
from ci_evals.user_code.threads import call, time_limit
from ci_evals.workers import WorkerStartError, WorkerTimeoutError

_NAMES = ("output", "input", "vars", "metadata")
"""The names that expressions may use."""


def transform_problem(source: str, folder: Path) -> str | None:
    """Return the problem of a transform that is visible before any call; None without one."""
    if source.startswith("$"):
        problems = path_problems(source)
        if not problems:
            return None
        return problems[0]
    if split_file(source) is not None:
        return sandboxed_file_problem(source, folder)
    if target_parts(source) is not None:
        return missing_target(source, folder)
    if is_template(source):
        return f"write the expression without braces, as in `output | trim`: got {quote(source)}"
    try:
        _compile(source)
        used = find_undeclared_variables(_environment().parse(f"{{{{ {source} }}}}"))
    except TemplateSyntaxError as error:
        return (
            "expected JSONPath (`$.answer`), `module:function`, a file of JavaScript or a Jinja2"
            f" expression (`output | trim`), got {quote(source)}: {one_line(str(error))}"
        )
    for name in sorted(used.difference(_NAMES)):
        return describe_undefined(name, _NAMES)
    return None


def prepare_transform(source: str) -> None:
    """Import the function of a transform, if it has one.

    Raises:
        ConfigError: the function cannot be imported.
    """
    file = split_file(source)
    if file is not None:
        current_node().check_grader(sandbox=True, **file)
    elif target_parts(source) is not None:
        prepare_target(source)


async def transform_answer(source: str, answer: Answer) -> Answer:
    """Return the transformed answer.

    Raises:
        EmptyTransformError: the answer has nothing for the transform to return.
        GradingError: the function took too long, or its process could not be started.
        BaseException: the function raised it, or ended its process.
    """
    if source.startswith("$"):
        value = _find(source, answer.output)
    elif split_file(source) is not None:
        value = await _call_javascript(source, answer)
    elif target_parts(source) is not None:
        value = await _call(source, answer)
    else:
        value = _evaluate(source, answer)
    text = value
    if not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False, default=str)
    return replace(answer, response=replace(answer.response, output=text), value=value)


def _find(path: str, output: Any) -> Any:
    """Return the value at a JSONPath; a list if the path may have several values."""
    try:
        data = _read(output)
    except ValueError as error:
        raise EmptyTransformError("the answer is not JSON") from error
    values = find_all(path, data)
    if not values:
        raise EmptyTransformError("nothing is there")
    if is_singular(path):
        return values[0]
    return values


def _read(output: Any) -> Any:
    """Read an answer as JSON, unless it is data already."""
    if isinstance(output, str):
        return read_json(strip_fence(output))
    return output


async def _call(target: str, answer: Answer) -> Any:
    function = load(target)
    arguments: tuple[Any, ...] = (answer.output,)
    if has_second_parameter(function, "answer", variadic=True):
        arguments = (answer.output, answer)
    timeout_s = answer.request.timeout_s
    too_slow = GradingError(f"the transform {target} took more than {timeout_s:g} s")
    async with time_limit(timeout_s, too_slow):
        value = await call(function, *arguments)
    if value is None:
        raise EmptyTransformError("it returned nothing")
    return value


async def _call_javascript(source: str, answer: Answer) -> Any:
    timeout_s = answer.request.timeout_s
    try:
        value = await current_node().grade(
            sandbox=True,
            timeout_s=timeout_s,
            output=answer.output,
            context=context_of(answer),
            **(split_file(source) or {}),
        )
    except WorkerTimeoutError:
        raise GradingError(f"the transform {source} took more than {timeout_s:g} s") from None
    except WorkerStartError as error:
        raise GradingError(str(error)) from error
    if value is None:
        raise EmptyTransformError("it returned nothing")
    return value


def _evaluate(expression: str, answer: Answer) -> Any:
    values = {
        "output": answer.output,
        "input": answer.request.input,
        "vars": answer.request.case.vars,
        "metadata": answer.response.metadata,
    }
    try:
        value = _compile(expression)(values)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError that names what is undefined
    except Exception as error:  # an expression can raise anything for an unexpected answer
        raise EmptyTransformError(one_line(describe_error(error))) from error
    if value is None:
        raise EmptyTransformError("it is none")
    return value


@lru_cache(maxsize=256)
def _compile(expression: str) -> Callable[[Mapping[str, Any]], Any]:
    return _environment().compile_expression(expression, undefined_to_none=False)


@cache
def _environment() -> Environment:
    environment = template_sandbox().overlay()
    environment.filters = {**environment.filters, "from_json": _read}
    return environment
