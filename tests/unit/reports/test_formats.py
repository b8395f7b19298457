"""Report formats: what is known of them before they are loaded."""

from pathlib import Path

import pytest

from ci_evals.registry import FORMATS
from ci_evals.reports.files import remove_reports


@pytest.mark.parametrize("name", FORMATS.own)
def test_a_format_writes_the_file_that_the_registry_names(name: str) -> None:
    assert FORMATS[name].file == FORMATS.own[name].file


def test_reports_of_an_earlier_run_are_removed_in_formats_that_this_one_does_not_write(
    tmp_path: Path,
) -> None:
    (tmp_path / "junit.xml").write_text("<testsuites a='1'>\n<!-- ci-evals -->")
    (tmp_path / "summary.md").write_text("somebody else's")
    (tmp_path / ".report.html.0.partial").touch()
    remove_reports(tmp_path, ["json"])
    assert [path.name for path in tmp_path.iterdir()] == ["summary.md"]
