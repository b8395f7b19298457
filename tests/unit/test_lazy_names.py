"""The names of a package that load when they are first used."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import ci_evals

PACKAGES = ["", ".graders", ".providers"]


def names_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """The module of each name that is imported below `TYPE_CHECKING`."""
    found = {}
    for statement in ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8")).body:
        if not isinstance(statement, ast.If):
            continue
        for import_ in statement.body:
            assert isinstance(import_, ast.ImportFrom)
            for alias in import_.names:
                found[alias.name] = str(import_.module)
    return found


@pytest.mark.parametrize("suffix", PACKAGES)
def test_a_name_is_at_run_time_what_type_checkers_take_it_for(suffix: str) -> None:
    package = import_module(ci_evals.__name__ + suffix)
    names = names_for_type_checkers(package)
    assert names
    for name, module in names.items():
        thing = getattr(import_module(module), name)
        assert getattr(package, name) is thing, "a module of this name took its place"
