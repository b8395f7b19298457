"""Agents in Python and programs that promptfoo calls in its own way: a module that calls them so,
beside the suite.
"""

import keyword
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ci_evals.importers.draft import UntranslatableError

MODULE = "promptfoo_agents"

_START = '''"""Calls agents and programs as promptfoo does. Written by `ci-evals import`; yours to edit."""

import json
import subprocess
from pathlib import Path
from typing import Any

from ci_evals import Request
{imports}

def _context(prompt: str, request: Request) -> dict[str, Any]:
    return {{"vars": dict(request.case.vars), "prompt": {{"raw": prompt, "label": ""}}}}


def _answer(result: Any) -> Any:
    """Return a provider's response as an answer of ci-evals."""
    if not isinstance(result, dict):
        return result
    if result.get("error"):
        raise RuntimeError(str(result["error"]))
    answer = {{key: result[key] for key in ("output", "metadata") if result.get(key) is not None}}
    if usage := result.get("tokenUsage"):
        answer["usage"] = {{
            "input_tokens": usage.get("prompt", 0),
            "output_tokens": usage.get("completion", 0),
        }}
    if result.get("cost") is not None:
        answer["cost_usd"] = result["cost"]
    return answer
'''
_FUNCTION = """

def {name}(prompt: str, request: Request) -> Any:
    return _answer({function}(prompt, {{"config": {config}}}, _context(prompt, request)))
"""
_PROGRAM = """

def {name}(prompt: str, request: Request) -> str:
    command = [*{words}, prompt, json.dumps({{"config": {config}}}), json.dumps(_context(prompt, request))]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True, text=True).stdout.strip()
"""


def import_of(path: str, function: str) -> tuple[str, str]:
    """Return the statement that imports a Python file beside the suite, or below it, and the
    expression of a function.

    Raises:
        UntranslatableError: the file can't be imported from there.
    """
    parts = path.removesuffix(".py").split("/")
    module = ".".join(parts)
    if any(not part or "." in part for part in parts) or not all(
        map(str.isidentifier, function.split("."))
    ):
        raise UntranslatableError("its file is none that can be imported beside the suite")
    if all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        return f"import {module}", f"{module}.{function}"
    return "from importlib import import_module", f"import_module({module!r}).{function}"


class Agents:
    """Writes the module. Afterwards `text` is what it holds; empty if nothing needs it."""

    def __init__(self) -> None:
        self._imports: list[str] = []
        self._parts: dict[str, str] = {}

    @property
    def text(self) -> str:
        imports = "".join(f"{statement}\n" for statement in sorted(set(self._imports)))
        start = _START.format(imports=f"\n{imports}" if imports else "")
        return start + "".join(self._parts.values()) if self._parts else ""

    def call_function(self, path: str, function: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a provider that calls a function of a Python file beside the suite, or below it.

        Raises:
            UntranslatableError: the file can't be imported from there.
        """
        statement, called = import_of(path, function)
        self._imports.append(statement)
        name = self._name(f"{path.removesuffix('.py')} {function}")
        self._parts[name] = _FUNCTION.format(name=name, function=called, config=repr(dict(config)))
        return {"type": "python", "target": f"{MODULE}:{name}"}

    def run_program(self, command: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a provider that runs a program with the prompt as an argument."""
        name = self._name(command)
        self._parts[name] = _PROGRAM.format(
            name=name, words=repr(shlex.split(command)), config=repr(dict(config))
        )
        return {"type": "python", "target": f"{MODULE}:{name}"}

    def _name(self, wanted: str) -> str:
        base = name = re.sub(r"\W+", "_", wanted).strip("_").lower() or "agent"
        number = 1
        while name in self._parts:
            number += 1
            name = f"{base}_{number}"
        return f"run_{name}" if name[0].isdigit() else name
