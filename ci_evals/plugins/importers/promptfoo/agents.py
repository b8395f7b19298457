"""Writes a module next to the suite that calls Python agents and programs as promptfoo does."""

import keyword
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError
from ci_evals.plugins.importers.source import Source


def module_for(config: Path, what: str) -> str:
    """Return the name of a generated module, such as `promptfoo_agents`.

    A config by another name than promptfoo's own may not be the only one in its folder, so its name
    is part of the module's.
    """
    name = f"promptfoo_{what}"
    if config.stem == "promptfooconfig":
        return name
    return f"{name}_{re.sub(r'[^0-9A-Za-z]+', '_', config.stem)}"


_START = '''\
"""Calls agents and programs as promptfoo does. Written by `ci-evals import`; yours to edit."""

import json
import subprocess
from pathlib import Path
from typing import Any

from ci_evals import Request
{imports}

def _text(prompt: Any) -> str:
    """Return a prompt as promptfoo passes it: messages as JSON."""
    if isinstance(prompt, str):
        return prompt
    return json.dumps(prompt)


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

def {name}(asked: Any, request: Request) -> Any:
    prompt = _text(asked)
    return _answer({function}(prompt, {{"config": {config}}}, _context(prompt, request)))
"""
_PROGRAM = """

def {name}(asked: Any, request: Request) -> str:
    prompt = _text(asked)
    options = json.dumps({{"config": {config}}})
    context = json.dumps(_context(prompt, request))
    done = subprocess.run(
        [*{words}, prompt, options, context],
        cwd=Path(__file__).parent,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()
"""


_PROPERTIES = r"((?:\??\.(?!length\b)\w+|\??\.?\[\d+\])+)"  # a length is no part of JSON
_USUAL = (
    (r"output\.trim\(\)", "output | trim"),
    (r"output\.toLowerCase\(\)", "output | lower"),
    (r"output\.toUpperCase\(\)", "output | upper"),
    (r"JSON\.parse\(output\)", "$"),
    (rf"(?:JSON\.parse\(output\)|output){_PROPERTIES}", r"$\1"),
)
_START_OF_JAVASCRIPT = "// Transforms of answers. Written by `ci-evals import`; yours to edit.\n"
_START_OF_PYTHON = '''\
"""Transforms of answers. Written by `ci-evals import`; yours to edit."""

from typing import Any
{imports}
from ci_evals import Answer
'''
_TRANSFORM = """

def {name}(output: str, answer: Answer) -> Any:
    context = {{"vars": dict(answer.request.case.vars), "metadata": dict(answer.response.metadata)}}
    return {function}(output, context)
"""


class Transforms:
    """Translates transforms; collects those that need code into `files`.

    Args:
        module: the name of these files.
        draft: the suite.
    """

    def __init__(self, module: str, draft: SuiteDraft) -> None:
        self._module = module
        self._draft = draft
        self._names: dict[str, str] = {}
        self._imports: set[str] = set()
        self._functions: dict[str, str] = {}

    @property
    def files(self) -> Mapping[str, str]:
        """The text of each file, by its name."""
        files = {}
        if self._names:
            functions = []
            for code, name in self._names.items():
                body = f"return {code};"
                if "\n" in code:
                    body = code
                functions.append(f"\nexport function {name}(output, context) {{\n{body}\n}}\n")
            files[f"{self._module}.mjs"] = _START_OF_JAVASCRIPT + "".join(functions)
        if self._functions:
            start = _START_OF_PYTHON.format(imports=_lines_of(self._imports))
            calls = [
                _TRANSFORM.format(name=name, function=function)
                for function, name in self._functions.items()
            ]
            files[f"{self._module}.py"] = start + "".join(calls)
        return files

    def translate(self, code: Any, source: Source) -> str:
        """Return the transform of ci-evals for one of promptfoo.

        Raises:
            UntranslatableError: it is not text, or a file that cannot be called.
        """
        if not isinstance(code, str) or not code.strip():
            raise UntranslatableError("a transform is a text")
        if code.startswith("file://"):
            file, colon, name = code.removeprefix("file://").partition(":")
            if file.endswith(".py"):
                return self._call_python(source.relative(file), name or "get_transform")
            if not re.search(r"\.[cm]?[jt]s$", file):
                raise UntranslatableError("a transform is in JavaScript or Python")
            return source.relative(file) + colon + name
        expression = code.strip().removesuffix(";")
        if ";" not in expression:  # a block of one statement is the body of a function
            expression = _without_return(expression)
        for pattern, ours in _USUAL:
            if match := re.fullmatch(pattern, expression):
                return match.expand(ours).replace("?.[", "[").replace("?.", ".")
        if "\n" in expression:
            expression = code.strip()
        elif re.match(r"(?:if|for|while|switch|try)\b", expression):
            expression = f"{expression}\n"  # statements are a body, also on one line
        elif re.match(r"(const|let|var)\s", expression):
            before, semicolon, last = expression.rpartition(";")
            expression = f"{before}{semicolon}\nreturn {_without_return(last.strip())};"
        name = self._names.setdefault(expression, f"transform_{len(self._names) + 1}")
        return f"{self._module}.mjs:{name}"

    def chain(self, codes: Sequence[Any], source: Source) -> str:
        """Return one transform of ci-evals for some of promptfoo that are applied in this order.

        None in place of a transform changes nothing.

        Raises:
            UntranslatableError: as `translate`, or there are several and not all are expressions.
        """
        *before, last = [code for code in codes if code]
        if not before:
            return self.translate(last, source)
        for code in (*before, last):
            if not isinstance(code, str) or re.search(
                r"^file://|^(return|const|let|var)\b|\n.", code
            ):
                reason = "its `transform` gets what the test's `transform` returns"
                raise UntranslatableError(f"{reason}: write both as one function")
        lines = [f"output = {code.strip().removesuffix(';')};" for code in before]
        return self.translate("\n".join([*lines, f"return {last.strip()}"]), source)

    def _call_python(self, path: str, function: str) -> str:
        statement, expression = import_of(self._draft.module_of(path), function)
        self._imports.add(statement)
        name = self._functions.setdefault(expression, f"transform_{len(self._functions) + 1}")
        return f"{self._module}:{name}"


def _without_return(statement: str) -> str:
    return re.sub(r"^return\b\s*", "", statement)


def import_of(module: str, function: str) -> tuple[str, str]:
    """Return the statement that imports a module, and the expression of a function in it.

    Args:
        module: its name, made of a path.
        function: its name; a method's name has a dot.

    Raises:
        UntranslatableError: a part of the path has a dot.
    """
    parts = module.split(".")
    if not all(parts) or not all(name.isidentifier() for name in function.split(".")):
        raise UntranslatableError("its file cannot be imported from the suite's folder")
    if all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        return f"import {module}", f"{module}.{function}"
    return "from importlib import import_module", f"import_module({module!r}).{function}"


def _lines_of(imports: Collection[str]) -> str:
    """Return statements as lines after an empty line; an empty text if there are none."""
    if not imports:
        return ""
    return "\n".join(["", *sorted(imports), ""])


class Agents:
    """Collects the functions of a module; `text` is its text, empty if it is not needed.

    Args:
        module: its name.
        draft: the suite.
    """

    def __init__(self, module: str, draft: SuiteDraft) -> None:
        self.module = module
        self._draft = draft
        self._imports: set[str] = set()
        self._parts: dict[str, str] = {}

    @property
    def text(self) -> str:
        if not self._parts:
            return ""
        start = _START.format(imports=_lines_of(self._imports))
        return "".join([start, *self._parts.values()])

    def call_function(self, path: str, function: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a provider that calls a function of a Python file.

        Raises:
            UntranslatableError: the file can't be imported from there.
        """
        statement, expression = import_of(self._draft.module_of(path), function)
        self._imports.add(statement)
        name = self._name(f"{path.removesuffix('.py')} {function}")
        self._parts[name] = _FUNCTION.format(
            name=name, function=expression, config=repr(dict(config))
        )
        return {"type": "python", "target": f"{self.module}:{name}"}

    def run_program(self, command: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a provider that runs a program with the prompt as an argument.

        Raises:
            UntranslatableError: the command has a quotation mark without its other one.
        """
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UntranslatableError(f"`{command}` is not a command: {error}") from None
        name = self._name(command)
        self._parts[name] = _PROGRAM.format(name=name, words=repr(words), config=repr(dict(config)))
        return {"type": "python", "target": f"{self.module}:{name}"}

    def _name(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).strip("_").lower() or "agent"
        if base[0].isdigit():
            base = f"run_{base}"
        name = base
        number = 1
        while name in self._parts:
            number += 1
            name = f"{base}_{number}"
        return name
