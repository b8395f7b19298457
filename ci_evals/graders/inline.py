"""Python code in a suite, as the function of a grader."""

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

from ci_evals.format import one_line, quote
from ci_evals.graders.base import failed
from ci_evals.model.case import Answer, Finding

_PARAMETERS = ("output", "answer", "vars", "input", "context")
_FILE = "<python>"
_MODULES = {"json": json, "math": math, "re": re}


@lru_cache(maxsize=256)
def compile_code(source: str) -> Callable[..., Any]:
    """Make a function of the output and the answer of code: an expression, or lines that return or
    assert something.

    Lines may end with the expression, or with a function `get_assert(output, context)`, instead of
    a `return`.

    Raises:
        SyntaxError: it is no such code, or uses a name that nothing has.
    """
    body = _parse(source)
    is_async = any(isinstance(node, ast.Await) for node in _own_nodes(body))
    function = f"{'async ' * is_async}def judge({', '.join(_PARAMETERS)}): pass"
    module = ast.parse(function)
    module.body[0].body = body  # type: ignore[attr-defined]  # it is a function
    names: dict[str, Any] = dict(_MODULES)
    code = compile(ast.fix_missing_locations(module), _FILE, "exec")
    for name in _names_of(symtable.symtable(ast.unparse(module), _FILE, "exec").get_children()[0]):
        if name not in names and not hasattr(builtins, name):
            known = ", ".join((*_PARAMETERS, *_MODULES))
            raise SyntaxError(f"{name!r} is not defined: there are {known}")
    exec(code, names)  # noqa: S102  it is the suite owner's, as their modules are
    judge = names["judge"]

    def judged(output: Any, answer: Answer) -> Any:
        try:
            return _as_judgement(_call(judge, output, answer))
        except (json.JSONDecodeError, AssertionError) as error:
            return _fail_or_raise(error, output, source)

    async def judged_soon(output: Any, answer: Answer) -> Any:
        try:
            return _as_judgement(await _call(judge, output, answer))
        except (json.JSONDecodeError, AssertionError) as error:
            return _fail_or_raise(error, output, source)

    return judged_soon if is_async else judged


def _parse(source: str) -> list[ast.stmt]:
    """Return the body of the function that code is."""
    try:
        return [ast.Return(ast.parse(f"({source}\n)", mode="eval").body)]
    except ValueError as error:  # half of a surrogate pair; before Python 3.11.4 also a null byte
        raise SyntaxError(str(error)) from None
    except SyntaxError:
        body = ast.parse(textwrap.dedent(source)).body
    if not any(isinstance(node, ast.Return) for node in _own_nodes(body)):
        body += _return_of(body)
        if not isinstance(body[-1], ast.Return):
            raise SyntaxError("nothing is returned", (None, len(source.splitlines()), None, None))
    return body


def _own_nodes(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of code, but for those inside functions and classes of its own."""
    inside: list[ast.AST] = list(body)
    while inside:
        node = inside.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inside += ast.iter_child_nodes(node)


def _return_of(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return what lines without a `return` mean to end with; of an expression at their end, in its
    place.
    """
    last = body[-1] if body else None
    if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
        body.pop()
        return [ast.Return(last.value)]
    if isinstance(last, ast.FunctionDef) and last.name == "get_assert":
        return ast.parse("return get_assert(output, context)").body
    if any(isinstance(node, ast.Assert) for node in _own_nodes(body)):
        return ast.parse("return True").body
    return []


def _as_judgement(value: Any) -> Any:
    """Return what code gave, with what `re` and empty values mean in an `if`."""
    if isinstance(value, re.Match):
        return True
    return value if value or isinstance(value, int | float | dict) else False


def _call(judge: Callable[..., Any], output: Any, answer: Answer) -> Any:
    request = answer.request
    return judge(output, answer, request.case.vars, request.input, context_of(answer))


def _fail_or_raise(
    error: json.JSONDecodeError | AssertionError, output: Any, source: str
) -> Finding:
    """Return the finding on an answer that is no JSON or not as asserted; raise any other error
    again.
    """
    if isinstance(error, AssertionError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename != _FILE or last.lineno is None:
            raise error
        asserted = str(error) or textwrap.dedent(source).splitlines()[last.lineno - 1].strip()
        return failed(one_line(asserted), got=quote(output))
    if not isinstance(output, str) or error.doc.strip() != output.strip():
        raise error
    return failed(f"is not JSON: {error}", got=quote(output))


def _names_of(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that code takes from outside of it."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced() and not symbol.is_assigned():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _names_of(child)


def context_of(answer: Answer) -> dict[str, Any]:
    """Return what code learns of a run beside its output."""
    request, response, case = answer.request, answer.response, answer.request.case
    return {
        "vars": dict(case.vars),
        "prompt": request.input,
        "test": {
            "description": case.description or case.id,
            "vars": dict(case.vars),
            "metadata": dict(case.metadata),
        },
        "metadata": dict(response.metadata),
        "providerResponse": to_jsonable_python(response, fallback=repr)
        | {"cost": answer.cost_usd, "latencyMs": round(answer.latency_s * 1000)},
    }
