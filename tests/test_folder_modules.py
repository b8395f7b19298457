"""Modules of a suite's folder, with the names of others."""

import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ci_evals.callables import member
from ci_evals.folder_modules import TAKEN, NamesakeError, importable, named_module


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path) -> Iterator[None]:
    """Modules that a test loaded are not there for the next one."""
    before = dict(sys.modules)
    yield
    for name, module in tuple(sys.modules.items()):
        if before.get(name) is not module and str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]


def test_a_config_names_the_folders_module_and_code_that_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "wording.py").write_text("here = 'suite'")
    (tmp_path / "calendar.py").write_text("here = 'suite'")
    with importable(tmp_path):
        assert named_module("calendar").here == import_module("wording").here == "suite"
        assert hasattr(import_module("calendar"), "monthrange")


def test_a_module_that_is_not_loaded_yet_is_the_librarys_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("")
    with importable(tmp_path):
        assert hasattr(import_module("colorsys"), "rgb_to_hls")


def test_what_a_module_lacks_is_told_under_the_name_that_the_config_has(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("def words(): ...")
    with (
        importable(tmp_path),
        pytest.raises(AttributeError, match="there is no 'word' in queue, did you mean 'words'"),
    ):
        member(named_module("queue"), "queue:word")


def test_a_package_with_a_taken_name_has_its_modules(tmp_path: Path) -> None:
    package = tmp_path / "json"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("WORDS = ['a']")
    (package / "agent.py").write_text("from .words import WORDS")
    with importable(tmp_path):
        assert named_module("json.agent").WORDS == ["a"]
        assert import_module("json").loads("1") == 1


def test_a_folder_of_data_with_a_taken_name_hides_no_module(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    with importable(tmp_path):
        assert named_module("json") is import_module("json")


def test_python_s_own_tests_are_not_in_the_way_of_a_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "test", raising=False)
    (tmp_path / "test.py").write_text("here = 'suite'")
    with importable(tmp_path):
        assert import_module("test").here == "suite"


@pytest.mark.parametrize("name", ["calendar", "own_words"])
def test_a_namesake_of_another_suite_is_refused(name: str, tmp_path: Path) -> None:
    for suite in ("a", "b"):
        (tmp_path / suite).mkdir()
        (tmp_path / suite / f"{name}.py").write_text("")
    with importable(tmp_path / "a"):
        named_module(name)
    with (
        importable(tmp_path / "b"),
        pytest.raises(NamesakeError, match=f"'{name}' was already loaded from .*{name}.py: give one"),
    ):
        named_module(name)


def test_afterwards_the_folder_is_not_importable(tmp_path: Path) -> None:
    (tmp_path / "own_words.py").write_text("")
    path, finders = list(sys.path), list(sys.meta_path)
    with importable(tmp_path):
        pass
    assert (sys.path, sys.meta_path) == (path, finders)


def test_what_ci_evals_is_installed_with_is_taken() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*map(Requirement, (*project["dependencies"], *extras["otel"], *extras["fast"]))]
    seen = set()
    installed = set()
    while wanted:
        requirement = wanted.pop()
        name, asked = requirement.name, ("", *requirement.extras)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system
            continue
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        code = [each for each in found.files or () if each.name == "__init__.py" or each.parts == (f"{each.stem}.py",)]
        installed |= {file.parts[0].partition(".")[0] for file in code}
        wanted += [
            each
            for each in map(Requirement, found.requires or ())
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in asked)
        ]
    assert len(seen) > 20
    assert {name for name in installed if name.isidentifier() and name[0] != "_"} <= TAKEN
