"""Prompts made by a function of the team's own, called for each case when a suite is read."""

import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import quote
from ci_evals.javascript import call_file, file_problem, split_file
from ci_evals.model.case import Case, Prompt, PromptTurns
from ci_evals.model.response import Message
from ci_evals.suite.nodes import Node, Reading
from ci_evals.suite.problems import try_check
from ci_evals.suite.yaml import Lines
from ci_evals.user_code.crashes import describe_crash
from ci_evals.user_code.folders import code_folders, importable
from ci_evals.user_code.targets import load_target, missing_target, target_parts


def function_problem(function: str, folder: Path) -> str | None:
    """Return why a reference does not lead to a function; None if it does."""
    if split_file(function) is not None:
        return file_problem(function, folder)
    if target_parts(function) is None:
        return (
            "expected `module:function`, such as `prompts:make`, or a file of JavaScript,"
            f" such as `prompts.mjs:make`; got {quote(function)}"
        )
    return missing_target(function, folder)


def make_prompts(
    prompts: Sequence[Prompt], cases: Sequence[Case], node: Node, folder: Path
) -> Reading[tuple[Prompt, ...]]:
    """Call the functions of prompts for each case; return other prompts unchanged."""
    made = []
    for prompt in prompts:
        if prompt.function is None:
            made.append(prompt)
            continue
        lack = function_problem(prompt.function, folder)
        if lack is not None:
            yield node.problem(lack)
            continue
        try:
            chosen = [case for case in cases if not case.prompts or prompt.name in case.prompts]
            calls = [[_context(case)] for case in chosen]
            returned = call_function(prompt.function, calls, folder)
            turns = {}
            for case, value in zip(chosen, returned, strict=True):
                turns[case.id] = _read_turns(value, prompt.function, case)
            made.append(replace(prompt, made=turns))
        except ConfigError as error:
            for problem in error.problems:
                yield node.problem(problem.message)
    return tuple(made)


def _context(case: Case) -> Mapping[str, Any]:
    context: dict[str, Any] = {"vars": dict(case.vars)}
    if case.input is not None:
        context["input"] = case.input
    return context


def call_function(function: str, calls: Sequence[Sequence[Any]], folder: Path) -> list[Any]:
    """Call a function with each list of arguments. Its output goes to stderr.

    Args:
        function: `module:function`, or a file of JavaScript.
        calls: the arguments of each call.
        folder: the folder of the suite.

    Raises:
        ConfigError: the function raised, or is async.
    """
    if split_file(function) is not None:
        return call_file(function, calls, folder)
    try:
        with importable(folder, code_folders()), redirect_stdout(sys.stderr):
            make = load_target(function)
            returned = [make(*arguments) for arguments in calls]
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # the team's own code may raise anything
        raise ConfigError([_problem(f"{function} raised {describe_crash(error)}")]) from error
    for value in returned:
        if inspect.iscoroutine(value):
            value.close()  # avoids the warning that it was never awaited
            raise ConfigError([_problem(f"{function} is async: make it a plain function")])
    return returned


def _read_turns(value: Any, function: str, case: Case) -> PromptTurns:
    """Return the turns of a text or of a list of messages, which may be JSON in a text.

    Raises:
        ConfigError: the value is neither.
    """
    messages = value
    if isinstance(value, Mapping) and set(value) == {"prompt"}:
        messages = value["prompt"]
    if isinstance(messages, str):
        text = messages
        messages = None
        if re.match(r"\s*\[\s*\{", text):
            with suppress(ValueError):
                messages = json.loads(text)
        if not isinstance(messages, list):
            return (("user", text),)
    read = try_check(list[Message], Node(messages, Lines(None), ""))
    if not read:
        text = f"{function} returned {quote(value)} for the case {case.id!r}"
        raise ConfigError([_problem(f"{text}: expected text, or a list of messages")])
    return tuple((message.role, message.content) for message in read)


def _problem(text: str) -> Problem:
    return Problem("", None, "", text)
