"""Compiles Python code of a suite into the function of a grader."""

import ast
import builtins
import json
import math
import re
import symtable
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from pydantic_core import to_jsonable_python

from ci_evals.errors import exception_text
from ci_evals.format import one_line
from ci_evals.graders.base import failed, inconclusive
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.user_code.crashes import CODE_IN_SUITE

_PARAMETERS = ("output", "answer", "vars", "input", "context")
_MODULES = {"json": json, "math": math, "re": re}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@lru_cache(maxsize=256)
def compile_code(source: str) -> Callable[[Any, Answer], Any]:
    """Compile Python code into a function of the output and the answer.

    Args:
        source: an expression, or lines that return or assert something. Lines may also end with an
            expression, or with a function `get_assert(output, context)`.

    Raises:
        SyntaxError: the source is not such code, or uses an undefined name.
    """
    module = ast.parse(f"def judge({', '.join(_PARAMETERS)}): pass")
    module.body[0].body = _parse(source)  # type: ignore[attr-defined]  # it is a function
    _check_names(ast.unparse(module))
    names: dict[str, Any] = dict(_MODULES)
    exec(compile(ast.fix_missing_locations(module), CODE_IN_SUITE, "exec"), names)  # noqa: S102  the code is as trusted as the modules of the suite's owner
    judge = names["judge"]

    def judge_answer(output: Any, answer: Answer) -> Any:
        request = answer.request
        try:
            value = judge(output, answer, request.case.vars, request.input, context_of(answer))
        except AssertionError as error:
            return _failed_assertion(error, source)
        except json.JSONDecodeError as error:
            if isinstance(output, str) and error.doc.strip() == output.strip():
                return inconclusive("the answer is not JSON")
            raise
        if isinstance(value, re.Match):
            return True
        if not value and not isinstance(value, int | float | dict):
            return False
        return value

    return judge_answer


def _parse(source: str) -> list[ast.stmt]:
    """Return the body of a function made of the code."""
    try:
        # In parentheses, an expression may span lines; the line feed ends a comment at its end.
        expression = ast.parse(f"({source}\n)", mode="eval")
        return [ast.Return(expression.body)]
    except ValueError as error:  # half of a surrogate pair; before Python 3.11.4 also a null byte
        raise SyntaxError(str(error)) from None
    except SyntaxError:
        body = ast.parse(textwrap.dedent(source)).body
    kinds = {type(node) for node in _own_nodes(body)}
    if ast.Return in kinds:
        return body
    match body:
        case [*before, ast.Expr(value)] if not isinstance(value, ast.Constant):
            return [*before, ast.Return(value)]
        case [*_, ast.FunctionDef("get_assert")]:
            return [*body, *ast.parse("return get_assert(output, context)").body]
    if ast.Assert in kinds:
        return [*body, *ast.parse("return True").body]
    lines = len(source.splitlines())
    raise SyntaxError("nothing is returned", (None, lines, None, None))


def _own_nodes(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of code, except those inside nested functions and classes."""
    remaining: list[ast.AST] = list(body)
    while remaining:
        node = remaining.pop()
        yield node
        if not isinstance(node, _SCOPES):
            remaining += ast.iter_child_nodes(node)


def _check_names(function: str) -> None:
    """Raise a SyntaxError if code uses an undefined name."""
    tables = symtable.symtable(function, CODE_IN_SUITE, "exec").get_children()
    for table in tables:  # the list grows by the tables of nested functions
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if not symbol.is_global() or not symbol.is_referenced() or symbol.is_assigned():
                continue
            if name not in _MODULES and not hasattr(builtins, name):
                known = ", ".join((*_PARAMETERS, *_MODULES))
                raise SyntaxError(f"{name!r} is not defined; known: {known}")
        tables += table.get_children()


def _failed_assertion(error: AssertionError, source: str) -> Finding:
    """Return the finding of an assertion in the suite's code; raise one of other code again."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if last.filename != CODE_IN_SUITE or last.lineno is None:
        raise error
    lines = textwrap.dedent(source).splitlines()
    reason = exception_text(error) or lines[last.lineno - 1].strip()
    return failed(one_line(reason))


def context_of(answer: Answer) -> dict[str, Any]:
    """Return the details of a run for code: everything but its output."""
    request, response = answer.request, answer.response
    case = request.case
    provider_response = to_jsonable_python(response, fallback=repr)
    provider_response["cost"] = answer.cost_usd
    provider_response["latencyMs"] = round(answer.latency_s * 1000)
    return {
        "vars": dict(case.vars),
        "prompt": request.input,
        "test": {
            "description": case.description or case.id,
            "vars": dict(case.vars),
            "metadata": dict(case.metadata),
        },
        "metadata": dict(response.metadata),
        "providerResponse": provider_response,
    }
