"""Names that are known before what they stand for is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from ci_evals import graders, providers
from ci_evals.graders import GRADERS
from ci_evals.late import Late
from ci_evals.providers import PROVIDERS


def test_names_are_known_without_an_import() -> None:
    late: Late[object] = Late("no_such_package", {"a": "module:A", "b": "module:B"})
    assert list(late) == ["a", "b"]
    assert "a" in late
    assert "c" not in late
    assert late.get("c") is None
    with pytest.raises(ModuleNotFoundError):
        late["a"]


def test_an_import_that_fails_is_no_unknown_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "module.py").write_text("{}['HOME']")
    monkeypatch.syspath_prepend(tmp_path)
    late: Late[object] = Late("broken_package", {"a": "module:A"})
    with pytest.raises(KeyError, match="HOME"):
        late.get("a")


def test_a_package_says_which_name_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match=r"module 'ci_evals.graders' has no attribute 'Contain'"):
        graders.Contain  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", [graders, providers])
def test_everything_that_a_package_names_can_be_imported_from_it(package: object) -> None:
    assert all(getattr(package, name) is not None for name in getattr(package, "__all__"))  # noqa: B009


@pytest.mark.parametrize("package", ["ci_evals", "ci_evals.graders", "ci_evals.providers"])
def test_completion_offers_what_is_not_imported_yet(package: str) -> None:
    script = f"import {package} as package; print(set(package.__all__) - set(dir(package)), '__name__' in dir(package))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "set() True\n"


def test_every_name_of_the_yaml_has_its_class() -> None:
    assert all(isinstance(each, type) for each in (*GRADERS.values(), *PROVIDERS.values()))


def test_the_packages_load_none_of_their_modules() -> None:
    script = (
        "import sys, ci_evals.graders, ci_evals.providers;"
        "print(*(name for name in sys.modules if name.startswith(('ci_evals.graders.', 'ci_evals.providers.'))))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == {"ci_evals.graders.base", "ci_evals.providers.base"}
