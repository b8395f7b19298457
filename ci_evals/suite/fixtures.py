"""Names and checks the fixtures of a `setup`, without setting them up."""

from pathlib import Path

from ci_evals.format import one_line
from ci_evals.model.case import Fixture
from ci_evals.user_code.targets import identity, missing_target, target_of_file, target_parts

_NAME_CHARACTERS = 80


def fixture_name(fixture: Fixture) -> str:
    """Return the name of a fixture in messages: its function, or its command."""
    if isinstance(fixture.python, str):
        return fixture.python
    if fixture.python is not None:
        return identity(fixture.python)
    command = fixture.command
    if not isinstance(command, str):
        command = " ".join(command)
    return one_line(command, _NAME_CHARACTERS)


def fixture_problems(fixture: Fixture, folder: Path) -> list[str]:
    """Return the problems of a fixture, without setting it up.

    Args:
        fixture: the fixture.
        folder: the suite's folder, where functions and programs are looked for.
    """
    if fixture.python is None and not fixture.command:
        return ["name a function with `python`, or a program with `command`"]
    if fixture.python is not None and fixture.command:
        return ["has both `python` and `command`: write two entries"]
    if fixture.command:
        return _command_problems(fixture, folder)
    if fixture.teardown:
        return ["`teardown` is for a `command`: a function tears down after its `yield`"]
    target = fixture.python
    if not isinstance(target, str):
        if callable(target):
            return []
        return [f"expected `module:function` or a function, got {target!r:.80}"]
    if target_parts(target) is None:
        example = target_of_file(target) or "fixtures:shop"
        return [f"{target!r} is not of the form module:function, as in {example}"]
    missing = missing_target(target, folder)
    if missing is not None:
        return [missing]
    return []


def _command_problems(fixture: Fixture, folder: Path) -> list[str]:
    problems = []
    for command in (fixture.command, fixture.teardown):
        if command:
            from ci_evals.providers.command_line import command_problems, program_problems

            problems += command_problems(command) or program_problems(command, folder)
    return problems
