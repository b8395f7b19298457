"""Python code in a suite, as the function of a grader."""

import ast
import builtins
import json
import math
import re
import symtable
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from pydantic_core import to_jsonable_python

from ci_evals.format import quote
from ci_evals.model.case import Answer

_PARAMETERS = ("output", "answer", "vars", "input", "context")
_MODULES = {"json": json, "math": math, "re": re}


@lru_cache(maxsize=256)
def compile_code(source: str) -> Callable[..., Any]:
    """Make a function of the output and the answer of code: an expression, or lines that return something.

    Raises:
        SyntaxError: it is no such code, or uses a name that nothing has.
    """
    try:
        body: list[ast.stmt] = [ast.Return(ast.parse(f"({source}\n)", mode="eval").body)]
    except SyntaxError:
        body = ast.parse(textwrap.dedent(source)).body
        if not any(isinstance(node, ast.Return) for statement in body for node in ast.walk(statement)):
            raise SyntaxError("nothing is returned", (None, len(source.splitlines()), None, None)) from None
    is_async = any(isinstance(node, ast.Await) for statement in body for node in ast.walk(statement))
    function = f"{'async ' * is_async}def judge({', '.join(_PARAMETERS)}): pass"
    module = ast.parse(function)
    module.body[0].body = body  # type: ignore[attr-defined]  # it is a function
    names: dict[str, Any] = dict(_MODULES)
    code = compile(ast.fix_missing_locations(module), "<python>", "exec")
    for name in _names_of(symtable.symtable(ast.unparse(module), "<python>", "exec").get_children()[0]):
        if name not in names and not hasattr(builtins, name):
            known = ", ".join((*_PARAMETERS, *_MODULES))
            raise SyntaxError(f"{name!r} is not defined: there are {known}")
    exec(code, names)  # noqa: S102  it is the suite owner's, as their modules are
    judge = names["judge"]

    def judged(output: Any, answer: Answer) -> Any:
        try:
            return _call(judge, output, answer)
        except json.JSONDecodeError as error:
            return _fail_or_raise(error, output)

    async def judged_soon(output: Any, answer: Answer) -> Any:
        try:
            return await _call(judge, output, answer)
        except json.JSONDecodeError as error:
            return _fail_or_raise(error, output)

    return judged_soon if is_async else judged


def _call(judge: Callable[..., Any], output: Any, answer: Answer) -> Any:
    request = answer.request
    return judge(output, answer, request.case.vars, request.input, context_of(answer))


def _fail_or_raise(error: json.JSONDecodeError, output: Any) -> dict[str, Any]:
    """Return the judgement on an answer that code took for JSON; raise the error again if it took something else."""
    if not isinstance(output, str) or error.doc.strip() != output.strip():
        raise error
    return {"passed": False, "score": 0.0, "reason": f"is not JSON: {error}: got {quote(output)}"}


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
        "test": {"description": case.description or case.id, "vars": dict(case.vars), "metadata": dict(case.metadata)},
        "metadata": dict(response.metadata),
        "providerResponse": to_jsonable_python(response, fallback=repr)
        | {"cost": answer.cost_usd, "latencyMs": round(answer.latency_s * 1000)},
    }
