"""Where templates are found, and how they are filled in."""

import subprocess
import sys
from pathlib import Path

import jinja2
import pytest

from ci_evals.reports import templates
from ci_evals.reports.markdown_text import finalize


def test_a_checkout_has_its_templates_at_the_top() -> None:
    assert templates.folder() == Path(__file__).parents[2] / "templates"
    assert (templates.folder() / "comment.md.j2").is_file()


def test_a_wheel_has_its_templates_inside_the_package(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    shipped = tmp_path / "ci_evals" / "_templates"
    shipped.mkdir(parents=True)
    assert templates.folder(tmp_path / "ci_evals") == shipped


def test_every_value_goes_through_the_formats_own_escaping() -> None:
    template = templates.environment(finalize).from_string("**{{ text }}** {{ number }}")
    assert template.render(text="*a* <b>", number=3) == "**&#42;a&#42; &#60;b&#62;** 3"


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        templates.environment(finalize).from_string("{{ missing }}").render()


def test_knowing_the_formats_costs_none_of_their_libraries() -> None:
    script = "import sys, ci_evals.reports.renderers; print({'jinja2', 'rich', 'aiohttp'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
