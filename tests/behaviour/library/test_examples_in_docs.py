"""What docs/library.md and the docstrings show is what happens."""

import doctest
from pathlib import Path

import pytest

from ci_evals.graders import functions as graders
from ci_evals.providers import python as providers

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


def test_the_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 15
    assert failed == 0


@pytest.mark.parametrize("module", [graders, providers])
def test_the_examples_of_docstrings(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]  # a module is what it is given
    assert tried
    assert failed == 0
